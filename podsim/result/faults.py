"""Cost of faults: additional time of a weight update, and the IPUs that wait for others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from podsim.engine.trace import Trace
from podsim.engine.variation import SLOWED
from podsim.format import format_count, format_duration_s, format_percent
from podsim.report.table import Cell, Table, columns
from podsim.result.kinds import in_kind_order, kind_of
from podsim.units import ps_to_seconds

_DIGITS: Final = 4
_MOST_GROUPS: Final = 8
_MOST_KINDS: Final = 3
_LEAST_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class StretchReport:
    """A stretch of a run in which the same faults hold, in time spent on weight updates. [s]"""

    from_s: float
    until_s: float | None
    faults: tuple[str, ...]
    weight_update_s: float
    weight_updates: float | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """IPUs of the pod whose time by kind changes alike, from that without faults. [s]"""

    ipus: tuple[int, ...]
    more_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FaultReport:
    """Cost of faults; one of the stretches is described by all other numbers of the result."""

    weight_update_without_s: float
    stretches: tuple[StretchReport, ...]
    shown: int
    waiting: tuple[Waiting, ...]


def waiting(healthy: Trace, slow: Trace) -> tuple[Waiting, ...]:
    """Return groups of IPUs by change of their time, the slowest first, then small groups."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for lane, account in slow.lanes.items():
        more = tuple(_more(healthy.lanes[lane], account))
        alike.setdefault(more, []).append(int(lane.removeprefix("ipu")))
    # A small group of IPUs with the same change is close to the fault.
    ordered = sorted(alike.items(), key=lambda each: (-dict(each[0]).get(SLOWED, 0), len(each[1]), each[1][0]))
    return tuple(Waiting(tuple(ipus), {kind: ps_to_seconds(ps) for kind, ps in more}) for more, ipus in ordered)


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Yield the change of time by kind. [ps]"""
    for kind in in_kind_order({**before, **after}):
        if change := after.get(kind, 0) - before.get(kind, 0):
            yield kind, change


def fault_tables(report: FaultReport, ipu_count: int) -> Iterator[Table]:
    """Yield the stretches of the run, and the waiting times of the shown stretch."""
    rows = []
    for number, stretch in enumerate(report.stretches):
        mark = " (shown here)" if number == report.shown and len(report.stretches) > 1 else ""
        ends = (
            "end" if end_s is None else Cell(format_duration_s(end_s), end_s)
            for end_s in (stretch.from_s, stretch.until_s)
        )
        update = Cell(format_duration_s(stretch.weight_update_s, _DIGITS), stretch.weight_update_s)
        count = (
            "" if stretch.weight_updates is None else Cell(format_count(stretch.weight_updates), stretch.weight_updates)
        )
        rows.append((*ends, update, count, ("; ".join(stretch.faults) or "none") + mark))
    yield Table(columns(">from", ">until", ">weight update", ">updates", "faults"), rows, "Faults")
    groups: dict[str, list[int]] = {}
    for alike in report.waiting:
        groups.setdefault(", ".join(_changes(alike.more_s)) or "as without", []).extend(alike.ipus)
    waiting = [
        ("all others" if len(ipus) > ipu_count // 2 and len(groups) > 1 else ranges(ipus), text)
        for text, ipus in list(groups.items())[:_MOST_GROUPS]
    ]
    longer = report.stretches[report.shown].weight_update_s / report.weight_update_without_s - 1
    without = f"Without faults a weight update takes {format_duration_s(report.weight_update_without_s, _DIGITS)}"
    notes = [f"and {left} more groups"] if (left := len(groups) - _MOST_GROUPS) > 0 else []
    notes.append(f"{without}; with those shown here it is {format_percent(longer)} longer.")
    heads = columns("IPUs", "more or less time in a weight update than without faults")
    yield Table(heads, waiting, "Who waits for whom", notes)


def _changes(more_s: Mapping[str, float]) -> Iterator[str]:
    """Yield the largest changes, with their signs."""
    largest = max((abs(change) for change in more_s.values()), default=0.0)
    for kind, change in sorted(more_s.items(), key=lambda each: -abs(each[1]))[:_MOST_KINDS]:
        if abs(change) >= _LEAST_SHARE * largest:
            yield f"{kind_of(kind).label} {'+' if change > 0 else '-'}{format_duration_s(abs(change), 2)}"


def ranges(numbers: Sequence[int]) -> str:
    """Return numbers as text, with consecutive numbers as ranges.

    >>> ranges([0, 1, 2, 5])
    '0-2, 5'
    """
    rows = (list(row) for _, row in groupby(enumerate(sorted(numbers)), key=lambda each: each[1] - each[0]))
    return ", ".join("-".join(map(str, sorted({row[0][1], row[-1][1]}))) for row in rows)
