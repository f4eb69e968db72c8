"""Report on logged runs compared with predictions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim._version import __version__
from podsim.format import format_duration_s, format_error
from podsim.report.report import Report, Section
from podsim.report.table import Cell, Cells, Passage, Table, columns
from tools.mlperf.compare import ComparedRun, LoggedPhase, score_of

_HEADS = columns("phase", ">logged", ">predicted", ">error")
_DIGITS = 4
_LEAST_S = 0.0005


@dataclass(frozen=True, slots=True)
class LoggedRuns:
    """Logged runs beside predicted ones, and MLPerf's mean where there are several."""

    runs: Sequence[ComparedRun]

    def report(self) -> Report:
        """Return a report with a table for each run, and one for the mean."""
        sections = [Section(run.run.name, list(_parts(run)), short=True) for run in self.runs]
        if len(self.runs) > 1:
            sections.append(Section("Mean", [Table(_HEADS, [_row(score_of(self.runs))])], short=True))
        title = f"{len(self.runs)} logged run{'s' * (len(self.runs) > 1)} of MLPerf Training beside predictions"
        return Report(title, [f"podsim {__version__}"], __version__, (), sections=sections)

    def to_json(self) -> str:
        """Return the comparison as JSON text with all digits."""
        data = {
            "runs": [_data(run) for run in self.runs],
            "score": _phase(score_of(self.runs)) if len(self.runs) > 1 else None,
        }
        return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


def _parts(each: ComparedRun) -> Iterator[Passage | Table]:
    """Yield the description of a run, and its phases; phases without time are skipped."""
    run = each.run
    head = f"{run.name}: {run.benchmark.title}, batch size {run.batch_size:,}, {run.platform}"
    notes = (f"note: {note}" for note in each.notes)
    yield Passage("\n".join([head, f"beside {each.scenario}: {each.title}", *notes]))
    shown = (
        phase
        for phase in each.phases
        if any(abs(time_s or 0.0) >= _LEAST_S for time_s in (phase.logged_s, phase.predicted_s))
    )
    yield Table(_HEADS, list(map(_row, shown)))


def _row(phase: LoggedPhase) -> Cells:
    times = ((phase.logged_s, "not logged"), (phase.predicted_s, "not predicted"))
    told = (
        otherwise if time_s is None else Cell(format_duration_s(time_s, _DIGITS), time_s) for time_s, otherwise in times
    )
    error = "" if phase.error is None or not phase.predicted_s else Cell(format_error(phase.error), phase.error)
    return phase.name, *told, error


def _data(each: ComparedRun) -> dict[str, object]:
    run = each.run
    return {
        "log": run.name,
        "benchmark": run.benchmark.name,
        "batch_size": run.batch_size,
        "platform": run.platform,
        "division": run.division,
        "status": run.status,
        "simulated": run.simulated,
        "scenario": each.scenario,
        "update_count": each.update_count,
        "phases": [_phase(phase) for phase in each.phases],
        "notes": list(each.notes),
    }


def _phase(phase: LoggedPhase) -> dict[str, object]:
    return {
        "phase": phase.name,
        "logged_s": phase.logged_s,
        "predicted_s": phase.predicted_s,
        "error": phase.error,
    }
