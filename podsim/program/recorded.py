"""Recorded graph of the operations of each rank of a job, and its compilation into a program on a pod.

Rank 3 runs on IPU 3. A rank runs one node at a time, in an order that respects all dependencies. Independent transfers
start together. Receiving takes no time of the receiver. Source: [gcl_topologies] for the rings of collectives.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final, Literal

from podsim.errors import PodsimError
from podsim.placement.rings import between_domains_s, ring_of
from podsim.placement.topology import Routes
from podsim.program.movement import Participants
from podsim.program.rings import ALL_TO_ALL, AllToAll, Ring
from podsim.program.task import Acquire, Barrier, Exchange, Group, Phase, Program, Release, Step, Transfer, Work
from podsim.program.transfers import first_fragments_bytes, gw_hops, link_transfer, streaming_transfer
from podsim.scenario.hardware import System
from podsim.tiles.collective import ALL_GATHER, REDUCE_SCATTER
from podsim.units import seconds_to_ps

Kind = Literal["compute", "load", "store", "send", "receive", "collective"]
COMPUTE: Final = "compute"
LOAD: Final = "load"
STORE: Final = "store"
SEND: Final = "send"
RECEIVE: Final = "receive"
COLLECTIVE: Final = "collective"
WAITING: Final = "waiting"
BARRIER: Final = "barrier"
_PASSES_AS: Final = {
    "reduce_scatter": REDUCE_SCATTER,
    "all_gather": ALL_GATHER,
    "gather": ALL_GATHER,
    "scatter": REDUCE_SCATTER,
    **dict.fromkeys(("all_reduce", "broadcast", "reduce"), "all_reduce"),
}
"""Passes of each collective; a long message from or to one root is scattered and gathered as well."""
GATHERED: Final = ("all_gather", "gather")
"""Collectives whose size is that of all parts together; each rank contributes one part."""
COLLECTIVES: Final = (*_PASSES_AS, ALL_TO_ALL, BARRIER)
_LOAD_BYTES: Final = 16
"""Widest load of a tile in a cycle [citadel2019]."""


@dataclass(frozen=True, slots=True)
class Node:
    """Recorded operation of a rank."""

    number: int
    name: str
    kind: Kind
    after: tuple[int, ...] = ()  # numbers of the nodes that must have ended before this node begins
    start_ps: int = 0  # begin; 0 if not recorded [ps]
    duration_ps: int | None = None  # duration; None if not recorded [ps]
    # size of a transfer or collective [B]: of a reduction its input, of an all-gather its output, of an all-to-all the
    # input of one rank, including the part that stays there
    size_bytes: float = 0
    operations: int = 0  # floating-point operations of a computation
    peer: int = -1  # rank that receives, or sends
    tag: int = 0  # distinguishes messages between two ranks
    collective: str = ""  # kind of collective; one of `COLLECTIVES`
    group: str = ""  # name of the group of ranks that take part
    tensor_count: int = 1  # tensors of a transfer or collective, each with its own latency
    lane: str = ""  # lane that runs next to the rank, such as I/O tiles; empty for the rank itself
    of_shards: bool = False  # True for a collective of ranks that share layers


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded graph of all ranks."""

    ranks: tuple[tuple[Node, ...], ...]  # nodes of each rank, in the order of its file
    # ranks of each named group, in the order of its ring; the empty name means all ranks
    groups: Mapping[str, tuple[int, ...]]
    files: tuple[str, ...] = ()  # file of each rank, for error messages

    def members(self, node: Node) -> tuple[int, ...]:
        """Return the ranks that take part in a collective."""
        return self.groups[node.group] if node.group else tuple(range(len(self.ranks)))

    def node_error(self, rank: int, node: Node, what: str, do: str) -> PodsimError:
        """Return an error that names a node and its file."""
        file = self.files[rank] if self.files else f"rank {rank}"
        return PodsimError(what, where=f"{file}: node {node.number}", do=do)


def replay_program(recorded: Recorded, system: System, rings: int, shard_rings: int | None = None) -> Program:
    """Return the program of a recorded graph; `shard_rings`: rings of ranks that share layers, by default `rings`."""
    return _Replay(recorded, system, rings, shard_rings or rings).program()


_Place = tuple[int, int]
"""Rank, and index of a node in the rank."""


@dataclass(slots=True)
class _Lane:
    """Steps of a lane during compilation, with the transfers that its next exchange will start."""

    steps: list[Step] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    started: list[_Place] = field(default_factory=list)


class _Replay:
    def __init__(self, recorded: Recorded, system: System, rings: int, shard_rings: int) -> None:
        self._recorded, self._system, self._ring_counts = recorded, system, (rings, shard_rings)
        self._routes = Routes(system)
        self._rings: dict[tuple[bool, tuple[int, ...]], Ring] = {}
        self._exchanges: dict[tuple[int, ...], AllToAll] = {}
        self._places = [{node.number: at for at, node in enumerate(nodes)} for nodes in recorded.ranks]
        self._lanes: dict[str, _Lane] = defaultdict(_Lane)
        self._taken: dict[_Place, list[str]] = defaultdict(list)
        self._collectives = self._participants()
        self._sent = self._messages()

    def program(self) -> Program:
        """Return the program; all lanes follow one topological order of the nodes, which excludes deadlocks."""
        order = [place for place in self._in_order() if self._node(place).kind != RECEIVE]
        needs = {place: self._needs(place) for place in order}
        for place, others in needs.items():
            lane = self._lane(place)
            for other in others:
                if self._lane(other) != lane:
                    self._taken[other].append(_token(other, lane))
        for place in order:
            self._add(place, needs[place])
        groups = []
        for rank in range(len(self._recorded.ranks)):
            self._lanes.setdefault(f"ipu{rank}", _Lane())  # a rank without work has a lane as well
        for name in self._lanes:
            self._flush(name)
            phase = Phase("replay", 1, {name: tuple(self._lanes[name].steps)}, WAITING)
            groups.append(Group(name, (name,), (phase,), accounted="/" not in name))
        tokens = {token: 0 for taken in self._taken.values() for token in taken}
        return Program(tuple(groups), tokens)

    def _node(self, place: _Place) -> Node:
        return self._recorded.ranks[place[0]][place[1]]

    def _lane(self, place: _Place) -> str:
        lane = self._node(place).lane
        return f"ipu{place[0]}/{lane}" if lane else f"ipu{place[0]}"

    def _of_kind(self, *kinds: str) -> Iterator[tuple[_Place, Node]]:
        for rank, nodes in enumerate(self._recorded.ranks):
            yield from (((rank, at), node) for at, node in enumerate(nodes) if node.kind in kinds)

    def _participants(self) -> dict[_Place, tuple[_Place, ...]]:
        """Return all nodes of a node's collective, by node: the n-th collective of a group on every rank."""
        numbers: Counter[tuple[str, int]] = Counter()
        met: dict[tuple[str, int], dict[int, _Place]] = defaultdict(dict)
        for place, node in self._of_kind(COLLECTIVE):
            if place[0] not in self._recorded.members(node):
                what = f"rank {place[0]} is not one of group `{node.group}`"
                raise self._recorded.node_error(place[0], node, what, "add it to the group, or take the node out")
            met[node.group, numbers[node.group, place[0]]][place[0]] = place
            numbers[node.group, place[0]] += 1
        found: dict[_Place, tuple[_Place, ...]] = {}
        for (group, number), places in met.items():
            first = next(iter(places.values()))
            node = self._node(first)
            for rank in self._recorded.members(node):
                which = f"collective {number} of {f'group `{group}`' if group else 'all ranks'}"
                self._check_alike(node, first, places.get(rank), rank, which)
            found |= dict.fromkeys(places.values(), tuple(places.values()))
        return found

    def _check_alike(self, node: Node, first: _Place, place: _Place | None, rank: int, which: str) -> None:
        do = "record all ranks over the same time"
        if place is None:
            what = f"rank {rank} has no {which}, which rank {first[0]} waits for it in"
            raise self._recorded.node_error(first[0], node, what, do)
        other = self._node(place)
        if (other.collective, other.size_bytes) != (node.collective, node.size_bytes):
            told = [f"{each.collective} of {each.size_bytes:.12g} B" for each in (node, other)]
            what = f"{which} is {told[1]} here and {told[0]} on rank {first[0]}"
            raise self._recorded.node_error(rank, other, what, do)

    def _messages(self) -> dict[_Place, _Place]:
        """Return the sending node of each receiving node: the n-th message between two ranks with the same tag."""
        numbers: Counter[tuple[str, int, int, int]] = Counter()
        sent: dict[tuple[int, int, int, int], _Place] = {}
        received: dict[tuple[int, int, int, int], _Place] = {}
        for place, node in self._of_kind(SEND, RECEIVE):
            if not 0 <= node.peer < len(self._recorded.ranks) or node.peer == place[0]:
                what = f"the other end is rank {node.peer}, of ranks 0 to {len(self._recorded.ranks) - 1}"
                raise self._recorded.node_error(place[0], node, what, "name another rank of the trace")
            ends = (place[0], node.peer) if node.kind == SEND else (node.peer, place[0])
            message = (*ends, node.tag)
            (sent if node.kind == SEND else received)[*message, numbers[node.kind, *message]] = place
            numbers[node.kind, *message] += 1
        for one, place in received.items():
            if one not in sent:
                what = f"rank {one[0]} does not send what this receives: message {one[3]} with tag {one[2]}"
                raise self._recorded.node_error(
                    place[0], self._node(place), what, "record all ranks over the same time"
                )
        return {place: sent[one] for one, place in received.items()}

    def _before(self, place: _Place) -> Iterator[_Place]:
        """Yield the nodes on which a node depends: nodes of its rank, and the sender of a received message."""
        node = self._node(place)
        for number in node.after:
            at = self._places[place[0]].get(number)
            if at is None:
                what = f"depends on node {number}, which is not in the file"
                raise self._recorded.node_error(place[0], node, what, "record the whole graph of the rank")
            yield place[0], at
        if place in self._sent:
            yield self._sent[place]

    def _in_order(self) -> list[_Place]:
        """Return all nodes in topological order, then by recorded time; the nodes of a collective are adjacent."""
        unit = {place: together[0] for place, together in self._collectives.items()}
        places = [(rank, at) for rank, nodes in enumerate(self._recorded.ranks) for at in range(len(nodes))]
        left: Counter[_Place] = Counter()
        after: dict[_Place, list[_Place]] = defaultdict(list)
        for place in places:
            for other in self._before(place):
                left[unit.get(place, place)] += 1
                after[unit.get(other, other)].append(unit.get(place, place))
        ready = [self._key(place) for place in places if unit.get(place, place) == place and not left[place]]
        heapq.heapify(ready)
        order: list[_Place] = []
        while ready:
            place = heapq.heappop(ready)[-1]
            order += self._collectives.get(place, (place,))
            for other in after[place]:
                left[other] -= 1
                if not left[other]:
                    heapq.heappush(ready, self._key(other))
        if len(order) < len(places):
            rank, at = self._on_a_cycle({unit.get(place, place): n for place, n in left.items() if n > 0}, unit)
            what = "waits for itself, by way of what it depends on"
            do = "take one of the dependencies out; collectives of two groups must come in one order on all ranks"
            raise self._recorded.node_error(rank, self._recorded.ranks[rank][at], what, do)
        return order

    def _key(self, place: _Place) -> tuple[int, int, int, _Place]:
        return self._node(place).start_ps, place[1], place[0], place

    def _on_a_cycle(self, left: Mapping[_Place, int], unit: Mapping[_Place, _Place]) -> _Place:
        """Return a node that depends on itself, found among the nodes that never become ready."""
        seen: set[_Place] = set()
        place = next(iter(left))
        while place not in seen:
            seen.add(place)
            before = (other for each in self._collectives.get(place, (place,)) for other in self._before(each))
            place = next(unit.get(other, other) for other in before if unit.get(other, other) in left)
        return place

    def _needs(self, place: _Place) -> list[_Place]:
        """Return the nodes that must end before a node begins; a receive is replaced by its own dependencies."""
        found, left, seen = list[_Place](), list(self._before(place)), set[_Place]()
        while left:
            other = left.pop()
            if other in seen:
                continue
            seen.add(other)
            if self._node(other).kind == RECEIVE:
                left += self._before(other)
            else:
                found.append(other)
        return found

    def _add(self, place: _Place, needs: Sequence[_Place]) -> None:
        node, name = self._node(place), self._lane(place)
        lane = self._lanes[name]
        transfers = self._transfers(place, node) if node.kind in (LOAD, STORE, SEND) else ()
        awaited = [other for other in needs if self._lane(other) != name]
        if awaited or len(transfers) != 1 or not set(lane.started).isdisjoint(needs):
            self._flush(name)
        lane.steps += (Acquire(_token(other, name), WAITING) for other in awaited)
        if len(transfers) == 1:
            lane.transfers += transfers
            lane.started.append(place)
            return
        if transfers:
            lane.steps += (Exchange((transfer,)) for transfer in transfers)
        elif node.kind == COLLECTIVE:
            lane.steps += self._collective(place, node)
        elif time_ps := self._computed_ps(node):
            lane.steps.append(Work(node.name, ((COMPUTE, time_ps),)))
        lane.steps += map(Release, self._taken[place])

    def _flush(self, name: str) -> None:
        """Append an exchange of the collected transfers, after which the lanes that wait for them may continue."""
        lane = self._lanes[name]
        if lane.transfers:
            lane.steps.append(Exchange(tuple(lane.transfers)))
            lane.steps += (Release(token) for place in lane.started for token in self._taken[place])
        lane.transfers, lane.started = [], []

    def _computed_ps(self, node: Node) -> int:
        """Return the recorded duration, or else a roofline of the chip's FP16 peak and the loads of its tiles. [ps]"""
        if node.duration_ps is not None:
            return node.duration_ps
        ipu = self._system.machine.ipu
        tiles = Participants(ipu, ipu.tile.count)
        loaded_s = tiles.read(node.size_bytes / ipu.tile.count, _LOAD_BYTES).time_s
        return seconds_to_ps(max(node.operations / ipu.peak_flop_per_s("fp16"), loaded_s))

    def _transfers(self, place: _Place, node: Node) -> tuple[Transfer, ...]:
        """Return the transfers with streaming memory or to another rank, over IPU-Links or between link domains."""
        rank = place[0]
        if node.kind != SEND:
            way = "read" if node.kind == LOAD else "write"
            size, tensors = node.size_bytes, node.tensor_count
            return (streaming_transfer(self._system, node.name, rank, way, size, tensor_count=tensors),)
        domain = self._system.domain_ipu_count
        if rank // domain != node.peer // domain:
            return self._hops(rank, node.peer, node.size_bytes, node.tensor_count)
        return (link_transfer(self._routes, node.name, SEND, rank, node.peer, node.size_bytes),)

    def _hops(
        self, rank: int, peer: int, size_bytes: float, tensor_count: int, chips_s: float = 0.0
    ) -> tuple[Transfer, ...]:
        """Return the hops between link domains; all tensors are assumed to have one size."""
        staged = first_fragments_bytes(self._system, {ceil(size_bytes): tensor_count}, tensor_count)
        return gw_hops(self._system, rank, peer, size_bytes, staged, tensor_count, chips_s)

    def _collective(self, place: _Place, node: Node) -> Iterator[Step]:
        """Yield the steps of a rank in a collective."""
        members, rank = self._recorded.members(node), place[0]
        barrier = Barrier(f"{node.group}: {self._collectives[place][0]}", WAITING)
        if len(members) == 1:
            return
        if node.collective == BARRIER:
            yield barrier
            return
        domain = self._system.domain_ipu_count
        domains = {member // domain for member in members}
        if len(domains) > 1:
            yield from self._over_domains(place, node, members, barrier)
        elif node.collective == ALL_TO_ALL:
            share = node.size_bytes / len(members) / node.tensor_count
            yield self._all_to_all(members).exchange(rank, node.name, share, node.tensor_count)
            yield barrier
        else:
            yield from self._around(node, members, rank, barrier, _PASSES_AS[node.collective])

    def _around(self, node: Node, members: tuple[int, ...], rank: int, barrier: Barrier, what: str) -> Iterator[Step]:
        """Yield the steps of a reduce-scatter, all-gather or all-reduce of some ranks, with a barrier after each."""
        if len(members) == 1:
            return
        ring = self._ring(members, of_shards=node.of_shards)
        for step, count in ring.steps(what, rank, node.size_bytes, node.tensor_count):
            sent = Exchange(tuple(replace(chunk, kind=node.collective) for chunk in step.transfers))
            yield from (sent, barrier) * count

    def _all_to_all(self, members: tuple[int, ...]) -> AllToAll:
        if members not in self._exchanges:
            self._exchanges[members] = AllToAll.from_members(self._system, self._routes, members)
        return self._exchanges[members]

    def _ring(self, members: tuple[int, ...], *, of_shards: bool) -> Ring:
        """Return the ring in the order of the group; a group of consecutive ranks follows the topology's ring."""
        if (of_shards, members) not in self._rings:
            counts_on = members == tuple(range(members[0], members[0] + len(members)))
            order = ring_of(self._system, members) if counts_on else members
            count, size = self._ring_counts[of_shards], 1 if of_shards else None
            self._rings[of_shards, members] = Ring.from_members(
                self._system, self._routes, count, order, replica_ipus=size
            )
        return self._rings[of_shards, members]

    def _over_domains(self, place: _Place, node: Node, members: tuple[int, ...], barrier: Barrier) -> Iterator[Step]:
        """Yield an all-reduce: reduce-scatter in link domains, all-reduce over GW-Links, all-gather in link domains."""
        size, rank = self._system.domain_ipu_count, place[0]
        inside: dict[int, list[int]] = defaultdict(list)
        for member in members:
            inside[member // size].append(member)
        ours, at = inside[rank // size], 0
        if node.collective != "all_reduce" or len({len(each) for each in inside.values()}) > 1:
            what = f"{node.collective} of {len(members)} ranks in {len(inside)} link domains of {size} IPUs"
            do = "use a pod with one link domain, or an all_reduce with as many ranks in each"
            raise self._recorded.node_error(rank, node, f"no rings are known for an {what}", do)
        at = ours.index(rank)
        peers = [each[at] for each in inside.values()]
        following = peers[(peers.index(rank) + 1) % len(peers)]
        chunk, tensors = node.size_bytes / len(ours) / len(peers), node.tensor_count
        hops = self._hops(rank, following, chunk, tensors, between_domains_s(self._system))
        yield from self._around(node, tuple(ours), rank, barrier, REDUCE_SCATTER)
        for _ in range(2 * (len(peers) - 1)):
            yield from (Exchange((replace(hop, kind=node.collective),)) for hop in hops)
            yield barrier
        yield from self._around(node, tuple(ours), rank, barrier, ALL_GATHER)


def _token(place: _Place, lane: str) -> str:
    """Return the name of the semaphore with which a lane waits for the end of another lane's node."""
    return f"node {place[1]} of rank {place[0]} for {lane}"
