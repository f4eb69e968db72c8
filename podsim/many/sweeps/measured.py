"""What was measured at points of a study, from the published figures of shipped scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from podsim.many.sweeps.spec import MeasuredSpec, Value
from podsim.metrics import THROUGHPUT, UPDATE
from podsim.runs import run

if TYPE_CHECKING:
    from podsim.runs import Result


def measured_points(given: Sequence[MeasuredSpec], metric: str) -> Iterator[tuple[Value, float]]:
    """Where each scenario stands in a chart of a figure, and what was measured of it; others are passed over."""
    for each in given:
        value = _measured(run(each.scenario), metric)
        if value is not None:
            yield each.at, value


def _measured(result: Result, metric: str) -> float | None:
    """A published figure; a rate follows from the time of a weight update, whose samples are known."""
    known = {each.quantity: each.measured for each in reversed(result.references)}
    if metric in known:
        return known[metric]
    rate, update = (dict(result.figures()).get(name) for name in (THROUGHPUT, UPDATE))
    if metric != THROUGHPUT or UPDATE not in known or rate is None or update is None:
        return None
    return rate * update / known[UPDATE]
