"""The lock-step pipeline as phases: fill, main, flush.

In each pipeline cycle every IPU runs the stages that are active on it, one after the other; then all
IPUs of the replica synchronise and hand their results on in one merged exchange. Stage s of S runs
the forward pass of micro-batch j in cycle j + s and its backward pass in cycle j + 2(S - 1) - s.

Source: [popart_pipelining].
"""

from __future__ import annotations

from collections.abc import Iterator

from podsim.cost.account import Account
from podsim.plan.plan import Plan
from podsim.plan.stage_cost import StageCost
from podsim.program.replicas import Replicas
from podsim.program.task import Barrier, Exchange, Phase, Step, Transfer, Work
from podsim.program.transfers import host_load, link_transfer
from podsim.units import cycles_to_ps

INTER_IPU, IMBALANCE, BUBBLE, SYNC = "inter_ipu", "imbalance", "bubble", "sync"


def work(name: str, account: Account, clock_hz: float, kind: str | None = None) -> Work:
    """An account of cycles as a task; all of one `kind` if given."""
    parts = ((kind, account.cycles),) if kind else account.parts()
    return Work(name, tuple((part, cycles_to_ps(cycles, clock_hz)) for part, cycles in parts))


def pipeline_phases(plan: Plan, replicas: Replicas, replica: int) -> Iterator[Phase]:
    """All pipeline cycles of one weight update of one replica."""
    factor, ramp = plan.options.accumulation_factor, 2 * (len(plan.stages) - 1)
    for cycle in range(min(ramp, factor)):
        yield _cycle(plan, replicas, replica, f"fill {cycle}", cycle, 1)
    if factor > ramp:
        yield _cycle(plan, replicas, replica, "main", ramp, factor - ramp)
    for cycle in range(max(factor, ramp), factor + ramp):
        yield _cycle(plan, replicas, replica, f"flush {cycle - factor}", cycle, 1)


def _cycle(plan: Plan, replicas: Replicas, replica: int, name: str, cycle: int, count: int) -> Phase:
    wait = IMBALANCE if name == "main" else BUBBLE
    forward = {cost.stage.index for cost in plan.stages if _active(plan, cycle - cost.stage.index)}
    last = len(plan.stages) - 1
    backward = {
        cost.stage.index for cost in plan.stages if _active(plan, cycle - 2 * last + cost.stage.index)
    }
    steps: dict[str, tuple[Step, ...]] = {}
    for local in range(plan.options.ipus_per_replica):
        ipu = replicas.ipu(replica, local)
        steps[replicas.lane(replica, local)] = (
            *_stage_steps(plan, ipu, local, forward, backward),
            Barrier(f"replica{replica}/cycle", wait),
            *_hand_over(plan, replicas, replica, local, forward, backward),
        )
    return Phase(name, count, steps, wait)


def _active(plan: Plan, micro_batch: int) -> bool:
    return 0 <= micro_batch < plan.options.accumulation_factor


def _stage_steps(plan: Plan, ipu: int, local: int, forward: set[int], backward: set[int]) -> Iterator[Step]:
    """Host load and stage passes of one IPU, forward stages first."""
    clock = plan.system.machine.ipu.clock_hz
    mine = [cost for cost in plan.stages if cost.stage.ipu == local]
    for cost in mine:
        if cost.stage.index in forward:
            if cost.stage.index == 0:
                yield Exchange((host_load(plan.system, ipu, plan.workload.host_input_bytes),))
            yield work(f"forward {cost.stage.index}", cost.forward, clock)
    for cost in reversed(mine):
        if cost.stage.index in backward:
            yield from _backward(cost, clock)


def _backward(cost: StageCost, clock_hz: float) -> Iterator[Step]:
    if cost.recompute.cycles:
        yield work(f"recompute {cost.stage.index}", cost.recompute, clock_hz)
    yield work(f"backward {cost.stage.index}", cost.backward, clock_hz)


def _hand_over(
    plan: Plan, replicas: Replicas, replica: int, local: int, forward: set[int], backward: set[int]
) -> Iterator[Step]:
    """Sync and merged exchange: activations to the next stage, gradients to the one before."""
    if plan.options.ipus_per_replica == 1:
        return
    ipu = plan.system.machine.ipu
    yield Work("sync", ((SYNC, cycles_to_ps(ipu.multi_ipu_sync_cycles, ipu.clock_hz)),))
    transfers = tuple(_outgoing(plan, replicas, replica, local, forward, backward))
    if transfers:
        yield Exchange(transfers)


def _outgoing(
    plan: Plan, replicas: Replicas, replica: int, local: int, forward: set[int], backward: set[int]
) -> Iterator[Transfer]:
    last = len(plan.stages) - 1
    for cost in plan.stages:
        stage = cost.stage
        if stage.ipu != local:
            continue
        if stage.index in forward and stage.index < last:
            yield from _boundary(plan, replicas, replica, stage.index, stage.index + 1, "activations")
        if stage.index in backward and stage.index > 0:
            yield from _boundary(plan, replicas, replica, stage.index, stage.index - 1, "gradients")


def _boundary(
    plan: Plan, replicas: Replicas, replica: int, source: int, target: int, what: str
) -> Iterator[Transfer]:
    """What stage `source` sends to stage `target`, if they are on different IPUs."""
    ends = [plan.stages[index].stage.ipu for index in (source, target)]
    if ends[0] != ends[1]:
        upstream = plan.stages[min(source, target)].stage
        block = plan.workload.blocks[upstream.blocks[-1][0]]
        byte_count = block.output_elements * plan.workload.activation_bytes
        source_ipu, target_ipu = (replicas.ipu(replica, local) for local in ends)
        yield link_transfer(plan.system, f"{what} {source}→{target}", INTER_IPU, source_ipu, target_ipu, byte_count)
