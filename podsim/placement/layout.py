"""Input of the planner: a model, the machines, the layout of the model on them, and changes of the layout."""

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
from podsim.scenario.quantity import Whole
from podsim.scenario.schedules import ScheduleName
from podsim.scenario.software import Software

ON_CHIP, STREAMING = "in_processor_memory", "streaming_memory"
Storage = Literal["none", "in_processor_memory", "streaming_memory"]
WEIGHT_BITS = {"fp32": 32, "fp16": 16, "fp8": 8, "int4": 4}
_BITS_PER_BYTE = 8
NEAREST = tuple(transformer_training.NEAREST)
"""Default order of neighbours: IPUs that share layers are adjacent, then the stages of a replica, then replicas."""
INT4_GROUP_SIZE = 64
"""Default number of 4-bit weights that share a scale and an offset."""
# A scale and an offset in half precision for each group of weights. Source: [gptj_group_quantised].
_BITS_PER_GROUP = 2 * WEIGHT_BITS["fp16"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Division of a model over IPUs and replicas, and storage of its tensors."""

    ipus_per_replica: int
    replication_factor: int = 1
    replicas_per_domain: int = 1  # replicas that share a link domain
    cuts: Cuts | None = None  # division into stages; None for one stage of equal time on each IPU
    schedule: ScheduleName = "lock_step"  # pipeline schedule
    chunks_per_ipu: int = 1  # stages that each IPU, or group of IPUs that share a stage, holds
    micro_batch_size: int = 1  # samples, packs or sequences that run through the model together
    accumulation_factor: int = 1  # micro-batches per weight update, or per session call without updates
    batches_in_flight: int = 1  # batches of text generation that are in different stages at once
    recompute: bool = False  # True if the forward pass is recomputed before the backward pass
    # True for phased execution: tensors are in streaming memory, and all IPUs run one segment after the other
    phased: bool = False
    batch_serialised: bool = True  # True if a phase runs all micro-batches of a weight update
    width_parts: int = 1  # parts into which IPUs that share a block also divide the width of hidden states
    # order of neighbours, nearest first: IPUs that share layers (`shards`), `stages` of a replica, and `replicas`
    nearest: tuple[str, ...] = NEAREST
    activation_shards: int = 1  # IPUs of a replica over which stored activations are divided
    weight_storage: str = ON_CHIP  # storage of weights; from streaming memory they are loaded layer by layer
    optimizer_storage: str = ON_CHIP  # storage of optimizer state
    replicated_tensor_sharding: bool = False  # True if optimizer state and update are split over replicas
    kv_cache: Storage = "none"  # storage of keys and values of earlier tokens; `none` without a cache
    logits_per_sequence: int = 0  # logits from which the host chooses the next token; 0 if the IPU chooses
    reduction_merge_bytes: int = 0  # buffer size in which gradients are reduced together; 0 reduces each tensor [B]
    updates_per_session_call: float = 1.0  # weight updates that one call from the host runs, on average
    replicas_per_process: int = 1  # replicas that one process on a host serves
    # True if the process stacks its samples in the call; images are stacked ahead of time
    stacked_by_caller: bool = False
    late_samples: float = 0.0  # mean number of samples for whose loading a weight update waits, without overlap
    loading_overlap: float = 0.0  # share of an epoch that runs while the loader loads the first batch of the next
    epoch_starts: float = 0.0  # starts of epochs by the calling process, per weight update
    loads_itself: bool = False  # True if the calling process loads its samples, and hands them over meanwhile
    samples_ahead: float = 0.0  # samples of a weight update that each worker of the data loader loads
    io_tiles: int = 0  # tiles that load and store data while the others compute
    # True if I/O tiles work while others compute; otherwise transfers and computation alternate
    overlapped_io: bool = True
    numbers_converted: bool = False  # True if the process converts each number of a result before it calls again
    synthetic: bool = False  # True if forward passes exchange neither inputs nor results with the host
    wide_weight_loads: bool = False  # True if the matrix unit loads weights from interleaved memory
    prefetch_depth: int = 1  # micro-batches that each replica's prefetch buffer holds
    available_memory_proportion: tuple[float, ...]  # share of tile memory for temporaries of an operation, per IPU
    reserve: float = 0.0  # share of In-Processor-Memory to leave free

    @property
    def tensor_parallel(self) -> int:
        """Number of IPUs that share every block of a stage."""
        return len(self.cuts.ipus[0]) if self.cuts else 1

    @property
    def stage_count(self) -> int:
        """Number of pipeline stages of one replica."""
        return len(self.cuts.starts) if self.cuts else self.ipus_per_replica

    def pipeline(self, *, trains: bool = True) -> PipelineSchedule:
        """Return the pipeline schedule, with or without backward passes."""
        groups = self.ipus_per_replica // self.tensor_parallel
        return PipelineSchedule.from_name(
            self.schedule, self.stage_count, chunks=self.chunks_per_ipu, groups=groups, trains=trains
        )

    @property
    def shard_count(self) -> int:
        """Number of replicas over which a sharded tensor is split: the replicas of one link domain."""
        return min(self.replication_factor, self.replicas_per_domain)

    @property
    def fetching_tiles(self) -> int:
        """Number of I/O tiles that work while the others compute."""
        return self.io_tiles if self.overlapped_io else 0

    @property
    def overlaps(self) -> bool:
        """True if I/O tiles load and store the tensors of phases while other tiles compute."""
        return self.fetching_tiles > 0 and self.micro_batches_per_phase > 1

    @property
    def micro_batches_per_phase(self) -> int:
        """Number of micro-batches for which a phase loads its weights once."""
        return self.accumulation_factor if self.batch_serialised else 1

    @property
    def domain_count(self) -> int:
        """Number of link domains in use."""
        return -(-self.replication_factor // self.replicas_per_domain)

    @property
    def batch_size(self) -> int:
        """Number of samples (or packs) per weight update."""
        return self.micro_batch_size * self.accumulation_factor * self.replication_factor


Change = tuple[str, Callable[[Layout], Layout]]
"""Text to write in the scenario, and function that applies the change to a layout."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of stored and summed values; the format of activations belongs to the workload."""

    weight_bits: int
    accumulator_bytes: int = 0  # bytes per accumulated gradient [B]
    partials: str = "fp16"  # format of the partial results of matrix products
    group_size: int = 0  # number of weights that share a scale and an offset; 0 for none

    @classmethod
    def from_formats(cls, weights: str, partials: str, accumulation: str | None = None, group_size: int = 0) -> Self:
        """Return a precision from the names of formats."""
        return cls(WEIGHT_BITS[weights], DTYPE_BYTES[accumulation] if accumulation else 0, partials, group_size)

    @property
    def is_narrow(self) -> bool:
        """True if weights have to be unpacked for the matrix unit."""
        return self.weight_bits < WEIGHT_BITS["fp16"]

    def weight_bytes(self, element_count: int) -> int:
        """Return the bytes of a number of weights. [B]

         Precision(16).weight_bytes(10), Precision(4).weight_bytes(9), Precision(4, group_size=64).weight_bytes(128)
        (20, 5, 72)
        """
        groups = -(-element_count // self.group_size) if self.group_size else 0
        return -(-(element_count * self.weight_bits + groups * _BITS_PER_GROUP) // _BITS_PER_BYTE)

    def stored_bytes(self, parameters: Iterable[Parameter]) -> int:
        """Return the bytes of some parameters; a parameter may have a format other than the common one. [B]"""
        return self._bytes((parameter, parameter.element_count) for parameter in parameters)

    def read_bytes(self, parameters: Iterable[Parameter]) -> int:
        """Return the bytes that one run reads from some parameters. [B]"""
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
    """Optimizer of the weight update."""

    kind: str  # `lamb`, `adamw`, `sgd`, `lars` or `rmsprop`
    dtype: DType  # format of its arithmetic
    state_bytes_per_parameter: int  # optimizer state per weight, including a master copy [B]
    state_count: int  # number of state tensors per weight tensor
    gradient_clipping: bool = False  # True if the update needs the global gradient norm
    casts: bool = True  # True if the format of weights differs from that of its arithmetic


@dataclass(frozen=True, slots=True)
class PlanInput:
    """Input of the planner."""

    system: System
    software: Software
    # function that returns the model for a micro-batch size and, in phased execution, a number of shards
    workload_of: Callable[..., Workload]
    layout: Layout
    precision: Precision
    optimizer: Optimizer | None = None  # None without training
    changes: tuple[Change, ...] = ()  # changes to suggest if the job does not fit
    others: tuple[Change, ...] = ()  # larger changes to suggest if no combination of `changes` is enough
    fit: Fit = "refuse"

    @property
    def workload(self) -> Workload:
        """Model for one micro-batch."""
        shards = (self.layout.tensor_parallel,) if self.layout.phased else ()
        return self.workload_of(self.layout.micro_batch_size, *shards)

    @property
    def code_bytes_per_tile(self) -> Whole:
        """Size of the program on each tile. [B]"""
        return self.software.code_bytes_per_tile if self.optimizer else self.software.inference_code_bytes_per_tile

    @property
    def least_code_bytes_per_tile(self) -> float:
        """Lower end of the range of the program's size on each tile; the size itself without a range. [B]"""
        known = self.code_bytes_per_tile
        return min(known, *known.provenance.range or (known,))

    def laid_out(self, **fields: Any) -> PlanInput:
        """Return the job with some fields of its layout replaced."""
        return replace(self, layout=replace(self.layout, **fields))


_USUAL_IO_TILES = 64
"""Number of I/O tiles in typical programs."""
_TIGHT_PROPORTION = 0.1


def _laid_out(words: str, **fields: Any) -> Change:
    return words, lambda layout: replace(layout, **fields)


def recomputation_on(layout: Layout, word: str) -> Iterator[Change]:
    """Yield recomputation, if it is off; `word` is its value in the scenario."""
    if not layout.recompute:
        yield _laid_out(f"parallelism.recomputation: {word}", recompute=True)


def less_state_on_chip(layout: Layout) -> Iterator[Change]:
    """Yield optimizer state off chip, and optimizer state sharded over replicas."""
    if layout.optimizer_storage != STREAMING:
        yield _laid_out("memory.optimizer_state.storage: streaming_memory", optimizer_storage=STREAMING)
    if not layout.replicated_tensor_sharding and layout.replication_factor > 1:
        yield _laid_out("memory.optimizer_state.replicated_tensor_sharding: true", replicated_tensor_sharding=True)


def weights_streamed(layout: Layout) -> Iterator[Change]:
    """Yield weights off chip, loaded layer by layer."""
    if layout.weight_storage == ON_CHIP:
        yield _laid_out("memory.weights: streamed", weight_storage=STREAMING)


def cache_off_chip(layout: Layout) -> Iterator[Change]:
    """Yield keys and values off chip."""
    if layout.kv_cache == ON_CHIP:
        yield _laid_out("generation.kv_cache: streaming_memory", kv_cache=STREAMING)


def fewer_io_tiles(layout: Layout) -> Iterator[Change]:
    """Yield the usual number of I/O tiles, if there are more; this leaves more tiles to compute and changes costs."""
    if layout.io_tiles > _USUAL_IO_TILES:
        yield _laid_out(f"memory.io_tiles: {_USUAL_IO_TILES}", io_tiles=_USUAL_IO_TILES)


def smaller_temporaries(layout: Layout) -> Iterator[Change]:
    """Yield less memory for temporaries."""
    if max(layout.available_memory_proportion) > _TIGHT_PROPORTION:
        yield f"memory.available_memory_proportion: {_TIGHT_PROPORTION}", _tight


def _tight(layout: Layout) -> Layout:
    return replace(layout, available_memory_proportion=(_TIGHT_PROPORTION,) * layout.ipus_per_replica)


def fewer_samples(layout: Layout, key: str) -> Iterator[Change]:
    """Yield half the micro-batch size; `key` is its key in the scenario."""
    if layout.micro_batch_size > 1:
        half = layout.micro_batch_size // 2
        yield _laid_out(f"{key}: {half}", micro_batch_size=half)


def far_fewer_samples(layout: Layout, key: str) -> Iterator[Change]:
    """Yield a quarter, an eighth, … of the samples, down to one; `key` is the key of the micro-batch size."""
    count = layout.micro_batch_size // 4
    while count:
        yield _laid_out(f"{key}: {count}", micro_batch_size=count)
        count //= 2


def in_phases(layout: Layout, system: System, activation_shards: int) -> Layout:
    """Return the layout in phased execution on the IPUs that share a layer, with at most as many replicas as before."""
    return replace(
        with_stages(layout, system, layout.tensor_parallel, layout.replication_factor),
        cuts=Cuts((0,), (range(layout.tensor_parallel),)),
        phased=True,
        activation_shards=activation_shards,
        weight_storage=STREAMING,
        optimizer_storage=STREAMING,
    )


def more_shards(layout: Layout, system: System, most: int) -> Iterator[Change]:
    """Yield layouts of phases with 2, 4, … times as many IPUs per layer, with as many replicas as fit the pod."""

    def shared(layout: Layout, shards: int) -> Layout:
        parts = shards // layout.width_parts if layout.activation_shards > 1 else 1
        return replace(layout, cuts=Cuts((0,), (range(shards),)), activation_shards=parts)

    most = min(most * layout.width_parts, system.domain_ipu_count)
    yield from _more_ipus("parallelism.tensor_parallel", layout, system, most, shared)


def longer_pipelines(layout: Layout, system: System, block_count: int) -> Iterator[Change]:
    """Yield pipelines with 2, 4, … times as many stages, with as many replicas as fit the pod."""
    most = min(system.domain_ipu_count, block_count)
    yield from _more_ipus("parallelism.pipeline_stages", layout, system, most, lambda layout, _: layout)


def _more_ipus(
    key: str, layout: Layout, system: System, most: int, spread: Callable[[Layout, int], Layout]
) -> Iterator[Change]:
    """Yield layouts with 2, 4, … times as many IPUs per replica, with as many replicas as fit the pod."""
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
    """Return the layout with another number of stages, each on one IPU."""
    return replace(
        layout,
        ipus_per_replica=pipeline_stages,
        replicas_per_domain=system.domain_ipu_count // pipeline_stages,
        replication_factor=replication_factor,
        available_memory_proportion=layout.available_memory_proportion[:1] * pipeline_stages,
    )
