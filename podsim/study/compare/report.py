"""What a comparison says, as a report; its numbers and reasons in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import Final

from podsim._version import __version__
from podsim.format import format_bytes, format_duration_s, format_significant, format_span, in_title, unit_for_s
from podsim.metrics import BYTES, LATENCY, PER_SECOND, SECONDS, SHARE
from podsim.report.chart import FASTER, SLOWER, TOTAL, Axis, Bar, Bars, Chart
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Cell, Cells, Column, Table, columns
from podsim.result.kinds import kind_of
from podsim.scenario.wording import counted
from podsim.study.compare.difference import SAME, Difference, Differing, Row, Step, Waterfall
from podsim.study.compare.metrics import DECODE, PREFILL, ComparedMetric
from podsim.study.compare.subject import Subject
from podsim.units import ps_to_seconds

DIGITS: Final = 4
"""Significant digits where nothing else is asked for."""
_FEWEST_DIGITS: Final = 2
_DIGITS_OF_WHY: Final = 3
_TILES: Final = 4
_MOST_INPUTS: Final = 20
_LONGEST: Final = 60
"""Characters of a key or a value."""
_BEFORE: Final = 12
"""Characters of a long value that are shown before it differs."""
_SMALL: Final = 0.35
_MARGIN: Final = 0.18
_FILLS: Final = {"less time": FASTER, "more time": SLOWER}
_PERCENT: Final = 100
_FORMATS: Final[Mapping[str, Callable[[float, int], str]]] = {
    SECONDS: format_duration_s,
    PER_SECOND: lambda value, digits: f"{format_significant(value, digits)}/s",
    SHARE: lambda value, digits: f"{format_significant(_PERCENT * value, digits)} %",
    BYTES: format_bytes,
}


def comparison_report(
    subjects: Sequence[Subject], differences: Sequence[Difference], *, unchanged: bool = False, precision: int = DIGITS
) -> Report:
    """A comparison as a report, with what is the same as well if that is asked for, in so many significant digits."""
    sides = list(zip(ascii_uppercase, subjects, strict=False))
    lettered = list(zip(ascii_uppercase[1:], differences, strict=False))
    return Report(
        title=f"{' and '.join(each.label for each in subjects[1:])} against {subjects[0].label}",
        about=[f"{letter}: {each.about}" for letter, each in sides],
        version=__version__,
        inputs=list(dict.fromkeys(each for subject in subjects for each in subject.files)),
        verdict=[_verdict(letter, each) for letter, each in lettered],
        warnings=[f"({letter}) {text}" for letter, each in sides for text in each.warnings],
        notes=list(dict.fromkeys(note for each in differences for note in each.notes)),
        tiles=[tile for letter, each in lettered for tile in _tiles(each, letter, max(1, _TILES // len(lettered)))],
        sections=[
            Section(
                f"{letter} against A: {each.a.activity}",
                list(parts_of(each, letter, unchanged=unchanged, precision=precision)),
                short=True,
                plotted=True,
            )
            for letter, each in lettered
        ],
    )


def parts_of(found: Difference, letter: str, *, unchanged: bool = False, precision: int = DIGITS) -> Iterator[Part]:
    """Metrics that changed, waterfalls, and inputs that differ."""
    same = [row for row in found.rows if row.verdict == SAME]
    rows = found.rows if unchanged else [row for row in found.rows if row.verdict != SAME]
    hidden = " (`--all` shows the others)" if same and not unchanged else ""
    told = f"{len(found.rows) - len(same)} of {counted(len(found.rows), 'metric')} changed{hidden}"
    yield _metric_table(found, rows, letter, precision, told) if rows else "No metric changed."
    if hidden:
        yield Folded(f"{counted(len(same), 'metric')} the same", [_metric_table(found, same, letter, precision)])
    yield from (waterfall_chart(each, letter, unchanged=unchanged, precision=precision) for each in found.waterfalls)
    few = found.inputs if unchanged else found.inputs[:_MOST_INPUTS]
    left_out = len(found.inputs) - len(few)
    if few:
        yield _input_table(few, letter, [f"and {left_out} more, which `--all` shows"] * bool(left_out))
    if left_out:
        yield Folded("All that differs in the inputs", [_input_table(found.inputs, letter)])


def _verdict(letter: str, found: Difference) -> str:
    """What came of it, in a sentence."""
    row, span = found.headline, _span(found.headline)
    if all(each.verdict == SAME for each in found.rows):
        return f"{letter} is the same as A"
    change = "the same" if row.verdict == SAME else _change(row.change, DIGITS) or "not in both"
    change += f" (80 %: {span} %)" if span else ""
    change += ", which may be no change" if row.within_ranges else ""
    worse = counted(len(found.worse), "metric") if found.worse else "no metric"
    return f"{letter} against A: {row.metric.figure.words} {change}; {worse} worse"


def _tiles(found: Difference, letter: str, most: int) -> Iterator[Tile]:
    """The metrics that changed, as many as have room."""
    for row in [row for row in found.rows if row.verdict != SAME][:most]:
        first, second = (_value(row.metric, value, DIGITS) for value in (row.a, row.b))
        change = _change_of_row(row, DIGITS) or second
        yield Tile(in_title(row.metric.figure.label), change, (f"{first} to {second}", f"{letter} is {_is(row)}"))


def _metric_table(found: Difference, rows: Sequence[Row], letter: str, precision: int, note: str = "") -> Table:
    """Metrics: both values, the change with its range if any has one, whether it is better, and why."""
    ranged = any(row.change_range for row in rows)
    heads = columns("metric", ">A", f">{letter}", ">change", *[">80 %"] * ranged, f"{letter} is", "why")
    body: list[Cells] = [
        (
            row.metric.figure.label,
            *(Cell(_value(row.metric, value, precision), value) for value in (row.a, row.b)),
            Cell(_change_of_row(row, precision), row.change),
            *[_span(row)] * ranged,
            _is(row),
            why(row),
        )
        for row in rows
    ]
    return Table(heads, body, f"{letter} against A: {found.a.activity}", [note] * bool(note))


def waterfall_chart(found: Waterfall, letter: str, *, unchanged: bool = False, precision: int = DIGITS) -> Chart:
    """The time that each kind adds or takes on the way from A to another; it adds up exactly."""
    a_ps, b_ps = found.a_ps, found.b_ps
    scale_ps, unit = _scale_ps(max(a_ps, b_ps))
    change = f" ({_change(b_ps / a_ps - 1, precision)})" if a_ps and a_ps != b_ps else ""
    times = " to ".join(_duration(each, precision) for each in (a_ps, b_ps))
    title = f"{in_title(found.span)} from A to {letter}: {times}{change}"
    steps = [("A", 0, a_ps), *_walked(found), (letter, 0, b_ps)]
    low_ps, high_ps = ends_of_axis([end for _, *ends in steps for end in ends])
    bars = []
    for place, (name, start_ps, end_ps) in enumerate(steps):
        is_whole, more = place in (0, len(steps) - 1), end_ps > start_ps
        fill = TOTAL if is_whole else _FILLS["more time" if more else "less time"]
        text = f"{'' if is_whole else '+' if more else '-'}{_duration(abs(end_ps - start_ps), precision)}"
        start, end = max(low_ps, start_ps) / scale_ps, end_ps / scale_ps
        bars.append(Bar(name, start, end, fill, text, tip={"what": name, "time": text}))
    return Chart(
        title=title,
        description=f"Waterfall of the {found.span} from A to {letter}, {times}, by kind of time.",
        drawn=Bars(bars, Axis(found.span, unit, (low_ps / scale_ps, high_ps / scale_ps))),
        legend=_FILLS,
        numbers=_waterfall_table(found, letter, precision, unchanged=unchanged),
        notes=["The axis does not begin at 0."] if low_ps > 0 else [],
    )


def _scale_ps(longest_ps: int) -> tuple[float, str]:
    scale_s, unit = unit_for_s(ps_to_seconds(longest_ps))
    return scale_s / ps_to_seconds(1), unit


def _walked(found: Waterfall) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of what changed. [ps]"""
    at_ps = found.a_ps
    for step in found.steps:
        if step.change_ps:
            yield kind_of(step.kind).label, at_ps, at_ps + step.change_ps
            at_ps += step.change_ps


def ends_of_axis(edges_ps: Sequence[int]) -> tuple[int, int]:
    """Ends of an axis on which bars are seen that are short beside the whole; it begins at 0 unless they are.

    >>> ends_of_axis([0, 100, 100, 60, 0, 60]), ends_of_axis([0, 1000, 1000, 1020, 0, 1020])
    ((0, 100), (996, 1024))
    """
    reached = [each for each in edges_ps if each]
    low, high = min(reached, default=0), max(reached, default=1)
    room = round((high - low) * _MARGIN)
    return (0, high) if high - low > _SMALL * high or high == low else (max(0, low - room), high + room)


def _waterfall_table(found: Waterfall, letter: str, precision: int, *, unchanged: bool) -> Table:
    """Kinds of time, those that moved most first, and all of them together."""
    shown = [step for step in found.steps if step.change_ps or unchanged]
    lines = [(kind_of(each.kind).label, each) for each in sorted(shown, key=lambda step: -abs(step.change_ps))]
    if len(shown) < len(found.steps):
        rest_ps = found.a_ps - sum(step.a_ps for step in shown)
        lines.append(("others, the same", Step("", rest_ps, rest_ps)))
    rows: list[Cells] = []
    for label, step in (*lines, ("total", Step("", found.a_ps, found.b_ps))):
        times = (Cell(_duration(each, precision), ps_to_seconds(each)) for each in (step.a_ps, step.b_ps))
        sign, change_ps = "-" if step.change_ps < 0 else "+", step.change_ps
        change = f"{sign}{_duration(abs(change_ps), precision)}" if change_ps else ""
        rows.append((label, *times, change, Cell(f"{change_ps:+,}" if change_ps else "0", change_ps)))
    return Table(columns("kind", ">A", f">{letter}", ">change", ">change [ps]"), rows)


def _input_table(inputs: Sequence[Differing], letter: str, notes: Sequence[str] = ()) -> Table:
    """Inputs that differ; of long keys the end, which tells most, of long values the part in which they differ."""
    rows = [
        (each.key if len(each.key) <= _LONGEST else f"…{each.key[1 - _LONGEST :]}", *_texts(each)) for each in inputs
    ]
    return Table((Column("key", whole=True), *columns("A", letter)), rows, "What differs in the inputs", notes)


def _texts(differing: Differing) -> list[str]:
    values = (differing.before, differing.after)
    texts = ["not given" if value is None else " ".join(value.split()) for value in values]
    if max(map(len, texts)) <= _LONGEST:
        return texts
    first = next((at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    start = max(0, first - _BEFORE)
    parts = [f"…{text[start:]}" if start else text for text in texts]
    return [part if len(part) <= _LONGEST else f"{part[: _LONGEST - 1]}…" for part in parts]


# In words


def _value(metric: ComparedMetric, value: float | None, precision: int) -> str:
    return "not given" if value is None else _FORMATS[metric.figure.unit](value, precision)


def _duration(time_ps: int, precision: int) -> str:
    return format_duration_s(ps_to_seconds(time_ps), precision)


def _change(ratio: float | None, precision: int) -> str:
    """A relative change with its sign, one digit less than values have.

    >>> _change(-0.24914, 4), _change(0.0000123, 4), _change(None, 4)
    ('-24.9 %', '+0.00123 %', '')
    """
    if ratio is None:
        return ""
    digits = max(_FEWEST_DIGITS, precision - 1)
    return f"{'-' if ratio < 0 else '+'}{format_significant(_PERCENT * abs(ratio), digits)} %"


def _change_of_row(row: Row, precision: int) -> str:
    """The change of a metric; from nothing, there is no share of it."""
    if row.verdict == SAME:
        return ""
    return "from 0" if row.a == 0 else _change(row.change, precision)


def _span(row: Row) -> str:
    """The range of a change in per cent; empty without one."""
    ends = [_change(end, _FEWEST_DIGITS).removesuffix(" %") for end in row.change_range or ()]
    return format_span(*ends) if ends else ""


def _is(row: Row) -> str:
    """`better`, `worse`, `same`, `~` within the ranges, or nothing."""
    if row.within_ranges and row.verdict != SAME:
        return "~"
    return row.verdict if row.a is not None and row.b is not None else ""


def why(row: Row) -> str:
    """The part of a metric that moved most; empty where nothing is known of it."""
    cause, figure = row.cause, row.metric.figure
    if cause is None:
        return ""
    label = kind_of(cause.kind).label
    name = f"{label} of {cause.span}" if figure.key == LATENCY and cause.span in (PREFILL, DECODE) else label
    if figure.unit == SHARE:
        before, after = (
            format_significant(_PERCENT * each, _DIGITS_OF_WHY) for each in (cause.share_before, cause.share_after)
        )
        return f"{name}, {before} to {after} %"
    change = cause.after - cause.before
    moved = _FORMATS[BYTES if figure.unit == BYTES else SECONDS](abs(change), _DIGITS_OF_WHY)
    return f"{name} {'-' if change < 0 else '+'}{moved}{f' per {row.metric.per}' if row.metric.per else ''}"
