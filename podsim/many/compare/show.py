"""Comparisons as text for a terminal of 100 columns and in Markdown; their numbers and reasons in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from textwrap import fill
from typing import Final

from podsim import harmless
from podsim.format import format_bytes, format_duration_s, format_significant
from podsim.many.compare.comparison import Comparison
from podsim.many.compare.difference import SAME, Cause, Difference, Differing, Row, Step, Waterfall
from podsim.many.compare.metrics import DECODE, PREFILL, ComparedMetric
from podsim.metrics import BYTES, LATENCY, PER_SECOND, SECONDS, SHARE
from podsim.report.table import Block, Cell, Cells, Column, Passage, Table, columns
from podsim.result.kinds import kind_of
from podsim.show.html_page import to_html
from podsim.show.markdown import to_markdown
from podsim.show.text import WIDTH, to_text
from podsim.units import ps_to_seconds

_BAR: Final = 16
_MOST_INPUTS: Final = 20
_LONGEST_VALUE = _LONGEST_KEY = 60
_BEFORE: Final = 12
"""Characters of a long value that are shown before it differs."""
_PERCENT: Final = 100
_FEWEST_DIGITS: Final = 2
_FORMATS: Final[Mapping[str, Callable[[float, int], str]]] = {
    SECONDS: format_duration_s,
    PER_SECOND: lambda value, digits: f"{format_significant(value, digits)}/s",
    SHARE: lambda value, digits: f"{format_significant(_PERCENT * value, digits)} %",
    BYTES: format_bytes,
}
_LONGEST_WHY_DIGITS: Final = 3


def as_text(found: Comparison, *, unchanged: bool, precision: int) -> str:
    """A comparison for a terminal.

    Args:
        found: The comparison.
        unchanged: Show what is the same as well.
        precision: Significant digits.
    """
    tables = (to_text(block) for block in _blocks(found, unchanged, precision, bars=True))
    return _joined(found, tables, _filled)


def as_markdown(found: Comparison, *, unchanged: bool, precision: int) -> str:
    """A comparison in Markdown; arguments as of `as_text`."""
    tables = (to_markdown(block, level=3) for block in _blocks(found, unchanged, precision, bars=False))
    return _joined(found, tables, lambda text: f"- {harmless.markdown(text)}\n")


def as_html(found: Comparison) -> str:
    """A comparison in HTML, for notebooks."""
    tables = (to_html(block) for block in _blocks(found, unchanged=False, precision=4, bars=False))
    return _joined(found, tables, lambda text: f"<p>{harmless.html(text)}</p>\n")


def _joined(found: Comparison, tables: Iterator[str], item: Callable[[str], str]) -> str:
    """Subjects, tables, then warnings and notes."""
    sides = list(zip(ascii_uppercase, found.subjects, strict=False))
    told = [f"warning ({letter}): {text}" for letter, subject in sides for text in subject.warnings]
    told += [f"note: {note}" for each in found.subjects for note in each.notes]
    told += [f"note: {note}" for note in dict.fromkeys(note for each in found.differences for note in each.notes)]
    subjects = [item(f"{letter}: {subject.about}") for letter, subject in sides]
    return "".join((*subjects, *(f"\n{table}" for table in tables), "\n" if told else "", *map(item, told)))


def _filled(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False) + "\n"


def _blocks(found: Comparison, unchanged: bool, precision: int, *, bars: bool) -> Iterator[Block]:
    for letter, each in found.lettered():
        changed = [row for row in each.rows if row.verdict != SAME]
        rows = each.rows if unchanged else changed
        title, count = f"{letter} against A: {each.a.activity}", _count(len(changed), len(each.rows), unchanged)
        yield metric_table(rows, letter, precision, title, [count]) if rows else Passage(count, title)
        for waterfall in each.waterfalls:
            if unchanged or any(step.change_ps for step in waterfall.steps):
                yield waterfall_table(waterfall, letter, precision, unchanged=unchanged, bars=bars)
        if each.inputs:
            yield input_table(each, letter, everything=unchanged)


def _count(changed: int, count: int, unchanged: bool) -> str:
    if not changed:
        return "no metric changed"
    same = count - changed
    hidden = ", which `--all` shows" if same and not unchanged else ""
    unmoved = f"; {same} {'is' if same == 1 else 'are'} the same{hidden}" if same else ""
    return f"{changed} of {count} metrics changed{unmoved}"


def metric_table(rows: Sequence[Row], letter: str, precision: int, title: str = "", notes: Sequence[str] = ()) -> Table:
    """Metrics: both values, the change, whether it is better, and why.

    Args:
        rows: The metrics that are shown.
        letter: Of the other side.
        precision: Significant digits.
        title: What they are of.
        notes: Lines below them.
    """
    heads = columns("metric", ">A", f">{letter}", ">change", f"{letter} is", "why")
    body: list[Cells] = [
        (
            row.metric.figure.label,
            *(Cell(value_of(row.metric, value, precision), value) for value in (row.a, row.b)),
            Cell(change_of_row(row, precision), row.change),
            verdict_of(row),
            why(row),
        )
        for row in rows
    ]
    return Table(heads, body, title, notes)


def waterfall_table(
    waterfall: Waterfall, letter: str, precision: int, *, unchanged: bool = True, bars: bool = False
) -> Table:
    """Kinds of time, those that moved most first, and all of them together.

    Args:
        waterfall: What is shown.
        letter: Of the other side.
        precision: Significant digits.
        unchanged: Show kinds apart that are the same.
        bars: Whether a last column has bars, if anything moved.
    """
    steps = sorted(waterfall.steps, key=lambda step: -abs(step.change_ps))
    largest_ps = abs(steps[0].change_ps) if bars and steps else 0
    shown = [step for step in steps if step.change_ps or unchanged]
    lines = [(kind_of(step.kind).label, step) for step in shown]
    if rest := [step for step in steps if step not in shown]:
        rest_ps = sum(step.a_ps for step in rest)
        lines.append(("others, the same", Step("", rest_ps, rest_ps)))
    lines.append(("total", Step("", waterfall.a_ps, waterfall.b_ps)))
    rows: list[Cells] = []
    for label, step in lines:
        change_ps, sign = step.change_ps, "-" if step.change_ps < 0 else "+"
        change = f"{sign}{duration_of_ps(abs(change_ps), precision)}" if change_ps else ""
        is_part = largest_ps and change_ps and label != "total"
        drawn = sign * max(1, round(_BAR * abs(change_ps) / largest_ps)) if is_part else ""
        times = (Cell(duration_of_ps(each, precision), ps_to_seconds(each)) for each in (step.a_ps, step.b_ps))
        exact = Cell(f"{change_ps:+,}" if change_ps else "0", change_ps)
        rows.append((label, *times, change, exact, *[drawn] * bool(largest_ps)))
    heads = columns("kind", ">A", f">{letter}", ">change", ">change [ps]", *[""] * bool(largest_ps))
    return Table(heads, rows, waterfall_title(waterfall, letter, precision))


def waterfall_title(waterfall: Waterfall, letter: str, precision: int) -> str:
    """The title of a waterfall, with the times it leads from and to."""
    a_ps, b_ps = waterfall.a_ps, waterfall.b_ps
    times = " to ".join(duration_of_ps(each, precision) for each in (a_ps, b_ps))
    if a_ps == b_ps:
        return f"{waterfall.span.capitalize()} in A and {letter}: {duration_of_ps(a_ps, precision)}"
    change = f" ({change_of(b_ps / a_ps - 1, precision)})" if a_ps else ""
    return f"{waterfall.span.capitalize()} from A to {letter}: {times}{change}"


def input_table(difference: Difference, letter: str, *, everything: bool) -> Table:
    """Inputs that differ, and how many are left out.

    Args:
        difference: All of them.
        letter: Of the other side.
        everything: Show them all.
    """
    shown = difference.inputs if everything else difference.inputs[:_MOST_INPUTS]
    rows = [(_end_of(each.key), *_texts(each)) for each in shown]
    left_out = len(difference.inputs) - len(shown)
    more = [f"and {left_out} more, which `--all` shows"] if left_out else []
    return Table((Column("key", whole=True), *columns("A", letter)), rows, "What differs in the inputs", more)


def _end_of(key: str) -> str:
    """A key, or the end of one that is too long; of paths that tells most."""
    return key if len(key) <= _LONGEST_KEY else f"…{key[1 - _LONGEST_KEY :]}"


def _texts(differing: Differing) -> list[str]:
    """Two values; of long ones, the part in which they differ."""
    values = (differing.before, differing.after)
    texts = ["not given" if value is None else " ".join(value.split()) for value in values]
    if max(map(len, texts)) <= _LONGEST_VALUE:
        return texts
    first = next((at for at, (one, other) in enumerate(zip(*texts, strict=False)) if one != other), 0)
    start = max(0, first - _BEFORE)
    parts = [f"…{text[start:]}" if start else text for text in texts]
    return [part if len(part) <= _LONGEST_VALUE else f"{part[: _LONGEST_VALUE - 1]}…" for part in parts]


# In words


def value_of(metric: ComparedMetric, value: float | None, precision: int) -> str:
    """A metric with its unit."""
    return "not given" if value is None else _FORMATS[metric.figure.unit](value, precision)


def change_of(ratio: float | None, precision: int) -> str:
    """A relative change with its sign, one digit less than values have.

    >>> change_of(-0.24914, 4), change_of(0.0000123, 4), change_of(None, 4)
    ('-24.9 %', '+0.00123 %', '')
    """
    if ratio is None:
        return ""
    digits = max(_FEWEST_DIGITS, precision - 1)
    return f"{'-' if ratio < 0 else '+'}{format_significant(_PERCENT * abs(ratio), digits)} %"


def change_of_row(row: Row, precision: int) -> str:
    """The change of a metric; from nothing, there is no share of it."""
    if row.verdict == SAME:
        return ""
    return "from 0" if row.a == 0 else change_of(row.change, precision)


def verdict_of(row: Row) -> str:
    """`better`, `worse`, `same`, `~` within the ranges, or nothing."""
    if row.verdict == SAME:
        return SAME
    if row.within_ranges:
        return "~"
    return row.verdict if row.a is not None and row.b is not None else ""


def why(row: Row) -> str:
    """The part of a metric that moved most."""
    cause = row.cause
    if cause is None:
        return ""
    name, unit = _name(cause, row.metric), row.metric.figure.unit
    if unit == SHARE:
        before, after = (
            format_significant(_PERCENT * each, _LONGEST_WHY_DIGITS) for each in (cause.share_before, cause.share_after)
        )
        return f"{name}, {before} to {after} % of the time"
    change = cause.after - cause.before
    shown = _FORMATS[BYTES if unit == BYTES else SECONDS](abs(change), _LONGEST_WHY_DIGITS)
    return f"{name} {'-' if change < 0 else '+'}{shown}{f' per {row.metric.per}' if row.metric.per else ''}"


def duration_of_ps(time_ps: int, precision: int) -> str:
    """A time as people read it."""
    return format_duration_s(ps_to_seconds(time_ps), precision)


def _name(cause: Cause, metric: ComparedMetric) -> str:
    label = kind_of(cause.kind).label
    return f"{label} of {cause.span}" if metric.figure.key == LATENCY and cause.span in (PREFILL, DECODE) else label
