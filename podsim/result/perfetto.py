"""Timeline as Chrome trace events for ui.perfetto.dev, with counters of IPUs, links, memory and power in use.

A pass contains its operations in order, and an operation contains its kinds of time. Kinds are the categories of
events, so that `select category, sum(dur) from slice group by category` adds them up. Passes, operations and folded
repetitions have other categories. The viewer chooses colours by name and reads none from files.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, nextafter
from pathlib import Path
from typing import Final, NamedTuple

from podsim.engine.trace import ChannelUse, PhaseRecord, Record, Trace, expand
from podsim.errors import MissingDataError
from podsim.format import natural_key
from podsim.program.passes_in_order import Passes
from podsim.result.base import Result
from podsim.result.files import check_not_read, write_atomically
from podsim.result.kinds import is_waiting
from podsim.result.power import Energy
from podsim.result.rows import IN_PROCESSOR, MemoryReport
from podsim.result.timeline import REPEATED, Slice, runs_of, slice_of, slices_of

Event = dict[str, object]
Steps = Sequence[tuple[int, float]]
"""Pairs of a time in ps and the value from then on, in order of time."""

DEFAULT_EVENT_LIMIT: Final = 200_000
_PS_PER_US: Final = 10**6
_PS_PER_NS: Final = 10**3
_PHASES, _IPUS, _LINKS = 1, 2, 3
_PROCESSES: Final = {_PHASES: "phases", _IPUS: "IPUs", _LINKS: "links"}
_MOST_ARROWS: Final = 10_000
_MOST_COUNTED: Final = 50_000
_MOST_MEMORIES: Final = 16
_DIGITS: Final = 3
_FINE: Final = 10**9  # resolution of the power of an IPU, in parts of a watt
_MB: Final = 1e-6
_PARTS: Final = 10**9  # resolution of the use of a link
_PER_CENT: Final = 100


class Gauge(NamedTuple):
    """Something that is counted."""

    name: str
    steps: Steps
    of_links: bool = False


@dataclass(frozen=True, slots=True)
class ViewerTrace:
    """A trace made ready for the viewer."""

    events: tuple[Event, ...]
    slice_count: int
    is_folded: bool
    is_detailed: bool = True


def write_trace(result: Result, path: str | Path, event_limit: int = DEFAULT_EVENT_LIMIT) -> ViewerTrace:
    """Write the timeline of a result as a file that ui.perfetto.dev opens; compressed if its name ends in `.gz`.

    Raises:
        MissingDataError: The result was made without recording its timeline.
        OutputError: The path cannot be written.
    """
    if result.trace is None:
        cure = "simulate with `record=True` and write that result"
        raise MissingDataError("this result has no timeline", where=str(path), do=cure)
    check_not_read(path, "trace", result.inputs)
    gauges = gauges_of_result(result, min(event_limit, _MOST_COUNTED))
    timeline = build_timeline(result.trace, event_limit, result.passes, gauges)
    about = {
        "scenario": result.name,
        "description": result.title,
        "podsim": result.version,
        "simulated": result.simulated.machine,
        "differs": result.simulated.difference,
        "warnings": list(result.warnings),
        "cycles": "each repeated cycle is shown once" if timeline.is_folded else "every cycle is shown",
        "operations": "shown" if timeline.is_detailed else "left out: too many",
    }
    head = json.dumps({"displayTimeUnit": "ms", "otherData": about})
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in timeline.events)
    text = f'{head[:-1]}, "traceEvents": [\n{events}\n]}}\n'.encode()
    # A zero time stamp keeps the bytes equal for equal results.
    write_atomically(path, gzip.compress(text, mtime=0) if Path(path).suffix.lower() == ".gz" else text)
    return timeline


def build_timeline(
    trace: Trace,
    event_limit: int = DEFAULT_EVENT_LIMIT,
    passes: Passes | None = None,
    gauges: Iterable[Gauge] = (),
) -> ViewerTrace:
    """Turn a trace into events.

    All repeated cycles are shown if there are at most `event_limit` events. Otherwise the first repetition is shown,
    and one slice named `96 more like this` fills the rest of the phase. If there are still too many events, operations
    are left out.
    """
    shown = list(slices_of(trace.records, passes or {}))
    is_detailed = sum(one.count for one in shown) <= event_limit
    if not is_detailed:
        shown = list(slices_of(trace.records))
    is_folded = sum(one.count * one.repeat_count for one in shown) > max(event_limit, len(shown))
    lanes: dict[int, dict[str, list[Slice]]] = {
        _PHASES: {phase.group: [] for phase in trace.phases},
        _IPUS: {lane: [] for lane in sorted(trace.lanes, key=natural_key)},
        _LINKS: {lane: [] for lane in sorted(trace.channels, key=natural_key)},
    }
    for phase in trace.phases:
        if phase.end_ps > phase.start_ps:
            name = phase.name if phase.count == 1 else f"{phase.name} x {phase.count}"
            lanes[_PHASES][phase.group].append(Slice(phase.group, "phase", name, phase.start_ps, phase.end_ps))
    known = lanes[_LINKS] | lanes[_IPUS]
    for one in _shown_once(shown, trace.phases) if is_folded else _expanded(shown):
        if one.lane in known:
            known[one.lane].append(one)
    metadata = [event for process, name in _PROCESSES.items() for event in _track(process, 0, name, "process")]
    slices: list[Event] = []
    threads: dict[str, int] = {}
    for process, by_lane in lanes.items():
        thread = 0
        for lane, all_of_it in by_lane.items():
            if process == _IPUS:
                threads[lane] = thread + 1
            for row, in_row in enumerate(_without_overlaps(all_of_it)):
                thread += 1
                metadata += _track(process, thread, lane if row == 0 else f"{lane} ({row + 1})")
                slices += [event for one in in_row for event in _events(process, thread, one)]
    counters = [event for gauge in (*_gauges_of_use(trace, event_limit), *gauges) for event in _counter(gauge)]
    starts, ends = _arrows(trace, threads, is_folded=is_folded)
    # The viewer takes events of one instant in the order of the file: an arrow ends at the slice that comes behind it.
    return ViewerTrace((*metadata, *ends, *slices, *starts, *counters), len(slices), is_folded, is_detailed)


def _counter(gauge: Gauge) -> Iterator[Event]:
    common: Event = {"ph": "C", "pid": _LINKS if gauge.of_links else _IPUS, "name": gauge.name}
    for at_ps, value in gauge.steps:
        yield {**common, "ts": _safe_us(at_ps), "args": {gauge.name: round(value, _DIGITS)}}


def _arrows(trace: Trace, threads: Mapping[str, int], *, is_folded: bool) -> tuple[list[Event], list[Event]]:
    """Return the start and end events of messages; none if there are too many."""
    messages = [sent for sent in trace.messages if {sent.lane, sent.receiver} <= threads.keys()]
    if is_folded:
        messages = [replace(sent, repeat_count=1) for sent in messages]
    if sum(sent.repeat_count for sent in messages) > _MOST_ARROWS:
        return [], []
    starts: list[Event] = []
    ends: list[Event] = []
    for number, sent in enumerate(expand(messages), 1):
        common: Event = {"pid": _IPUS, "name": sent.name, "cat": sent.kind, "id": number}
        starts.append({"ph": "s", "tid": threads[sent.lane], "ts": _safe_us(sent.start_ps), **common})
        ends.append({"ph": "f", "tid": threads[sent.receiver], "ts": _safe_us(sent.end_ps), **common})
    return starts, ends


def _without_overlaps(shown: Iterable[Slice]) -> list[list[Slice]]:
    """Divide slices into as few rows as possible without overlaps, because the viewer drops overlapping slices.

    Transfers that share a channel overlap in time.
    """
    rows: list[list[Slice]] = [[]]
    for one in sorted(shown, key=lambda one: (one.start_ps, one.end_ps)):
        free = next((row for row in rows if not row or row[-1].end_ps <= one.start_ps), None)
        if free is None:
            rows.append(free := [])
        free.append(one)
    return rows


def _expanded(shown: Iterable[Slice]) -> Iterator[Slice]:
    """Yield a separate slice for every repetition."""
    for one in shown:
        yield from (one.first_repetition(number * one.repeat_period_ps) for number in range(one.repeat_count))


def _shown_once(shown: Iterable[Slice], phases: Sequence[PhaseRecord]) -> Iterator[Slice]:
    """Yield the first repetition of every slice, and one slice per lane and phase for the others."""
    fillers: dict[tuple[str, int, int], Slice] = {}
    for one in shown:
        yield one.first_repetition()
        for phase in phases:  # find the phase that has the same repetitions
            filled_ps = phase.start_ps + one.repeat_period_ps
            repeats = phase.count == one.repeat_count > 1
            if repeats and phase.start_ps <= one.start_ps and one.end_ps <= filled_ps <= phase.end_ps:
                more = one.repeat_count - 1
                fillers[one.lane, filled_ps, phase.end_ps] = Slice(
                    *(one.lane, REPEATED, f"{more} more like this", filled_ps, phase.end_ps),
                    arguments={"repetitions": more},
                )
                break
    yield from fillers.values()


def _events(process: int, thread: int, one: Slice, *, nested: bool = False) -> Iterator[Event]:
    """Yield a slice and its inner slices; inner slices stay inside even if a viewer rounds to nanoseconds."""
    length_ns = one.end_ps // _PS_PER_NS - one.start_ps // _PS_PER_NS
    is_cut = nested or bool(one.inside)
    duration_us = _safe_us(length_ns * _PS_PER_NS) if is_cut else (one.end_ps - one.start_ps) / _PS_PER_US
    event: Event = {"ph": "X", "pid": process, "tid": thread, "name": one.name, "cat": one.category}
    event |= {"ts": _safe_us(one.start_ps), "dur": duration_us}
    if one.arguments:
        event["args"] = dict(one.arguments)
    yield event
    for part in one.inside:
        yield from _events(process, thread, part, nested=True)


def _safe_us(time_ps: int) -> float:
    """Return a time in microseconds that viewers do not round down: some read 1.003 us as 1002 ns.

    Viewers drop an event that begins before the end of the previous one. The next larger floating-point number avoids
    this.
    """
    time_us = time_ps / _PS_PER_US
    return nextafter(time_us, inf) if time_ps % _PS_PER_NS == 0 and time_ps else time_us


def _track(process: int, thread: int, name: str, what: str = "thread") -> Iterator[Event]:
    common: Event = {"ph": "M", "pid": process, "tid": thread}
    yield {**common, "name": f"{what}_name", "args": {"name": name}}
    yield {**common, "name": f"{what}_sort_index", "args": {"sort_index": thread or process}}


def _gauges_of_use(trace: Trace, most: int) -> Iterator[Gauge]:
    """Yield the numbers of working IPUs and used links; nothing if they have more than `most` stretches."""
    records = [record for record in trace.records if not is_waiting(record.kind)]
    if sum(record.repeat_count for record in records) <= most:
        yield Gauge("IPUs at work", _steps(_uses(records, trace.lanes)))
        yield Gauge("links in use", _steps(_uses(records, trace.channels)), of_links=True)
    yield from _gauges_of_links(trace.uses, most)


def _gauges_of_links(uses: Iterable[ChannelUse], most: int) -> Iterator[Gauge]:
    """Yield the use of each link in per cent, the busiest first, until they have `most` stretches.

    If all repetitions together have more stretches, only the first repetition is shown.
    """
    by_link: dict[str, list[ChannelUse]] = defaultdict(list)
    uses = tuple(uses)
    if sum(use.repeat_count for use in uses) > most:
        uses = tuple(replace(use, repeat_count=1) for use in uses)
    for use in uses:
        by_link[use.channel].append(use)
    carried = {
        link: sum(use.share * (use.end_ps - use.start_ps) * use.repeat_count for use in on_it)
        for link, on_it in by_link.items()
    }
    for link in sorted(by_link, key=lambda link: (-carried[link], natural_key(link))):
        most -= sum(use.repeat_count for use in by_link[link])
        if most < 0:
            return
        changes = [
            (end_ps + number * use.repeat_period_ps, sign * round(use.share * _PARTS))
            for use in by_link[link]
            for number in range(use.repeat_count)
            for end_ps, sign in ((use.start_ps, 1), (use.end_ps, -1))
        ]
        steps = [(at_ps, _PER_CENT * value / _PARTS) for at_ps, value in _steps(changes)]
        yield Gauge(f"use of {link} (%)", steps, of_links=True)


def _uses(records: Iterable[Record], lanes: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Yield +1 where a lane begins to be in use and -1 where it ends; overlapping records count once."""
    free_ps = dict.fromkeys(lanes, 0)
    used = expand(record for record in records if record.lane in free_ps)
    for record in sorted(used, key=lambda record: record.start_ps):
        start_ps = max(record.start_ps, free_ps[record.lane])
        if record.end_ps > start_ps:
            yield start_ps, 1
            yield record.end_ps, -1
            free_ps[record.lane] = record.end_ps


def gauges_of_result(result: Result, most: int) -> Iterator[Gauge]:
    """Yield power and memory, if known; nothing if they would have more than `most` stretches."""
    trace, known = result.trace, result.passes or {}
    if trace is None or sum(record.repeat_count for record in trace.records) > most:
        return
    passes: dict[str, list[Slice]] = defaultdict(list)  # every repetition, by lane
    for run in runs_of(trace.records, known):
        first, *_ = parts = tuple(map(slice_of, run))
        passes[first.lane] += _expanded([replace(first, end_ps=parts[-1].end_ps, inside=parts)])
    if result.energy is not None:
        yield Gauge("power (W)", _power(trace, result.energy, passes))
    memory = getattr(result, "memory", None)
    if isinstance(memory, MemoryReport):
        yield from _memories(result, memory, passes)


def _power(trace: Trace, energy: Energy, passes: Mapping[str, Sequence[Slice]]) -> Steps:
    """Return the counter of total power; the shown IPUs represent all IPUs in use. [W]

    The parts of a pass are recorded without order, so a pass has its mean power. The integral is the energy of the
    result.
    """
    changes: list[tuple[int, int]] = [(0, 0)]
    watts = {record.kind: Fraction(energy.dynamic_in_w(record.kind)) for record in trace.records}
    for one in (one for lane in trace.lanes for one in passes.get(lane, ())):
        drawn = sum(watts[part.category] * (part.end_ps - part.start_ps) for part in one.inside)
        fine = round(drawn / (one.end_ps - one.start_ps) * _FINE)
        changes += [(one.start_ps, fine), (one.end_ps, -fine)]
    whole = len(trace.lanes) * _FINE
    return [(at_ps, energy.power_w(fine / whole)) for at_ps, fine in _steps(changes, from_start=True)]


def _memories(result: Result, memory: MemoryReport, passes: Mapping[str, Sequence[Slice]]) -> Iterator[Gauge]:
    """Yield the memory in use on the IPUs of the first replica. [MB]

    Weights, state and code are always in memory. Passes add their temporaries, and a forward pass stores the
    activations that its backward pass reads.
    """
    stash, computed = result.stash, result.passes or {}
    back = {name.replace("forward", "backward", 1): size for name, size in stash.items()}
    for ipu in sorted({row.ipu for row in memory.rows})[:_MOST_MEMORIES]:
        tenants = memory.tenants(ipu, IN_PROCESSOR)
        temporaries = tenants.pop("temporaries", 0)
        if stash:
            tenants.pop("stash", 0)
        changes: list[tuple[int, int]] = []
        for one in passes.get(f"ipu{ipu}", ()):
            needed = temporaries if one.name in computed else 0
            left, taken = stash.get(one.name, 0) + needed, back.get(one.name, 0) + needed
            changes += [(one.start_ps, left), (one.end_ps, -taken)]
        always = sum(tenants.values())
        steps = [(at_ps, (always + size) * _MB) for at_ps, size in _steps(changes, from_start=True)]
        yield Gauge(f"memory of ipu{ipu} in use (MB)", steps)


def _steps(changes: Iterable[tuple[int, int]], *, from_start: bool = False) -> list[tuple[int, int]]:
    """Return running sums of changes; changes that cancel out are skipped, except at `from_start`."""
    sums: Counter[int] = Counter({0: 0} if from_start else {})
    for at_ps, change in changes:
        sums[at_ps] += change
    value, steps = 0, list[tuple[int, int]]()
    for at_ps, change in sorted(sums.items()):
        value += change
        if change or (from_start and at_ps == 0):
            steps.append((at_ps, value))
    return steps
