"""How a training run is laid out: batch, replication, recomputation, optimizer."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.workload.op import DType


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """Choices of a training scenario that plan and program need.

    Attributes:
        micro_batch_size: Samples (or packs) per run of the graph.
        accumulation_factor: Micro-batches per weight update.
        replication_factor: Data-parallel copies.
        ipus_per_replica: IPUs of one copy.
        replicas_per_domain: Copies that share a link domain.
        recompute: Whether the forward pass is redone before the backward pass.
        weight_bytes: Bytes per weight. [B]
        accumulator_bytes: Bytes per accumulated gradient. [B]
        state_bytes_per_parameter: Optimizer state per weight, master copy included. [B]
        optimizer_kind: `lamb`, `adamw`, `sgd`, `lars` or `rmsprop`.
        optimizer_dtype: Format in which the optimizer computes.
        optimizer_storage: `in_processor_memory` or `streaming_memory`.
        replicated_tensor_sharding: Whether optimizer state and its update are split over replicas.
        gradient_clipping: Whether the global gradient norm is needed before the update.
        reduction_merge_bytes: Gradients are reduced together up to this size; 0 for each tensor alone. [B]
        updates_per_session_call: Weight updates that one call from the host runs, on average.
        io_tiles: Tiles that fetch data while the others compute.
        prefetch_depth: Micro-batches that wait ready in front of each replica.
        partials: Format of the partial results of matrix products.
        available_memory_proportion: Share of tile memory for temporaries of a product, per IPU.
    """

    micro_batch_size: int
    accumulation_factor: int
    replication_factor: int
    ipus_per_replica: int
    replicas_per_domain: int
    recompute: bool
    weight_bytes: int
    accumulator_bytes: int
    state_bytes_per_parameter: int
    optimizer_kind: str
    optimizer_dtype: DType
    optimizer_storage: str
    replicated_tensor_sharding: bool
    gradient_clipping: bool
    reduction_merge_bytes: int
    updates_per_session_call: float
    io_tiles: int
    prefetch_depth: int
    partials: str
    available_memory_proportion: tuple[float, ...]

    @property
    def shard_count(self) -> int:
        """Replicas over which a sharded tensor is split: those of one link domain."""
        return min(self.replication_factor, self.replicas_per_domain)

    @property
    def domain_count(self) -> int:
        """Link domains that take part."""
        return -(-self.replication_factor // self.replicas_per_domain)

    @property
    def batch_size(self) -> int:
        """Samples (or packs) per weight update."""
        return self.micro_batch_size * self.accumulation_factor * self.replication_factor
