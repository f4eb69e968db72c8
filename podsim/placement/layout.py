"""The input of the planner: a model, the machines, how the model is laid out over them, and changes of that layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from podsim.models import Workload
from podsim.models.block import Parameter
from podsim.models.op import DTYPE_BYTES, DType
from podsim.options import Fit
from podsim.placement.cuts import Cuts
from podsim.placement.schedule import PipelineSchedule
from podsim.scenario import transformer_training
from podsim.scenario.hardware import System
from podsim.scenario.schedules import ScheduleName
from podsim.scenario.software import Software

ON_CHIP, STREAMING = "in_processor_memory", "streaming_memory"
Storage = Literal["none", "in_processor_memory", "streaming_memory"]
WEIGHT_BITS = {"fp32": 32, "fp16": 16, "fp8": 8, "int4": 4}
_BITS_PER_BYTE = 8
NEAREST = tuple(transformer_training.NEAREST)
"""What lies next to one another where nothing else is said: IPUs of a replica, of which those that share layers."""
INT4_GROUP_SIZE = 64
"""Weights of four bits that share a scale and an offset, unless a scenario says otherwise."""
# A scale and an offset in half precision for each group of weights. Source: [gptj_group_quantised].
_BITS_PER_GROUP = 2 * WEIGHT_BITS["fp16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a model is divided over IPUs and replicas, and where what it keeps lives."""

    ipus_per_replica: int
    replication_factor: int = 1
    replicas_per_domain: int = 1  # copies that share a link domain
    cuts: Cuts | None = None  # where the model is cut into stages; None to have one on each IPU, of even time
    schedule: ScheduleName = "lock_step"  # when the stages run which micro-batch
    chunks_per_ipu: int = 1  # stages that each IPU, or group of IPUs that share them, holds in turn with the others
    micro_batch_size: int = 1  # samples, packs or sequences that go through the model at once
    accumulation_factor: int = 1  # micro-batches per weight update, or per session call without one
    batches_in_flight: int = 1  # batches of text generation that go through the stages one behind the other
    recompute: bool = False  # whether the forward pass is redone before the backward pass
    # whether training keeps all it can in streaming memory, and runs one segment after the other on all IPUs
    phased: bool = False
    batch_serialised: bool = True  # whether a phase goes through all micro-batches at once
    width_parts: int = 1  # parts into which IPUs that share a block divide the width of hidden states as well
    # what lies next to one another, from the nearest on: IPUs that share layers (`shards`), `stages` of a copy, and
    # copies (`replicas`)
    nearest: tuple[str, ...] = NEAREST
    activation_shards: int = 1  # IPUs of a replica that each keep a part of activations which all of them have
    weight_storage: str = ON_CHIP  # where weights live; from streaming memory they are loaded layer by layer
    optimizer_storage: str = ON_CHIP  # where optimizer state lives
    replicated_tensor_sharding: bool = False  # whether optimizer state and its update are split over replicas
    kv_cache: Storage = "none"  # where keys and values of earlier tokens are, if they are kept
    logits_per_sequence: int = 0  # from which the host chooses a sequence's next token; 0 where nothing is generated
    reduction_merge_bytes: int = 0  # gradients are reduced together up to this size; 0 for each tensor alone [B]
    updates_per_session_call: float = 1.0  # weight updates that one call from the host runs, on average
    replicas_per_process: int = 1  # replicas that one process on a host serves
    # whether a process stacks its samples before a call; images are stacked ahead of time
    stacked_by_caller: bool = False
    late_samples: float = 0.0  # samples whose loading by a worker a weight update waits for, on average
    loads_itself: bool = (
        False  # True if the process that calls loads its samples itself, and hands them over as it does
    )
    samples_ahead: float = 0.0  # samples of a weight update that each worker of a loader loads
    io_tiles: int = 0  # tiles that fetch data while the others compute
    # whether they load and store what phases need, or exchange a batch with the host, while others compute; otherwise
    # all tiles do, in turn with computing
    overlapped_io: bool = True
    numbers_converted: bool = False  # whether the process converts each number of a result before it calls again
    wide_weight_loads: bool = False  # whether the matrix unit loads weights from interleaved memory
    prefetch_depth: int = 1  # micro-batches that wait ready in front of each replica
    available_memory_proportion: tuple[float, ...]  # share of tile memory for temporaries of an operation, per IPU
    reserve: float = 0.0  # share of In-Processor-Memory that is left free

    @property
    def tensor_parallel(self) -> int:
        """IPUs that share every block of a stage."""
        return len(self.cuts.ipus[0]) if self.cuts else 1

    @property
    def stage_count(self) -> int:
        """Pipeline stages of one copy."""
        return len(self.cuts.starts) if self.cuts else self.ipus_per_replica

    def pipeline(self, *, trains: bool = True) -> PipelineSchedule:
        """When the stages run which micro-batch, with backward passes or without."""
        groups = self.ipus_per_replica // self.tensor_parallel
        return PipelineSchedule.of(
            self.schedule, self.stage_count, chunks=self.chunks_per_ipu, groups=groups, trains=trains
        )

    @property
    def shard_count(self) -> int:
        """Replicas over which a sharded tensor is split: those of one link domain."""
        return min(self.replication_factor, self.replicas_per_domain)

    @property
    def fetching_tiles(self) -> int:
        """I/O tiles that are at work while the others compute."""
        return self.io_tiles if self.overlapped_io else 0

    @property
    def overlaps(self) -> bool:
        """Whether phases load and store on I/O tiles while the others compute."""
        return self.fetching_tiles > 0 and self.micro_batches_per_phase > 1

    @property
    def micro_batches_per_phase(self) -> int:
        """Micro-batches for which a phase loads its weights once."""
        return self.accumulation_factor if self.batch_serialised else 1

    @property
    def domain_count(self) -> int:
        """Link domains that take part."""
        return -(-self.replication_factor // self.replicas_per_domain)

    @property
    def batch_size(self) -> int:
        """Samples (or packs) per weight update."""
        return self.micro_batch_size * self.accumulation_factor * self.replication_factor


Change = tuple[str, Callable[[Layout], Layout]]
"""What to write in the scenario, and what that makes of its layout."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of what is stored and summed; those of activations are the workload's."""

    weight_bits: int
    accumulator_bytes: int = 0  # bytes per accumulated gradient [B]
    partials: str = "fp16"  # format of the partial results of matrix products
    group_size: int = 0  # weights that share a scale and an offset; 0 for those that have none

    @classmethod
    def of(cls, weights: str, partials: str, accumulation: str | None = None, group_size: int = 0) -> Self:
        """A precision from the names of formats."""
        return cls(WEIGHT_BITS[weights], DTYPE_BYTES[accumulation] if accumulation else 0, partials, group_size)

    @property
    def is_narrow(self) -> bool:
        """Whether weights have to be unpacked for the matrix unit."""
        return self.weight_bits < WEIGHT_BITS["fp16"]

    def weight_bytes(self, element_count: int) -> int:
        """Bytes of a number of weights. [B]

        >>> Precision(16).weight_bytes(10), Precision(4).weight_bytes(9), Precision(4, group_size=64).weight_bytes(128)
        (20, 5, 72)
        """
        groups = -(-element_count // self.group_size) if self.group_size else 0
        return -(-(element_count * self.weight_bits + groups * _BITS_PER_GROUP) // _BITS_PER_BYTE)

    def stored_bytes(self, parameters: Iterable[Parameter]) -> int:
        """Bytes of some parameters, those with a format of their own in that. [B]"""
        return self._bytes((parameter, parameter.element_count) for parameter in parameters)

    def read_bytes(self, parameters: Iterable[Parameter]) -> int:
        """Bytes of what one run reads of some parameters. [B]"""
        return self._bytes((parameter, parameter.element_count * parameter.share_read) for parameter in parameters)

    def _bytes(self, counts: Iterable[tuple[Parameter, float]]) -> int:
        common = own_bytes = 0.0
        for each, count in counts:
            if each.dtype is None:
                common += count
            else:
                own_bytes += count * DTYPE_BYTES[each.dtype]
        return self.weight_bytes(round(common)) + round(own_bytes)


@dataclass(frozen=True, slots=True)
class Optimizer:
    """What updates the weights."""

    kind: str  # `lamb`, `adamw`, `sgd`, `lars` or `rmsprop`
    dtype: DType  # format in which it computes
    state_bytes_per_parameter: int  # what it keeps per weight, master copy included [B]
    state_count: int  # tensors that it keeps for each tensor of weights
    gradient_clipping: bool = False  # whether the global gradient norm is needed before the update
    casts: bool = True  # True if weights have another format than it computes in


@dataclass(frozen=True, slots=True)
class PlanInput:
    """The input of the planner."""

    system: System
    software: Software
    # the model for a micro-batch size and, where it is asked for in phases, a number of shards
    workload_of: Callable[..., Workload]
    layout: Layout  # how it is laid out
    precision: Precision
    optimizer: Optimizer | None = None  # what updates its weights; None where nothing is trained
    changes: tuple[Change, ...] = ()  # what the scenario leaves open where the job does not fit
    others: tuple[Change, ...] = ()  # other ways to lay it out, where none of these changes is enough
    fit: Fit = "refuse"

    @property
    def workload(self) -> Workload:
        """The model for one micro-batch."""
        shards = (self.layout.tensor_parallel,) if self.layout.phased else ()
        return self.workload_of(self.layout.micro_batch_size, *shards)

    @property
    def code_bytes_per_tile(self) -> int:
        """Bytes of the program on each tile. [B]"""
        return self.software.code_bytes_per_tile if self.optimizer else self.software.inference_code_bytes_per_tile

    def laid_out(self, **fields: Any) -> PlanInput:
        """The job with some fields of its layout replaced."""
        return replace(self, layout=replace(self.layout, **fields))


_USUAL_IO_TILES = 64
"""As many as programs set apart."""
_TIGHT_PROPORTION = 0.1


def _laid_out(words: str, **fields: Any) -> Change:
    return words, lambda layout: replace(layout, **fields)


def recomputation_on(layout: Layout, word: str) -> Iterator[Change]:
    """Recomputation, where it is off; `word` is how the scenario calls it."""
    if not layout.recompute:
        yield _laid_out(f"parallelism.recomputation: {word}", recompute=True)


def less_state_on_chip(layout: Layout) -> Iterator[Change]:
    """Optimizer state off chip, or a shard of it only."""
    if layout.optimizer_storage != STREAMING:
        yield _laid_out("memory.optimizer_state.storage: streaming_memory", optimizer_storage=STREAMING)
    if not layout.replicated_tensor_sharding and layout.replication_factor > 1:
        yield _laid_out("memory.optimizer_state.replicated_tensor_sharding: true", replicated_tensor_sharding=True)


def weights_streamed(layout: Layout) -> Iterator[Change]:
    """Weights off chip, loaded layer by layer."""
    if layout.weight_storage == ON_CHIP:
        yield _laid_out("memory.weights: streamed", weight_storage=STREAMING)


def cache_off_chip(layout: Layout) -> Iterator[Change]:
    """Keys and values off chip."""
    if layout.kv_cache == ON_CHIP:
        yield _laid_out("generation.kv_cache: streaming_memory", kv_cache=STREAMING)


def fewer_io_tiles(layout: Layout) -> Iterator[Change]:
    """As many I/O tiles as usual, where more leave too few tiles to compute; costs of operations differ then."""
    if layout.io_tiles > _USUAL_IO_TILES:
        yield _laid_out(f"memory.io_tiles: {_USUAL_IO_TILES}", io_tiles=_USUAL_IO_TILES)


def smaller_temporaries(layout: Layout) -> Iterator[Change]:
    """Less memory for temporaries."""
    if max(layout.available_memory_proportion) > _TIGHT_PROPORTION:
        yield f"memory.available_memory_proportion: {_TIGHT_PROPORTION}", _tight


def _tight(layout: Layout) -> Layout:
    return replace(layout, available_memory_proportion=(_TIGHT_PROPORTION,) * layout.ipus_per_replica)


def fewer_samples(layout: Layout, key: str) -> Iterator[Change]:
    """Half as many samples at once; `key` is where the scenario says how many."""
    if layout.micro_batch_size > 1:
        half = layout.micro_batch_size // 2
        yield _laid_out(f"{key}: {half}", micro_batch_size=half)


def far_fewer_samples(layout: Layout, key: str) -> Iterator[Change]:
    """A quarter as many samples at once, an eighth, …, down to one; `key` as above."""
    count = layout.micro_batch_size // 4
    while count:
        yield _laid_out(f"{key}: {count}", micro_batch_size=count)
        count //= 2


def in_phases(layout: Layout, system: System, activation_shards: int) -> Layout:
    """The same in phased execution on the IPUs that share a layer, with as many replicas as before at most."""
    return replace(
        with_stages(layout, system, layout.tensor_parallel, layout.replication_factor),
        cuts=Cuts((0,), (range(layout.tensor_parallel),)),
        phased=True,
        activation_shards=activation_shards,
        weight_storage=STREAMING,
        optimizer_storage=STREAMING,
    )


def more_shards(layout: Layout, system: System, most: int) -> Iterator[Change]:
    """Layers of phases shared among twice as many IPUs, four times, …, with as many replicas as there is room for."""

    def shared(layout: Layout, shards: int) -> Layout:
        parts = shards // layout.width_parts if layout.activation_shards > 1 else 1
        return replace(layout, cuts=Cuts((0,), (range(shards),)), activation_shards=parts)

    most = min(most * layout.width_parts, system.domain_ipu_count)
    yield from _more_ipus("parallelism.tensor_parallel", layout, system, most, shared)


def longer_pipelines(layout: Layout, system: System, block_count: int) -> Iterator[Change]:
    """Twice as many stages, four times, …, with as many replicas as there is room for."""
    most = min(system.domain_ipu_count, block_count)
    yield from _more_ipus("parallelism.pipeline_stages", layout, system, most, lambda layout, _: layout)


def _more_ipus(
    key: str, layout: Layout, system: System, most: int, spread: Callable[[Layout, int], Layout]
) -> Iterator[Change]:
    """Replicas of twice as many IPUs, four times, …, with as many replicas as there is room for."""
    count = 2 * layout.ipus_per_replica
    while count <= most:
        replicas = max(1, min(layout.replication_factor, system.room_for(count)))
        fewer = f" with replication_factor: {replicas}" if replicas < layout.replication_factor else ""
        yield f"{key}: {count}{fewer}", _on_more(system, count, replicas, spread)
        count *= 2


def _on_more(
    system: System, ipus: int, replicas: int, spread: Callable[[Layout, int], Layout]
) -> Callable[[Layout], Layout]:
    return lambda layout: spread(with_stages(layout, system, ipus, replicas), ipus)


def with_stages(layout: Layout, system: System, pipeline_stages: int, replication_factor: int) -> Layout:
    """The job with another number of stages, each on one IPU."""
    return replace(
        layout,
        ipus_per_replica=pipeline_stages,
        replicas_per_domain=system.domain_ipu_count // pipeline_stages,
        replication_factor=replication_factor,
        available_memory_proportion=layout.available_memory_proportion[:1] * pipeline_stages,
    )
