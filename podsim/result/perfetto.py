"""The timeline as Chrome trace events, for ui.perfetto.dev.

Each lane of the trace is a track of the process `IPUs`, each channel a track of the process `links`, and the
phases of the weight update are tracks of their own. Counters say how many IPUs work, how many links and how much memory
are in use, and what is drawn; arrows lead from what sends to what goes on once it is there. A
pass holds its operations in the order they run, and each of these its kinds of time. The kind of time is the
category of an event, so that the viewer's query `select category, sum(dur) from slice group by category` adds up the
kinds; passes, operations and what is folded have categories of their own. The viewer colours by name and takes no
colours from the file, so none are written.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nextafter
from pathlib import Path
from typing import Final

from podsim.engine.trace import PhaseRecord, Trace, expand
from podsim.errors import MissingDataError
from podsim.format import natural_key
from podsim.program.passes_in_order import Passes
from podsim.result.base import Result
from podsim.result.counters import Gauge, gauges_of_result, gauges_of_use
from podsim.result.files import check_not_read, write_atomically
from podsim.result.slices import REPEATED, Slice, slices_of

Event = dict[str, object]

DEFAULT_EVENT_LIMIT: Final = 200_000
_PS_PER_US: Final = 10**6
_PS_PER_NS: Final = 10**3
_NS_PER_US: Final = 10**3
_PHASES, _IPUS, _LINKS = 1, 2, 3
_PROCESSES: Final = {_PHASES: "phases", _IPUS: "IPUs", _LINKS: "links"}

_MOST_ARROWS: Final = 10_000
_MOST_COUNTED: Final = 50_000
_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class ViewerTrace:
    """A trace made ready for the viewer."""

    events: tuple[Event, ...]
    slice_count: int
    is_folded: bool
    is_detailed: bool = True


def build_timeline(
    trace: Trace,
    event_limit: int = DEFAULT_EVENT_LIMIT,
    passes: Passes | None = None,
    gauges: Iterable[Gauge] = (),
) -> ViewerTrace:
    """Turn a trace into events.

    Repeated cycles are all shown as long as they make no more than `event_limit` events. Beyond it, each is
    shown once, and one slice named `96 more like this` fills the rest of its phase. If that is still too much,
    operations are left out.
    """
    shown = list(slices_of(trace.records, passes or {}))
    is_detailed = sum(each.count for each in shown) <= event_limit
    if not is_detailed:
        shown = list(slices_of(trace.records))
    is_folded = sum(each.count * each.repeat_count for each in shown) > max(event_limit, len(shown))
    by_lane: dict[str, list[Slice]] = {}
    for each in _shown_once(shown, trace.phases) if is_folded else _expanded(shown):
        by_lane.setdefault(each.lane, []).append(each)
    slices: list[Event] = []
    metadata: list[Event] = [_named("process_name", pid, 0, name) for pid, name in _PROCESSES.items()]
    metadata += [_sorted("process_sort_index", pid, 0, pid) for pid in _PROCESSES]
    _add_phases(trace.phases, metadata, slices)
    threads: dict[str, int] = {}
    for process, lanes in ((_IPUS, trace.lanes), (_LINKS, trace.channels)):
        threads |= _add_lanes(process, sorted(lanes, key=natural_key), by_lane, metadata, slices)
    counters = [event for gauge in (*gauges_of_use(trace, event_limit), *gauges) for event in _counter(gauge)]
    starts, ends = _arrows(trace, threads, is_folded=is_folded)
    # The viewer takes events of one instant in the order of the file: an arrow ends at the slice that comes behind it.
    return ViewerTrace((*metadata, *ends, *slices, *starts, *counters), len(slices), is_folded, is_detailed)


def write_trace(result: Result, path: str | Path, event_limit: int = DEFAULT_EVENT_LIMIT) -> ViewerTrace:
    """Write the timeline of a result as a file that ui.perfetto.dev opens.

    Args:
        result: A result with its trace.
        path: File to write, usually `*.json`; compressed if the name ends in `.gz`.
        event_limit: Most slices before repeated cycles are shown once.

    Returns:
        What was written, so that a caller can say how much and whether cycles were folded.

    Raises:
        MissingDataError: The result was made without recording its timeline.
        OutputError: The path cannot be written.
    """
    if result.trace is None:
        raise MissingDataError(
            "this result has no timeline",
            where=str(path),
            do="simulate with `record=True` and write that result",
        )
    check_not_read(path, "trace", result.inputs)
    gauges = gauges_of_result(result, min(event_limit, _MOST_COUNTED))
    timeline = build_timeline(result.trace, event_limit, result.passes, gauges)
    cycles = "each repeated cycle is shown once" if timeline.is_folded else "every cycle is shown"
    about = {
        "scenario": result.name,
        "description": result.title,
        "podsim": result.version,
        "simulated": result.simulated.machine,
        "differs": result.simulated.difference,
        "warnings": list(result.warnings),
        "cycles": cycles,
        "operations": "shown" if timeline.is_detailed else "left out: too many",
    }
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about})
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in timeline.events)
    text = f'{head[:-1]}, "traceEvents": [\n{events}\n]}}\n'.encode()
    # Without a time of day: the same bytes for the same result.
    write_atomically(path, gzip.compress(text, mtime=0) if Path(path).suffix.lower() == ".gz" else text)
    return timeline


def _add_phases(phases: Iterable[PhaseRecord], metadata: list[Event], slices: list[Event]) -> None:
    groups: dict[str, int] = {}
    for phase in phases:
        if phase.group not in groups:
            groups[phase.group] = len(groups) + 1
            metadata += _track(_PHASES, groups[phase.group], phase.group)
        if phase.end_ps > phase.start_ps:
            name = phase.name if phase.count == 1 else f"{phase.name} x {phase.count}"
            whole = Slice(phase.group, "phase", name, phase.start_ps, phase.end_ps)
            slices += _events(_PHASES, groups[phase.group], whole)


def _add_lanes(
    process: int,
    lanes: Iterable[str],
    by_lane: dict[str, list[Slice]],
    metadata: list[Event],
    slices: list[Event],
) -> dict[str, int]:
    """Tracks of lanes with what is on them; the number of each lane's first one."""
    thread, threads = 0, dict[str, int]()
    for lane in lanes:
        threads[lane] = thread + 1
        for row, shown in enumerate(_without_overlaps(by_lane.get(lane, []))):
            thread += 1
            metadata += _track(process, thread, lane if row == 0 else f"{lane} ({row + 1})")
            for each in shown:
                slices += _events(process, thread, each)
    return threads


def _counter(gauge: Gauge) -> Iterator[Event]:
    process = _LINKS if gauge.of_links else _IPUS
    for at_ps, value in gauge.steps:
        shown = round(value, _DIGITS)
        yield {"ph": "C", "pid": process, "name": gauge.name, "ts": _start_us(at_ps), "args": {gauge.name: shown}}


def _arrows(trace: Trace, threads: Mapping[str, int], *, is_folded: bool) -> tuple[list[Event], list[Event]]:
    """Where messages start and end; those of repeated cycles once, as their slices are; none if they are too many."""
    lanes = trace.lanes
    messages = [each for each in trace.messages if each.lane in lanes and each.receiver in lanes]
    if is_folded:
        messages = [replace(each, repeat_count=1) for each in messages]
    if sum(each.repeat_count for each in messages) > _MOST_ARROWS:
        return [], []
    starts: list[Event] = []
    ends: list[Event] = []
    for number, each in enumerate(expand(messages), 1):
        common: Event = {"pid": _IPUS, "name": each.name, "cat": each.kind, "id": number}
        starts.append({"ph": "s", "tid": threads[each.lane], "ts": _start_us(each.start_ps), **common})
        ends.append({"ph": "f", "tid": threads[each.receiver], "ts": _start_us(each.end_ps), **common})
    return starts, ends


def _without_overlaps(shown: list[Slice]) -> list[list[Slice]]:
    """Spread slices over as few rows as it takes for none to overlap in a row; the viewer would drop them.

    Transfers that share a channel overlap in time. At least one row comes back, even for no slices.
    """
    rows: list[list[Slice]] = [[]]
    for each in sorted(shown, key=lambda each: (each.start_ps, each.end_ps)):
        free = next((row for row in rows if not row or row[-1].end_ps <= each.start_ps), None)
        if free is None:
            rows.append([each])
        else:
            free.append(each)
    return rows


def _expanded(shown: Iterable[Slice]) -> Iterator[Slice]:
    """Every repetition as a slice of its own."""
    for each in shown:
        for number in range(each.repeat_count):
            yield each.once(number * each.repeat_period_ps)


def _shown_once(shown: Iterable[Slice], phases: Sequence[PhaseRecord]) -> Iterator[Slice]:
    """The first repetition of every slice, and one slice per lane and phase for those left out."""
    fillers: dict[tuple[str, int, int], Slice] = {}
    for each in shown:
        yield each.once()
        phase = _phase_around(each, phases)
        if phase is not None:
            start_ps = phase.start_ps + each.repeat_period_ps
            name, arguments = f"{each.repeat_count - 1} more like this", {"repetitions": each.repeat_count - 1}
            filler = Slice(each.lane, REPEATED, name, start_ps, phase.end_ps, arguments=arguments)
            fillers[each.lane, start_ps, phase.end_ps] = filler
    yield from fillers.values()


def _phase_around(each: Slice, phases: Iterable[PhaseRecord]) -> PhaseRecord | None:
    """The phase whose repetitions this slice repeats with; none for one that stands alone."""
    return next(
        (
            phase
            for phase in phases
            if phase.count == each.repeat_count > 1
            and phase.start_ps <= each.start_ps
            and each.end_ps <= phase.start_ps + each.repeat_period_ps <= phase.end_ps
        ),
        None,
    )


def _events(process: int, thread: int, each: Slice, *, nested: bool = False) -> Iterator[Event]:
    """A slice and all inside it; one inside lies in the one around it in whole nanoseconds, too."""
    event: Event = {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": each.name,
        "cat": each.category,
        "ts": _start_us(each.start_ps),
        "dur": _length_us(each, nested=nested or bool(each.inside)),
    }
    if each.arguments:
        event["args"] = dict(each.arguments)
    yield event
    for part in each.inside:
        yield from _events(process, thread, part, nested=True)


def _length_us(each: Slice, *, nested: bool) -> float:
    """Microseconds; of slices in one another so that both ends lie on whole nanoseconds, where the viewer cuts."""
    if not nested:
        return (each.end_ps - each.start_ps) / _PS_PER_US
    length_ns = each.end_ps // _PS_PER_NS - each.start_ps // _PS_PER_NS
    length_us = length_ns * _PS_PER_NS / _PS_PER_US
    return length_us if int(length_us * _NS_PER_US) == length_ns else nextafter(length_us, inf)


def _start_us(start_ps: int) -> float:
    """A start in microseconds; whole nanoseconds stay whole.

    The viewer cuts times down to whole nanoseconds. A start at 1003 ns written as 1.003 us would be cut to
    1002 ns, so that it overlaps the event before and is dropped; the next larger number is safe.
    """
    start_us = start_ps / _PS_PER_US
    return nextafter(start_us, inf) if start_ps % _PS_PER_NS == 0 and start_ps else start_us


def _track(process: int, thread: int, name: str) -> list[Event]:
    return [
        _named("thread_name", process, thread, name),
        _sorted("thread_sort_index", process, thread, thread),
    ]


def _named(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _sorted(what: str, process: int, thread: int, index: int) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"sort_index": index}}
