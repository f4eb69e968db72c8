"""The lock-step pipeline as phases: fill, main, flush.

In each pipeline cycle every IPU runs the stages that are active on it, one after the other; then all
IPUs of the replica synchronise and hand their results on in one merged exchange. Stage s of S runs
the forward pass of micro-batch j in cycle j + s and its backward pass in cycle j + 2(S - 1) - s.
In the grouped schedule a cycle has two such rounds: all forward passes, then all backward passes.

Source: [popart_pipelining], [tensorflow_pipelining] for the grouped schedule.
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
from podsim.placement.stage_cost import StageCost
from podsim.program.feed import Feed
from podsim.program.replicas import Replicas
from podsim.program.rings import ShardRings, ShardSums
from podsim.program.task import Barrier, Exchange, Phase, Step, Transfer, Work
from podsim.program.transfers import link_transfer
from podsim.tiles.account import Account
from podsim.units import cycles_to_ps

_Stages = frozenset[int]
_Rounds = tuple[tuple[_Stages, _Stages], ...]
INTER_IPU, IMBALANCE, BUBBLE, SYNC = "inter_ipu", "imbalance", "bubble", "sync"


def work(name: str, account: Account, clock_hz: float, kind: str | None = None) -> Work:
    """An account of cycles as a task; all of one `kind` if given."""
    parts = ((kind, account.cycles),) if kind else account.parts()
    return Work(name, tuple((part, cycles_to_ps(cycles, clock_hz)) for part, cycles in parts))


@dataclass(frozen=True, slots=True)
class StageWork:
    """The passes of one stage as tasks, the same in every replica.

    Attributes:
        stage: The stage.
        forward: Its forward pass.
        backward: What is redone of it, and its backward pass.
        sums: How often tensors go around the rings of its shards in a pass; empty without shards.
    """

    stage: Stage
    forward: Work
    backward: tuple[Work, ...]
    sums: Mapping[Work, ShardSums]


def stage_work(plan: Plan) -> tuple[StageWork, ...]:
    """The work of all stages."""
    return tuple(_passes(cost, plan.workload, plan.system.machine.ipu.clock_hz) for cost in plan.stages)


def _passes(cost: StageCost, workload: Workload, clock_hz: float) -> StageWork:
    index, segments = cost.stage.index, cost.stage.segments
    forward = work(f"forward {index}", cost.forward, clock_hz)
    redone = work(f"recompute {index}", cost.recompute, clock_hz)
    backward = work(f"backward {index}", cost.backward, clock_hz)
    sums = {
        forward: sums_of(workload, segments),
        redone: sums_of(workload, cost.recomputed),
        backward: sums_of(workload, segments, backward=True),
    }
    passes = (redone, backward) if cost.recompute.cycles else (backward,)
    return StageWork(cost.stage, forward, passes, sums if len(cost.stage.ipus) > 1 else {})


def sums_of(workload: Workload, segments: Iterable[Segment], *, backward: bool = False) -> ShardSums:
    """How often tensors go around the rings of shards in a pass over segments, by their bytes.

    Those that are added up do twice, to be reduced and to be gathered; others once, for one of the two.
    """
    columns, rows = Counter[int](), Counter[int]()
    for segment in segments:
        for name in segment.blocks:
            block = workload.blocks[name]
            for op in block.backward if backward else block.forward:
                if op.name in block.partial_sums:
                    columns[op.byte_count] += 2 * segment.count
                elif isinstance(op, ShardExchange):
                    columns[op.whole_bytes] += segment.count
                if op.name in block.width_sums:
                    rows[op.byte_count] += 2 * segment.count
    return ShardSums(columns, rows)


def shard_rings(plan: Plan, members: Sequence[int]) -> ShardRings:
    """The rings of some IPUs that share layers, laid out for what all passes of the model add up."""
    if plan.layout.width_parts == 1:
        return ShardRings.of(plan.system, plan.software.collective_rings, members)
    segments = [Segment((name,), count) for name, count in Counter(plan.workload.order).items()]
    sums = sums_of(plan.workload, segments) + sums_of(plan.workload, segments, backward=True)
    return ShardRings.of(plan.system, plan.software.collective_rings, members, plan.layout.width_parts, sums)


@dataclass(frozen=True, slots=True)
class Cycle:
    """A pipeline cycle, the same in every replica.

    Attributes:
        name: Of its phase.
        count: Repetitions.
        wait: Kind of time that waiting is accounted as.
        patterns: Number of the pattern of each IPU of a replica: which of its stages are active.
    """

    name: str
    count: int
    wait: str
    patterns: tuple[int, ...]


class Timetable:
    """Which stages are active in which pipeline cycle of a weight update, or of as many micro-batches of an evaluation.

    Attributes:
        stages: Their work.
        held: Stages on each IPU of a replica.
        patterns: (stages with a forward pass, stages with a backward pass) of each round of a cycle.
    """

    def __init__(self, plan: Plan, *, trains: bool) -> None:
        """Of a plan; without `trains` there are forward passes only."""
        self._trains, self._grouped = trains, plan.software.schedule == "grouped"
        self._factor, self._last = plan.layout.accumulation_factor, len(plan.stages) - 1
        self.stages = stage_work(plan)
        self.held = tuple(
            tuple(each for each in self.stages if local in each.stage.ipus)
            for local in range(plan.layout.ipus_per_replica)
        )
        self.patterns: list[_Rounds] = []
        self._numbers: dict[_Rounds, int] = {}
        self._known: dict[bool, tuple[Cycle, ...]] = {}

    def cycles(self, *, alike: bool) -> tuple[Cycle, ...]:
        """All pipeline cycles in order; those of the main phase as one with repetitions if they are alike."""
        if alike in self._known:
            return self._known[alike]
        if alike:
            held = tuple(tuple(each.stage.index for each in stages) for stages in self.held)
            key = held, self._last, self._factor, self._trains, self._grouped
            found, self.patterns = memo.TIMETABLES.get(key, lambda: (tuple(self._cycles(alike=True)), self.patterns))
        else:
            found = tuple(self._cycles(alike=False))
        self._known[alike] = found
        return found

    def _cycles(self, *, alike: bool) -> Iterator[Cycle]:
        factor, ramp = self._factor, 2 * self._last if self._trains else self._last
        for cycle in range(min(ramp, factor)):
            yield self._cycle(f"fill {cycle}", cycle, 1, BUBBLE)
        if factor > ramp and alike:
            yield self._cycle("main", ramp, factor - ramp, IMBALANCE)
        elif factor > ramp:
            main = self._cycle("main", ramp, 1, IMBALANCE)
            yield from (replace(main, name=f"main {cycle - ramp}") for cycle in range(ramp, factor))
        for cycle in range(max(factor, ramp), factor + ramp):
            yield self._cycle(f"flush {cycle - factor}", cycle, 1, BUBBLE)

    def _cycle(self, name: str, cycle: int, count: int, wait: str) -> Cycle:
        last = self._last
        forward = {index for index in range(last + 1) if self._active(cycle - index)}
        backward = {index for index in range(last + 1) if self._trains and self._active(cycle - 2 * last + index)}
        rounds: list[tuple[set[int], set[int]]] = [(forward, backward)]
        if self._trains and self._grouped:
            rounds = [(forward, set()), (set(), backward)]
        return Cycle(name, count, wait, tuple(self._number(held, rounds) for held in self.held))

    def _active(self, micro_batch: int) -> bool:
        return 0 <= micro_batch < self._factor

    def _number(self, held: Sequence[StageWork], rounds: Sequence[tuple[set[int], set[int]]]) -> int:
        mine = {each.stage.index for each in held}
        active = tuple((frozenset(mine & ahead), frozenset(mine & back)) for ahead, back in rounds)
        if active not in self._numbers:
            self._numbers[active] = len(self.patterns)
            self.patterns.append(active)
        return self._numbers[active]


class Pipeline:
    """The pipeline cycles of one replica."""

    def __init__(self, plan: Plan, replicas: Replicas, replica: int, timetable: Timetable, feed: Feed) -> None:
        """Prepare what all cycles have in common."""
        self._plan, self._replicas, self._replica, self._timetable = plan, replicas, replica, timetable
        self._stages, self._held = timetable.stages, timetable.held
        ipu = plan.system.machine.ipu
        self._sync = Work("sync", ((SYNC, cycles_to_ps(ipu.multi_ipu_sync_cycles, ipu.clock_hz)),))
        self._inputs = {local: feed.input_steps(replica, local) for local in self._stages[0].stage.ipus}
        self._alike = not feed.is_live
        last = len(self._stages) - 1
        self._activations = [self._boundary(index, index + 1, "activations") for index in range(last)]
        self._gradients = [self._boundary(index + 1, index, "gradients") for index in range(last)]
        self._lanes = replicas.lanes(replica)
        self._rings = {each.stage.ipus: self._ring(each.stage.ipus) for each in self._stages if each.sums}
        self._known: dict[tuple[int, int, str], tuple[Step, ...]] = {}

    def _ring(self, ipus: range) -> ShardRings:
        return shard_rings(self._plan, [self._replicas.ipu(self._replica, local) for local in ipus])

    def phases(self) -> Iterator[Phase]:
        """All pipeline cycles of one weight update, or of as many micro-batches that are only evaluated."""
        for cycle in self._timetable.cycles(alike=self._alike):
            steps = {
                lane: self._steps(local, pattern, cycle.wait)
                for local, (lane, pattern) in enumerate(zip(self._lanes, cycle.patterns, strict=True))
            }
            yield Phase(cycle.name, cycle.count, steps, cycle.wait)

    def _steps(self, local: int, pattern: int, wait: str) -> tuple[Step, ...]:
        """What one IPU does in a cycle, which is the same in many cycles."""
        key = local, pattern, wait
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = tuple(self._make_steps(local, self._timetable.patterns[pattern], wait))
        return known

    def _make_steps(self, local: int, rounds: _Rounds, wait: str) -> Iterator[Step]:
        """Passes of the stages that are active, a meeting and a hand-over in each round."""
        barrier = Barrier(f"replica{self._replica}/cycle", wait)
        held = self._held[local]
        for number, (forward, backward) in enumerate(rounds):
            if number:
                yield barrier  # what the round before sent has arrived everywhere
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
        """A pass, and what its shards add up, each tensor before anything reads it."""
        yield one
        if sums := each.sums.get(one):
            yield from self._rings[each.stage.ipus].steps(self._replicas.ipu(self._replica, local), sums)

    def _boundary(self, source: int, target: int, what: str) -> dict[int, tuple[Transfer, ...]]:
        """What each IPU of stage `source` sends to its fellow of stage `target`, if they are on different IPUs.

        Every shard reads, and has, all of a hidden state, so that each hands on its own copy.
        """
        ends = [self._stages[index].stage.ipus for index in (source, target)]
        if ends[0] == ends[1]:
            return {}
        plan = self._plan
        byte_count = plan.handed_over_bytes(min(source, target))
        name = f"{what} {source}→{target}"

        def sent(*pair: int) -> tuple[Transfer, ...]:
            start, end = (self._replicas.ipu(self._replica, local) for local in pair)
            return (link_transfer(self._replicas.routes, name, INTER_IPU, start, end, byte_count),)

        return {local: sent(local, fellow) for local, fellow in zip(*ends, strict=True)}
