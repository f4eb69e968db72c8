"""Warnings about the validity of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podsim.engine import Trace
from podsim.format import format_percent
from podsim.placement import Plan
from podsim.placement.fit import misfit_text, overflow
from podsim.placement.memory import IpuMemory, fit_verdict
from podsim.program.compile import replicas_of
from podsim.program.feed import HOST_WAIT, Feed
from podsim.program.replicas import Replicas
from podsim.units import format_bytes

_SHORT_WAIT: Final = 0.05
_CURES: Final = {
    "decode": ("host servers", "more servers or faster decoding"),
    "process": ("processes on hosts", "more of them or smaller samples"),
    "network": ("network cards of host servers", "more servers or faster cards"),
    "host_link": ("host links", "faster host links or smaller samples"),
}
_STREAMING: Final = ("gateways", "faster streaming memory, or no I/O tiles,")


def misfits(memory: Sequence[IpuMemory]) -> Iterator[str]:
    """Yield a warning for a layout that does not fit, or may not fit, and is simulated all the same."""
    share = format_percent(max(overflow(memory), 1.0) - 1)
    match fit_verdict(memory):
        case "does not fit":
            yield f"does not fit, by {share}, and is simulated as if it did: {misfit_text(memory)}"
        case "cannot tell":
            least = format_bytes(max(ipu.used_bytes() - ipu.uncertain_bytes for ipu in memory), 4)
            yield (
                f"cannot tell if this fits, and simulates it as if it did: {misfit_text(memory)}; with the least code "
                f"in its range, {least} are enough"
            )


def spared_work(plan: Plan, update_s: float) -> Iterator[str]:
    """Yield a warning if a chosen layout is fast because its last segment is not recomputed.

    The search chose where this segment starts; no published run starts it as early.
    """
    last = plan.stages[-1]
    if not plan.layout.recompute or last.recomputed == last.stage.segments or plan.software.recompute_last_segment:
        return
    segment = last.stage.segments[-1]
    cycles = sum(last.blocks[name].forward_account.cycles for name in segment.blocks) * segment.count
    spared_s = cycles * plan.layout.accumulation_factor / plan.system.machine.ipu.clock_hz
    share = format_percent(spared_s / (update_s + spared_s))
    yield (
        f"the advantage of this division is an upper bound: its last segment, from `{segment.blocks[0]}` on, is not "
        f"redone (software.recompute_last_segment), which spares {share} of a weight update; no published run starts "
        "that segment as early as memory would allow"
    )


def warnings_of(plan: Plan, trace: Trace) -> Iterator[str]:
    """Yield all warnings about a weight update."""
    yield from misfits(plan.memory)
    yield from waits(plan, replicas_of(plan), trace)


def waits(plan: Plan, replicas: Replicas, trace: Trace) -> Iterator[str]:
    """Yield a warning if IPUs wait long for data, with the cause."""
    lanes = [trace.lanes[lane] for lane in replicas.lanes(0)]
    # One IPU of a replica receives the data; later IPUs wait for its results.
    share = max(lane.get(HOST_WAIT, 0) for lane in lanes) / trace.makespan_ps
    if share > _SHORT_WAIT:
        channel = Feed(plan, replicas).slowest_channel
        part, cure = _CURES.get(channel.rpartition("/")[2], _STREAMING)
        yield f"{part} set the pace: IPUs wait for data {format_percent(share)} of the time; {cure} would help"
