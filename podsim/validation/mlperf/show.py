"""Logged runs beside predictions, as tables or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from podsim.format import format_duration_s, format_error
from podsim.report.table import Cell, Cells, Table, columns
from podsim.show.text import to_text
from podsim.validation.mlperf.compare import ComparedRun, LoggedPhase, score_of

_HEADS = columns("phase", ">logged", ">predicted", ">error")
_DIGITS = 4
_LEAST_S = 0.0005


def show(compared: Sequence[ComparedRun], *, as_json: bool) -> str:
    """A table for each run, and MLPerf's mean where there are several."""
    if as_json:
        return _as_json(compared)
    blocks = ["\n".join((*_heading(each), "", to_text(Table(_HEADS, list(_rows(each)))))) for each in compared]
    if len(compared) > 1:
        blocks.append(to_text(Table(_HEADS, [_row(score_of(compared))])))
    return "\n".join(blocks)


def _heading(each: ComparedRun) -> Iterator[str]:
    run = each.run
    yield f"{run.name}: {run.benchmark.title}, batch size {run.batch_size:,}, {run.platform}"
    yield f"beside {each.scenario}: {each.title}"
    yield from (f"note: {note}" for note in each.notes)


def _rows(each: ComparedRun) -> Iterator[Cells]:
    """Phases that neither took nor were to take any time are left out."""
    for phase in each.phases:
        if any(abs(time_s or 0.0) >= _LEAST_S for time_s in (phase.logged_s, phase.predicted_s)):
            yield _row(phase)


def _row(phase: LoggedPhase) -> Cells:
    times = ((phase.logged_s, "not logged"), (phase.predicted_s, "not predicted"))
    told = (
        otherwise if time_s is None else Cell(format_duration_s(time_s, _DIGITS), time_s) for time_s, otherwise in times
    )
    error = "" if phase.error is None or not phase.predicted_s else Cell(format_error(phase.error), phase.error)
    return phase.name, *told, error


def _as_json(compared: Sequence[ComparedRun]) -> str:
    data = {
        "runs": [_data(each) for each in compared],
        "score": _phase(score_of(compared)) if len(compared) > 1 else None,
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


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
