"""From a point to its row: values, what became of it, and the figures of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from podsim.activity import run
from podsim.errors import DoesNotFitError, NoPlanError, PodsimError
from podsim.report.base import Result
from podsim.report.rows import MemoryReport
from podsim.sweeps.space import Point

Row = Mapping[str, Any]
POINT, STATUS, REASON = "point", "status", "reason"
DONE: Final = "done"
FAILED: Final = "failed"
"""By a bug of podsim."""
_LEFT_OUT: Final = ("memory", "phases", "ipus", "operations", "steps")


def row_of(point: Point) -> Row:
    """Simulate a point; one that cannot be simulated is a row with its reason.

    Args:
        point: What to simulate.
    """
    values = {POINT: point.number, "scenario": point.scenario, "variant": point.variant, **point.values}
    try:
        result = run(point.scenario, variant=point.variant, overrides=point.overrides)
    except PodsimError as error:
        return values | {STATUS: _status(error), REASON: str(error)}
    except Exception as error:  # a bug at one point must not cost the others
        return values | {STATUS: FAILED, REASON: f"{type(error).__name__}: {error}"}
    return values | {STATUS: DONE, REASON: None} | dict(_figures(result))


def _status(error: PodsimError) -> str:
    if isinstance(error, DoesNotFitError):
        return "does not fit"
    return "no plan" if isinstance(error, NoPlanError) else "refused"


def _figures(result: Result) -> Iterator[tuple[str, float | int | str | None]]:
    """Numbers of a result in a flat table: those of mappings behind a dot."""
    for key, value in result.own().items():
        if isinstance(value, Mapping) and not key.endswith("_ps"):
            yield from ((f"{key}.{part}", number) for part, number in value.items())
        elif (
            not key.endswith("_ps") and key not in _LEFT_OUT and (value is None or isinstance(value, (int, float, str)))
        ):
            yield key, value
    memory = result.own()["memory"]
    assert isinstance(memory, MemoryReport)
    fullest = memory.fullest_ipu()
    if fullest is not None:
        yield "memory.fullest_ipu_bytes", memory.used_bytes(fullest)
    yield "warnings", "; ".join(result.warnings) or None
