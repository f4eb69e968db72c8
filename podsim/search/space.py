"""The layouts, without their cuts, that a batch, a pod and what is pinned allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import prod

from podsim.models import Workload
from podsim.placement.cuts import Cuts
from podsim.placement.layout import ON_CHIP, STREAMING, Layout
from podsim.scenario import LoadedScenario, TrainingScenario
from podsim.scenario.auto import AutoTrainingSpec
from podsim.scenario.convnet_training import AutoImageSpec
from podsim.scenario.schedules import ScheduleName, micro_batches_of
from podsim.scenario.transformer_training import AutoTextSpec
from podsim.search.chain import is_tied
from podsim.search.dimensions import MOST_SAMPLES, batch_of, divisors, most_replicas, powers_of_two
from podsim.search.families import ConvnetFamily, Family, TransformerFamily


def accumulation(
    batch_size: int, *factors: int, stage_count: int, schedule: ScheduleName = "lock_step", strict: bool = False
) -> int | None:
    """Return the micro-batches per weight update, or None if the pipeline or the batch does not allow the number.

    >>> accumulation(1536, 2, 8, stage_count=9), accumulation(64, 2, 8, stage_count=9)
    (96, None)
    """
    whole, rest = divmod(batch_size, prod(factors))
    return None if rest or not micro_batches_of(schedule, stage_count, strict=strict).allow(whole) else whole


_NORM = ("norm", "replicas")


class LayoutSpace:
    """Layouts of one scenario without their cuts. `spec`: the scenario. `batch_size`: samples per weight update."""

    def __init__(self, loaded: LoadedScenario, spec: TrainingScenario, workload: Workload, *, pinned: bool) -> None:
        """`workload`: the model or its largest shard, for one sample at a time."""
        auto = loaded.auto
        assert isinstance(auto, AutoTrainingSpec)
        self.spec, self.batch_size, self._workload = spec, batch_of(spec), workload
        self.auto: AutoTrainingSpec = auto if pinned else type(auto)(auto=True)
        self._gives = loaded.has_key if pinned else lambda *_: False
        self.family = _family(spec, auto)  # how a division of such a model is written
        self.shards = spec.parallelism.shards.count  # IPUs that share every stage
        # why the last number of replicas that was refused cannot be, and what to do
        self.objection: tuple[str, str] | None = None

    @property
    def proportions(self) -> tuple[float, ...]:
        """Shares of memory for temporaries that are pinned: one, one per IPU, or none."""
        if not self._gives("memory", "available_memory_proportion"):
            return ()
        given = self.spec.memory.available_memory_proportion
        return (given,) if isinstance(given, float) else tuple(given)

    @property
    def proportion_per_ipu(self) -> tuple[float, ...]:
        """Shares that are pinned one per IPU."""
        return self.proportions if isinstance(self.spec.memory.available_memory_proportion, tuple) else ()

    @property
    def block_count(self) -> int:
        """Blocks of the model in a row."""
        return len(self._workload.order)

    def whole(self) -> TrainingScenario:
        """Return the scenario on a single IPU or group of IPUs, even if it does not fit."""
        layout = Layout(
            ipus_per_replica=self.shards,
            cuts=Cuts((0,), (range(self.shards),), ()),
            accumulation_factor=self.batch_size,
            available_memory_proportion=(1.0,) * self.shards,
        )
        return self.family.divided(layout, self._workload.order)

    def groups(self, base: Layout) -> Iterator[Layout]:
        """Layouts with a micro-batch of one sample, the most promising first; larger ones are tried while they fit."""
        redone = getattr(self.auto, "recomputation", None)
        every = (
            (
                place,
                storage,
                not sharded,
                replace(
                    base,
                    ipus_per_replica=ipus,
                    replication_factor=replicas,
                    replicas_per_domain=self.spec.system.domain_ipu_count // ipus,
                    replicas_per_process=spec.parallelism.served_replicas(spec),  # differs with their number
                    cuts=None,
                    recompute=recompute,
                    optimizer_storage=storage,
                    replicated_tensor_sharding=sharded,
                ),
            )
            for ipus in self._ipu_counts()
            for place, replicas in enumerate(self._replica_counts(ipus))
            for spec in (self._cut_anywhere(ipus, replicas),)
            for recompute in ((False, True) if redone is None else (redone != "none",))
            for storage in self._storages()
            for sharded in self._shardings(replicas)
        )

        for *_, group in sorted(every, key=lambda each: each[:3]):
            yield group

    def _stage_count(self, ipus: int) -> int:
        """Pipeline stages; a last block that shares weights with the first makes one more, on the first IPU."""
        places = ipus // self.shards
        return places + (1 if places > 1 and is_tied(self._workload) else 0)

    def _ipu_counts(self) -> Iterator[int]:
        """Powers of two of the IPUs that share layers, or the number that is pinned."""
        blocks, domain, shards = len(self._workload.order), self.spec.system.domain_ipu_count, self.shards
        places = getattr(self.auto, "pipeline_stages", None)
        pinned = (self.auto.ipus_per_replica, places and places * shards, len(self.proportion_per_ipu))
        asked = {int(each) for each in pinned if each}
        for ipus in asked or (shards * count for count in powers_of_two(domain // shards)):
            whole = len(asked) <= 1 and ipus <= domain and ipus % shards == 0
            if whole and self._stage_count(ipus) <= blocks:
                yield ipus

    def _replica_counts(self, ipus: int) -> list[int]:
        """Return the replica counts that divide batch and pod and leave enough micro-batches, largest first."""
        most, stages = self.spec.system.room_for(ipus), self._stage_count(ipus)
        return most_replicas(
            [
                count
                for count in divisors(self.batch_size, most)
                if self._accumulation(count, stage_count=stages) and self._is_legal(ipus, count)
            ]
        )

    def _accumulation(self, *factors: int, stage_count: int) -> int | None:
        # Of a schedule that is asked for by name the whole rule holds.
        given = self.auto.schedule
        schedule = given or self.spec.software.schedule
        return accumulation(
            self.batch_size, *factors, stage_count=stage_count, schedule=schedule, strict=given is not None
        )

    def _is_legal(self, ipus: int, replicas: int) -> bool:
        """Return True if this number of replicas can be placed, fed, and grouped for batch norm."""
        if self.auto.replication_factor not in (None, replicas):
            return False
        spec = self._cut_anywhere(ipus, replicas).model_copy(update={"batch_size": None})
        for key, what, do in spec.division_findings():
            cure = do if key[0] == "memory" else f"{do}, or another batch_size"
            if key[-2:] == _NORM:  # a batch shares out evenly over groups only where it is a multiple of a group
                group = self.spec.model.norm_replicas
                what = (
                    f"replicas go in groups of {group} for batch norm, so that batch_size must be a multiple of {group}"
                )
                cure = f"use a batch_size that is a multiple of {group}, or model.norm.replicas: 1"
            self.objection = what, cure
            return False
        return True

    def _cut_anywhere(self, ipus: int, replicas: int) -> TrainingScenario:
        """Return the scenario on `ipus` IPUs with arbitrary cuts, even if it does not fit."""
        size = self._stage_count(ipus)
        firsts = (*range(0, ipus, self.shards), 0)[:size]
        layout = Layout(
            ipus_per_replica=ipus,
            replication_factor=replicas,
            cuts=Cuts(tuple(range(size)), tuple(range(ipu, ipu + self.shards) for ipu in firsts)),
            accumulation_factor=2 * size,
            available_memory_proportion=(1.0,) * ipus,
        )
        return self.family.divided(layout, self._workload.order)

    def _storages(self) -> tuple[str, ...]:
        if not self.spec.memory.state_can_move:
            return (ON_CHIP,)
        if self._gives("memory", "optimizer_state", "storage"):
            return (self.spec.memory.state.storage,)
        return (ON_CHIP, STREAMING)

    def _shardings(self, replicas: int) -> tuple[bool, ...]:
        if not self.spec.memory.state_can_move:
            return (False,)
        if self._gives("memory", "optimizer_state", "replicated_tensor_sharding"):
            return (self.spec.memory.state.replicated_tensor_sharding,)
        return (True, False) if replicas > 1 else (False,)

    def micro_batches(self, group: Layout, most: int | None = None) -> Iterator[Layout]:
        """Yield a group with every micro-batch that it allows, or with `most` of them, the smallest first."""
        for size, factor in islice(self._micro_batches(group), most):
            yield replace(group, micro_batch_size=size, accumulation_factor=factor)

    def micro_batch_count(self, group: Layout) -> int:
        """Return the number of micro-batches that a group allows."""
        return sum(1 for _ in self._micro_batches(group))

    def _micro_batches(self, group: Layout) -> Iterator[tuple[int, int]]:
        """Yield sizes of micro-batches with their numbers per weight update."""
        stages = self._stage_count(group.ipus_per_replica)
        for size in divisors(self.batch_size // group.replication_factor, MOST_SAMPLES):
            factor = self._accumulation(group.replication_factor, size, stage_count=stages)
            if factor is not None and self.auto.micro_batch_size in (None, size):
                yield size, factor


def _family(spec: TrainingScenario, auto: AutoTrainingSpec) -> Family:
    """Return the model family, which writes the divisions of a scenario."""
    match auto:
        case AutoTextSpec():
            return TransformerFamily(spec, auto)
        case AutoImageSpec():
            return ConvnetFamily(spec, auto)
    raise TypeError(f"no family for {type(auto).__name__}")
