"""A lower bound for the time of a weight update of a plan, without the engine: no transfer waits for another."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from podsim.placement.plan import Plan
from podsim.placement.topology import Routes
from podsim.program.compile import replicas_of
from podsim.program.feed import Feed
from podsim.program.passes import INTER_IPU
from podsim.program.task import Exchange, Step, Work
from podsim.program.transfers import link_transfer
from podsim.program.update import Rings, update_phases
from podsim.units import ps_to_seconds


def least_s(plan: Plan) -> float:
    """Pipeline and update, or what host servers and links take to bring the data, whichever is longer. [s]"""
    fed_ps = Feed(plan, replicas_of(plan)).interval_ps() * plan.layout.accumulation_factor
    return max(pipeline_s(plan) + hand_over_s(plan) + update_s(plan), ps_to_seconds(fed_ps))


def hand_over_s(plan: Plan) -> float:
    """Every micro-batch crosses the slowest boundary between stages, once forward and once backward. [s]"""
    rounds = 2 if plan.software.schedule == "grouped" else 1
    slowest_ps, routes = 0, Routes(plan.system)
    for index, (cost, following) in enumerate(pairwise(plan.stages)):
        source, target = cost.stage.ipus.start, following.stage.ipus.start
        if source != target:
            byte_count = plan.handed_over_bytes(index)
            sent = link_transfer(routes, "activations", INTER_IPU, source, target, byte_count)
            slowest_ps = max(slowest_ps, _step_ps(Exchange((sent,))))
    return ps_to_seconds(rounds * plan.layout.accumulation_factor * slowest_ps)


def pipeline_s(plan: Plan) -> float:
    """All pipeline cycles of a weight update, transfers between stages apart. [s]"""
    grouped = plan.software.schedule == "grouped"
    passes = [
        (cost.stage.ipus.start, cost.forward.cycles, cost.recompute.cycles + cost.backward.cycles)
        for cost in plan.stages
    ]
    cycles = pipeline_cycles(passes, plan.layout.accumulation_factor, grouped=grouped)
    return cycles / plan.system.machine.ipu.clock_hz


def pipeline_cycles(passes: list[tuple[int, float, float]], accumulation_factor: int, *, grouped: bool) -> float:
    """Computation of all pipeline cycles of a weight update. [cycles]

    Args:
        passes: IPU, forward and backward cycles of each stage.
        accumulation_factor: Micro-batches, at least 2·(stages - 1) + 1.
        grouped: Whether all forward passes of a cycle end before the backward passes start.

    Source: [popart_pipelining].

    >>> pipeline_cycles([(0, 1.0, 2.0), (1, 1.0, 2.0)], 4, grouped=False)  # 1, 3; 2 x 3; 3, 2
    15.0
    """
    last = len(passes) - 1

    def cycle(number: int) -> float:
        ahead = [stage for stage in range(last + 1) if 0 <= number - stage < accumulation_factor]
        back = [stage for stage in range(last + 1) if 0 <= number - 2 * last + stage < accumulation_factor]
        forward, backward = [(stage, 1) for stage in ahead], [(stage, 2) for stage in back]
        rounds = [forward, backward] if grouped else [forward + backward]
        return sum(_slowest(passes, each) for each in rounds)

    ramp = 2 * last
    ramps = sum(cycle(number) for number in (*range(ramp), *range(accumulation_factor, accumulation_factor + ramp)))
    return ramps + (accumulation_factor - ramp) * cycle(ramp)


def _slowest(passes: list[tuple[int, float, float]], active: Iterable[tuple[int, int]]) -> float:
    """The IPU with the most to do; of each stage one of its passes counts. [cycles]"""
    busy: dict[int, float] = {}
    for stage, which in active:
        ipu = passes[stage][0]
        busy[ipu] = busy.get(ipu, 0.0) + passes[stage][which]
    return max(busy.values(), default=0.0)


def update_s(plan: Plan) -> float:
    """Gradients, optimizer, weights and the call back to the host, each transfer on links of its own. [s]"""
    total_ps = 0
    replicas = replicas_of(plan)
    for phase in update_phases(plan, replicas, 0, Rings(plan, replicas)):
        total_ps += phase.count * max(sum(map(_step_ps, steps)) for steps in phase.steps.values())
    return ps_to_seconds(total_ps)


def _step_ps(step: Step) -> int:
    match step:
        case Work():
            return sum(duration for _, duration in step.parts)
        case Exchange():
            return max(each.latency_ps + max((time for _, time in each.channels), default=0) for each in step.transfers)
    return 0
