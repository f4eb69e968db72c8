"""Runs with noise beside logged ones as text: a table for a terminal, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from podsim.validation.noise import RUNS, NoisyRow, mean_factor
from podsim.validation.reference_data import CALIBRATION
from podsim.validation.tables import markdown, plain

_HEADER = ("submission", "update", "bare", "noisy", "blocks", "noisy", "factor", "runs", "noisy")
_TITLE = "How much weight updates of logged runs differ, and of runs with noise"


def show_noisy(rows: Sequence[NoisyRow], seed: int, output_format: str) -> str:
    """Rows as `table`, `markdown` or `json`.

    Args:
        rows: Submissions.
        seed: What the seeds of the runs were made of.
        output_format: `table`, `markdown` or `json`.
    """
    if output_format == "json":
        return json.dumps({"runs": RUNS, "seed": seed, "rows": list(map(_plain, rows))}, indent=2) + "\n"
    is_markdown = output_format == "markdown"
    render, head = (markdown, f"## {_TITLE}\n\n") if is_markdown else (plain, f"{_TITLE}\n\n")
    return head + "\n".join((render([_HEADER, *map(_cells, rows)]), *_notes(rows, seed))) + "\n"


def _cells(row: NoisyRow) -> tuple[str, ...]:
    name = f"{row.logged.scenario} *" if row.logged.role == CALIBRATION else row.logged.scenario
    times = (f"{1e3 * each:.1f}" for each in (row.logged.update_s, row.without_s, row.mean_s))
    blocks = f"{row.logged_blocks:.2%}", f"{row.blocks:.2%}", f"{row.factor:.2f}"
    return name, *times, *blocks, f"{row.logged.between_runs:.2%}", f"{row.runs:.2%}"


def _notes(rows: Sequence[NoisyRow], seed: int) -> Iterator[str]:
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


def _plain(row: NoisyRow) -> dict[str, object]:
    return {
        "scenario": row.logged.scenario,
        "role": row.logged.role,
        "machines": row.logged.machines,
        "weight_update_s": {"logged": row.logged.update_s, "without_noise": row.without_s, "with_noise": row.mean_s},
        "blocks_differ": {"logged": row.logged_blocks, "predicted": row.blocks},
        "runs_differ": {"logged": row.logged.between_runs, "predicted": row.runs},
    }
