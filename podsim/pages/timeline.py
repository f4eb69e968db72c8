"""The timeline of a page: the operations of each IPU, as many as can be told apart.

Shown are the beginning with the first of the repeated cycles, and the end from the last of them on. The cycles between
are alike and stand folded in one mark. Where operations are too many, neighbours that are short are drawn as one mark
that says how many it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.engine.trace import Trace
from podsim.pages.parts import Chart, Grid, Spec, Stretch
from podsim.pages.patterns import FOLDED, colour_of, fill_of, fill_of_kind, is_light, legend_of_kinds
from podsim.pages.time_charts import MOST_IPUS, left_out
from podsim.program.passes_in_order import Passes
from podsim.report.format import format_duration_s, natural_key
from podsim.report.kinds import in_kind_order, kind_of
from podsim.report.phases import of_first_group
from podsim.report.slices import OPERATION, PASS, REPEATED, Slice, slices_of
from podsim.report.windows import Window, parts_of, windows_of
from podsim.units import ps_to_seconds

MOST_MARKS: Final = 1600
"""Of each of the two stretches that are shown."""
_FINEST: Final = 4000
_ROW_PIXELS: Final = 30
_MS: Final = 1e-3
_DIGITS: Final = 9
_LISTED: Final = 300


@dataclass(frozen=True, slots=True)
class Mark:
    """What is drawn as one.

    Attributes:
        lane: The IPU.
        name: What went on.
        kind: Kind of time that most of it is.
        start_ps: Where it begins. [ps]
        end_ps: Where it ends. [ps]
        count: Operations that it stands for.
    """

    lane: str
    name: str
    kind: str
    start_ps: int
    end_ps: int
    count: int = 1


def timeline_chart(trace: Trace | None, passes: Passes | None, what: str) -> Chart | None:
    """The timeline of a recorded stretch of time; None if nothing was recorded.

    Args:
        trace: The recording.
        passes: Operations of its passes.
        what: What it is of, such as `weight update`.
    """
    if trace is None or not trace.records or not trace.phases or not trace.makespan_ps:
        return None
    phases = of_first_group(trace.phases)
    windows = windows_of(phases, trace.makespan_ps, what)
    shown = shown_stretches(windows, trace.makespan_ps)
    all_lanes = sorted({each.lane for each in trace.records} & trace.lanes.keys(), key=natural_key)
    lanes = all_lanes[:MOST_IPUS]
    slices = [each for each in slices_of(trace.records, passes or {}) if each.lane in lanes]
    marks = [mark for stretch in shown for mark in marks_of(slices, stretch)]
    folded = list(_folded(shown, lanes, windows))
    parts = ", ".join(
        f"{part.name} {format_duration_s(ps_to_seconds(part.end_ps - part.start_ps))}" for part in parts_of(phases)
    )
    return Chart(
        title=f"One {what}, operation by operation",
        description=f"Timeline of one {what}: a row for each IPU, a bar for each operation. Parts in order: {parts}.",
        spec=_spec(marks + folded, lanes, trace.makespan_ps),
        legend=legend_of_kinds({each.kind for each in marks}),
        numbers=_numbers(marks),
        notes=[f"Parts in order: {parts}.", *_notes(marks, folded), *left_out(len(all_lanes))],
        stretches=[Stretch("All of it", 0.0, _ms(trace.makespan_ps)), *_stretches(windows)],
    )


def shown_stretches(windows: Sequence[Window], makespan_ps: int) -> list[Window]:
    """What is shown operation by operation: all of it, or all but the cycles in the middle.

    >>> cycles = Window("2 of 9 cycles", 20, 40)
    >>> [(each.start_ps, each.end_ps) for each in shown_stretches([cycles, Window("End", 90, 120)], 120)]
    [(0, 40), (90, 120)]
    """
    if len(windows) == 1 and windows[0].end_ps == makespan_ps and not windows[0].start_ps:
        return [windows[0]]
    cycles = next(each for each in windows if each.title[0].isdigit())
    end_ps = max(windows[-1].start_ps, cycles.end_ps)
    last = [Window("end", end_ps, makespan_ps)] if end_ps < makespan_ps else []
    return [Window("start", 0, cycles.end_ps), *last]


def marks_of(slices: Sequence[Slice], window: Window, most: int = MOST_MARKS) -> list[Mark]:
    """What a stretch of a timeline is drawn with: at most so many marks, unless as many lie apart.

    Args:
        slices: Passes with their operations.
        window: The stretch.
        most: Marks that are not too many.
    """
    once = [each for one in slices for each in _repetitions(one, window)]
    shortest_ps = (window.end_ps - window.start_ps) // _FINEST
    while True:
        marks = [mark for lane in _by_lane(once) for mark in _merged(lane, shortest_ps)]
        if len(marks) <= most or shortest_ps >= window.end_ps - window.start_ps:
            return [cut for mark in marks if (cut := _cut(mark, window))]
        shortest_ps = max(1, 2 * shortest_ps)


def _repetitions(one: Slice, window: Window) -> Iterator[Slice]:
    """The repetitions of a slice that show in a window."""
    period_ps = one.repeat_period_ps
    if one.repeat_count <= 1 or not period_ps:
        numbers = range(1)
    else:
        first, last = (window.start_ps - one.end_ps) // period_ps, (window.end_ps - one.start_ps) // period_ps
        numbers = range(max(0, first), min(one.repeat_count, last + 1))
    for number in numbers:
        shift_ps = number * period_ps
        if one.start_ps + shift_ps < window.end_ps and one.end_ps + shift_ps > window.start_ps:
            yield one.once(shift_ps)


def _by_lane(slices: Iterable[Slice]) -> Iterator[list[Slice]]:
    lanes: dict[str, list[Slice]] = {}
    for each in slices:
        lanes.setdefault(each.lane, []).append(each)
    yield from (sorted(lane, key=lambda each: each.start_ps) for lane in lanes.values())


def _merged(slices: Sequence[Slice], shortest_ps: int) -> Iterator[Mark]:
    """Slices in order as marks; those in a row that are too short to be seen become one."""
    run: list[Slice] = []
    for each in slices:
        is_long = each.end_ps - each.start_ps >= max(1, shortest_ps)
        if run and (is_long or run[-1].end_ps != each.start_ps or run[-1].lane != each.lane):
            yield _mark(run)
            run = []
        if not is_long:
            run.append(each)
        elif each.category in (PASS, OPERATION) and each.inside:
            yield from _opened(each, shortest_ps)
        else:
            yield _mark([each])
    if run:
        yield _mark(run)


def _opened(each: Slice, shortest_ps: int) -> Iterator[Mark]:
    """What a slice is made of; kinds of time of an operation bear its name."""
    for mark in _merged(each.inside, shortest_ps):
        if each.category == OPERATION:
            yield Mark(each.lane, each.name, mark.kind, mark.start_ps, mark.end_ps)
        else:
            yield mark


def _mark(run: Sequence[Slice]) -> Mark:
    """One mark for a few slices."""
    times_ps: dict[str, int] = {}
    for leaf in (leaf for each in run for leaf in each.leaves):
        times_ps[leaf.category] = times_ps.get(leaf.category, 0) + leaf.end_ps - leaf.start_ps
    kind = max(in_kind_order(times_ps), key=lambda name: times_ps[name])
    count = sum(_operations(each) for each in run)
    name = run[0].name if len(run) == 1 else f"{count} short operations, {run[0].name} to {run[-1].name}"
    return Mark(run[0].lane, name, kind, run[0].start_ps, run[-1].end_ps, count)


def _operations(each: Slice) -> int:
    if each.category == PASS:
        return sum(_operations(part) for part in each.inside)
    repetitions = each.arguments.get("repetitions", 1) if each.category == REPEATED else 1
    return int(str(repetitions))


def _cut(mark: Mark, window: Window) -> Mark | None:
    start_ps, end_ps = max(mark.start_ps, window.start_ps), min(mark.end_ps, window.end_ps)
    return Mark(mark.lane, mark.name, mark.kind, start_ps, end_ps, mark.count) if start_ps < end_ps else None


def _folded(shown: Sequence[Window], lanes: Sequence[str], windows: Sequence[Window]) -> Iterator[Mark]:
    """The cycles in the middle, as one mark per lane."""
    cycles = next((each for each in windows if each.title[0].isdigit()), None)
    if cycles is None or len(shown) == 1 or shown[0].end_ps == shown[1].start_ps:
        return
    start_ps, end_ps = shown[0].end_ps, shown[1].start_ps
    count = round((end_ps - start_ps) / ((cycles.end_ps - cycles.start_ps) / 2))
    for lane in lanes:
        yield Mark(lane, f"{count:,} more cycles like those before", "", start_ps, end_ps, count)


def _notes(marks: Sequence[Mark], folded: Sequence[Mark]) -> list[str]:
    merged = sum(mark.count > 1 and "short operations" in mark.name for mark in marks)
    notes = ["Drag over a part to zoom to it; Ctrl and the wheel, or the keys + − ← → and 0, do it too."]
    if folded:
        notes.append(f"Folded in the middle: {folded[0].name}.")
    if merged:
        notes.append(f"{merged:,} of {len(marks):,} bars stand for several operations that are too short to draw apart.")
    return notes


def _stretches(windows: Sequence[Window]) -> Iterator[Stretch]:
    if len(windows) > 1:
        for window in windows:
            yield Stretch(window.title.partition(":")[0], _ms(window.start_ps), _ms(window.end_ps))


def _ms(time_ps: int) -> float:
    return round(ps_to_seconds(time_ps) / _MS, _DIGITS)


def _spec(marks: Sequence[Mark], lanes: Sequence[str], makespan_ps: int) -> Spec:
    length = "(datum.end - datum.start) / (shown_to - shown_from) * width"
    seen = "(min(datum.end, shown_to) - max(datum.start, shown_from)) / (shown_to - shown_from) * width"
    domain = [{"expr": "shown_from"}, {"expr": "shown_to"}]
    x = {"field": "start", "type": "quantitative", "scale": {"domain": domain, "nice": False, "zero": False}}
    names = {lane: _lane_name(lane) for lane in lanes}
    axis = {"title": None, "domain": False, "ticks": False}
    bars = {
        "mark": {"type": "bar", "clip": True, "height": {"band": 0.84}, "strokeWidth": {"expr": f"{length} > 5 ? 0.7 : 0"}}
        | {"stroke": "#ffffff"},
        "encoding": {
            "x": x | {"axis": {"title": "time [ms]", "tickCount": 5}},
            "x2": {"field": "end"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": [{"field": name} for name in ("what", "kind", "time", "from")],
        },
    }
    texts = {
        "transform": [{"filter": f"{seen} > 60"}],
        "mark": {"type": "text", "clip": True, "fontSize": 11, "strokeWidth": 3, "limit": {"expr": f"{seen} - 8"}},
        "encoding": {"x": {"field": "middle", "type": "quantitative"}, "text": {"field": "what"}}
        | {
            channel: {"field": name, "type": "nominal", "scale": None}
            for channel, name in (("fill", "ink"), ("stroke", "behind"))
        },
    }
    middle = "(max(datum.start, shown_from) + min(datum.end, shown_to)) / 2"
    return {
        "width": "container",
        "height": _ROW_PIXELS * len(lanes),
        "autosize": {"type": "fit-x", "contains": "padding"},
        "params": [{"name": "shown_from", "value": 0}, {"name": "shown_to", "value": _ms(makespan_ps)}],
        "data": {"values": [_row(mark, names[mark.lane]) for mark in marks]},
        "transform": [{"calculate": middle, "as": "middle"}],
        "encoding": {"y": {"field": "lane", "type": "nominal", "sort": list(names.values()), "axis": axis}},
        "layer": [bars, texts],
    }


def _lane_name(lane: str) -> str:
    """How a lane is called: that of an IPU by its number."""
    return f"IPU {lane.removeprefix('ipu')}" if lane.removeprefix("ipu").isdecimal() else lane


def _row(mark: Mark, lane: str) -> dict[str, Any]:
    duration = format_duration_s(ps_to_seconds(mark.end_ps - mark.start_ps), 4)
    fill = fill_of_kind(mark.kind) if mark.kind else fill_of(FOLDED)
    behind = colour_of(fill)
    return {
        "lane": lane,
        "start": _ms(mark.start_ps),
        "end": _ms(mark.end_ps),
        "fill": fill,
        "behind": behind,
        "ink": "#1a1a1a" if is_light(behind) else "#ffffff",
        "what": mark.name,
        "kind": kind_of(mark.kind).label if mark.kind else "repeated",
        "time": duration,
        "from": format_duration_s(ps_to_seconds(mark.start_ps), 6),
    }


def _numbers(marks: Sequence[Mark]) -> Grid:
    longest = sorted(marks, key=lambda mark: (mark.start_ps - mark.end_ps, mark.start_ps, mark.lane))[:_LISTED]
    rows = [
        (
            _lane_name(mark.lane),
            mark.name,
            kind_of(mark.kind).label,
            f"{_ms(mark.start_ps):.6f}",
            f"{_ms(mark.end_ps - mark.start_ps):.6f}",
        )
        for mark in longest
    ]
    more = [f"The longest {_LISTED} of {len(marks):,} bars."] if len(marks) > _LISTED else []
    return Grid(("IPU", "operation", "kind", ">from [ms]", ">time [ms]"), rows, notes=more)
