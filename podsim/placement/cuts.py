"""Pipeline stages: division of a model's blocks over IPUs, and constructors of cuts."""

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
    """Blocks that are recomputed together, if they are recomputed; the input of the first is kept."""

    blocks: tuple[str, ...]
    count: int = 1  # number of repetitions


@dataclass(frozen=True, slots=True)
class Stage:
    """Pipeline stage of the forward pass; its backward pass runs on the same IPUs."""

    index: int  # position in the pipeline, from 0
    ipus: range  # IPUs of the replica that hold the stage, from 0; if several, each holds a shard of every block
    places: range  # positions in `Workload.order`
    segments: tuple[Segment, ...]  # blocks of the stage, equal ones gathered
    last_block: str  # block whose result goes to the next stage
    label: str  # description, for example `embedding + 3 layers`

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Name and count of each kind of block, in order of first appearance."""
        counts: Counter[str] = Counter()
        for segment in self.segments:
            for name in segment.blocks:
                counts[name] += segment.count
        return tuple(counts.items())

    @property
    def reads_carried(self) -> bool:
        """True if the stage has attention blocks, which read tensors that are computed once for all stages."""
        return any(ENCODER[0] in segment.blocks for segment in self.segments)


def kept_elements(segment: Segment, workload: Workload, *, recompute: bool) -> int:
    """Return the elements kept per micro-batch: the input and, without recomputation, all that backward passes read."""
    saved = 0 if recompute else inner_elements(segment, workload)
    return segment.count * (workload.input_elements(segment.blocks[0]) + saved)


def kept_bytes(stage: Stage, workload: Workload, *, recompute: bool) -> int:
    """Return the bytes that a stage keeps of a micro-batch from its forward to its backward pass. [B]"""
    kept = sum(kept_elements(segment, workload, recompute=recompute) for segment in stage.segments)
    carried = workload.carried_elements if stage.reads_carried else 0
    return workload.stash_bytes * (kept + carried)


def inner_elements(segment: Segment, workload: Workload) -> int:
    """Return the elements per micro-batch, other than the input, that the backward pass of a segment reads."""
    saved = sum(workload.blocks[name].saved_elements for name in segment.blocks)
    return saved + sum(kept_input(name, workload) for name in segment.blocks[1:])


def kept_input(name: str, workload: Workload) -> int:
    """Return the elements of the input of a block that are kept, if the block is not the first of a segment."""
    return workload.input_elements(name) if workload.blocks[name].keeps_input else 0


@dataclass(frozen=True, slots=True)
class Cuts:
    """Positions at which the order of a workload is cut into stages, with the IPUs of each stage."""

    starts: tuple[int, ...]  # position of the first block of each stage; the first is 0
    ipus: tuple[range, ...]  # IPUs of each stage
    # positions inside stages at which a segment starts; None if layers are segments
    checkpoints: tuple[int, ...] | None = None

    @property
    def ipus_per_replica(self) -> int:
        """Number of IPUs of one copy of the model."""
        return len({ipu for group in self.ipus for ipu in group})


def stages_of(workload: Workload, cuts: Cuts) -> tuple[Stage, ...]:
    """Return the stages into which cuts divide a workload, in order."""
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
    """Return segments: as many whole layers as there are, then one segment for each block that is left over."""

    def gathered() -> Iterator[Segment]:
        for unit in units:
            whole = min(counts[name] for name in unit)
            yield Segment(unit, whole)
            yield from (Segment((name,), counts[name] - whole) for name in unit)

    return tuple(segment for segment in gathered() if segment.count)


def _unit_text(unit: Sequence[str], title: str | None, counts: Mapping[str, int]) -> str:
    """Return for example `3 layers`, or `4 attention, 5 feed-forward` if layers are incomplete."""
    held = [(counts[name], name.replace("_", "-")) for name in unit if counts[name]]
    if title is None or not held:
        return "".join(name for _, name in held)
    if len({counts[name] for name in unit}) == 1:
        count = held[0][0]
        return f"{count} {title}" + ("s" if count > 1 else "")
    return ", ".join(f"{count} {name}" for count, name in held)


def single_ipus(count: int) -> tuple[range, ...]:
    """Return one IPU for each stage."""
    return groups(count, 1)


def groups(count: int, size: int) -> tuple[range, ...]:
    """Return the adjacent IPUs of each stage, with `size` IPUs per stage.

    >>> groups(2, 4)
    (range(0, 4), range(4, 8))
    """
    return tuple(range(first, first + size) for first in range(0, count * size, size))


def cuts_of_layers(
    workload: Workload, layers: Sequence[int], shards: int = 1, *, chunks: int = 1, head_apart: bool = False
) -> Cuts:
    """Return cuts with whole layers in every stage; with `head_apart`, the head is a stage on the first IPUs.

    `chunks`: number of stages that each IPU, or group of IPUs, holds.
    """
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
    """Return cuts with given numbers of blocks in each stage; `places` number the IPUs, or groups of them, from 0."""
    bounds = (0, *accumulate(sum(held.values()) for held in counts))
    for index, ((start, stop), held) in enumerate(zip(pairwise(bounds), counts, strict=True)):
        there = Counter(workload.order[start:stop])
        if there != held:
            what = (
                f"stage {index} holds {_counts_text(held)}, but the blocks that follow there are {_counts_text(there)}"
            )
            do = "let each stage hold the blocks that follow those of the stage before it"
            raise ModelError(what, key="parallelism.stages", do=do)
    return Cuts(bounds[:-1], tuple(range(place * shards, (place + 1) * shards) for place in places))


def _counts_text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def even_layers(layer_count: int, stage_count: int) -> tuple[int, ...]:
    """Return the number of layers of each stage, as even as possible; the first stages have one more.

    >>> even_layers(10, 4)
    (3, 3, 2, 2)
    """
    share, rest = divmod(layer_count, stage_count)
    return tuple(share + (stage < rest) for stage in range(stage_count))


def cuts_before(order: Sequence[str], splits: Collection[str], checkpoints: Collection[str]) -> Cuts:
    """Return cuts with a stage, on one IPU, from each block in `splits`, and a segment from each in `checkpoints`."""
    starts = (0, *(place for place, name in enumerate(order) if place and name in splits))
    inside = (place for place, name in enumerate(order) if name in checkpoints)
    return Cuts(starts, single_ipus(len(starts)), tuple(inside))


def cuts_at(starts: Sequence[int], block_count: int) -> Cuts:
    """Return cuts with a stage, on one IPU, from each given position; every block is a segment."""
    return Cuts(tuple(starts), single_ipus(len(starts)), tuple(range(block_count)))
