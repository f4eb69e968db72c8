"""`podsim.compare`: results compared with the first one, by metrics and their causes, time by kind, and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from math import isclose
from string import ascii_uppercase
from typing import Annotated, Final

from podsim._version import __version__
from podsim.draws import Draws, Range
from podsim.errors import PodsimError
from podsim.format import format_bytes, format_duration_s, format_interval, format_significant, in_title, unit_for_s
from podsim.metrics import BYTES, FIRST_TOKEN, LATENCY, METRICS, PER_SECOND, SECONDS, SHARE, Metric, metric_of
from podsim.metrics import UPDATE as UPDATE_TIME
from podsim.options import TIMES, Shell
from podsim.report.chart import FASTER, SLOWER, TOTAL, Axis, Bar, Bars, Chart
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Cell, Cells, Column, Table, columns
from podsim.result.influence import spread_of_change
from podsim.result.kinds import in_kind_order, kind_of
from podsim.scenario.resolve import Change
from podsim.scenario.wording import counted
from podsim.show.answers import JsonAnswer
from podsim.show.markdown import report_as_markdown
from podsim.show.text import report_as_text
from podsim.study.sides import ANSWER, COMPARED, DECODE, PREFILL, RUN, SERVING, UPDATE, Ends, Side, Subject, side
from podsim.units import ps_to_seconds
from podsim.watch import Watch, watched

SCHEMA_VERSION: Final = 1
"""Schema version of the JSON of comparisons."""
SAME, BETTER, WORSE, NEITHER = "same", "better", "worse", "neither"
"""Verdicts on a metric; `neither` if a side has no value, or weight updates have different batches."""
_UNITS: Final = {PER_SECOND: "/s", SHARE: "share"}
"""Units of metrics that the JSON of comparisons names differently."""
_COLUMNS: Final = ("metric", "unit", "a", "b", "change", "verdict", "within_ranges")
"""Fields of `Row` that are columns of a data frame."""
_SINGULAR: Final = {"samples": "sample", "tokens": "token", "steps": "step", "batches": "batch"}
_SAME_WITHIN: Final = 1e-12
"""Relative rounding error of floating-point numbers."""
_YAML: Final = (".yaml", ".yml")
_SHORT_HASH: Final = 12
_DIGITS, _FEWEST_DIGITS, _DIGITS_OF_WHY = 4, 2, 3
_TILES: Final = 4
_MOST_INPUTS: Final = 20
_LONGEST: Final = 60
"""Most characters of a key or a value."""
_BEFORE: Final = 12
"""Characters of a long value shown before the first difference."""
_SMALL: Final = 0.35
"""Difference between the ends of the bars, relative to the longest bar, up to which an axis does not begin at 0."""
_MARGIN: Final = 0.18
"""Space at either end of such an axis, relative to the difference."""
_FORMATS: Final[Mapping[str, Callable[[float, int], str]]] = {
    SECONDS: format_duration_s,
    PER_SECOND: lambda value, digits: f"{format_significant(value, digits)}/s",
    SHARE: lambda value, digits: f"{format_significant(100 * value, digits)} %",
    BYTES: format_bytes,
}


@dataclass(frozen=True, slots=True)
class Cause:
    """The part of a metric that changed most: a kind of time, a phase of the run, or a tenant of a memory."""

    span: str  # the interval of time that it is part of, such as `weight update`, or the memory
    kind: str
    before: float  # [s] or [B]
    after: float
    share_before: float  # share of the metric
    share_after: float


@dataclass(frozen=True, slots=True)
class Row:
    """Comparison of a metric of two results, with the keys of the JSON."""

    metric: str
    label: str
    unit: str
    a: float | None
    b: float | None
    change: float | None  # relative change; None without a value to compare with
    change_range: Range | None  # 80 % prediction interval of the change
    verdict: str  # `same`, `better`, `worse` or `neither`
    within_ranges: bool | None  # True if a change of zero lies within the ranges; None without ranges
    a_range: Ends | None  # P10 and P90 of the samples
    b_range: Ends | None
    why: Cause | None


@dataclass(frozen=True, slots=True)
class Step:
    """Time of one kind in two results, and its change. [ps]"""

    kind: str
    a_ps: int
    b_ps: int
    change_ps: int


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Changes by kind that lead from a time of the first result to that of the other; they add up exactly. [ps]"""

    span: str  # the compared interval, such as `weight update`
    a_ps: int
    b_ps: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """Comparison of two results."""

    a: Subject
    b: Subject
    rows: tuple[Row, ...]  # changes beyond the ranges, then changes within them, then equal metrics
    waterfalls: tuple[Waterfall, ...]
    inputs: tuple[Change, ...]
    notes: tuple[str, ...]
    letter: str = "B"  # letter of the other side

    @property
    def title(self) -> str:
        """Heading, such as `B against A: training`."""
        return f"{self.letter} against A: {self.a.activity}"

    @property
    def headline(self) -> Row:
        """First row of the table by importance of metrics for the activity."""
        order = [METRICS[key].name for key in COMPARED[self.a.activity]]
        return min(self.rows, key=lambda row: order.index(row.metric))

    @property
    def worse(self) -> tuple[Row, ...]:
        """Metrics that got worse beyond their ranges."""
        return tuple(row for row in self.rows if row.verdict == WORSE and not row.within_ranges)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(JsonAnswer):
    """Comparison of two or more results with the first.

    Attributes:
        subjects: Results, the reference first.
        differences: Comparison of the reference with each other result.
    """

    subjects: tuple[Subject, ...]
    differences: tuple[Difference, ...]

    @property
    def is_worse(self) -> bool:
        """True if any result has a metric that is worse than the reference's by more than the ranges allow."""
        return any(other.worse for other in self.differences)

    def report(self, *, unchanged: bool = False, precision: int = _DIGITS) -> Report:
        """Return the comparison as a report.

        Args:
            unchanged: Show equal values too.
            precision: Significant digits.

        Returns:
            The report from which text, Markdown, notebooks, pages and charts are made.
        """
        first, *others = self.subjects
        sides = list(zip(ascii_uppercase, self.subjects, strict=False))
        most = max(1, _TILES // len(self.differences))
        return Report(
            title=f"{' and '.join(subject.label for subject in others)} against {first.label}",
            about=[f"{letter}: {subject.about}" for letter, subject in sides],
            version=__version__,
            inputs=list(dict.fromkeys(file for subject in self.subjects for file in subject.files)),
            verdict=list(map(_verdict, self.differences)),
            warnings=[f"({letter}) {text}" for letter, subject in sides for text in subject.warnings],
            notes=list(dict.fromkeys(note for other in self.differences for note in other.notes)),
            tiles=[tile for other in self.differences for tile in _tiles(other, most)],
            sections=[
                Section(other.title, list(parts_of(other, unchanged, precision)), short=True, plotted=True)
                for other in self.differences
            ],
        )

    def text(self, *, unchanged: bool = False, precision: int = _DIGITS) -> str:
        """Return the comparison as text of 100 columns; arguments as in `report`."""
        return report_as_text(self.report(unchanged=unchanged, precision=precision))

    def markdown(self, *, unchanged: bool = False, precision: int = _DIGITS) -> str:
        """Return the comparison as Markdown; arguments as in `report`."""
        return report_as_markdown(self.report(unchanged=unchanged, precision=precision))

    def to_dict(self) -> dict[str, object]:
        """Return plain types of every row, including unchanged rows."""
        sides = [
            {
                "side": letter,
                "label": subject.label,
                "taken_for": subject.taken,
                "simulated": subject.machine,
                "version": subject.version,
                "ranges": {name: _ends(span) for name, span in subject.own_ranges.items()},
                "warnings": list(subject.warnings),
                "notes": [],
                "inputs": [{"path": path, "sha256": digest} for path, digest in subject.files],
            }
            for letter, subject in zip(ascii_uppercase, self.subjects, strict=False)
        ]
        differences = [
            {
                "a": "A",
                "b": other.letter,
                "worse": [row.metric for row in other.worse],
                "metrics": [asdict(row) | {"change_range": _ends(row.change_range)} for row in other.rows],
                "waterfalls": [asdict(waterfall) for waterfall in other.waterfalls],
                "inputs": [asdict(changed) for changed in other.inputs],
                "notes": list(other.notes),
            }
            for other in self.differences
        ]
        about = {"version": __version__, "schema_version": SCHEMA_VERSION, "activity": self.subjects[0].activity}
        return {**about, "sides": sides, "differences": differences}

    def _summary_lines(self) -> Iterator[str]:
        report = self.report()
        yield from (report.title, *report.verdict[:3])

    def _records(self) -> Sequence[Mapping[str, object]]:
        """Return one row for each metric of each compared result, in the unit of the metric."""
        return [
            {"side": other.letter, "label": other.b.label}
            | {name: getattr(row, name) for name in _COLUMNS}
            | {f"change_{end}": getattr(row.change_range, end, None) for end in ("low", "high")}
            for other in self.differences
            for row in other.rows
        ]

    def _units(self) -> Mapping[str, str]:
        """Return the unit of each column whose rows share one."""
        return dict.fromkeys(("change", "change_low", "change_high"), SHARE)


def _ends(span: Range | None) -> dict[str, float] | None:
    return None if span is None else {"low": span.low, "high": span.high}


def compare(
    *sides: Annotated[Side, Shell((), "A B...", completes="scenarios")],
    uncertainty: Annotated[int | Draws | None, TIMES] = None,
    seed: int = 0,
    watch: Watch = watched,
) -> Comparison:
    """Compare results: changed metrics and their causes, time by kind, and differences of the inputs.

    Args:
        sides: Two or more: scenarios by file or name, NAME@VARIANT, NAME@REVISION of a git repository, or JSON of
            podsim run.
        uncertainty: Number of simulations of each side with inputs sampled from their ranges.
        seed: Seed of the samples.
        watch: Progress function that passes on the names of simulation steps.

    Note:
        In Python, `sides` may also be mappings, loaded scenarios and results.

    Returns:
        The comparison of the first side with each other side.

    Raises:
        PodsimError: A side cannot be read or simulated, or the activities differ.
    """
    if not 2 <= len(sides) <= len(ascii_uppercase):
        what = f"a comparison has two sides or more, not {len(sides)}"
        raise PodsimError(what, do=f"give from 2 to {len(ascii_uppercase)}, the one to compare with first")
    draws = Draws(uncertainty, seed) if isinstance(uncertainty, int) else uncertainty
    first, *others = (
        side(result, letter, draws, watch) for result, letter in zip(sides, ascii_uppercase, strict=False)
    )
    pairs = zip(others, ascii_uppercase[1:], strict=False)
    return Comparison((first, *others), tuple(difference(first, other, letter) for other, letter in pairs))


# Two results


def difference(a: Subject, b: Subject, letter: str = "B") -> Difference:
    """Return the comparison of two results; raise `PodsimError` if their activities differ."""
    if a.activity != b.activity:
        what = f"this is a result of {b.activity}, that of {a.label} is of {a.activity}: no metric is in both"
        raise PodsimError(what, where=b.label, do="compare results of the same activity")
    before, after = a.stands_on, b.stands_on

    @cache
    def factors(name: str) -> Ends | None:
        """Return P10 and P90 of the true ratio of two times over the predicted ratio; None if they are unknown."""
        if before is None or after is None or name not in before.figures or name not in after.figures:
            return None
        spread = spread_of_change(before, after, name, after.figures[name] / before.figures[name])
        return None if spread is None else spread.factors

    compared = (_row(METRICS[key], a, b, factors) for key in COMPARED[a.activity])
    rows = sorted(
        (row for row in compared if row), key=lambda row: 2 if row.verdict == SAME else bool(row.within_ranges)
    )
    spans = ((span, a.spans.get(span, {}), b.spans.get(span, {})) for span in {**a.spans, **b.spans})
    waterfalls = tuple(waterfall_of(*span) for span in spans)
    return Difference(a, b, tuple(rows), waterfalls, tuple(_differing(a, b)), tuple(_notes(a, b, rows)), letter)


def waterfall_of(span: str, a_ps: Mapping[str, int], b_ps: Mapping[str, int]) -> Waterfall:
    """Return the comparison of two breakdowns of an interval of time, by kind. [ps]"""
    pairs = [(kind, a_ps.get(kind, 0), b_ps.get(kind, 0)) for kind in in_kind_order([*a_ps, *b_ps])]
    steps = tuple(Step(kind, first_ps, second_ps, second_ps - first_ps) for kind, first_ps, second_ps in pairs)
    return Waterfall(span, sum(a_ps.values()), sum(b_ps.values()), steps)


def _row(metric: Metric, a: Subject, b: Subject, factors: Callable[[str], Ends | None]) -> Row | None:
    first, second = a.metrics.get(metric.key), b.metrics.get(metric.key)
    if first is None and second is None:
        return None
    if metric.unit == BYTES:
        first, second = first or 0.0, second or 0.0
    a_range, b_range = a.range_of(metric), b.range_of(metric)
    verdict, cause, span, within = NEITHER, None, None, None
    if first is not None and second is not None:
        if isclose(first, second, rel_tol=_SAME_WITHIN):
            verdict = SAME
        else:
            cause = _cause(metric, a, b, first, second)
            ends = factors(metric.key) or factors(metric.follows)
            if ends and first and second:
                low, high = (1 / ends[1], 1 / ends[0]) if metric.more_is_better else ends
                span = Range(second / first * low - 1, second / first * high - 1)
                within = span.low <= 0 <= span.high
            if metric.key != UPDATE_TIME or not _batches_differ(a, b):
                verdict = BETTER if (second - first) * metric.better > 0 else WORSE
    if a_range and b_range:
        within = _within(first, b_range) and _within(second, a_range)
    change = second / first - 1 if first and second is not None else None
    unit = _UNITS.get(metric.unit, metric.unit)
    about = (metric.name, metric.label, unit, first, second)
    return Row(*about, change, span, verdict, within, a_range, b_range, cause)


def _cause(metric: Metric, a: Subject, b: Subject, first: float, second: float) -> Cause | None:
    """Return the part that changed most in the direction of the metric, if any; a rate is compared by its inverse."""
    costs = [(value and 1 / value) if metric.more_is_better else value for value in (first, second)]
    before, after = (_parts(metric, subject, cost) for subject, cost in zip((a, b), costs, strict=True))
    sign = 1 if costs[1] > costs[0] else -1
    changes = {part: sign * (after.get(part, 0.0) - before.get(part, 0.0)) for part in {**before, **after}}
    most = max(changes, key=lambda part: changes[part], default=None)
    if most is None or changes[most] <= 0:
        return None
    values = before.get(most, 0.0), after.get(most, 0.0)
    shares = (value / (sum(parts.values()) or 1.0) for value, parts in zip(values, (before, after), strict=True))
    return Cause(*most, *values, *shares)


def _parts(metric: Metric, subject: Subject, cost: float) -> dict[tuple[str, str], float]:
    """Divide a metric, with `cost` as its time, into (interval, kind of time), (run, phase) or (memory, tenant)."""
    if metric.unit == BYTES:
        return {(metric.key, tenant): size_bytes for tenant, size_bytes in subject.memory.get(metric.key, {}).items()}
    span = COMPARED[subject.activity][metric.key]
    parts: dict[tuple[str, str], float] = {}
    divided = {span: cost}
    if span == RUN:
        divided = {UPDATE: subject.parts.get("training", 0.0)}
        parts = {(RUN, name): time_s for name, time_s in subject.parts.items() if name != "training"}
    elif span == ANSWER:
        first_s = subject.metrics.get(FIRST_TOKEN, 0.0)
        divided = {PREFILL: first_s, DECODE: cost - first_s}
    for name, whole in divided.items():
        times_ps = subject.spans.get(name, {})
        total_ps = sum(times_ps.values())
        parts |= {(name, kind): whole * time_ps / total_ps for kind, time_ps in times_ps.items() if total_ps}
    return parts


def _differing(a: Subject, b: Subject) -> Iterator[Change]:
    """Yield the inputs that differ, in the order of the first side."""
    if a.version != b.version:
        yield Change("podsim", a.version, b.version)
    has_hardware = bool(a.hardware and b.hardware)
    for first, second in ((a.inputs, b.inputs), *[(a.hardware, b.hardware)] * has_hardware):
        for key in {**first, **second}:
            before, after = first.get(key), second.get(key)
            if before is None or after is None or not before.same_as(after):
                yield Change(key, *(None if value is None else value.text for value in (before, after)))
    others = dict(b.files)
    for path, digest in a.files:
        is_compared_by_keys = has_hardware and path.endswith(_YAML)
        if others.get(path, digest) != digest and not is_compared_by_keys:
            yield Change(f"file {path}", digest[:_SHORT_HASH], others[path][:_SHORT_HASH])


def _notes(a: Subject, b: Subject, rows: Sequence[Row]) -> Iterator[str]:
    if _batches_differ(a, b):
        yield (
            f"a {UPDATE} of {a.label} has {a.work:,.0f} samples, one of {b.label} {b.work:,.0f}: "
            "throughput and time to train tell which is better"
        )
    if bool(a.ranges) != bool(b.ranges):
        alone = a if a.ranges else b
        yield f"only {alone.label} has ranges, so that no change can be said to lie within those of both"
    elif a.ranges:
        without = [row.label for row in rows if row.verdict != SAME and row.within_ranges is None]
        if without:
            yield f"without a range, so that any change counts: {'; '.join(without)}"
    if without := list(dict.fromkeys(subject.label for subject in (a, b) if not subject.hardware)):
        yield f"{' and '.join(without)}: without the keys of pod and stack, which are not compared"
    if a.activity == SERVING:
        yield "results of serving hold no time by kind, so that there is no waterfall"


def _batches_differ(a: Subject, b: Subject) -> bool:
    return a.work is not None and b.work is not None and not isclose(a.work, b.work, rel_tol=_SAME_WITHIN)


def _within(value: float | None, ends: Ends) -> bool:
    return value is not None and ends[0] <= value <= ends[1]


# The report


def parts_of(found: Difference, unchanged: bool = False, precision: int = _DIGITS) -> Iterator[Part]:
    """Yield tables and charts of metrics, time by kind and inputs; `unchanged` includes equal metrics and inputs.

    `precision` is the number of significant digits.
    """
    same = [row for row in found.rows if row.verdict == SAME]
    rows = found.rows if unchanged else [row for row in found.rows if row.verdict != SAME]
    hidden = " (`--all` shows the others)" if same and not unchanged else ""
    count = f"{len(found.rows) - len(same)} of {counted(len(found.rows), 'metric')} changed{hidden}"
    yield _metric_table(found, rows, precision, count) if rows else "No metric changed."
    if hidden:
        yield Folded(f"{counted(len(same), 'metric')} the same", [_metric_table(found, same, precision)])
    for waterfall in found.waterfalls:
        yield waterfall_chart(waterfall, found.letter, unchanged, precision)
    few = found.inputs if unchanged else found.inputs[:_MOST_INPUTS]
    left_out = len(found.inputs) - len(few)
    if few:
        yield _input_table(found, few, *[f"and {left_out} more, which `--all` shows"] * bool(left_out))
    if left_out:
        yield Folded("All that differs in the inputs", [_input_table(found, found.inputs)])


def _verdict(found: Difference) -> str:
    """Return the verdict as one sentence."""
    row = found.headline
    if all(other.verdict == SAME for other in found.rows):
        return f"{found.letter} is the same as A"
    change = "the same" if row.verdict == SAME else _change(row.change, _DIGITS) or "not in both"
    change = change_text(change, _change_range(row), may_be_none=bool(row.within_ranges))
    worse = counted(len(found.worse), "metric") if found.worse else "no metric"
    return f"{found.letter} against A: {metric_of(row.metric).phrase} {change}; {worse} worse"


def change_text(change: str, interval: str, *, may_be_none: bool) -> str:
    """Return a change with its range, if known; `may_be_none` adds that there may be no change."""
    text = f"{change} (80 %: {interval} %)" if interval else change
    return f"{text}, which may be no change" if may_be_none else text


def _tiles(found: Difference, most: int) -> Iterator[Tile]:
    """Yield a tile for each changed metric, up to `most`."""
    for row in [row for row in found.rows if row.verdict != SAME][:most]:
        first, second, change, verdict = _row_texts(row, _DIGITS)
        yield Tile(in_title(row.label), change or second, (f"{first} to {second}", f"{found.letter} is {verdict}"))


def _metric_table(found: Difference, rows: Sequence[Row], precision: int, *notes: str) -> Table:
    """Return a table of metrics: both values, the change with its range, `better` or `worse`, and the cause."""
    ranged = any(row.change_range for row in rows)
    heads = ("metric", ">A", f">{found.letter}", ">change", *[">80 %"] * ranged, f"{found.letter} is", "why")
    body: list[Cells] = []
    for row in rows:
        first, second, change, verdict = _row_texts(row, precision)
        cells = Cell(first, row.a), Cell(second, row.b), Cell(change, row.change)
        body.append((row.label, *cells, *[_change_range(row)] * ranged, verdict, why(row)))
    return Table(columns(*heads), body, found.title, notes)


def waterfall_chart(found: Waterfall, letter: str, unchanged: bool = False, precision: int = _DIGITS) -> Chart:
    """Return a waterfall chart of the time that each kind adds or removes, from A to the side with this letter."""
    a_ps, b_ps = found.a_ps, found.b_ps
    scale_s, unit = unit_for_s(ps_to_seconds(max(a_ps, b_ps)))
    scale_ps = scale_s / ps_to_seconds(1)
    change = f" ({_change(b_ps / a_ps - 1, precision)})" if a_ps and a_ps != b_ps else ""
    times = " to ".join(_duration(time_ps, precision) for time_ps in (a_ps, b_ps))
    bars, at_ps = [("A", 0, a_ps, TOTAL, _duration(a_ps, precision))], a_ps
    for step in (step for step in found.steps if step.change_ps):
        fill, end_ps = SLOWER if step.change_ps > 0 else FASTER, at_ps + step.change_ps
        bars.append((kind_of(step.kind).label, at_ps, end_ps, fill, _signed_duration(step.change_ps, precision)))
        at_ps = end_ps
    bars.append((letter, 0, b_ps, TOTAL, _duration(b_ps, precision)))
    low_ps, high_ps = ends_of_axis([edge_ps for _, *edges_ps, _, _ in bars for edge_ps in edges_ps])
    drawn = [
        Bar(name, max(low_ps, start) / scale_ps, end / scale_ps, fill, text, tip={"what": name, "time": text})
        for name, start, end, fill, text in bars
    ]
    return Chart(
        title=f"{in_title(found.span)} from A to {letter}: {times}{change}",
        description=f"Waterfall of the {found.span} from A to {letter}, {times}, by kind of time.",
        drawn=Bars(drawn, Axis(found.span, unit, (low_ps / scale_ps, high_ps / scale_ps))),
        legend={"less time": FASTER, "more time": SLOWER},
        numbers=_waterfall_table(found, letter, unchanged, precision),
        notes=["The axis does not begin at 0."] if low_ps > 0 else [],
    )


def ends_of_axis(edges_ps: Sequence[int]) -> tuple[int, int]:
    """Return the ends of an axis for the ends of bars; it begins at 0, unless the changes would be invisible. [ps]

    >>> ends_of_axis([0, 100, 100, 60, 0, 60]), ends_of_axis([0, 1000, 1000, 1020, 0, 1020])
    ((0, 100), (996, 1024))
    """
    reached = [edge_ps for edge_ps in edges_ps if edge_ps]
    low, high = min(reached, default=0), max(reached, default=1)
    room = round((high - low) * _MARGIN)
    return (0, high) if high - low > _SMALL * high or high == low else (max(0, low - room), high + room)


def _waterfall_table(found: Waterfall, letter: str, unchanged: bool, precision: int) -> Table:
    """Return a table of the kinds of time, largest change first, and of their total."""
    steps = (step for step in found.steps if step.change_ps or unchanged)
    shown = sorted(steps, key=lambda step: -abs(step.change_ps))
    lines = [(kind_of(step.kind).label, step.a_ps, step.b_ps) for step in shown]
    if len(shown) < len(found.steps):
        rest_ps = found.a_ps - sum(step.a_ps for step in shown)
        lines.append(("others, the same", rest_ps, rest_ps))
    rows: list[Cells] = []
    for label, *times_ps in (*lines, ("total", found.a_ps, found.b_ps)):
        change_ps = times_ps[1] - times_ps[0]
        times = (Cell(_duration(time_ps, precision), ps_to_seconds(time_ps)) for time_ps in times_ps)
        exact = Cell(f"{change_ps:+,}" if change_ps else "0", change_ps)
        rows.append((label, *times, _signed_duration(change_ps, precision) if change_ps else "", exact))
    return Table(columns("kind", ">A", f">{letter}", ">change", ">change [ps]"), rows)


def _input_table(found: Difference, inputs: Sequence[Change], *notes: str) -> Table:
    """Return a table of changed inputs; long keys keep their end, long values the part that differs."""
    rows: list[Cells] = []
    for key, *values in ((changed.key, changed.before, changed.after) for changed in inputs):
        texts = ["not given" if value is None else " ".join(str(value).split()) for value in values]
        if max(map(len, texts)) > _LONGEST:
            differing = (place for place, (a, b) in enumerate(zip(*texts, strict=False)) if a != b)
            start = max(0, next(differing, 0) - _BEFORE)
            parts = [f"…{text[start:]}" if start else text for text in texts]
            texts = [part if len(part) <= _LONGEST else f"{part[: _LONGEST - 1]}…" for part in parts]
        rows.append((key if len(key) <= _LONGEST else f"…{key[1 - _LONGEST :]}", *texts))
    heads = (Column("key", whole=True), *columns("A", found.letter))
    return Table(heads, rows, "What differs in the inputs", notes)


def _row_texts(row: Row, precision: int) -> tuple[str, str, str, str]:
    """Return both values, the change, and `better`, `worse`, `same`, `~` (within the ranges) or an empty text."""
    write = _FORMATS[metric_of(row.metric).unit]
    first, second = ("not given" if value is None else write(value, precision) for value in (row.a, row.b))
    change = "" if row.verdict == SAME else "from 0" if row.a == 0 else _change(row.change, precision)
    verdict = "" if row.a is None or row.b is None else row.verdict
    return first, second, change, "~" if row.within_ranges and row.verdict != SAME else verdict


def _duration(time_ps: int, precision: int) -> str:
    return format_duration_s(ps_to_seconds(time_ps), precision)


def _signed_duration(change_ps: int, precision: int) -> str:
    return f"{'-' if change_ps < 0 else '+'}{_duration(abs(change_ps), precision)}"


def _change(ratio: float | None, precision: int) -> str:
    """Format a relative change with its sign, with one digit less than values.

    >>> _change(-0.24914, 4), _change(0.0000123, 4), _change(None, 4)
    ('-24.9 %', '+0.00123 %', '')
    """
    if ratio is None:
        return ""
    return f"{'-' if ratio < 0 else '+'}{format_significant(100 * abs(ratio), max(_FEWEST_DIGITS, precision - 1))} %"


def _change_range(row: Row) -> str:
    """Return the range of a change, in per cent without the unit; empty without a range."""
    return format_interval(row.change_range, lambda end: _change(end, _FEWEST_DIGITS).removesuffix(" %"))


def why(row: Row) -> str:
    """Return the part of a metric that changed most, and its change, as text; empty if unknown."""
    cause, metric = row.why, metric_of(row.metric)
    if cause is None:
        return ""
    step = f" of {cause.span}" if metric.key == LATENCY and cause.span in (PREFILL, DECODE) else ""
    name = f"{kind_of(cause.kind).label}{step}"
    if metric.unit == SHARE:
        shares = (format_significant(100 * share, _DIGITS_OF_WHY) for share in (cause.share_before, cause.share_after))
        return f"{name}, {' to '.join(shares)} %"
    change = cause.after - cause.before
    size = _FORMATS[BYTES if metric.unit == BYTES else SECONDS](abs(change), _DIGITS_OF_WHY)
    per = f" per {_SINGULAR[metric.counted]}" if metric.unit == PER_SECOND else ""
    return f"{name} {'-' if change < 0 else '+'}{size}{per}"
