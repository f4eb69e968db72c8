"""From a layout to the keys of a scenario."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from operator import sub
from typing import Any

import numpy as np

from podsim.models.transformer.names import DECODER, EMBEDDING, ENCODER, HEAD
from podsim.placement.cuts import Segment, layer_segments
from podsim.placement.layout import Layout
from podsim.placement.search.chain import Chain
from podsim.placement.search.checkpoints import CheckpointedSlices
from podsim.placement.search.slices import SegmentsOf, Slices
from podsim.scenario import TrainingScenario
from podsim.scenario.convnet_training import AutoImageSpec, ImageParallelismSpec
from podsim.scenario.quantity import Sourced
from podsim.scenario.training import OptimizerStateSpec
from podsim.scenario.transformer_training import AutoTextSpec, ParallelismSpec


@lru_cache(maxsize=8)
def _segments_of(order: tuple[str, ...], units: tuple[tuple[str, ...], ...]) -> SegmentsOf:
    """Segments of parts of a transformer; found once for each number of blocks of each kind."""
    names = list(dict.fromkeys(order))
    kind = [[name == each for name in order] for each in names]
    before = [tuple(map(int, column)) for column in np.cumsum(np.pad(kind, ((0, 0), (1, 0))), axis=1).T]

    @cache
    def segments(*counts: int) -> tuple[Segment, ...]:
        return layer_segments(units, dict(zip(names, counts, strict=True)))

    return lambda start, stop: segments(*map(sub, before[stop], before[start]))


@dataclass(frozen=True, slots=True)
class TransformerFamily:
    """Pipeline stages hold counts of blocks; segments are layers, or what is left of one."""

    spec: TrainingScenario
    auto: AutoTextSpec
    recomputation = "layer"

    def slices(self, chain: Chain, *, recompute: bool, recompute_last: bool) -> Slices:
        """Memory and cycles of every part of the model."""
        return Slices(
            chain, _segments_of(chain.order, chain.workload.units), recompute=recompute, recompute_last=recompute_last
        )

    def divided(self, layout: Layout, order: tuple[str, ...]) -> TrainingScenario:
        """The scenario with this layout."""
        assert layout.cuts is not None
        bounds = pairwise((*layout.cuts.starts, len(order)))
        stages = [
            _stage_keys(ipus.start, Counter(order[start:stop]))
            for ipus, (start, stop) in zip(layout.cuts.ipus, bounds, strict=True)
        ]
        where = {"stages": stages} if len(stages) > 1 else {"layers_per_ipu": [self.spec.model.placed_layers]}
        parallelism = ParallelismSpec.model_validate(
            {
                **_factors(layout),
                **where,
                "recomputation": self.recomputation if layout.recompute else "none",
                "updates_per_session_call": self.auto.updates_per_session_call or 1,
                "replicas_per_process": self.auto.replicas_per_process,
            }
        )
        state = OptimizerStateSpec(
            storage=layout.optimizer_storage, replicated_tensor_sharding=layout.replicated_tensor_sharding
        )
        share = _proportion(layout.available_memory_proportion)
        memory = self.spec.memory.model_copy(update={"available_memory_proportion": share, "optimizer_state": state})
        return self.spec.model_copy(update={"parallelism": parallelism, "memory": memory})


@dataclass(frozen=True, slots=True)
class ConvnetFamily:
    """Pipeline stages and segments start at blocks that are named."""

    spec: TrainingScenario
    auto: AutoImageSpec
    recomputation = "segment"

    def slices(self, chain: Chain, *, recompute: bool, recompute_last: bool) -> Slices:
        """Memory and cycles of every part of the network."""
        make = CheckpointedSlices if recompute else Slices
        return make(
            chain,
            lambda start, stop: (Segment(chain.order[start:stop]),),
            recompute=recompute,
            recompute_last=recompute_last,
        )

    def divided(self, layout: Layout, order: tuple[str, ...]) -> TrainingScenario:
        """The scenario with this layout."""
        assert layout.cuts is not None
        parallelism = ImageParallelismSpec.model_validate(
            {
                **_factors(layout),
                "pipeline_splits": tuple(order[start] for start in layout.cuts.starts[1:]),
                "recomputation": self.recomputation if layout.recompute else "none",
                "checkpoints": tuple(order[place] for place in layout.cuts.checkpoints or ()),
                "replicas_per_process": self.auto.replicas_per_process,
                "updates_per_session_call": self.auto.updates_per_session_call,
                "reduction_merge_size": self.auto.reduction_merge_size,
            }
        )
        share = _proportion(layout.available_memory_proportion)
        memory = self.spec.memory.model_copy(update={"available_memory_proportion": share})
        return self.spec.model_copy(update={"parallelism": parallelism, "memory": memory})


Family = TransformerFamily | ConvnetFamily


def keys(spec: TrainingScenario) -> tuple[dict[str, Any], dict[str, Any]]:
    """The keys of `parallelism` and `memory` that say how a scenario is divided, as they are written."""
    parallelism = spec.parallelism.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    parallelism["recomputation"] = spec.parallelism.redone if spec.parallelism.recomputes else "none"
    parallelism |= {name: value.provenance.text for name, value in spec.parallelism if isinstance(value, Sourced)}
    memory = spec.memory.model_dump(mode="json", include={"optimizer_state"})
    return parallelism, {"available_memory_proportion": spec.memory.available_memory_proportion, **memory}


def _factors(layout: Layout) -> dict[str, int]:
    names = ("micro_batch_size", "accumulation_factor", "replication_factor")
    return {name: getattr(layout, name) for name in names}


def _proportion(shares: tuple[float, ...]) -> Any:
    return shares[0] if len(set(shares)) == 1 else shares


def _stage_keys(ipu: int, counts: Counter[str]) -> dict[str, Any]:
    """The keys of a stage of a scenario: whole layers where it holds nothing else."""
    held: dict[str, Any] = {name: counts[name] for name in ENCODER}
    if len(set(held.values())) == 1:
        held = {"layers": counts[ENCODER[0]]}
    held["decoder_layers"] = sum(counts[name] for name in DECODER)
    ends = {name: True for name in (EMBEDDING, HEAD) if counts[name]}
    return {"ipu": ipu, **{name: count for name, count in held.items() if count}, **ends}
