"""From a point to its row: values, what became of it, and the figures of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from podsim.errors import DoesNotFitError, NoPlanError, PodsimError
from podsim.many.sweeps.names import POINT, REASON, STATUS
from podsim.many.sweeps.space import Point
from podsim.metrics import FULLEST, METRICS
from podsim.runs import run

if TYPE_CHECKING:
    from podsim.runs import Result

Row = Mapping[str, Any]
DONE: Final = "done"
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""By a bug of podsim."""


def row_of(point: Point) -> Row:
    """Simulate a point; one that cannot be simulated is a row with its reason.

    Args:
        point: What to simulate.
    """
    values = {POINT: point.number, "scenario": point.scenario, "variant": point.variant, **point.values}
    if point.problem is not None:
        return values | {STATUS: REFUSED, REASON: str(point.problem)}
    try:
        result = run(point.scenario, variant=point.variant, overrides=point.overrides)
    except PodsimError as error:
        return values | {STATUS: status_of(error), REASON: str(error)}
    except Exception as error:  # a bug at one point must not cost the others
        return values | {STATUS: FAILED, REASON: f"{type(error).__name__}: {error}"}
    return values | {STATUS: DONE, REASON: None} | dict(figures_of(result))


def status_of(error: PodsimError) -> str:
    """What became of a point that is impossible."""
    if isinstance(error, DoesNotFitError):
        return "does not fit"
    return "no plan" if isinstance(error, NoPlanError) else REFUSED


def figures_of(result: Result) -> Iterator[tuple[str, float | str | None]]:
    """The columns of a result."""
    yield from result.figures()
    if (fullest := METRICS[FULLEST].get(result)) is not None:
        yield FULLEST, fullest
    yield "warnings", "; ".join(result.warnings) or None
