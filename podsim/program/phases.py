"""Compilation of phased execution: load weights, run micro-batches, store results; the weight update is separate.

docs/background/streaming-memory.md describes the order. With overlapping loads, I/O tiles are separate lanes: during
one micro-batch they store the results of the previous one and load the next. Source: [popxl_bert],
[popxl_rts_tutorial].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from podsim.placement.phases import PhaseCost
from podsim.placement.plan import Plan
from podsim.placement.rings import TileTimes
from podsim.program.feed import Feed, io_tile_copy
from podsim.program.passes import IMBALANCE, shard_rings, sums_of, work
from podsim.program.replicas import Replicas
from podsim.program.rings import IO_GATHER, TENSOR_PARALLEL, ShardSums
from podsim.program.routed_tokens import ExpertGroups, Routed, routed_in
from podsim.program.task import Barrier, Exchange, Group, Phase, Step, Work
from podsim.program.transfers import host_load, streaming_transfer
from podsim.program.update import JointUpdate, Rings, joint_update, times
from podsim.tiles.account import Account

STREAMING_WAIT = "streaming_wait"
_Steps = Sequence[Sequence[Step]]
"""Steps of each IPU of a replica."""


_Traffic = tuple[ShardSums, Mapping[Routed, int]]
"""Ring passes of tensors between shards, and number of token exchanges between shards by kind."""


@dataclass(frozen=True, slots=True)
class _PhasePair:
    """Phase of the compute tiles, with the concurrent steps of the I/O tiles."""

    phase: Phase
    aside: _Steps = ()


@dataclass(frozen=True, slots=True)
class _Pass:
    """Passes, loads and stores of a phase for one micro-batch."""

    title: str
    works: tuple[tuple[Work, _Traffic], ...]  # passes, each with the traffic between shards that follows
    loads: tuple[tuple[str, int], ...]  # (name, bytes) of tensors to load
    stores: tuple[tuple[str, int], ...]  # (name, bytes) of tensors to store
    gathers: Mapping[int, int]  # number of tensors that IPUs gather from their shares, by the bytes of the whole
    from_host: bool = False  # True if the phase loads samples from the host


class Phases:
    """Forward and backward phases of one replica, or the forward phases of an evaluation."""

    def __init__(
        self,
        plan: Plan,
        replicas: Replicas,
        replica: int,
        feed: Feed,
        *,
        trains: bool,
        in_order: bool,
        lane_count: int | None = None,
    ) -> None:
        """Prepare the phases.

        `in_order`: repetitions of a segment are not folded. `lane_count`: number of simulated IPUs; one gives a bound.
        """
        self._plan, self._replicas, self._replica, self._feed = plan, replicas, replica, feed
        self._trains, self._in_order = trains, in_order
        self._rings = Rings(plan, replicas)
        everyone = plan.phases[0].cost.stage.ipus
        self._locals = everyone[:lane_count]
        self._lanes = [replicas.lane(replica, local) for local in self._locals]
        layout = plan.layout
        self._overlaps = layout.overlaps
        self._io_tiles = layout.fetching_tiles
        self._shares = layout.replication_factor > 1
        members = [replicas.ipu(replica, local) for local in everyone]
        self._ipus = members[:lane_count]
        self._shard_rings = shard_rings(plan, members)
        self._experts = ExpertGroups(plan.system, plan.software.rings_of_shards, tuple(members))
        self._met = Barrier(f"replica{replica}/io", STREAMING_WAIT)

    def groups(self) -> tuple[tuple[Phase, ...], tuple[Group, ...]]:
        """Return the phases of the tiles that compute, and the group of I/O tiles if loads overlap with computing."""
        both = tuple(self._all_phases())
        if not self._overlaps:
            return tuple(each.phase for each in both), ()
        lanes = [f"{lane}/io" for lane in self._lanes]
        aside = tuple(
            Phase(
                each.phase.name,
                each.phase.count,
                {lane: (*(each.aside[place] if each.aside else ()), self._met) for place, lane in enumerate(lanes)},
                STREAMING_WAIT,
            )
            for each in both
        )
        ahead = tuple(
            replace(each.phase, steps={lane: (*steps, self._met) for lane, steps in each.phase.steps.items()})
            for each in both
        )
        name = f"I/O tiles of replica{self._replica}"
        return ahead, (Group(name, tuple(lanes), aside, accounted=False),)

    def _all_phases(self) -> Iterator[_PhasePair]:
        """Yield phases in the order in which they run: all micro-batches at once, or one after the other."""
        layout = self._plan.layout
        rounds = layout.accumulation_factor // layout.micro_batches_per_phase
        if not self._trains:
            yield from self._times(rounds, [each for phase in self._plan.phases for each in self._forward(phase)])
            return
        yield from self._round(is_first=True)
        if rounds > 1:
            yield from self._times(rounds - 1, list(self._round(is_first=False)))

    def _round(self, *, is_first: bool) -> Iterator[_PhasePair]:
        """Yield all phases once; after the first round, gradients are added to the stored gradients."""
        for phase in self._plan.phases[:-1]:
            yield from self._forward(phase)
        for phase in reversed(self._plan.phases):
            yield from self._backward(phase, adds=not is_first)

    def _times(self, count: int, once: Sequence[_PhasePair]) -> Iterator[_PhasePair]:
        """Yield the phases `count` times, folded unless they are kept in order."""
        phases = times(count, [each.phase for each in once], in_order=self._in_order)
        for phase, each in zip(phases, cycle(once), strict=False):
            yield replace(each, phase=phase)

    def _forward(self, cost: PhaseCost) -> Iterator[_PhasePair]:
        """Yield the forward phases of a segment; without batch serialisation, its input is still on the chip."""
        title, from_host = f"forward {cost.title}", cost is self._plan.phases[0]
        serialised = self._plan.layout.batch_serialised
        handed = [cost.input_bytes] if serialised and not from_host else []
        loads = [("samples", cost.input_bytes)] if from_host else [("activations", self._part(each)) for each in handed]
        stores = [("activations", self._part(cost.output_bytes))] if serialised or self._trains else []
        if self._trains:
            stores += [("activations", cost.kept_bytes), ("samples", cost.input_bytes if from_host else 0)]
        passing = _Pass(
            title,
            ((self._work(title, cost.cost.forward), self._sums(cost)),),
            tuple(loads),
            tuple(stores),
            self._gathers(handed),
            from_host,
        )
        yield from self._times(cost.segment.count, [*self._weights(title, cost), *self._loop(passing)])

    def _backward(self, cost: PhaseCost, *, adds: bool) -> Iterator[_PhasePair]:
        """Yield the backward phases of a segment; if `adds`, its gradients are added to the stored gradients."""
        phases, passes, name = self._plan.phases, cost.cost, cost.title
        serialised, is_last = self._plan.layout.batch_serialised, cost is phases[-1]
        works = [(self._work(f"forward {name}", passes.forward), self._sums(cost))] if is_last else []
        if passes.recomputed:
            works.append((self._work(f"recompute {name}", passes.recompute), self._sums(cost)))
        works.append((self._work(f"backward {name}", passes.backward), self._sums(cost, backward=True)))
        title = f"loss {name}" if is_last else f"backward {name}"
        given, kept = cost.input_bytes if serialised or not is_last else 0, cost.kept_bytes
        back, handed_back = (cost.given_back_bytes, cost.handed_back_bytes) if serialised else (0, 0)
        is_first = cost is phases[0]
        passing = _Pass(
            title,
            tuple(works),
            (
                ("samples", given) if is_first else ("activations", self._part(given)),
                ("activations", kept),
                ("gradients", self._part(back)),
            ),
            (("gradients", self._part(handed_back)),),
            self._gathers([0 if is_first else given, back]),
        )
        once = [*self._weights(title, cost), *self._loop(passing)]
        if self._shares:
            once += map(_PhasePair, self._turn(title, cost).reduce_phases())
        stored, known = cost.exchanged, cost.exchanged if adds else cost.tied
        if known.tensor_count:
            name = f"{title}: load gradients"
            once.append(self._moved(name, "read", known.gradient_bytes, known.tensor_count))
        once.append(self._moved(f"{title}: store gradients", "write", stored.gradient_bytes, stored.tensor_count))
        yield from self._times(cost.segment.count, once)

    def _part(self, byte_count: int) -> int:
        """Return the size of the share of activations that one IPU stores, if IPUs divide them. [B]"""
        return -(-byte_count // self._plan.layout.activation_shards)

    def _gathers(self, sizes: Iterable[int]) -> Mapping[int, int]:
        """Return how many tensors the IPUs gather from their shares, by the bytes of the whole tensor."""
        return Counter(filter(None, sizes)) if self._plan.layout.activation_shards > 1 else {}

    def _turn(self, title: str, cost: PhaseCost) -> JointUpdate:
        return joint_update(
            self._plan, self._replicas, self._replica, cost.exchanged, self._rings, title, len(self._locals)
        )

    def _work(self, name: str, account: Account) -> Work:
        return work(name, account, self._plan.system.machine.ipu.clock_hz)

    def _sums(self, cost: PhaseCost, *, backward: bool = False) -> _Traffic:
        """Return the sums and token exchanges of shards in a pass over a segment."""
        if len(self._shard_rings.columns) == 1:
            return ShardSums(), {}
        workload, segments = self._plan.workload, cost.cost.stage.segments
        return sums_of(workload, segments, backward=backward), routed_in(workload, segments, backward=backward)

    def _computed(self, passing: _Pass, ipu: int) -> list[Step]:
        """Return the passes of a micro-batch on an IPU, with the exchanges of its shards."""
        return [
            step
            for work, (sums, routed) in passing.works
            for step in (work, *self._shard_rings.steps(ipu, sums), *self._experts.steps(ipu, routed))
        ]

    def _weights(self, title: str, cost: PhaseCost) -> Iterator[_PhasePair]:
        """Yield the load of the weights of a segment, and their all-gather if replicas share them."""
        tensors = cost.exchanged
        yield self._moved(f"{title}: load weights", "read", tensors.weight_bytes, tensors.tensor_count)
        if self._shares:
            yield from map(_PhasePair, self._turn(title, cost).distribute_phases())

    def _moved(self, name: str, way: str, byte_count: int, tensor_count: int) -> _PhasePair:
        """Return a load or store of tensors one after the other, which does not overlap with computing."""
        moved = (
            streaming_transfer(
                self._plan.system, name, ipu, way, byte_count, io_tiles=self._io_tiles, tensor_count=tensor_count
            )
            for ipu in self._ipus
        )
        return self._phase(name, 1, [[Exchange((each,))] for each in moved])

    def _loop(self, passing: _Pass) -> Iterator[_PhasePair]:
        """Yield the phases of all micro-batches."""
        count, ipus = self._plan.layout.micro_batches_per_phase, self._ipus
        loads, computed = ([make(passing, ipu) for ipu in ipus] for make in (self._loaded, self._computed))
        stores = [self._streamed(passing.title, ipu, "write", passing.stores) for ipu in ipus]
        if not self._overlaps:
            bodies = zip(loads, computed, stores, strict=True)
            yield self._phase(passing.title, count, [[*load, *steps, *store] for load, steps, store in bodies])
            return
        # I/O tiles pass on whole gathered tensors; each IPU stores only its share.
        gathered = sum(number * (whole - self._part(whole)) for whole, number in passing.gathers.items())
        arriving, leaving = (sum(size for _, size in parts) for parts in (passing.loads, passing.stores))
        arriving += gathered
        first, between, last = (self._copied(size) for size in (arriving, arriving + leaving, leaving))

        def micro_batch(number: int, repeats: int = 1) -> _PhasePair:
            """Return a micro-batch, while the one before is stored and the next is loaded."""
            copy = first if number == 0 else between
            aside = [
                [*copy, *(store if number else ()), *(load if number + 1 < count else ())]
                for load, store in zip(loads, stores, strict=True)
            ]
            return self._phase(passing.title, repeats, [[*copy, *steps] for steps in computed], aside)

        idle: _Steps = [[]] * len(ipus)
        yield self._phase(f"{passing.title}: first load", 1, idle, loads)
        yield micro_batch(0)
        if count > 2:
            yield micro_batch(1, count - 2)
        yield micro_batch(count - 1)
        ends = [[*last, *store] for store in stores]
        yield self._phase(f"{passing.title}: last store", 1, [last] * len(ipus), ends)

    def _loaded(self, passing: _Pass, ipu: int) -> list[Step]:
        """Return the loads of a micro-batch from streaming memory or, in the first phase, from the host."""
        plan = self._plan
        if not passing.from_host:
            ring = self._shard_rings.columns[ipu]
            name, kind, weight = f"loads of replica{self._replica}", TENSOR_PARALLEL, 1.0
            if self._overlaps:
                link = plan.system.machine.ipu_link
                kind, weight = IO_GATHER, (link and link.io_tiles_weight) or 1.0
                if self._io_tiles:
                    ring = replace(ring, tiles=TileTimes.on(plan.system.machine.ipu, self._io_tiles))
            gathered = ring.shard_sums(ipu, passing.gathers, name, kind=kind, link_weight=weight)
            return [*self._streamed(passing.title, ipu, "read", passing.loads), *gathered]
        load = host_load(plan.system, ipu, plan.workload.host_input_bytes)
        if ipu != self._ipus[0]:
            return [Exchange((load,))]
        sent = self._feed.transfer(self._replica)  # I/O tiles load directly from the host
        return [Exchange((sent,) if plan.layout.io_tiles else (sent, load))]

    def _streamed(self, title: str, ipu: int, way: str, parts: Iterable[tuple[str, int]]) -> list[Step]:
        """Return the transfers of tensors to or from streaming memory, one after the other."""
        system, io_tiles = self._plan.system, self._io_tiles
        return [
            Exchange((streaming_transfer(system, f"{title} {name}", ipu, way, byte_count, io_tiles=io_tiles),))
            for name, byte_count in parts
            if byte_count
        ]

    def _copied(self, byte_count: int) -> list[Step]:
        """Return the copy between I/O tiles and compute tiles, in either direction."""
        if not byte_count:
            return []
        return [io_tile_copy("copy from and to I/O tiles", self._plan.system, self._plan.layout, byte_count)]

    def _phase(self, name: str, count: int, steps: _Steps, aside: _Steps = ()) -> _PhasePair:
        lanes = {lane: tuple(step) for lane, step in zip(self._lanes, steps, strict=True)}
        return _PhasePair(Phase(name, count, lanes, IMBALANCE), aside)
