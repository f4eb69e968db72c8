"""What a timeline counts: IPUs at work, links in use, memory in use, power; each as it is from one instant to the next.

The parts of a pass by kind of time are recorded in no order of their own, so that power is the mean of each pass: its
integral over the timeline is the energy that the result tells. What is in memory while nothing is computed are weights,
state and code; passes add their temporaries, and a forward pass leaves what its backward pass reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from podsim.engine.trace import Record, Trace, expand
from podsim.program.passes_in_order import Passes
from podsim.result.base import Result
from podsim.result.kinds import is_waiting
from podsim.result.power import Energy
from podsim.result.rows import IN_PROCESSOR, MemoryReport
from podsim.result.slices import runs_of

MOST_MEMORIES: Final = 16
"""IPUs whose memory is counted."""
_FINE: Final = 10**9
"""Parts of a watt of an IPU that are told apart."""
_MB: Final = 1e-6

Steps = Sequence[tuple[int, float]]
"""(instant, value from then on); the instant in ps, in order."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """Something that is counted."""

    name: str
    of_links: bool
    steps: Steps


def gauges_of_use(trace: Trace, most: int) -> Iterator[Gauge]:
    """How many IPUs work and how many links are in use; nothing where more stretches than `most` would be counted."""
    records = [each for each in trace.records if not is_waiting(each.kind)]
    if sum(each.repeat_count for each in records) <= most:
        for name, lanes, of_links in (("IPUs at work", trace.lanes, False), ("links in use", trace.channels, True)):
            yield Gauge(name, of_links, _in_use(each for each in records if each.lane in lanes))


def gauges_of_result(result: Result, most: int) -> Iterator[Gauge]:
    """Power and memory, where they are known; nothing where more stretches than `most` would be counted."""
    trace = result.trace
    if trace is None or sum(each.repeat_count for each in trace.records) > most:
        return
    passes = _passes_of(trace.records, result.passes or {})
    if result.energy is not None:
        yield Gauge("power (W)", False, _power(trace, result.energy, passes))
    memory = getattr(result, "memory", None)
    if isinstance(memory, MemoryReport):
        yield from _memories(result, memory, passes)


def _in_use(records: Iterable[Record]) -> Steps:
    """How many lanes are in use; two records of a lane at a time are one use."""
    changes: Counter[int] = Counter()
    free_ps: dict[str, int] = {}
    for each in sorted(expand(records), key=lambda each: each.start_ps):
        start_ps = max(each.start_ps, free_ps.get(each.lane, 0))
        if each.end_ps > start_ps:
            changes[start_ps] += 1
            changes[each.end_ps] -= 1
            free_ps[each.lane] = each.end_ps
    return _summed(changes)


def _summed(changes: Mapping[int, int]) -> list[tuple[int, float]]:
    """Values from changes at instants; those that cancel out are none."""
    value, steps = 0, list[tuple[int, float]]()
    for at_ps, change in sorted(changes.items()):
        if change:
            value += change
            steps.append((at_ps, value))
    return steps


def _from_start(changes: Mapping[int, int]) -> list[tuple[int, float]]:
    """The same, with a value at the start."""
    return _summed(changes) if changes.get(0) else [(0, 0), *_summed(changes)]


def _power(trace: Trace, energy: Energy, passes: Mapping[str, Sequence[_Pass]]) -> Steps:
    """Of all that is metered; the lanes that are shown stand for all IPUs in use. [W]"""
    changes: Counter[int] = Counter()
    watts = {each.kind: Fraction(energy.dynamic_in_w(each.kind)) for each in trace.records}
    for one in (one for lane in trace.lanes for one in passes.get(lane, ())):
        drawn = sum(watts[kind] * length_ps for kind, length_ps in one.parts)
        fine = round(drawn / (one.end_ps - one.start_ps) * _FINE)
        changes[one.start_ps] += fine
        changes[one.end_ps] -= fine
    whole = len(trace.lanes) * _FINE
    return [(at_ps, energy.power_w(fine / whole)) for at_ps, fine in _from_start(changes)]


class _Pass(NamedTuple):
    """A pass, or anything else, with its times by kind. [ps]"""

    name: str
    start_ps: int
    end_ps: int
    parts: tuple[tuple[str, int], ...]


def _passes_of(records: Iterable[Record], known: Passes) -> dict[str, list[_Pass]]:
    """Of each lane, every repetition."""
    lanes: dict[str, list[_Pass]] = defaultdict(list)
    for run in runs_of(records, known):
        first, last = run[0], run[-1]
        parts = tuple((each.kind, each.end_ps - each.start_ps) for each in run)
        for number in range(first.repeat_count):
            shift_ps = number * first.repeat_period_ps
            lanes[first.lane].append(_Pass(first.name, first.start_ps + shift_ps, last.end_ps + shift_ps, parts))
    return lanes


def _memories(result: Result, memory: MemoryReport, passes: Mapping[str, Sequence[_Pass]]) -> Iterator[Gauge]:
    """In-Processor-Memory of the IPUs of the first replica. [MB]"""
    stash, computed = result.stash, result.passes or {}
    back = {name.replace("forward", "backward", 1): size for name, size in stash.items()}
    for ipu in sorted({row.ipu for row in memory.rows})[:MOST_MEMORIES]:
        tenants = memory.tenants(ipu, IN_PROCESSOR)
        temporaries = tenants.pop("temporaries", 0)
        if stash:
            tenants.pop("stash", 0)
        changes: Counter[int] = Counter()
        for each in passes.get(f"ipu{ipu}", ()):
            needed = temporaries if each.name in computed else 0
            changes[each.start_ps] += stash.get(each.name, 0) + needed
            changes[each.end_ps] -= back.get(each.name, 0) + needed
        always = sum(tenants.values())
        steps = [(at_ps, (always + size) * _MB) for at_ps, size in _from_start(changes)]
        yield Gauge(f"memory of ipu{ipu} in use (MB)", False, steps)
