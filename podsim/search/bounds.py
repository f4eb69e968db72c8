"""Times that a simulation cannot stay below: steps of a program while nothing else is under way."""

from __future__ import annotations

from collections.abc import Iterable

from podsim.models import Workload
from podsim.placement.cuts import Segment
from podsim.placement.layout import PlanInput
from podsim.placement.plan import Plan
from podsim.program.host import training_call
from podsim.program.passes import rings_for, sums_of
from podsim.program.rings import ShardRings, ShardSums
from podsim.program.task import Exchange, Step, Work
from podsim.units import ps_to_seconds


def alone_ps(step: Step) -> int:
    """Return the time of a step on an otherwise idle machine. [ps]"""
    match step:
        case Work():
            return sum(duration for _, duration in step.parts)
        case Exchange():
            return max(
                transfer.latency_ps + max((time for _, time in transfer.channels), default=0)
                for transfer in step.transfers
            )
    return 0


def call_s(job: PlanInput) -> float:
    """Return the time of the host call of a weight update; it depends on the layout, not on the cuts. [s]"""
    plan = Plan(job.system, job.software, job.workload, job.layout, job.precision, job.optimizer, ())
    return ps_to_seconds(training_call(plan).time_ps)


def rings_of_first(job: PlanInput, workload: Workload, shards: int) -> ShardRings:
    """Return the rings of the first IPUs that share layers, for the largest shard; no others are faster."""
    return rings_for(job.system, job.software, workload, range(shards), job.layout.width_parts)


def added_up_s(
    rings: ShardRings, workload: Workload, ahead: Iterable[Segment], back: Iterable[Segment], *, latencies: bool = True
) -> float:
    """Return the time that shards take to sum tensors, for `ahead` in forward and `back` in backward passes. [s]"""
    sums = sums_of(workload, ahead) + sums_of(workload, back, backward=True)
    return shard_sums_s(rings, sums, latencies=latencies)


def shard_sums_s(rings: ShardRings, sums: ShardSums, *, latencies: bool = True) -> float:
    """Return the time that shards take to sum tensors on an idle machine, with or without latencies. [s]"""
    first, *others = rings.columns
    if not others:
        return 0.0
    steps = rings.steps(first, sums)
    if latencies:
        return ps_to_seconds(sum(map(alone_ps, steps)))
    exchanges = (step.transfers for step in steps if isinstance(step, Exchange))
    return ps_to_seconds(sum(max(ps for each in sent for _, ps in each.channels) for sent in exchanges))
