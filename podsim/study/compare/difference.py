"""Two results beside one another: rows of metrics, waterfalls of time, inputs that differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from podsim.errors import PodsimError
from podsim.metrics import BYTES
from podsim.result.influence import Doubt, StandsOn, doubt_of_change
from podsim.result.kinds import in_kind_order
from podsim.scenario.assumptions import Value
from podsim.study.compare.metrics import COMPARED, SERVING, UPDATE, ComparedMetric
from podsim.study.compare.subject import Range, Subject

SAME, BETTER, WORSE, NEITHER = "same", "better", "worse", "neither"
_SAME_WITHIN: Final = 1e-12
"""Relative; what floating-point numbers lose."""
_YAML: Final = (".yaml", ".yml")
_SHORT_HASH: Final = 12


@dataclass(frozen=True, slots=True)
class Differing:
    """An input that differs: its dotted path, `file PATH` or `podsim`, and its texts, None where a side has none."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Cause:
    """The part of a metric whose cost moved most in the direction of the change, also as a share of its cost.

    It is a kind of a stretch of time, a part of the run, or a tenant of a memory.
    """

    span: str
    kind: str
    before: float
    after: float
    share_before: float
    share_after: float


@dataclass(frozen=True, slots=True)
class Row:
    """A metric of two results: its values, P10 and P90 where they were drawn, and what came of it.

    The verdict is `same`, `better`, `worse`, or `neither` where that cannot be said; the range of the change is its
    middle 80 %.
    """

    metric: ComparedMetric
    a: float | None
    b: float | None
    a_range: Range | None
    b_range: Range | None
    verdict: str
    cause: Cause | None
    change_range: Range | None = None

    @property
    def change(self) -> float | None:
        """Relative change; None where there is nothing to relate it to."""
        return self.b / self.a - 1 if self.a and self.b is not None else None

    @property
    def ranged(self) -> bool:
        """Whether ranges can say that it did not change."""
        return self.change_range is not None or (self.a_range is not None and self.b_range is not None)

    @property
    def within_ranges(self) -> bool:
        """Whether ranges hold that it did not change: each value that of the other where both were drawn."""
        if self.a is None or self.b is None:
            return False
        if self.a_range is not None and self.b_range is not None:
            return _within(self.a, self.b_range) and _within(self.b, self.a_range)
        return self.change_range is not None and _within(0.0, self.change_range)


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of time of two results. [ps]"""

    kind: str
    a_ps: int
    b_ps: int

    @property
    def change_ps(self) -> int:
        """Time that came to it; negative if it became less. [ps]"""
        return self.b_ps - self.a_ps


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A stretch of time from the first result to the other; its steps, in the order of the kinds, add up exactly."""

    span: str
    steps: tuple[Step, ...]

    @property
    def a_ps(self) -> int:
        """All of it in the first. [ps]"""
        return sum(step.a_ps for step in self.steps)

    @property
    def b_ps(self) -> int:
        """All of it in the other. [ps]"""
        return sum(step.b_ps for step in self.steps)


@dataclass(frozen=True, slots=True)
class Difference:
    """Two results beside one another.

    Rows are the metrics that either has: those that changed beyond their ranges, those within, those that are the same.
    """

    a: Subject
    b: Subject
    rows: tuple[Row, ...]
    waterfalls: tuple[Waterfall, ...]
    inputs: tuple[Differing, ...]
    notes: tuple[str, ...]

    @property
    def headline(self) -> Row:
        """The metric that stands for the activity, or the first that there is."""
        order = [metric.name for metric in COMPARED[self.a.activity]]
        return min(self.rows, key=lambda row: order.index(row.metric.name))

    @property
    def worse(self) -> tuple[Row, ...]:
        """Metrics that got worse beyond their ranges."""
        return tuple(row for row in self.rows if row.verdict == WORSE and not row.within_ranges)


def difference(a: Subject, b: Subject) -> Difference:
    """Two results beside one another.

    Raises:
        PodsimError: They are of different activities.
    """
    if a.activity != b.activity:
        what = f"this is a result of {b.activity}, that of {a.label} is of {a.activity}: no metric is in both"
        raise PodsimError(what, where=b.label, do="compare results of the same activity")
    other_batch = a.work is not None and b.work is not None and not _same(a.work, b.work)
    doubt = cache(partial(_doubt, a.stands_on, b.stands_on))
    rows = (_row(metric, a, b, doubt, other_batch=other_batch) for metric in COMPARED[a.activity])
    ranked = tuple(sorted((row for row in rows if row), key=_rank))
    notes = tuple(_notes(a, b, ranked, other_batch=other_batch))
    return Difference(a, b, ranked, tuple(_waterfalls(a, b)), tuple(differing(a, b)), notes)


def _rank(row: Row) -> int:
    return 2 if row.verdict == SAME else int(row.within_ranges)


def _doubt(before: StandsOn | None, after: StandsOn | None, name: str) -> Doubt | None:
    """How unsure the change of a figure is; None where nobody measured what inputs move of it."""
    if before is None or after is None or name not in before.figures or name not in after.figures:
        return None
    return doubt_of_change(before, after, name, after.figures[name] / before.figures[name])


def _row(
    metric: ComparedMetric, a: Subject, b: Subject, doubt: Callable[[str], Doubt | None], *, other_batch: bool
) -> Row | None:
    first, second = (each.metrics.get(metric.figure.key) for each in (a, b))
    if first is None and second is None:
        return None
    if metric.figure.unit == BYTES:
        first, second = first or 0.0, second or 0.0
    ranges = metric.range_in(a), metric.range_in(b)
    if first is None or second is None:
        return Row(metric, first, second, *ranges, NEITHER, None)
    if _same(first, second):
        return Row(metric, first, second, *ranges, SAME, None)
    verdict = BETTER if (second - first) * metric.figure.better > 0 else WORSE
    if metric.of_batch and other_batch:
        verdict = NEITHER
    unsure = doubt(metric.figure.key) or doubt(metric.figure.follows)
    span = None
    if unsure and first and second:
        low, high = unsure.factors
        ends = (1 / high, 1 / low) if metric.figure.more_is_better else (low, high)
        span = second / first * ends[0] - 1, second / first * ends[1] - 1
    return Row(metric, first, second, *ranges, verdict, _cause(metric, a, b, first, second), span)


def _cause(metric: ComparedMetric, a: Subject, b: Subject, first: float, second: float) -> Cause | None:
    costs = metric.cost(first), metric.cost(second)
    before, after = (metric.parts(subject, cost) for subject, cost in zip((a, b), costs, strict=True))
    rising = 1 if costs[1] > costs[0] else -1
    moved = {part: rising * (after.get(part, 0.0) - before.get(part, 0.0)) for part in {**before, **after}}
    most = max(moved, key=lambda part: moved[part], default=None)
    if most is None or moved[most] <= 0:
        return None
    values = before.get(most, 0.0), after.get(most, 0.0)
    shares = (value / (sum(of.values()) or 1.0) for value, of in zip(values, (before, after), strict=True))
    return Cause(*most, *values, *shares)


def _waterfalls(a: Subject, b: Subject) -> Iterator[Waterfall]:
    for span in {**a.spans, **b.spans}:
        first, second = a.spans.get(span, {}), b.spans.get(span, {})
        kinds = in_kind_order([*first, *second])
        yield Waterfall(span, tuple(Step(kind, first.get(kind, 0), second.get(kind, 0)) for kind in kinds))


def differing(a: Subject, b: Subject) -> Iterator[Differing]:
    """Inputs that differ, those of the first in their order."""
    if a.version != b.version:
        yield Differing("podsim", a.version, b.version)
    yield from _keys(a.inputs, b.inputs)
    whole = a.hardware and b.hardware
    if whole:
        yield from _keys(a.hardware, b.hardware)
    others = dict(b.files)
    for path, digest in a.files:
        if others.get(path, digest) != digest and not (whole and path.endswith(_YAML)):  # of those, keys tell all
            yield Differing(f"file {path}", digest[:_SHORT_HASH], others[path][:_SHORT_HASH])


def _keys(first: Mapping[str, Value], second: Mapping[str, Value]) -> Iterator[Differing]:
    for key in {**first, **second}:
        before, after = first.get(key), second.get(key)
        if before is None or after is None or not before.same_as(after):
            yield Differing(key, *(None if each is None else each.text for each in (before, after)))


def _notes(a: Subject, b: Subject, rows: tuple[Row, ...], *, other_batch: bool) -> Iterator[str]:
    if other_batch:
        yield (
            f"a {UPDATE} of {a.label} has {a.work:,.0f} samples, one of {b.label} {b.work:,.0f}: "
            "throughput and time to train tell which is better"
        )
    if bool(a.ranges) != bool(b.ranges):
        alone = a if a.ranges else b
        yield f"only {alone.label} has ranges, so that no change can be said to lie within those of both"
    elif a.ranges:
        without = [row.metric.figure.label for row in rows if row.verdict != SAME and not row.ranged]
        if without:
            yield f"without a range, so that any change counts: {'; '.join(without)}"
    if without := list(dict.fromkeys(each.label for each in (a, b) if not each.hardware)):
        yield f"{' and '.join(without)}: without the keys of pod and stack, which are not compared"
    if a.activity == SERVING:
        yield "results of serving hold no time by kind, so that there is no waterfall"


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_WITHIN * max(abs(one), abs(other))


def _within(value: float, bounds: Range) -> bool:
    return bounds[0] <= value <= bounds[1]
