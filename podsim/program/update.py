"""Compilation of the weight update: reduce gradients, update, distribute weights; see docs/background/model.md.

Source: [gcl_topologies], [popart_tensor_locations], [popart_bert].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from podsim.placement.plan import Plan
from podsim.placement.rings import between_domains_s
from podsim.placement.stage_cost import UpdateCost
from podsim.program.passes import shard_rings, work
from podsim.program.replicas import Replicas
from podsim.program.rings import ALL_REDUCE, TENSOR_PARALLEL, Ring, ShardRings
from podsim.program.task import Barrier, Collective, Exchange, Phase, Step, Work
from podsim.program.transfers import GW_LINK, first_fragments_bytes, gw_hops, streaming_transfer
from podsim.scenario.software import Noise
from podsim.tiles.account import Account
from podsim.tiles.collective import ALL_GATHER, REDUCE_SCATTER
from podsim.units import seconds_to_ps

OPTIMIZER, UPDATE_WAIT = "optimizer", "update_wait"


class Rings:
    """Cache of the rings over replicas and of the steps that replicas share."""

    def __init__(self, plan: Plan, replicas: Replicas) -> None:
        self._plan, self._replicas = plan, replicas
        self._known: dict[tuple[int, int], Ring] = {}
        self._shards: dict[tuple[int, ...], ShardRings] = {}
        self._peers: dict[tuple[int, int], tuple[int, ...]] = {}
        self._works: dict[tuple[object, ...], tuple[Step, ...]] = {}

    def shared_steps(self, key: tuple[object, ...], make: Callable[[], Sequence[Step]]) -> tuple[Step, ...]:
        """Return cached steps that are the same in every replica."""
        if key not in self._works:
            self._works[key] = tuple(make())
        return self._works[key]

    def ring_for(self, replica: int, local: int) -> Ring:
        """Return the ring of an IPU of a replica with its counterparts in the replicas of its link domain."""
        place = self._replicas.domain(replica), local
        if place not in self._known:
            members = self._replicas.ring(replica, local)
            system, rings = self._plan.system, self._plan.software.collective_rings
            self._known[place] = Ring.from_members(system, self._replicas.routes, rings, members)
        return self._known[place]

    def peers_of(self, replica: int, local: int) -> tuple[int, ...]:
        """Return the IPUs that correspond to an IPU of a replica, one in each link domain."""
        place = replica % self._plan.layout.replicas_per_domain, local
        if place not in self._peers:
            self._peers[place] = tuple(
                self._replicas.ipu(each, local) for each in self._replicas.peers_in_domains(replica)
            )
        return self._peers[place]

    def shard_rings_for(self, replica: int, local: int) -> ShardRings:
        """Return the rings of the IPUs with which an IPU of a replica shares its layers."""
        size = self._plan.layout.tensor_parallel
        start = local // size * size
        members = tuple(self._replicas.ipu(replica, each) for each in range(start, start + size))
        if members not in self._shards:
            self._shards[members] = shard_rings(self._plan, members)
        return self._shards[members]


def update_phases(
    plan: Plan,
    replicas: Replicas,
    replica: int,
    rings: Rings,
    *,
    in_order: bool = False,  # in phased execution, keep repetitions of a segment in order instead of folding them
    lane_count: int | None = None,  # in phased execution, number of simulated IPUs; None for all
) -> Iterator[Phase]:
    """Yield the phases of the weight update of one replica."""
    for phase in plan.phases:
        turn = joint_update(plan, replicas, replica, phase.updated, rings, f"update {phase.title}", lane_count)
        yield from times(phase.segment.count, tuple(turn.optimizer_phases()), in_order=in_order)
    for members in _turns(plan):
        first, last = members[0].ipu, members[-1].ipu
        title = f"update IPU {first}" if first == last else f"update IPUs {first}-{last}"
        turn = JointUpdate(plan, replicas, replica, members, rings, title)
        yield from turn.reduce_phases()
        yield from turn.optimizer_phases()
        yield from turn.distribute_phases()


def _turns(plan: Plan) -> list[list[UpdateCost]]:
    """Return the groups of IPUs that update one after the other."""
    shards = plan.layout.tensor_parallel
    first, others = list(plan.updates[:shards]), list(plan.updates[shards:])
    if others and plan.software.clipped_updates_in_turn and plan.optimizer and plan.optimizer.gradient_clipping:
        return [*(others[at : at + shards] for at in range(0, len(others), shards)), first]
    if others and plan.software.update_first_ipu_apart:
        return [others, first]
    return [list(plan.updates)] if plan.updates else []


def times(count: int, phases: Sequence[Phase], *, in_order: bool) -> Iterator[Phase]:
    """Yield phases `count` times: in order, or folded by repeating each phase, which takes the same time."""
    if in_order:
        for _ in range(count):
            yield from phases
    else:
        yield from (replace(phase, count=phase.count * count) for phase in phases if count)


def joint_update(
    plan: Plan,
    replicas: Replicas,
    replica: int,
    cost: UpdateCost,
    rings: Rings,
    title: str,
    lane_count: int | None = None,
) -> JointUpdate:
    """Return the joint update of all IPUs of a replica, or of the first `lane_count`, with equal costs."""
    members = [replace(cost, ipu=local) for local in range(plan.layout.ipus_per_replica)[:lane_count]]
    return JointUpdate(plan, replicas, replica, members, rings, title)


class JointUpdate:
    """Phases in which some IPUs of a replica reduce gradients and update weights together."""

    def __init__(
        self,
        plan: Plan,
        replicas: Replicas,
        replica: int,
        members: Sequence[UpdateCost],
        rings: Rings,
        title: str,
    ) -> None:
        """Prepare what all phases share; their names begin with `title`."""
        self._plan, self._replicas, self._replica, self._members = plan, replicas, replica, members
        self._rings, self._title = rings, title

    def reduce_phases(self) -> Iterator[Phase]:
        """Yield the phases that sum gradients over replicas; with sharded state, a replica gets its shard's sums."""
        size = self._plan.precision.accumulator_bytes
        yield self.phase("gather gradients", lambda cost: self._shared_work("gather", cost.gather))
        yield from self._ring("reduce-scatter gradients", lambda cost: cost.parameter_count * size)
        if (domains := self._plan.layout.domain_count) > 1:
            yield self.phase("all-reduce over GW-Links", self._gw_step, 2 * (domains - 1))
        if not self._plan.layout.replicated_tensor_sharding:
            yield from self._ring("all-gather gradients", lambda cost: cost.parameter_count * size)

    def optimizer_phases(self) -> Iterator[Phase]:
        """Yield the phases that update the weights, or with sharded state the shard of each replica."""
        yield self.phase("small tensors and norms", self._small_tensors)
        yield self.phase("optimizer", self._optimizer)

    def distribute_phases(self) -> Iterator[Phase]:
        """Yield the phases after which every replica has all weights in the layout of matrix products."""
        if self._plan.layout.replicated_tensor_sharding:
            yield from self._ring("all-gather weights", lambda cost: cost.handed_out_bytes)
        yield self.phase("scatter weights", lambda cost: self._shared_work("scatter", cost.scatter))

    def phase(self, name: str, steps_of: Callable[[UpdateCost], Sequence[Step]], count: int = 1) -> Phase:
        """Return a phase with the steps of every IPU that takes part in this update."""
        steps = {self._replicas.lane(self._replica, cost.ipu): tuple(steps_of(cost)) for cost in self._members}
        return Phase(f"{self._title}: {name}", count, steps, UPDATE_WAIT)

    def _work(self, name: str, account: Account) -> Work:
        return work(name, account, self._plan.system.machine.ipu.clock_hz, OPTIMIZER)

    def _shared_work(self, name: str, account: Account) -> tuple[Step, ...]:
        """Return work that is the same in all replicas."""
        return self._rings.shared_steps((name, account), lambda: [self._work(name, account)])

    def _ring_of(self, cost: UpdateCost) -> Ring:
        return self._rings.ring_for(self._replica, cost.ipu)

    def _ring(self, name: str, byte_count: Callable[[UpdateCost], int]) -> Iterator[Phase]:
        """Yield one pass of every tensor over the replicas of the link domain."""
        what = REDUCE_SCATTER if name.startswith("reduce") else ALL_GATHER
        first = self._members[0]
        for one in self._ring_of(first).passes(what, byte_count(first) / max(1, first.collective_count)):

            def step(cost: UpdateCost) -> list[Step]:
                ring, ipu = self._ring_of(cost), self._replicas.ipu(self._replica, cost.ipu)
                ((sent, _),) = ring.steps(what, ipu, byte_count(cost), cost.collective_count)
                return [sent, Barrier(f"ring of ipu{ring.members[0]}", ALL_REDUCE)]

            yield self.phase(name, step, one.step_count)

    def _gw_step(self, cost: UpdateCost) -> list[Step]:
        """Return one step of the all-reduce of a shard between the corresponding IPUs of the link domains."""
        peers = self._rings.peers_of(self._replica, cost.ipu)
        place = self._replicas.domain(self._replica)
        first, ipu, target = peers[0], peers[place], peers[(place + 1) % len(peers)]
        system, size = self._plan.system, self._plan.precision.accumulator_bytes
        parts = len(self._ring_of(cost).members) * len(peers)
        chunk = cost.parameter_count * size / parts
        sizes = {elements * size: count for elements, count in cost.collective_sizes}
        tensors = cost.collective_count + cost.small_tensor_count
        hops = gw_hops(
            system, ipu, target, chunk, first_fragments_bytes(system, sizes, parts), tensors, between_domains_s(system)
        )
        exchanges = len(hops) * 2 * (len(peers) - 1)
        whole = Collective("all_reduce", peers, chunk * len(peers), tensors, exchanges)
        return [*(Exchange((hop,), whole) for hop in hops), Barrier(f"domains of ipu{first}", GW_LINK)]

    def _small_tensors(self, cost: UpdateCost) -> Sequence[Step]:
        """Return the all-reduces of small tensors and norms, of which only the latency counts.

        IPUs that share a layer sum their norms first.
        """
        works = list[Step]()
        if cost.shard_norm_count:
            rings = self._rings.shard_rings_for(self._replica, cost.ipu)
            ipu = self._replicas.ipu(self._replica, cost.ipu)
            for ring in (each[ipu] for each in (rings.columns, rings.rows) if each):
                works += self._latencies("norms of shards", TENSOR_PARALLEL, ring, 0, cost.shard_norm_count)
        larger, ring = cost.small_tensor_count - cost.broadcast_count, self._ring_of(cost)
        tiny = cost.broadcast_count + cost.norm_count
        return [*works, *self._latencies("small all-reduces", ALL_REDUCE, ring, larger, tiny)]

    def _latencies(self, name: str, kind: str, ring: Ring, small: int, tiny: int) -> Sequence[Step]:
        """Return the steps of all-reduces of small tensors, and of tiny ones, which a stack may broadcast."""
        if len(ring.members) == 1:
            return []
        one_s = sum(each.step_count * each.latency_s for each in ring.passes("all_reduce", 0.0))
        tiny_s = ring.broadcast_s if self._plan.software.broadcast_bytes else one_s
        time_ps = seconds_to_ps(small * one_s + tiny * tiny_s)
        return self._rings.shared_steps((name, time_ps), lambda: [Work(name, ((kind, time_ps),), steady=True)])

    def _optimizer(self, cost: UpdateCost) -> Sequence[Step]:
        """Return the steps that load the state, update the shard and store the state, one tensor after the other.

        In phased execution, weights and gradients are loaded and weights are stored as well.
        """
        update = self._shared_work("optimizer", cost.optimizer)
        if self._plan.layout.optimizer_storage == "in_processor_memory":
            return update
        read = written = (cost.state_bytes, cost.state_tensor_count)
        if self._plan.layout.phased:
            size, count = cost.weight_bytes, cost.tensor_count
            read = read[0] + size + cost.gradient_bytes, read[1] + 2 * count
            written = written[0] + size, written[1] + count
        return [self._state(cost, "read", *read), *update, self._state(cost, "write", *written)]

    def _state(self, cost: UpdateCost, direction: str, size: int, tensors: int) -> Exchange:
        ipu, name = self._replicas.ipu(self._replica, cost.ipu), f"optimizer state {direction}"
        return Exchange((streaming_transfer(self._plan.system, name, ipu, direction, size, tensor_count=tensors),))


def machine_count(plan: Plan) -> int:
    """Return the number of machines with an IPU of the run."""
    return plan.system.machines_of(plan.layout.replication_factor, plan.layout.ipus_per_replica)


def waiting_s(noise: Noise | None, plan: Plan) -> float:
    """Return the mean extra time of a weight update in which all machines wait for the slowest; 0 without noise. [s]"""
    if noise is None or not noise.late_call_share or not noise.late_call_time_s:
        return 0.0
    share, time_s = float(noise.late_call_share) / plan.layout.updates_per_session_call, float(noise.late_call_time_s)
    return mean_of_maximum(share, time_s, machine_count(plan)) - share * time_s


def mean_of_maximum(share: float, mean_s: float, count: int) -> float:
    """Return the mean of the largest of `count` delays: each zero, or with chance `share` exponential. [s]

    The mean is `mean_s` times the integral of (1 - (1 - share · x)^count) / x from 0 to 1, a sum of `count` terms.

    >>> mean_of_maximum(1.0, 6.0, 3), mean_of_maximum(0.5, 4.0, 1)
    (11.0, 2.0)
    """
    return mean_s * sum((1 - (1 - share) ** number) / number for number in range(1, count + 1))
