"""From a point to its row: values, what became of it, and the figures of the result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from podsim.errors import DoesNotFitError, NoPlanError, PodsimError
from podsim.metrics import FULLEST, HIGH, LOW, METRICS
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.study.store import STATUS, Row
from podsim.study.sweep.names import POINT, REASON
from podsim.study.sweep.space import StudySpace

if TYPE_CHECKING:
    from podsim.runs import Result

DONE: Final = "done"
REFUSED: Final = "refused"
FAILED: Final = "failed"
"""By a bug of podsim."""


@dataclass(frozen=True)
class RowMaker:
    """Simulates points of a study; what they vary is read once, and a point changes the loaded scenario.

    Attributes:
        space: The points.
        ranges: Whether figures have the ends of their ranges beside them, which takes about ten times as long.
    """

    space: StudySpace
    ranges: bool = False
    _loaded: dict[tuple[str, str | None], LoadedScenario] = field(default_factory=dict, repr=False, compare=False)

    def __call__(self, number: int) -> Row:
        """The row of a point; one that cannot be simulated has its reason."""
        point = self.space.point(number)
        assert point is not None
        values = {POINT: point.number, "scenario": point.scenario, "variant": point.variant, **point.values}
        if point.problem is not None:
            return values | {STATUS: REFUSED, REASON: str(point.problem)}
        try:
            scenario = point.scenario, point.variant
            if scenario not in self._loaded:
                self._loaded[scenario] = load_scenario(*scenario)
            result = run(load_scenario(self._loaded[scenario], overrides=point.overrides))
            ends = dict(_ends(result)) if self.ranges else {}
        except PodsimError as error:
            return values | {STATUS: status_of(error), REASON: str(error)}
        except Exception as error:  # a bug at one point must not cost the others
            return values | {STATUS: FAILED, REASON: f"{type(error).__name__}: {error}"}
        return values | {STATUS: DONE, REASON: None} | dict(figures_of(result)) | ends

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what can be read again."""
        return RowMaker, (replace(self.space), self.ranges)


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


def _ends(result: Result) -> Iterator[tuple[str, float]]:
    """The columns of the ranges of a result, in the units of their figures."""
    for figure, found in result.ranges.items():
        yield figure + LOW, found.low
        yield figure + HIGH, found.high
