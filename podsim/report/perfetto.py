"""The timeline as Chrome trace events, for ui.perfetto.dev.

Each lane of the trace is a track of the process `IPUs`, each channel a track of the process `links`, and the
phases of the weight update are tracks of their own. The kind of time is the category of an event, so that the
viewer's query `select category, sum(dur) from slice group by category` adds up the kinds. The viewer colours
by name and takes no colours from the file, so none are written.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf, nextafter
from pathlib import Path
from typing import Final

from podsim.engine.trace import PhaseRecord, Record, Trace, expand
from podsim.errors import MissingDataError
from podsim.report.files import check_not_read, write_atomically
from podsim.report.format import natural_key
from podsim.report.forward import ForwardResult
from podsim.report.generation import GenerationResult
from podsim.report.result import RunResult

Event = dict[str, object]

DEFAULT_EVENT_LIMIT: Final = 200_000
_PS_PER_US: Final = 10**6
_PS_PER_NS: Final = 10**3
_PHASES, _IPUS, _LINKS = 1, 2, 3
_PROCESSES: Final = {_PHASES: "phases", _IPUS: "IPUs", _LINKS: "links"}


@dataclass(frozen=True, slots=True)
class Timeline:
    """A trace made ready for the viewer.

    Attributes:
        events: Chrome trace events, metadata first.
        slice_count: How many of them are stretches of time.
        is_folded: Whether repeated cycles are shown once, with their count, to keep the file small.
    """

    events: tuple[Event, ...]
    slice_count: int
    is_folded: bool


def build_timeline(trace: Trace, event_limit: int = DEFAULT_EVENT_LIMIT) -> Timeline:
    """Turn a trace into events.

    Repeated cycles are all shown as long as they make no more than `event_limit` events. Beyond it, each is
    shown once, and one slice named `96 more like this` fills the rest of its phase.

    Args:
        trace: A trace with its records.
        event_limit: Most slices before repeated cycles are shown once.
    """
    counts = [record.repeat_count for record in trace.records]
    is_folded = sum(counts) > max(event_limit, len(counts))
    records = _shown_once(trace) if is_folded else expand(trace.records)
    by_lane: dict[str, list[Record]] = {}
    for record in records:
        if record.end_ps > record.start_ps:
            by_lane.setdefault(record.lane, []).append(record)
    slices: list[Event] = []
    metadata: list[Event] = [_named("process_name", pid, 0, name) for pid, name in _PROCESSES.items()]
    metadata += [_sorted("process_sort_index", pid, 0, pid) for pid in _PROCESSES]
    _add_phases(trace.phases, metadata, slices)
    for process, lanes in ((_IPUS, trace.lanes), (_LINKS, trace.channels)):
        _add_lanes(process, sorted(lanes, key=natural_key), by_lane, metadata, slices)
    return Timeline((*metadata, *slices), len(slices), is_folded)


def write_trace(
    result: RunResult | GenerationResult | ForwardResult, path: str | Path, event_limit: int = DEFAULT_EVENT_LIMIT
) -> Timeline:
    """Write the timeline of a result as a file that ui.perfetto.dev opens.

    Args:
        result: A result with its trace.
        path: File to write, usually `*.json`.
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
    timeline = build_timeline(result.trace, event_limit)
    cycles = "each repeated cycle is shown once" if timeline.is_folded else "every cycle is shown"
    about = {
        "scenario": result.name,
        "description": result.description,
        "podsim": result.version,
        "cycles": cycles,
    }
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about})
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in timeline.events)
    write_atomically(path, f'{head[:-1]}, "traceEvents": [\n{events}\n]}}\n'.encode())
    return timeline


def _add_phases(phases: Iterable[PhaseRecord], metadata: list[Event], slices: list[Event]) -> None:
    groups: dict[str, int] = {}
    for phase in phases:
        if phase.group not in groups:
            groups[phase.group] = len(groups) + 1
            metadata += _track(_PHASES, groups[phase.group], phase.group)
        if phase.end_ps > phase.start_ps:
            name = phase.name if phase.count == 1 else f"{phase.name} x {phase.count}"
            record = Record(phase.group, "phase", name, phase.start_ps, phase.end_ps, 1, 0)
            slices.append(_slice(_PHASES, groups[phase.group], record))


def _add_lanes(
    process: int,
    lanes: Iterable[str],
    by_lane: dict[str, list[Record]],
    metadata: list[Event],
    slices: list[Event],
) -> None:
    thread = 0
    for lane in lanes:
        for row, records in enumerate(_without_overlaps(by_lane.get(lane, []))):
            thread += 1
            metadata += _track(process, thread, lane if row == 0 else f"{lane} ({row + 1})")
            slices += [_slice(process, thread, record) for record in records]


def _without_overlaps(records: list[Record]) -> list[list[Record]]:
    """Spread records over as few rows as it takes for none to overlap in a row; the viewer would drop them.

    Transfers that share a channel overlap in time. At least one row comes back, even for no records.
    """
    rows: list[list[Record]] = [[]]
    for record in sorted(records, key=lambda record: (record.start_ps, record.end_ps)):
        free = next((row for row in rows if not row or row[-1].end_ps <= record.start_ps), None)
        if free is None:
            rows.append([record])
        else:
            free.append(record)
    return rows


def _shown_once(trace: Trace) -> Iterator[Record]:
    """The first repetition of every record, and one record per lane and phase for those left out."""
    fillers: dict[tuple[str, int, int], Record] = {}
    for record in trace.records:
        yield Record(record.lane, record.kind, record.name, record.start_ps, record.end_ps, 1, 0)
        phase = _phase_around(record, trace.phases)
        if phase is not None:
            start_ps = phase.start_ps + record.repeat_period_ps
            name = f"{record.repeat_count - 1} more like this"
            filler = Record(record.lane, "repeated", name, start_ps, phase.end_ps, 1, 0)
            fillers[record.lane, start_ps, phase.end_ps] = filler
    yield from fillers.values()


def _phase_around(record: Record, phases: Iterable[PhaseRecord]) -> PhaseRecord | None:
    """The phase whose repetitions this record repeats with; none for a record that stands alone."""
    return next(
        (
            phase
            for phase in phases
            if phase.count == record.repeat_count > 1
            and phase.start_ps <= record.start_ps
            and record.end_ps <= phase.start_ps + record.repeat_period_ps <= phase.end_ps
        ),
        None,
    )


def _slice(process: int, thread: int, record: Record) -> Event:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": record.name,
        "cat": record.kind,
        "ts": _start_us(record.start_ps),
        "dur": (record.end_ps - record.start_ps) / _PS_PER_US,
    }


def _start_us(start_ps: int) -> float:
    """Microseconds that stay whole nanoseconds if they are.

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
