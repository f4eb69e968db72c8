"""Pipeline stages: which blocks run on which IPUs, in which order, and the ways to write down where a model is cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from podsim.errors import ModelError
from podsim.models import Workload
from podsim.models.transformer.names import ENCODER


@dataclass(frozen=True, slots=True)
class Segment:
    """Blocks whose forward pass is redone as one, if it is redone; their common input is kept."""

    blocks: tuple[str, ...]
    count: int = 1  # how often the segment repeats


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage of the forward pass; its backward pass runs on the same IPUs."""

    index: int  # position in the pipeline, from 0
    ipus: range  # IPUs of the replica that hold it, from 0; if several, each holds a shard of every block
    places: range  # what it holds of the order of the workload
    segments: tuple[Segment, ...]  # the blocks there, gathered
    last_block: str  # the block whose result the next stage takes
    label: str  # what it holds in words, for example `embedding + 3 layers`

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """(block name, how often), in order of first appearance."""
        counts: Counter[str] = Counter()
        for segment in self.segments:
            for name in segment.blocks:
                counts[name] += segment.count
        return tuple(counts.items())

    @property
    def reads_carried(self) -> bool:
        """Whether it has attention, which reads what is made once for all stages."""
        return any(ENCODER[0] in segment.blocks for segment in self.segments)


def kept_elements(segment: Segment, workload: Workload, *, recompute: bool) -> int:
    """Elements kept per micro-batch: the input, and without recomputation all that the backward pass reads."""
    saved = 0 if recompute else inner_elements(segment, workload)
    return segment.count * (workload.input_elements(segment.blocks[0]) + saved)


def kept_bytes(stage: Stage, workload: Workload, *, recompute: bool) -> int:
    """What a stage keeps of a micro-batch from its forward to its backward pass. [B]"""
    kept = sum(kept_elements(segment, workload, recompute=recompute) for segment in stage.segments)
    carried = workload.carried_elements if stage.reads_carried else 0
    return workload.stash_bytes * (kept + carried)


def inner_elements(segment: Segment, workload: Workload) -> int:
    """Elements that the backward pass of a segment reads beside its input, per micro-batch."""
    saved = sum(workload.blocks[name].saved_elements for name in segment.blocks)
    return saved + sum(kept_input(name, workload) for name in segment.blocks[1:])


def kept_input(name: str, workload: Workload) -> int:
    """Elements of the input of a block behind another one that are kept for it."""
    return workload.input_elements(name) if workload.blocks[name].keeps_input else 0


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where the order of a workload is cut, and who holds the parts."""

    starts: tuple[int, ...]  # places at which stages start, the first being 0
    ipus: tuple[range, ...]
    # places behind the start of a stage at which a segment starts; None where layers are segments
    checkpoints: tuple[int, ...] | None = None

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one copy of the model."""
        return len({ipu for group in self.ipus for ipu in group})


def stages_of(workload: Workload, cuts: Cuts) -> tuple[Stage, ...]:
    """The stages that cuts make of a workload, in order."""
    ends = pairwise((*cuts.starts, len(workload.order)))
    parts = zip(ends, cuts.ipus, strict=True)
    return tuple(
        _stage(workload, index, ipus, range(start, stop), cuts.checkpoints)
        for index, ((start, stop), ipus) in enumerate(parts)
    )


def _stage(workload: Workload, index: int, ipus: range, places: range, checkpoints: Sequence[int] | None) -> Stage:
    names = workload.order[places.start : places.stop]
    if checkpoints is None:
        counts = Counter(names)
        titles = {blocks: title for title, blocks in workload.layers.items()}
        texts = (_unit_text(unit, titles.get(unit), counts) for unit in workload.units)
        segments, label = layer_segments(workload.units, counts), " + ".join(filter(None, texts))
    else:
        starts = (places.start, *(place for place in checkpoints if place in places[1:]), places.stop)
        segments = tuple(Segment(workload.order[start:stop]) for start, stop in pairwise(starts))
        label = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return Stage(index, ipus, places, segments, names[-1], label)


def layer_segments(units: Sequence[tuple[str, ...]], counts: Mapping[str, int]) -> tuple[Segment, ...]:
    """As many whole layers as there are, wherever the first begins; what is left over of one is a unit of its own."""

    def gathered() -> Iterator[Segment]:
        for unit in units:
            whole = min(counts[name] for name in unit)
            yield Segment(unit, whole)
            yield from (Segment((name,), counts[name] - whole) for name in unit)

    return tuple(segment for segment in gathered() if segment.count)


def _unit_text(unit: Sequence[str], title: str | None, counts: Mapping[str, int]) -> str:
    """For example `3 layers`; `4 attention, 5 feed-forward` where they are not whole."""
    held = [(counts[name], name.replace("_", "-")) for name in unit if counts[name]]
    if title is None or not held:
        return "".join(name for _, name in held)
    if len({counts[name] for name in unit}) == 1:
        count = held[0][0]
        return f"{count} {title}" + ("s" if count > 1 else "")
    return ", ".join(f"{count} {name}" for count, name in held)


def single_ipus(count: int) -> tuple[range, ...]:
    """One IPU for each stage."""
    return groups(count, 1)


def groups(count: int, size: int) -> tuple[range, ...]:
    """Neighbouring IPUs for each stage.

    >>> groups(2, 4)
    (range(0, 4), range(4, 8))
    """
    return tuple(range(first, first + size) for first in range(0, count * size, size))


def cuts_of_layers(
    workload: Workload, layers: Sequence[int], shards: int = 1, *, chunks: int = 1, head_apart: bool = False
) -> Cuts:
    """Whole layers for every stage, `chunks` rounds of IPUs; the head with the last, or `head_apart` on the first."""
    openings = {blocks[0] for blocks in workload.layers.values()}
    inside = {name for blocks in workload.layers.values() for name in blocks}
    bounds = [place for place, name in enumerate(workload.order) if name in openings]
    bounds.append(1 + max(place for place, name in enumerate(workload.order) if name in inside))
    starts = (0, *(bounds[before] for before in accumulate(layers[:-1])))
    ipus = groups(len(layers) // chunks, shards) * chunks
    if head_apart and len(layers) > 1:
        return Cuts((*starts, bounds[-1]), (*ipus, ipus[0]))
    return Cuts(starts, ipus)


def cuts_of_counts(
    workload: Workload, counts: Sequence[Mapping[str, int]], places: Sequence[int], shards: int = 1
) -> Cuts:
    """Stages that hold a number of each block; places number the IPUs, or groups that share a stage, from 0."""
    bounds = (0, *accumulate(sum(held.values()) for held in counts))
    for index, ((start, stop), held) in enumerate(zip(pairwise(bounds), counts, strict=True)):
        there = Counter(workload.order[start:stop])
        if there != held:
            what = f"stage {index} holds {_words(held)}, but the blocks that follow there are {_words(there)}"
            do = "let each stage hold the blocks that follow those of the stage before it"
            raise ModelError(what, key="parallelism.stages", do=do)
    return Cuts(bounds[:-1], tuple(range(place * shards, (place + 1) * shards) for place in places))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def even_layers(layer_count: int, stage_count: int) -> tuple[int, ...]:
    """Layers of each stage, as even as can be, the first stages one more.

    >>> even_layers(10, 4)
    (3, 3, 2, 2)
    """
    share, rest = divmod(layer_count, stage_count)
    return tuple(share + (stage < rest) for stage in range(stage_count))


def cuts_before(order: Sequence[str], splits: Collection[str], checkpoints: Collection[str]) -> Cuts:
    """Stages, each on an IPU of its own, that start at named blocks, and so do segments."""
    starts = (0, *(place for place, name in enumerate(order) if place and name in splits))
    inside = (place for place, name in enumerate(order) if name in checkpoints)
    return Cuts(starts, single_ipus(len(starts)), tuple(inside))


def cuts_at(starts: Sequence[int], block_count: int) -> Cuts:
    """Stages, each on an IPU of its own, that start at given places; every block is a segment."""
    return Cuts(tuple(starts), single_ipus(len(starts)), tuple(range(block_count)))
