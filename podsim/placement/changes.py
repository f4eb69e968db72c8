"""Changes of a layout that may make a model fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from podsim.placement.layout import ON_CHIP, STREAMING, Change, Layout
from podsim.scenario.hardware import System

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


def longer_pipelines(layout: Layout, system: System, block_count: int) -> Iterator[Change]:
    """Twice as many stages, four times, …, with as many replicas as there is room for."""
    count, most = 2 * layout.ipus_per_replica, min(system.domain_ipu_count, block_count)
    while count <= most:
        replicas = max(1, min(layout.replication_factor, system.ipu_count // count))
        words = f"parallelism.pipeline_stages: {count}"
        if replicas < layout.replication_factor:
            words += f" with replication_factor: {replicas}"
        yield words, _longer(system, count, replicas)
        count *= 2


def _longer(system: System, stages: int, replicas: int) -> Callable[[Layout], Layout]:
    return lambda layout: with_stages(layout, system, stages, replicas)


def with_stages(layout: Layout, system: System, pipeline_stages: int, replication_factor: int) -> Layout:
    """The job with another number of stages, each on one IPU."""
    return replace(
        layout,
        ipus_per_replica=pipeline_stages,
        replicas_per_domain=system.domain_ipu_count // pipeline_stages,
        replication_factor=replication_factor,
        available_memory_proportion=layout.available_memory_proportion[:1] * pipeline_stages,
    )
