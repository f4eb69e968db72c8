"""From a layout to the keys of a scenario."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from operator import sub
from typing import Any

import numpy as np

from podsim.models.transformer.names import DECODER, EMBEDDING, ENCODER, HEAD
from podsim.placement.cuts import Segment, layer_segments
from podsim.placement.layout import Layout
from podsim.scenario import TrainingScenario
from podsim.scenario.convnet_training import AutoImageSpec, ImageParallelismSpec
from podsim.scenario.quantity import Sourced
from podsim.scenario.training import OptimizerStateSpec
from podsim.scenario.transformer_training import AutoTextSpec, ParallelismSpec
from podsim.search.chain import CostedChain, Costs, SegmentsOf, Slices
from podsim.search.dimensions import PHASED, SHARING

_MOST_LIMITS = 192


class CheckpointedSlices(Slices):
    """Parts of a chain of blocks in which any block may start a segment.

    More segments keep more inputs; longer ones need more memory while they are redone. For each limit on
    the largest segment, dynamic programming finds the fewest bytes of inputs.
    """

    @cached_property
    def _limits(self) -> list[Costs]:
        """Peaks of segments that are tried as the largest, by share. [B]"""
        limits = [np.unique(peaks[np.isfinite(peaks)]) for peaks in self.peak_bytes]
        return [limit[np.linspace(0, len(limit) - 1, min(_MOST_LIMITS, len(limit))).astype(int)] for limit in limits]

    @cached_property
    def _fewest_kept(self) -> list[Costs]:
        """Inputs kept of blocks `i` up to `j` with limit `l` at `[i, j, l]`, by share. [B]"""
        return [self._fewest(share) for share in range(len(self.chain.proportions))]

    def _fewest(self, share: int) -> Costs:
        limits, peaks, inputs = self._limits[share], self.peak_bytes[share], self.chain.stashed_bytes
        kept = np.full((self.size + 1, self.size + 1, len(limits)), np.inf)
        for start in range(self.size + 1):
            kept[start, start] = 0.0
        for stop in range(1, self.size + 1):
            for cut in range(stop):
                longer = np.where(peaks[cut, stop] <= limits, kept[: cut + 1, cut] + inputs[cut], np.inf)
                kept[: cut + 1, stop] = np.minimum(kept[: cut + 1, stop], longer)
        return kept

    def memory_bytes(self, depth: int) -> Costs:
        """Activations and temporaries with the checkpoints that need least. [B]"""
        return np.array(
            [
                np.where(np.eye(self.size + 1, dtype=bool), np.inf, (depth * kept + limits).min(axis=2))
                for kept, limits in zip(self._fewest_kept, self._limits, strict=True)
            ]
        )

    def last_stage(self, room_bytes: Costs, /) -> tuple[Costs, Costs]:
        """Return time and memory with the longest last segment that fits and is not recomputed. [cycles], [B]"""
        if self._recompute_last:
            return super().last_stage(room_bytes)
        shares = range(len(self.chain.proportions))
        cycles, used = self.cycles[:, :, -1].copy(), self.memory_bytes(1)[:, :, -1]
        for share in shares:
            for start in range(self.size):
                last = self._longest_last(share, start, float(room_bytes[start]))
                cycles[share, start] -= self.chain.forward[share, last:].sum()
                used[share, start] = self._with_last(share, start, last).min()
        return cycles, used

    def _longest_last(self, share: int, start: int, room_bytes: float) -> int:
        """Return the start of the last segment: the earliest that fits, or else the one with the least memory."""
        used = [float(self._with_last(share, start, last).min()) for last in range(start, self.size)]
        fitting = [place for place, need in enumerate(used) if need <= room_bytes]
        return start + (fitting[0] if fitting else int(np.argmin(used)))

    def _with_last(self, share: int, start: int, last: int) -> Costs:
        """Memory of a part whose last segment starts there, by limit. [B]"""
        limits = self._limits[share]
        need = self._fewest_kept[share][start, last] + self.chain.stashed_bytes[last] + limits
        return np.where(limits >= self.peak_bytes[share, last, -1], need, np.inf)

    def checkpoints(self, share: int, start: int, stop: int, depth: int, room_bytes: float) -> list[int]:
        """Blocks behind the first that start a segment."""
        if not self._recompute:
            return []
        limits, kept = self._limits[share], self._fewest_kept[share]
        if stop == self.size and not self._recompute_last:
            last = self._longest_last(share, start, room_bytes)
            limit = int(self._with_last(share, start, last).argmin())
            return [*self._starts(share, start, last, limit), last][1:] if last > start else []
        limit = int((depth * kept[start, stop] + limits).argmin())
        return self._starts(share, start, stop, limit)[1:]

    def _starts(self, share: int, start: int, stop: int, limit: int) -> list[int]:
        """Return the segment starts of a part that keep the fewest inputs under a limit."""
        kept, inputs, peaks = (
            self._fewest_kept[share][start, :, limit],
            self.chain.stashed_bytes,
            self.peak_bytes[share],
        )
        starts: list[int] = []
        while stop > start:
            under = (cut for cut in range(start, stop) if peaks[cut, stop] <= self._limits[share][limit])
            stop = min(under, key=lambda cut: kept[cut] + inputs[cut])
            starts.insert(0, stop)
        return starts


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

    def slices(self, chain: CostedChain, *, recompute: bool, recompute_last: bool) -> Slices:
        """Memory and cycles of every part of the model."""
        return Slices(
            chain, _segments_of(chain.order, chain.workload.units), recompute=recompute, recompute_last=recompute_last
        )

    def divided(self, layout: Layout, order: tuple[str, ...]) -> TrainingScenario:
        """Return the scenario with this layout."""
        assert layout.cuts is not None
        bounds = pairwise((*layout.cuts.starts, len(order)))
        stages = [
            _stage_keys(ipus.start // len(ipus), Counter(order[start:stop]))
            for ipus, (start, stop) in zip(layout.cuts.ipus, bounds, strict=True)
        ]
        where = {"stages": stages} if len(stages) > 1 else {"layers_per_ipu": [self.spec.model.placed_layers]}
        parallelism = ParallelismSpec.model_validate(
            {
                **{each.key[-1]: getattr(self.spec.parallelism, each.key[-1]) for each in SHARING},
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

    def slices(self, chain: CostedChain, *, recompute: bool, recompute_last: bool) -> Slices:
        """Memory and cycles of every part of the network."""
        make = CheckpointedSlices if recompute else Slices
        return make(
            chain,
            lambda start, stop: (Segment(chain.order[start:stop]),),
            recompute=recompute,
            recompute_last=recompute_last,
        )

    def divided(self, layout: Layout, order: tuple[str, ...]) -> TrainingScenario:
        """Return the scenario with this layout."""
        assert layout.cuts is not None
        parallelism = ImageParallelismSpec.model_validate(
            {
                **_factors(layout),
                "schedule": self.auto.schedule,
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
    """Return the keys of `parallelism` and `memory` that describe the division of a scenario."""
    parallelism = spec.parallelism.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    parallelism["recomputation"] = (
        spec.parallelism.recomputed_unit if spec.parallelism.recomputes(spec.software) else "none"
    )
    parallelism |= {name: value.provenance.text for name, value in spec.parallelism if isinstance(value, Sourced)}
    memory = {"available_memory_proportion": spec.memory.available_memory_proportion}
    if not getattr(spec.parallelism, "is_phased", False):
        return parallelism, memory | spec.memory.model_dump(mode="json", include={"optimizer_state"})
    for *inside, name in (each.key[1:] for each in PHASED if each.key[0] == "memory"):
        if inside:
            written = spec.memory.model_dump(mode="json", include={inside[0]}, exclude_unset=True)
            memory[inside[0]] = {**written.get(inside[0], {}), name: getattr(getattr(spec.memory, inside[0]), name)}
        else:
            memory[name] = getattr(spec.memory, name)
    return parallelism, memory


def _factors(layout: Layout) -> dict[str, int]:
    names = ("micro_batch_size", "accumulation_factor", "replication_factor")
    return {name: getattr(layout, name) for name in names}


def _proportion(shares: tuple[float, ...]) -> Any:
    return shares[0] if len(set(shares)) == 1 else shares


def _stage_keys(ipu: int, counts: Counter[str]) -> dict[str, Any]:
    """Return the keys of a stage in a scenario: `layers` if the stage holds whole layers only."""
    held: dict[str, Any] = {name: counts[name] for name in ENCODER}
    if len(set(held.values())) == 1:
        held = {"layers": counts[ENCODER[0]]}
    held["decoder_layers"] = sum(counts[name] for name in DECODER)
    ends = {name: True for name in (EMBEDDING, HEAD) if counts[name]}
    return {"ipu": ipu, **{name: count for name, count in held.items() if count}, **ends}
