"""How far a scenario scales: its throughput over replicas or batches, with its own point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from podsim.draws import Range
from podsim.errors import PodsimError
from podsim.format import format_count, format_ends, format_figure
from podsim.metrics import THROUGHPUT, TOKENS, Metric, metric_of
from podsim.report.chart import Axis, Chart, Curves, Mark, Series, band, in_proportion
from podsim.report.report import Part
from podsim.report.table import Table, columns
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.activity import Activity
from podsim.watch import Tell

_REPLICAS: Final = "parallelism.replication_factor"
_PODS: Final = 4
"""How many times the pod the curve goes on for."""
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64)
_LINE, _OWN = "#08306b", "#b35400"


@dataclass(frozen=True, slots=True)
class _Point:
    """A point of the curve, with the keys that differ; a reason in place of a value where there is no such run."""

    place: int
    keys: tuple[str, ...]
    is_own: bool
    value: float | None = None
    range: Range | None = None
    reason: str = ""


def scaling_blocks(loaded: LoadedScenario, tell: Tell) -> Iterator[Part]:
    """A chart of throughput over IPUs where a scenario has replicas that train, over the batch otherwise."""
    if loaded.auto is not None:
        yield "With the division chosen anew, a curve of scaling is a question of its own: `podsim sweep` asks it."
        return
    spec: Any = loaded.spec
    training = spec.activity is Activity.TRAINING
    metric = metric_of(TOKENS if spec.activity is Activity.GENERATION else THROUGHPUT)
    asked = list(_replicas(spec) if training else _batches(spec))
    points: list[_Point] = []
    for each in asked:
        tell(len(points), len(asked))
        points.append(_run(loaded, each, metric))
    known = [each for each in points if each.value is not None]
    if len(known) > 1:
        yield _chart(known, points, metric, "IPUs" if training else "batch")


def _replicas(spec: Any) -> Iterator[_Point]:
    """Twice as many replicas each time: in the pod, and in pods with more machines and host servers."""
    own, size, system = spec.parallelism.replication_factor, spec.parallelism.ipus_per_replica, spec.system
    room = max(own, system.ipu_count // size)
    powers = [1 << each for each in range((_PODS * room).bit_length())]
    for count in sorted({*(each for each in powers if each <= _PODS * room), own}):
        pods = -(-count // room)
        more = (f"system.machine_count={system.machine_count * pods}", f"system.host_count={system.host_count * pods}")
        is_own = count == own
        keys = () if is_own else (*(more if pods > 1 else ()), f"{_REPLICAS}={count}")
        yield _Point(count * size, keys, is_own)


def _batches(spec: Any) -> Iterator[_Point]:
    section = "generation" if spec.activity is Activity.GENERATION else "forward"
    own = int(getattr(spec, section).batch_size)
    for count in sorted({*_BATCHES, own}):
        yield _Point(count, () if count == own else (f"{section}.batch_size={count}",), count == own)


def _run(loaded: LoadedScenario, point: _Point, metric: Metric) -> _Point:
    try:
        result = run(load_scenario(loaded, None, point.keys))
        return replace(point, value=result.predicted(metric.key), range=result.ranges.get(metric.key))
    except PodsimError as error:
        return replace(point, reason=error.message.splitlines()[0])


def _chart(known: list[_Point], points: list[_Point], metric: Metric, over: str) -> Chart:
    places, values = [float(each.place) for each in known], [each.value or 0.0 for each in known]
    tips = [{over: format_count(each.place), metric.label: format_figure(metric, each.value or 0.0)} for each in known]
    ends = [(each.range.low, each.range.high) if each.range else None for each in known]
    own = [(at, value) for each, at, value in zip(known, places, values, strict=True) if each.is_own]
    series = [
        *band("80 % range", places, ends, _LINE),
        in_proportion("in proportion to the first", places, values),
        Series("predicted", Mark.LINE, places, values, _LINE, tips=tips),
        *(Series("this one", Mark.POINTS, [at], [value], _OWN) for at, value in own),
    ]
    rows = [
        (
            f"{format_count(each.place)}{' (this one)' if each.is_own else ''}",
            "–" if each.value is None else format_figure(metric, each.value),
            format_ends(metric, each.value, each.range.low, each.range.high) if each.value and each.range else "–",
            " ".join(f"--set {key}" for key in each.keys) or "as it is",
            each.reason,
        )
        for each in points
    ]
    title = "over IPUs: each replica keeps its work" if over == "IPUs" else f"over the {over}"
    return Chart(
        title=f"{metric.label.capitalize()} {title}",
        description=f"A line of the predicted {metric.label} over {over}, with the point of this scenario.",
        drawn=Curves(
            series,
            Axis(over, is_log=True, from_zero=False, ticks=places),
            Axis(metric.label, metric.head, is_log=True, from_zero=False),
        ),
        numbers=Table(columns(f">{over}", f">{metric.label}", ">80 %", "what differs", "why not"), rows),
    )
