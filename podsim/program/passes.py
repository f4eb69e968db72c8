"""Compilation of a pipeline into phases: fill, main, flush.

In each cycle every IPU runs its active stages one after the other. Then all IPUs of a replica synchronise, and send
activations and gradients in one merged exchange [popart_pipelining]. placement/schedule.py defines the active stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podsim import memo
from podsim.models import Workload
from podsim.models.op import ShardExchange
from podsim.placement.cuts import Segment, Stage
from podsim.placement.plan import Plan
from podsim.placement.schedule import Round
from podsim.placement.stage_cost import StageCost
from podsim.program.feed import Feed
from podsim.program.replicas import Replicas
from podsim.program.rings import ShardRings, ShardSums
from podsim.program.routed_tokens import ExpertGroups, Routed, routed_in
from podsim.program.task import Barrier, Exchange, Phase, Step, Transfer, Work
from podsim.program.transfers import link_transfer
from podsim.scenario.hardware import System
from podsim.scenario.software import Software
from podsim.tiles.account import Account
from podsim.units import cycles_to_ps

_Rounds = tuple[Round, ...]
INTER_IPU, IMBALANCE, BUBBLE, SYNC = "inter_ipu", "imbalance", "bubble", "sync"


def work(name: str, account: Account, clock_hz: float, kind: str | None = None) -> Work:
    """Convert an account of cycles into a task; with `kind`, all time is of that kind."""
    parts = ((kind, account.cycles),) if kind else account.parts()
    return Work(name, tuple((part, cycles_to_ps(cycles, clock_hz)) for part, cycles in parts))


@dataclass(frozen=True, slots=True)
class StageWork:
    """Passes of one stage as tasks, the same in every replica."""

    stage: Stage
    forward: Work
    backward: tuple[Work, ...]  # recomputation, if there is any, and the backward pass
    # ring passes of tensors between the stage's shards, by pass; empty without shards
    sums: Mapping[Work, ShardSums]
    # number of token exchanges between the stage's shards, by pass and kind; empty unless shards divide experts
    routed: Mapping[Work, Mapping[Routed, int]]


def stage_work(plan: Plan) -> tuple[StageWork, ...]:
    """Return the work of all stages."""
    return tuple(_passes(cost, plan.workload, plan.system.machine.ipu.clock_hz) for cost in plan.stages)


def _passes(cost: StageCost, workload: Workload, clock_hz: float) -> StageWork:
    index, segments = cost.stage.index, cost.stage.segments
    forward = work(f"forward {index}", cost.forward, clock_hz)
    redone = work(f"recompute {index}", cost.recompute, clock_hz)
    backward = work(f"backward {index}", cost.backward, clock_hz)
    sums = {
        forward: sums_of(workload, segments),
        redone: sums_of(workload, cost.recomputed, redone=True),
        backward: sums_of(workload, segments, backward=True),
    }
    routed = {
        forward: routed_in(workload, segments),
        redone: routed_in(workload, cost.recomputed),
        backward: routed_in(workload, segments, backward=True),
    }
    passes = (redone, backward) if cost.recompute.cycles else (backward,)
    return StageWork(cost.stage, forward, passes, *((sums, routed) if len(cost.stage.ipus) > 1 else ({}, {})))


def sums_of(
    workload: Workload, segments: Iterable[Segment], *, backward: bool = False, redone: bool = False
) -> ShardSums:
    """Count the ring passes of tensors between shards in a pass over segments, by the tensors' bytes.

    A tensor that is all-reduced goes around twice; one that is only gathered or scattered goes around once. A
    recomputed pass ends with the last result that the backward pass reads.
    """
    columns, rows = Counter[int](), Counter[int]()
    for segment in segments:
        for name in segment.blocks:
            block = workload.blocks[name]
            unread = block.unread_results if redone and name == segment.blocks[-1] else frozenset()
            for op in block.backward if backward else block.forward:
                if op.name in unread:
                    continue
                if op.name in block.partial_sums:
                    columns[op.byte_count] += 2 * segment.count
                elif isinstance(op, ShardExchange):
                    columns[op.whole_bytes] += segment.count
                if op.name in block.width_sums:
                    rows[op.byte_count] += 2 * segment.count
    return ShardSums(columns, rows)


def shard_rings(plan: Plan, members: Sequence[int]) -> ShardRings:
    """Return the rings of IPUs that share layers, arranged for the sums of all passes of the model."""
    return rings_for(plan.system, plan.software, plan.workload, members, plan.layout.width_parts)


def rings_for(
    system: System, software: Software, workload: Workload, members: Sequence[int], width_parts: int
) -> ShardRings:
    """Return the rings of IPUs that share the layers of a model with `width_parts` parts of the hidden width."""
    if width_parts == 1:
        return ShardRings.from_members(system, software.rings_of_shards, members)
    segments = [Segment((name,), count) for name, count in Counter(workload.order).items()]
    sums = sums_of(workload, segments) + sums_of(workload, segments, backward=True)
    return ShardRings.from_members(system, software.rings_of_shards, members, width_parts, sums)


@dataclass(frozen=True, slots=True)
class Cycle:
    """Pipeline cycle, the same in every replica."""

    name: str
    count: int
    wait: str  # kind of time of waiting
    patterns: tuple[int, ...]  # for each IPU of a replica, index in `Timetable.patterns` of its active stages


class Timetable:
    """Active stages of each pipeline cycle of a weight update, or of the micro-batches of an evaluation."""

    def __init__(self, plan: Plan, *, trains: bool) -> None:
        """Compile the schedule of a plan; `trains=False` has forward passes only."""
        self._schedule, self._factor = plan.layout.pipeline(trains=trains), plan.layout.accumulation_factor
        self.stages = stage_work(plan)
        # stages on each IPU of a replica
        self.held = tuple(
            tuple(stage for stage in self.stages if local in stage.stage.ipus)
            for local in range(plan.layout.ipus_per_replica)
        )
        # (stages with a forward pass, stages with a backward pass) of each round of a cycle
        self.patterns: list[_Rounds] = []
        self._numbers: dict[_Rounds, int] = {}
        self._known: dict[tuple[bool, bool], tuple[Cycle, ...]] = {}

    def cycles(self, *, alike: bool, in_order: bool) -> tuple[Cycle, ...]:
        """Return all pipeline cycles; if `alike`, equal cycles of the main phase are one cycle with repetitions."""
        if (alike, in_order) in self._known:
            return self._known[alike, in_order]
        if alike:
            held = tuple(tuple(stage.stage.index for stage in stages) for stages in self.held)
            key = held, self._schedule, self._factor, in_order
            made = memo.TIMETABLES.get(key, lambda: (tuple(self._cycles(in_order=in_order)), self.patterns))
            found, self.patterns = made
        else:
            found = tuple(_one_by_one(self._cycles(in_order=True)))
        self._known[alike, in_order] = found
        return found

    def _cycles(self, *, in_order: bool) -> Iterator[Cycle]:
        known: dict[tuple[Round, ...], tuple[int, ...]] = {}
        for span in self._schedule.spans(self._factor, in_order=in_order):
            rounds = self._schedule.rounds(span.cycle, self._factor)
            if rounds not in known:
                known[rounds] = tuple(self._number(held, rounds) for held in self.held)
            yield Cycle(span.name, span.count, BUBBLE if span.starved else IMBALANCE, known[rounds])

    def _number(self, held: Sequence[StageWork], rounds: _Rounds) -> int:
        mine = frozenset(each.stage.index for each in held)
        active = tuple((mine & ahead, mine & back) for ahead, back in rounds)
        if active not in self._numbers:
            self._numbers[active] = len(self.patterns)
            self.patterns.append(active)
        return self._numbers[active]


def _one_by_one(cycles: Iterable[Cycle]) -> Iterator[Cycle]:
    for cycle in cycles:
        if cycle.count == 1:
            yield cycle
        else:
            yield from (replace(cycle, name=f"{cycle.name} {number}", count=1) for number in range(cycle.count))


class Pipeline:
    """Pipeline cycles of one replica."""

    def __init__(
        self, plan: Plan, replicas: Replicas, replica: int, timetable: Timetable, feed: Feed, *, in_order: bool = False
    ) -> None:
        """Prepare what all cycles share; `in_order` does not fold equal cycles that are not adjacent."""
        self._plan, self._replicas, self._replica, self._timetable = plan, replicas, replica, timetable
        self._stages, self._held = timetable.stages, timetable.held
        ipu = plan.system.machine.ipu
        self._sync = Work("sync", ((SYNC, cycles_to_ps(ipu.multi_ipu_sync_cycles, ipu.clock_hz)),))
        self._inputs = {local: feed.input_steps(replica, local) for local in self._stages[0].stage.ipus}
        self._alike, self._in_order = not feed.is_live, in_order
        last = len(self._stages) - 1
        self._activations = [self._boundary(index, index + 1, "activations") for index in range(last)]
        self._gradients = [self._boundary(index + 1, index, "gradients") for index in range(last)]
        self._lanes = replicas.lanes(replica)
        self._rings = {stage.stage.ipus: self._ring(stage.stage.ipus) for stage in self._stages if stage.sums}
        self._experts = {stage.stage.ipus: self._groups(stage.stage.ipus) for stage in self._stages if stage.sums}
        self._known: dict[tuple[int, int, str], tuple[Step, ...]] = {}

    def _ring(self, ipus: range) -> ShardRings:
        return shard_rings(self._plan, [self._replicas.ipu(self._replica, local) for local in ipus])

    def _groups(self, ipus: range) -> ExpertGroups:
        members = tuple(self._replicas.ipu(self._replica, local) for local in ipus)
        return ExpertGroups(self._plan.system, self._plan.software.rings_of_shards, members)

    def phases(self) -> Iterator[Phase]:
        """Yield all pipeline cycles of one weight update, or of the micro-batches of an evaluation."""
        for cycle in self._timetable.cycles(alike=self._alike, in_order=self._in_order):
            steps = {
                lane: self._steps(local, pattern, cycle.wait)
                for local, (lane, pattern) in enumerate(zip(self._lanes, cycle.patterns, strict=True))
            }
            yield Phase(cycle.name, cycle.count, steps, cycle.wait)

    def _steps(self, local: int, pattern: int, wait: str) -> tuple[Step, ...]:
        """Return the steps of one IPU in a cycle; equal cycles share them."""
        key = local, pattern, wait
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._make_steps(local, self._timetable.patterns[pattern], wait))
        return known

    def _make_steps(self, local: int, rounds: _Rounds, wait: str) -> Iterator[Step]:
        """Yield the passes of the active stages, with a barrier and an exchange in each round."""
        barrier = Barrier(f"replica{self._replica}/cycle", wait)
        held = self._held[local]
        for number, (forward, backward) in enumerate(rounds):
            if number:
                yield barrier  # the transfers of the previous round have arrived everywhere
            for each in held:
                if each.stage.index in forward:
                    if each.stage.index == 0:
                        yield from self._inputs[local]
                    yield from self._run(each, each.forward, local)
            for each in reversed(held):
                if each.stage.index in backward:
                    for one in each.backward:
                        yield from self._run(each, one, local)
            yield barrier
            if self._plan.layout.ipus_per_replica == 1:
                continue
            yield self._sync
            # One merged exchange: activations to the next stage, gradients to the one before.
            outgoing: list[Transfer] = []
            for each in held:
                index = each.stage.index
                if index in forward and index < len(self._activations):
                    outgoing += self._activations[index].get(local, ())
                if index in backward and index > 0:
                    outgoing += self._gradients[index - 1].get(local, ())
            if outgoing:
                yield Exchange(tuple(outgoing))

    def _run(self, each: StageWork, one: Work, local: int) -> Iterator[Step]:
        """Yield a pass, followed by the exchanges of its shards."""
        yield one
        ipu = self._replicas.ipu(self._replica, local)
        if sums := each.sums.get(one):
            yield from self._rings[each.stage.ipus].steps(ipu, sums)
        if routed := each.routed.get(one):
            yield from self._experts[each.stage.ipus].steps(ipu, routed)

    def _boundary(self, source: int, target: int, what: str) -> dict[int, tuple[Transfer, ...]]:
        """Return the transfers from each IPU of stage `source` to its counterpart of stage `target`.

        There are none if both stages are on the same IPUs. Every shard has a full copy of the hidden state, so each IPU
        sends its copy to its counterpart.
        """
        ends = [self._stages[index].stage.ipus for index in (source, target)]
        if ends[0] == ends[1]:
            return {}
        plan = self._plan
        byte_count = plan.handed_over_bytes(source) if source < target else plan.handed_back_bytes(target)
        name = f"{what} {source}→{target}"

        def sent(*pair: int) -> tuple[Transfer, ...]:
            start, end = (self._replicas.ipu(self._replica, local) for local in pair)
            return (link_transfer(self._replicas.routes, name, INTER_IPU, start, end, byte_count),)

        return {local: sent(local, fellow) for local, fellow in zip(*ends, strict=True)}
