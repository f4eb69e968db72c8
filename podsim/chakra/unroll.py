"""A program as a recorded graph: every step of every repetition a node of its rank, at the time at which it ran.

Steps of a lane follow one another. Lanes that meet do so in a collective of kind `barrier`, unless all of them are of
one rank; steps of a ring become the collective that they make up. The host process that calls the IPUs, what feeds a
replica and I/O tiles work beside a rank: in its file, on a lane of their own.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from podsim.engine import execute
from podsim.engine.trace import Record
from podsim.errors import PodsimError
from podsim.models.op import Conv, MatMul
from podsim.program import recorded
from podsim.program.passes_in_order import Passes
from podsim.program.recorded import Kind, Node, Recorded
from podsim.program.task import (
    Acquire,
    Barrier,
    Collective,
    Exchange,
    Group,
    Phase,
    Program,
    Release,
    Step,
    Transfer,
    Work,
)

MOST_NODES: Final = 2_000_000
_OWN_RANK: Final = re.compile(r"(?:ipu|loader)(\d+)(?:/(.+))?")
_MEMORY: Final = re.compile(r"ipu\d+/streaming/(read|write)")
_HOST: Final = "host"

_Point = int | tuple[str, int]
"""Something that has ended: a node by its number, or the n-th release of a token or meeting of lanes."""


def unrolled(program: Program, passes: Passes | None = None) -> tuple[Recorded, int]:
    """Return the graph of a program, and its makespan. [ps]"""
    steps = sum(
        phase.count * (1 + len(phase.steps.get(lane, ())))
        for group in program.groups
        for phase in group.phases
        for lane in group.lanes
    )
    if steps > MOST_NODES:
        what = f"{steps:,} steps of all IPUs are more than the {MOST_NODES:,} that a graph of nodes may have"
        raise PodsimError(what, do="take fewer IPUs or micro-batches: another system, or a smaller batch")
    known: dict[int, tuple[Step, ...]] = {}
    program = replace(program, groups=tuple(_told_apart(group, known) for group in program.groups))
    trace = execute(program, explicit=True, record=True)
    times: dict[str, list[Record]] = defaultdict(list)
    for record in trace.records:
        times[record.lane].append(record)
    return _Unrolled(program, times, passes or {}).recorded(), trace.makespan_ps


def _told_apart(group: Group, known: dict[int, tuple[Step, ...]]) -> Group:
    """Return a group without a warm-up, whose waits have one kind for each place."""

    def told_apart(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        if id(steps) not in known:
            known[id(steps)] = tuple(
                replace(step, kind=step.key) if isinstance(step, Barrier | Acquire) else step for step in steps
            )
        return known[id(steps)]

    phases = tuple(
        replace(
            phase,
            steps={lane: told_apart(steps) for lane, steps in phase.steps.items()},
            wait_kind=f"end of phase {number}",
        )
        for number, phase in enumerate(group.phases)
    )
    return replace(group, phases=phases, warm_up=0)


@dataclass(slots=True)
class _Open:
    """A collective under way on a lane."""

    whole: Collective
    start_ps: int
    done: int = 0


@dataclass(slots=True)
class _Lane:
    """Position of a lane in its records."""

    rank: int
    name: str
    records: Iterator[Record]
    next: Record | None
    now_ps: int = 0
    tail: tuple[_Point, ...] = ()
    open: _Open | None = None
    met: Counter[str] = field(default_factory=Counter)


class _Unrolled:
    def __init__(self, program: Program, times: Mapping[str, Sequence[Record]], passes: Passes) -> None:
        self._program, self._times = program, times
        self._work = {name: _work_of(name, passes) for name in passes}
        self._nodes: list[list[Node]] = []
        self._after: list[list[tuple[_Point, ...]]] = []
        self._points: dict[tuple[str, int], tuple[_Point, ...]] = {}
        self._groups: dict[str, tuple[int, ...]] = {}
        self._arrivals: list[tuple[int, Node]] = []
        self._tags: Counter[tuple[int, int]] = Counter()
        self._ranks = self._ranks_of()
        self._meeting = self._lanes_that_meet()
        self._begin: dict[str, dict[int, int]] = defaultdict(dict)

    def recorded(self) -> Recorded:
        """Return the graph of all ranks."""
        count = 1 + max(rank for rank, _ in self._ranks.values())
        self._nodes, self._after = [[] for _ in range(count)], [[] for _ in range(count)]
        for group in self._program.groups:
            for name in group.lanes:
                self._walk(name, group.phases * group.turns, f"end of a phase of {group.name}")
        own = [[node for node in nodes if not node.lane] for nodes in self._nodes]
        for rank, node in self._arrivals:
            self._receive(rank, node, own[rank])
        return Recorded(tuple(self._sorted(rank) for rank in range(count)), self._groups)

    def _ranks_of(self) -> dict[str, tuple[int, str]]:
        """Return rank and name of each lane; lanes without an IPU are ranked by their replica."""
        found = {}
        for name in (lane for group in self._program.groups for lane in group.lanes):
            if match := _OWN_RANK.fullmatch(name):
                found[name] = int(match[1]), match[2] or ("loader" if name.startswith("loader") else "")
        replicas = [group.lanes[0] for group in self._program.groups if group.accounted]
        others = defaultdict(list)
        for name in (lane for group in self._program.groups for lane in group.lanes if lane not in found):
            others[name.rstrip("0123456789")].append(name)
        for names in others.values():
            for number, name in enumerate(names):
                found[name] = found[replicas[number * len(replicas) // len(names)]][0], name
        return found

    def _lanes_that_meet(self) -> dict[str, tuple[str, ...]]:
        lanes: dict[str, dict[str, None]] = defaultdict(dict)
        for group in self._program.groups:
            lanes[f"end of a phase of {group.name}"] = dict.fromkeys(group.lanes)
            for phase in group.phases:
                for lane, steps in phase.steps.items():
                    for step in steps:
                        if isinstance(step, Barrier):
                            lanes[step.key][lane] = None
        return {key: tuple(names) for key, names in lanes.items()}

    def _walk(self, name: str, phases: Sequence[Phase], join: str) -> None:
        """Add all steps of a lane, with the times at which they ran."""
        rank, own = self._ranks[name]
        records = iter(self._times.get(name, ()))
        lane = _Lane(rank, own, records, next(records, None))
        for phase in phases:
            # Lanes of a group join after every step of a ring; of the whole collective they do once.
            is_ring = any(_goes_on(step) for steps in phase.steps.values() for step in steps)
            for number in range(1, phase.count + 1):
                for step in phase.steps.get(name, ()):
                    self._step(lane, step)
                if is_ring and number < phase.count:
                    self._pass(lane, phase.wait_kind, phase.wait_kind)
                else:
                    self._meet(lane, Barrier(join, phase.wait_kind))

    def _step(self, lane: _Lane, step: object) -> None:
        match step:
            case Work():
                start_ps = lane.now_ps
                for kind, duration in step.parts:
                    if duration:
                        self._pass(lane, kind, step.name)
                operations, size = self._work.get(step.name, (0, 0))
                self._add(lane, Node(0, step.name, recorded.COMPUTE, operations=operations, size_bytes=size), start_ps)
            case Exchange():
                self._exchange(lane, step)
            case Barrier():
                self._meet(lane, step)
            case Acquire():
                self._pass(lane, step.kind, step.kind)
                number = lane.met[step.key] - self._program.semaphores.get(step.key, 0)
                lane.met[step.key] += 1
                if number >= 0:
                    lane.tail = (*lane.tail, (step.key, number))
            case Release():
                self._points[step.key, lane.met[step.key]] = lane.tail
                lane.met[step.key] += 1

    def _pass(self, lane: _Lane, kind: str, name: str) -> bool:
        """Time goes on to the end of what ran next, if that is it and took any time."""
        one = lane.next
        found = one is not None and (one.start_ps, one.kind, one.name) == (lane.now_ps, kind, name)
        if one is not None and found:
            lane.now_ps, lane.next = one.end_ps, next(lane.records, None)
        return found

    def _add(self, lane: _Lane, node: Node, start_ps: int, *, parallel: bool = False) -> int:
        """Add a node that depends on everything the lane did before, and return its number."""
        nodes = self._nodes[lane.rank]
        number = len(nodes)
        duration_ps, own = lane.now_ps - start_ps, node.lane or lane.name
        timed = replace(node, number=number, start_ps=start_ps, duration_ps=duration_ps, lane=own)
        nodes.append(timed)
        self._after[lane.rank].append(lane.tail)
        if not parallel:
            lane.tail = (number,)
        return number

    def _exchange(self, lane: _Lane, step: Exchange) -> None:
        start_ps = lane.now_ps
        any(self._pass(lane, transfer.kind, transfer.name) for transfer in step.transfers)
        if step.collective is not None:
            lane.open = lane.open or _Open(step.collective, start_ps)
            lane.open.done += 1
        elif step.transfers:
            sent = [self._sent(lane, transfer, start_ps) for transfer in step.transfers]
            lane.tail = tuple(self._add(lane, node, start_ps, parallel=True) for node in sent)

    def _sent(self, lane: _Lane, transfer: Transfer, start_ps: int) -> Node:
        memory = next((way[1] for name, _ in transfer.channels if (way := _MEMORY.fullmatch(name))), None)
        if transfer.receiver:
            peer = self._ranks[transfer.receiver][0]
            tag = self._tags[lane.rank, peer]
            self._tags[lane.rank, peer] += 1
            node = Node(0, transfer.name, recorded.SEND, size_bytes=transfer.size, peer=peer, tag=tag)
            timed = replace(node, start_ps=start_ps, duration_ps=lane.now_ps - start_ps)
            self._arrivals.append((peer, replace(timed, kind=recorded.RECEIVE, peer=lane.rank)))
            return node
        if memory is None:  # of the host: in a time that is known, and beside what else is under way
            return Node(0, transfer.name, recorded.COMPUTE, lane=f"{lane.name} {_HOST}".strip())
        kind: Kind = recorded.LOAD if memory == "read" else recorded.STORE
        size, tensors = transfer.size, transfer.tensor_count
        return Node(0, transfer.name, kind, size_bytes=size, tensor_count=tensors)

    def _meet(self, lane: _Lane, barrier: Barrier) -> None:
        start_ps = lane.now_ps
        self._pass(lane, barrier.kind, barrier.kind)
        key, lanes = barrier.key, self._meeting[barrier.key]
        ranks = tuple(dict.fromkeys(self._ranks[each][0] for each in lanes))
        if len(ranks) > 1 and (under_way := lane.open) is not None:  # members meet after each step
            if under_way.done == under_way.whole.exchanges:
                self._close(lane, under_way)
            return
        number = lane.met[key]
        lane.met[key] += 1
        if len(lanes) > 1:
            point = f"{key} on rank {lane.rank}", number
            self._points[point] = (*self._points.get(point, ()), *lane.tail)
            if len(ranks) > 1:
                self._meet_others(lane, key, number, ranks, start_ps)
            else:
                lane.tail = (point,)

    def _meet_others(self, lane: _Lane, key: str, number: int, ranks: tuple[int, ...], start_ps: int) -> None:
        """Add a barrier with other ranks: one node that depends on all lanes of this rank that reach the barrier."""
        begun, group = self._begin[f"{key} on rank {lane.rank}"], key
        if number not in begun:
            self._groups[group] = ranks
            node = Node(0, key, recorded.COLLECTIVE, collective=recorded.BARRIER, group=group)
            begun[number] = self._add(lane, node, start_ps)
            self._after[lane.rank][begun[number]] = ((f"{key} on rank {lane.rank}", number),)
        lane.tail = (begun[number],)

    def _close(self, lane: _Lane, under_way: _Open) -> None:
        whole = under_way.whole
        ranks = tuple(self._ranks[f"ipu{member}"][0] for member in whole.members)
        group = "ring " + (f"of {lane.name} " if lane.name else "") + " ".join(map(str, ranks))
        self._groups[group] = ranks
        node = Node(
            *(0, whole.name.replace("_", "-"), recorded.COLLECTIVE),
            size_bytes=whole.whole_bytes,
            collective=whole.name,
            group=group,
            tensor_count=whole.tensor_count,
            of_shards=whole.of_shards,
        )
        lane.open = None
        self._add(lane, node, under_way.start_ps)

    def _receive(self, rank: int, node: Node, own: Sequence[Node]) -> None:
        """Add the arrival of a message between the nodes that ended before it and those that begin after it."""
        end_ps = node.start_ps + (node.duration_ps or 0)
        ended = bisect_right(own, node.start_ps, key=lambda each: each.start_ps + (each.duration_ps or 0))
        begun = bisect_left(own, end_ps + (end_ps == node.start_ps), key=lambda each: each.start_ps)
        number = len(self._nodes[rank])
        self._nodes[rank].append(replace(node, number=number))
        self._after[rank].append((own[ended - 1].number,) if ended else ())
        if begun < len(own):
            self._after[rank][own[begun].number] += (number,)

    def _resolved(self, points: Sequence[_Point]) -> set[int]:
        """Return the nodes that represent the points which have ended."""
        found, left, seen = set[int](), list(points), set[_Point]()
        while left:
            point = left.pop()
            if isinstance(point, int):
                found.add(point)
            elif point not in seen:
                seen.add(point)
                left += self._points[point]
        return found

    def _sorted(self, rank: int) -> tuple[Node, ...]:
        """Nodes of a rank by their start, each behind what it depends on, with numbers to match."""
        nodes = self._nodes[rank]
        before = [sorted(self._resolved(after)) for after in self._after[rank]]
        left = [len(each) for each in before]
        behind: list[list[int]] = [[] for _ in nodes]
        for number, others in enumerate(before):
            for other in others:
                behind[other].append(number)
        ready = [(nodes[number].start_ps, number) for number, count in enumerate(left) if not count]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            number = heapq.heappop(ready)[1]
            order.append(number)
            for other in behind[number]:
                left[other] -= 1
                if not left[other]:
                    heapq.heappush(ready, (nodes[other].start_ps, other))
        new = {number: at for at, number in enumerate(order)}
        return tuple(
            replace(nodes[number], number=at, after=tuple(sorted(new[other] for other in before[number])))
            for at, number in enumerate(order)
        )


def _goes_on(step: object) -> bool:
    """Return True if a step is one of several exchanges of a collective."""
    return isinstance(step, Exchange) and step.collective is not None and step.collective.exchanges > 1


def _work_of(name: str, passes: Passes) -> tuple[int, int]:
    """Floating-point operations of a pass, and the bytes of all results that its operations write."""
    costs = [(repeat.count, cost.op) for repeat in passes[name] for _, cost in repeat.operations]
    flop = sum(count * op.flop for count, op in costs if isinstance(op, Conv | MatMul))
    return flop, sum(count * op.byte_count for count, op in costs)
