"""The timeline of a page: the operations of each IPU, as many as can be told apart.

Shown are the beginning with the first of the repeated cycles, and the end from the last of them on. The cycles between
are alike and stand folded in one mark. Where operations are too many, neighbours that are short are drawn as one mark
that says how many it stands for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from podsim.engine.trace import Trace
from podsim.format import format_duration_s, natural_key
from podsim.pages.parts import Chart, Grid, Spec, Stretch
from podsim.pages.patterns import FOLDED, colour_of, fill_of, fill_of_kind, is_light, legend_of_kinds
from podsim.pages.time_charts import MOST_IPUS, left_out
from podsim.pages.timeline_marks import Mark, marks_of
from podsim.program.passes_in_order import Passes
from podsim.result.kinds import kind_of
from podsim.result.rows import of_first_group
from podsim.result.slices import slices_of
from podsim.result.windows import Window, parts_of, windows_of
from podsim.units import ps_to_seconds

MOST_MARKS: Final = 1400
"""Of a stretch, so that a page stays small and quick."""
MOST_OF_CYCLES: Final = 4000
"""Of two repeated cycles, in which operations are to be told apart."""
_ROW_PIXELS: Final = 30
_MS: Final = 1e-3
_DIGITS: Final = 9
_LISTED: Final = 300


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
    slices = list(slices_of((each for each in trace.records if each.lane in lanes), passes or {}))
    marks = [mark for stretch in shown for mark in marks_of(slices, stretch, _most(stretch))]
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


def _most(stretch: Window) -> int:
    return MOST_OF_CYCLES if _cycles([stretch]) else MOST_MARKS


def shown_stretches(windows: Sequence[Window], makespan_ps: int) -> list[Window]:
    """What is shown operation by operation: all of it, or all but the cycles behind the first few and before the last.

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


def _folded(shown: Sequence[Window], lanes: Sequence[str], windows: Sequence[Window]) -> Iterator[Mark]:
    """The cycles in the middle, as one mark per lane."""
    cycles = _cycles(windows)
    if cycles is None or shown[-1].start_ps <= cycles.end_ps:
        return
    start_ps, end_ps = cycles.end_ps, shown[-1].start_ps
    count = round((end_ps - start_ps) / ((cycles.end_ps - cycles.start_ps) / 2))
    for lane in lanes:
        yield Mark(lane, f"{count:,} more cycles like those before", "", start_ps, end_ps, count)


def _notes(marks: Sequence[Mark], folded: Sequence[Mark]) -> list[str]:
    joined = sum(mark.operations > 1 for mark in marks)
    notes = ["Drag over a part to zoom to it; Ctrl and the wheel, or the keys + − ← → and 0, do it too."]
    if folded:
        notes.append(f"Folded in the middle: {folded[0].name}.")
    if joined:
        notes.append(
            f"{joined:,} of {len(marks):,} bars stand for several operations that are too short to draw apart; "
            "over a few of them, colours add up as their kinds of time do."
        )
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
        "mark": {
            "type": "bar",
            "clip": True,
            "height": {"band": 0.84},
            "strokeWidth": {"expr": f"{length} > 5 ? 0.7 : 0"},
        }
        | {"stroke": "#ffffff"},
        "encoding": {
            "x": x | {"axis": {"title": "time [ms]", "tickCount": 5}},
            "x2": {"field": "end"},
            "fill": {"field": "fill", "type": "nominal", "scale": None},
            "tooltip": [
                *({"field": name} for name in ("what", "kind", "time")),
                {"field": "start", "title": "from [ms]", "format": ",.6~f"},
            ],
        },
    }
    texts = {
        "transform": [{"filter": f"{seen} > 60"}],
        "mark": {"type": "text", "clip": True, "fontSize": 11, "limit": {"expr": f"{seen} - 8"}},
        "encoding": {
            "x": {"field": "middle", "type": "quantitative"},
            "text": {"field": "what"},
            "fill": {"field": "ink", "type": "nominal", "scale": None},
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
    duration = format_duration_s(ps_to_seconds(mark.length_ps), 4)
    fill = fill_of_kind(mark.kind) if mark.kind else fill_of(FOLDED)
    behind = colour_of(fill)
    return {
        "lane": lane,
        "start": _ms(mark.start_ps),
        "end": _ms(mark.end_ps),
        "fill": fill,
        "ink": "#1a1a1a" if is_light(behind) else "#ffffff",
        "what": mark.name,
        "kind": mark.mixture or (kind_of(mark.kind).label if mark.kind else "repeated"),
        "time": duration,
    }


def _numbers(marks: Sequence[Mark]) -> Grid:
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
    return Grid(("IPU", "operation", "kind", ">from [ms]", ">time [ms]"), rows, notes=more)
