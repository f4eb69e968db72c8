"""Numbers and reasons of a comparison in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podsim.format import format_bytes, format_duration_s, format_significant
from podsim.many.compare.difference import SAME, Cause, Row
from podsim.many.compare.metrics import DECODE, PREFILL, Compared
from podsim.metrics import BYTES, LATENCY, PER_SECOND, SECONDS, SHARE
from podsim.result.kinds import kind_of
from podsim.units import ps_to_seconds

_PERCENT: Final = 100
_FEWEST_DIGITS: Final = 2
_FORMATS: Final[Mapping[str, Callable[[float, int], str]]] = {
    SECONDS: format_duration_s,
    PER_SECOND: lambda value, digits: f"{format_significant(value, digits)}/s",
    SHARE: lambda value, digits: f"{format_significant(_PERCENT * value, digits)} %",
    BYTES: format_bytes,
}
_LONGEST_WHY_DIGITS: Final = 3


def value_of(metric: Compared, value: float | None, precision: int) -> str:
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


def _name(cause: Cause, metric: Compared) -> str:
    label = kind_of(cause.kind).label
    return f"{label} of {cause.span}" if metric.figure.key == LATENCY and cause.span in (PREFILL, DECODE) else label
