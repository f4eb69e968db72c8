"""The timeline of a result: the operations of each IPU, as many as can be told apart.

Shown are the beginning with the first of the repeated cycles, and the end from the last of them on. The cycles between
are alike and stand folded in one mark. Where operations are too many, neighbours that are short are drawn as one mark
that says how many it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from podsim.deferred import Deferred
from podsim.engine.trace import Trace
from podsim.format import format_duration_s, format_percent, natural_key
from podsim.program.passes_in_order import Passes
from podsim.report.chart import FOLDED, Axis, Chart, TimelineBar, TimelineChart, TimelineStretch
from podsim.report.report import Section
from podsim.report.table import Table, columns
from podsim.result.kinds import fill_of_kind, in_kind_order, kind_of, legend_of_kinds
from podsim.result.rows import of_first_group
from podsim.result.slices import PASS, REPEATED, Slice, slices_of
from podsim.result.where import MOST_IPUS, left_out
from podsim.result.windows import Window, parts_of, windows_of
from podsim.units import ps_to_seconds

MOST_MARKS: Final = 1400
"""Of a stretch, so that a page stays small and quick."""
MOST_OF_CYCLES: Final = 4000
"""Of two repeated cycles, in which operations are to be told apart."""
_MS: Final = 1e-3
_DIGITS: Final = 9
_LISTED: Final = 300
_FINEST: Final = 4000
_STEP: Final = 1.1


class OperationMark(NamedTuple):
    """An operation, or several that are drawn as one; there are many thousands, and a tuple is made fastest."""

    lane: str
    name: str
    kind: str
    start_ps: int
    end_ps: int
    operations: int = 1
    mixture: str = ""

    @property
    def length_ps(self) -> int:
        """Its length. [ps]"""
        return self.end_ps - self.start_ps


def marks_of(slices: Iterable[Slice], window: Window, most: int) -> list[OperationMark]:
    """The marks of a stretch; neighbours that are short become one until there are no more than so many."""
    by_lane: dict[str, list[OperationMark]] = {}
    for one in slices:
        by_lane.setdefault(one.lane, []).extend(_pieces_in(one, window))
    lanes = [sorted(lane, key=lambda each: each.start_ps) for lane in by_lane.values()]
    length_ps = window.end_ps - window.start_ps
    shortest_ps = max(1, length_ps // _FINEST)
    while shortest_ps < length_ps and (count := sum(1 for lane in lanes for _ in _runs(lane, shortest_ps))) > most:
        shortest_ps = int(shortest_ps * max(_STEP, count / most)) + 1
    return [mark for lane in lanes for mark in merged(lane, shortest_ps)]


def _pieces_in(one: Slice, window: Window) -> Iterator[OperationMark]:
    """The pieces of all repetitions of a slice that show in a window, cut to it."""
    period_ps = one.repeat_period_ps
    numbers = range(1)
    if one.repeat_count > 1 and period_ps:
        first, last = (window.start_ps - one.end_ps) // period_ps, (window.end_ps - one.start_ps) // period_ps
        numbers = range(max(0, first), min(one.repeat_count, last + 1))
    shifts_ps = [number * period_ps for number in numbers]
    shown = [each for each in shifts_ps if one.start_ps + each < window.end_ps and one.end_ps + each > window.start_ps]
    for piece in pieces_of(one) if shown else ():
        for shift_ps in shown:
            start_ps, end_ps = (
                max(piece.start_ps + shift_ps, window.start_ps),
                min(piece.end_ps + shift_ps, window.end_ps),
            )
            if start_ps < end_ps:
                yield OperationMark(piece.lane, piece.name, piece.kind, start_ps, end_ps)


def pieces_of(one: Slice) -> Iterator[OperationMark]:
    """The stretches of one kind of time that a slice is made of, with the names of their operations.

    Operations of a pass that are repeated stand as often as they run.
    """
    if one.category != PASS:
        for leaf in one.leaves:
            yield OperationMark(one.lane, one.name, leaf.category, leaf.start_ps, leaf.end_ps)
        return
    before: list[Slice] = []
    for part in one.inside:
        count = int(str(part.arguments.get("repetitions", 1)))
        alike = [each for each in before if each.arguments.get("runs in this pass") == count + 1]
        if part.category == REPEATED and alike:
            yield from _repeated(part, count, [piece for each in alike for piece in pieces_of(each)])
            before = []
        else:
            before.append(part)
            yield from pieces_of(part)


def _repeated(part: Slice, count: int, once: Sequence[OperationMark]) -> Iterator[OperationMark]:
    """The pieces of so many repetitions in the time that they take together, as those of one before them lie."""
    first_ps, length_ps = once[0].start_ps, once[-1].end_ps - once[0].start_ps
    edges = [part.start_ps + (part.end_ps - part.start_ps) * number // count for number in range(count + 1)]
    for start_ps, end_ps in pairwise(edges):
        for lane, name, kind, from_ps, until_ps, _, _ in once:
            moved = [start_ps + (each - first_ps) * (end_ps - start_ps) // length_ps for each in (from_ps, until_ps)]
            yield OperationMark(lane, name, kind, moved[0], moved[1])


def merged(pieces: Iterable[OperationMark], shortest_ps: int) -> Iterator[OperationMark]:
    """Pieces of a lane in order, in which those that are too short are joined until they are long enough.

    What is joined is drawn as one of its kinds. Which one is chosen so that over a few marks the kinds are drawn for as
    long as they take.
    """
    owed_ps: dict[str, int] = {}
    for run in _runs(pieces, shortest_ps):
        yield run[0] if len(run) == 1 else _joined(run, owed_ps)


def _runs(pieces: Iterable[OperationMark], shortest_ps: int) -> Iterator[list[OperationMark]]:
    """Pieces that are long enough alone, the others in runs without gaps."""
    run: list[OperationMark] = []
    for piece in pieces:
        is_long = piece.end_ps - piece.start_ps >= shortest_ps
        if run and (is_long or run[-1].end_ps != piece.start_ps or run[-1].end_ps - run[0].start_ps >= shortest_ps):
            yield run
            run = []
        if is_long:
            yield [piece]
        else:
            run.append(piece)
    if run:
        yield run


def _joined(run: Sequence[OperationMark], owed_ps: dict[str, int]) -> OperationMark:
    """One mark for a few; each kind is owed its time, and the one that is drawn gets all of it."""
    times_ps: dict[str, int] = {}
    for each in run:
        times_ps[each.kind] = times_ps.get(each.kind, 0) + each.length_ps
    for kind, time_ps in times_ps.items():
        owed_ps[kind] = owed_ps.get(kind, 0) + time_ps
    whole_ps = sum(times_ps.values())
    drawn = max(in_kind_order(times_ps), key=lambda kind: owed_ps[kind])
    owed_ps[drawn] -= whole_ps
    names = [name for name, _ in groupby(run, key=lambda each: each.name)]
    name = names[0] if len(names) == 1 else f"{len(names)} short operations, {names[0]} to {names[-1]}"
    largest = sorted(times_ps.items(), key=lambda item: -item[1])
    mixture = ", ".join(f"{kind_of(kind).label} {format_percent(time / whole_ps, 0)}" for kind, time in largest)
    return OperationMark(run[0].lane, name, drawn, run[0].start_ps, run[-1].end_ps, len(names), mixture)


def timeline_section(trace: Trace | None, passes: Passes | None, what: str, *, plotted: bool = True) -> Section:
    """The timeline of what was recorded, made when it is looked at."""

    def make() -> list[Chart]:
        chart = timeline_chart(trace, passes, what)
        return [] if chart is None else [chart]

    return Section("Timeline", Deferred(make), plotted=plotted)


def timeline_chart(trace: Trace | None, passes: Passes | None, what: str) -> Chart | None:
    """The timeline of a recorded stretch of time; None if nothing was recorded."""
    if trace is None or not trace.records or not trace.phases or not trace.makespan_ps:
        return None
    phases = of_first_group(trace.phases)
    windows = windows_of(phases, trace.makespan_ps, what)
    cycles = _cycles(windows)
    shown = shown_stretches(windows, trace.makespan_ps)
    all_lanes = sorted({each.lane for each in trace.records} & trace.lanes.keys(), key=natural_key)
    lanes = all_lanes[:MOST_IPUS]
    slices = list(slices_of((each for each in trace.records if each.lane in lanes), passes or {}))
    marks = [
        mark
        for stretch in shown
        for mark in marks_of(slices, stretch, MOST_OF_CYCLES if stretch is cycles else MOST_MARKS)
    ]
    folded = list(_folded(shown, lanes, windows))
    parts = [TimelineStretch(part.name, _ms(part.start_ps), _ms(part.end_ps)) for part in parts_of(phases)]
    told = ", ".join(
        f"{part.name} {format_duration_s(ps_to_seconds(part.end_ps - part.start_ps))}" for part in parts_of(phases)
    )
    stretches = [TimelineStretch("All of it", 0.0, _ms(trace.makespan_ps))]
    if len(windows) > 1:
        stretches += [TimelineStretch(each.title, _ms(each.start_ps), _ms(each.end_ps)) for each in windows]
    names = {lane: _lane_name(lane) for lane in lanes}
    pieces = [_piece(mark, names[mark.lane]) for mark in (*marks, *folded)]
    return Chart(
        title=f"One {what}, operation by operation",
        description=f"Timeline of one {what}: a row for each IPU, a bar for each operation. Parts in order: {told}.",
        drawn=TimelineChart(what, list(names.values()), pieces, Axis("time", "ms"), parts, stretches),
        legend=legend_of_kinds({each.kind for each in marks}),
        numbers=_numbers(marks),
        notes=[f"Parts in order: {told}.", *_notes(marks, folded), *left_out(len(all_lanes))],
    )


def shown_stretches(windows: Sequence[Window], makespan_ps: int) -> list[Window]:
    """Stretches shown operation by operation: all of it, or all but cycles behind the first few and before the last.

    >>> cycles = Window("2 of 9 cycles", 20, 40)
    >>> [(each.start_ps, each.end_ps) for each in shown_stretches([cycles, Window("End", 90, 120)], 120)]
    [(0, 20), (20, 40), (90, 120)]
    """
    cycles = _cycles(windows)
    if cycles is None:
        return [Window("all", 0, makespan_ps)]
    end_ps = max(windows[-1].start_ps, cycles.end_ps)
    shown = [Window("start", 0, cycles.start_ps), cycles, Window("end", end_ps, makespan_ps)]
    return [each for each in shown if each.start_ps < each.end_ps]


def _cycles(windows: Sequence[Window]) -> Window | None:
    """The window of repeated cycles, if there is one: its title begins with how many."""
    return next((each for each in windows if each.title[0].isdigit()), None)


def _folded(shown: Sequence[Window], lanes: Sequence[str], windows: Sequence[Window]) -> Iterator[OperationMark]:
    """The cycles in the middle, as one mark per lane."""
    cycles = _cycles(windows)
    if cycles is None or shown[-1].start_ps <= cycles.end_ps:
        return
    start_ps, end_ps = cycles.end_ps, shown[-1].start_ps
    count = round((end_ps - start_ps) / ((cycles.end_ps - cycles.start_ps) / 2))
    for lane in lanes:
        yield OperationMark(lane, f"{count:,} more cycles like those before", "", start_ps, end_ps, count)


def _notes(marks: Sequence[OperationMark], folded: Sequence[OperationMark]) -> list[str]:
    joined = sum(mark.operations > 1 for mark in marks)
    notes = [f"Folded in the middle: {folded[0].name}."] if folded else []
    if joined:
        notes.append(
            f"{joined:,} of {len(marks):,} bars stand for several operations that are too short to draw apart; "
            "over a few of them, colours add up as their kinds of time do."
        )
    return notes


def _ms(time_ps: int) -> float:
    return round(ps_to_seconds(time_ps) / _MS, _DIGITS)


def _lane_name(lane: str) -> str:
    """The name of a lane: that of an IPU by its number."""
    return f"IPU {lane.removeprefix('ipu')}" if lane.removeprefix("ipu").isdecimal() else lane


def _piece(mark: OperationMark, row: str) -> TimelineBar:
    return TimelineBar(
        row,
        _ms(mark.start_ps),
        _ms(mark.end_ps),
        fill_of_kind(mark.kind) if mark.kind else FOLDED,
        mark.name,
        mark.mixture or (kind_of(mark.kind).label if mark.kind else "repeated"),
        format_duration_s(ps_to_seconds(mark.length_ps), 4),
    )


def _numbers(marks: Sequence[OperationMark]) -> Table:
    longest = sorted(marks, key=lambda mark: (-mark.length_ps, mark.start_ps, mark.lane))[:_LISTED]
    rows = [
        (
            _lane_name(mark.lane),
            mark.name,
            mark.mixture or kind_of(mark.kind).label,
            f"{_ms(mark.start_ps):.6f}",
            f"{_ms(mark.length_ps):.6f}",
        )
        for mark in longest
    ]
    more = [f"The longest {_LISTED} of {len(marks):,} bars."] if len(marks) > _LISTED else []
    return Table(columns("IPU", "operation", "kind", ">from [ms]", ">time [ms]"), rows, notes=more)
