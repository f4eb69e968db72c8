"""Report on the spread of weight updates in logged runs and in runs with noise."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.report.report import Report
from podsim.report.table import Cell, Cells, Table, columns
from podsim.validation.reference_data import CALIBRATION
from podsim.validation.show import report_of, share
from tools.noise import RUNS, NoisyRow, mean_factor


@dataclass(frozen=True, slots=True)
class NoiseHeld:
    """Spread of the weight updates of submissions, logged and simulated with noise."""

    rows: Sequence[NoisyRow]
    seed: int  # what the seeds of the runs were made of

    def report(self) -> Report:
        """Return a report with a row for each submission."""
        heads = columns(
            *("submission", ">update", ">bare", ">noisy", ">blocks", ">noisy", ">factor", ">runs", ">noisy")
        )
        table = Table(heads, list(map(_noisy_cells, self.rows)), notes=list(_noisy_notes(self.rows, self.seed)))
        return report_of("How much weight updates of logged runs differ, and of runs with noise", [table])

    def to_json(self) -> str:
        """Return the rows as JSON text."""
        return json.dumps({"runs": RUNS, "seed": self.seed, "rows": list(map(_plain_noisy, self.rows))}, indent=2)


def _noisy_cells(row: NoisyRow) -> Cells:
    name = f"{row.logged.scenario} *" if row.logged.role == CALIBRATION else row.logged.scenario
    times = (Cell(f"{1e3 * each:.1f}", each) for each in (row.logged.update_s, row.without_s, row.mean_s))
    blocks = (share(row.logged_blocks, ".2%"), share(row.blocks, ".2%"), Cell(f"{row.factor:.2f}", row.factor))
    return name, *times, *blocks, share(row.logged.between_runs, ".2%"), share(row.runs, ".2%")


def _noisy_notes(rows: Sequence[NoisyRow], seed: int) -> Iterator[str]:
    yield "update: mean [ms], logged, predicted without noise and with it"
    yield "blocks, runs: standard deviation over the mean, logged and with noise; a block is an epoch, or lies between"
    yield f"evaluations; {RUNS} runs of each, seed {seed}; * marks rows that constants of noise were fitted to"
    others = [row for row in rows if row.logged.role != CALIBRATION]
    if others:
        worst = max(others, key=lambda row: max(row.factor, 1 / row.factor))
        yield (
            f"blocks of {len(others)} other rows differ as predicted but for a factor of {mean_factor(others):.1f};"
            f" worst {worst.logged.scenario} with {worst.factor:.2f}"
        )


def _plain_noisy(row: NoisyRow) -> dict[str, object]:
    return {
        "scenario": row.logged.scenario,
        "role": row.logged.role,
        "machines": row.logged.machines,
        "weight_update_s": {"logged": row.logged.update_s, "without_noise": row.without_s, "with_noise": row.mean_s},
        "blocks_differ": {"logged": row.logged_blocks, "predicted": row.blocks},
        "runs_differ": {"logged": row.logged.between_runs, "predicted": row.runs},
    }
