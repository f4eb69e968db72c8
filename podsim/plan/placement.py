"""Pipeline stages: which blocks run where, in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from podsim.workload.transformer import DECODER, ENCODER

EMBEDDING, HEAD = "embedding", "head"
ATTENTION, FEED_FORWARD = ENCODER


@dataclass(frozen=True, slots=True)
class Segment:
    """Blocks whose forward pass is redone as one, if it is redone; their common input is kept.

    Attributes:
        blocks: Names of blocks, in order.
        count: How often the segment repeats.
    """

    blocks: tuple[str, ...]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage of the forward pass; its backward pass runs on the same IPU.

    Attributes:
        index: Position in the pipeline, from 0.
        ipu: IPU of the replica that holds it, from 0.
        segments: What it holds, in order.
        label: The same in words, for example `embedding + 3 layers`.
    """

    index: int
    ipu: int
    segments: tuple[Segment, ...]
    label: str

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """(block name, how often), in order of first appearance."""
        counts: Counter[str] = Counter()
        for segment in self.segments:
            for name in segment.blocks:
                counts[name] += segment.count
        return tuple(counts.items())

    @property
    def last_block(self) -> str:
        """The block whose result the next stage takes."""
        return self.segments[-1].blocks[-1]


def make_stage(
    index: int,
    ipu: int,
    attention: int = 0,
    feed_forward: int = 0,
    *,
    decoder: int = 0,
    embedding: bool = False,
    head: bool = False,
) -> Stage:
    """A stage of a transformer from counts of blocks, and of whole decoder layers behind an encoder."""
    layers, rest = min(attention, feed_forward), attention - feed_forward
    segments = (
        Segment((EMBEDDING,), int(embedding)),
        Segment(ENCODER, layers),
        Segment((ATTENTION if rest > 0 else FEED_FORWARD,), abs(rest)),
        Segment(DECODER, decoder),
        Segment((HEAD,), int(head)),
    )
    parts = [EMBEDDING] if embedding else []
    if layers and not rest:
        parts.append(f"{layers} layer{'s' if layers > 1 else ''}")
    elif attention or feed_forward:
        counts = ((attention, "attention"), (feed_forward, "feed-forward"))
        parts.append(", ".join(f"{count} {name}" for count, name in counts if count))
    if decoder:
        parts.append(f"{decoder} decoder layer{'s' if decoder > 1 else ''}")
    label = " + ".join(parts + ([HEAD] if head else []))
    return Stage(index, ipu, tuple(segment for segment in segments if segment.count), label)


def stages_of_layers(
    layers_per_ipu: Sequence[int], decoder_layer_count: int = 0, *, head_on_first_ipu: bool = True
) -> tuple[Stage, ...]:
    """Stages of a plain split, embedding with the first IPU's layers.

    Args:
        layers_per_ipu: Layers of each IPU.
        decoder_layer_count: How many of them, the last ones, are decoder layers behind an encoder.
        head_on_first_ipu: Whether head and loss are back on IPU 0, as a stage of their own where there are
            several IPUs; otherwise they are with the last layers.
    """
    last, left = len(layers_per_ipu) - 1, sum(layers_per_ipu) - decoder_layer_count
    stages = []
    for ipu, count in enumerate(layers_per_ipu):
        encoder = min(count, left)
        left -= encoder
        head = ipu == last and (not head_on_first_ipu or last == 0)
        stages.append(make_stage(ipu, ipu, encoder, encoder, decoder=count - encoder, embedding=ipu == 0, head=head))
    apart = head_on_first_ipu and last > 0
    return (*stages, make_stage(len(stages), 0, head=True)) if apart else tuple(stages)


def stages_of_splits(
    order: Sequence[str], pipeline_splits: Collection[str], checkpoints: Collection[str]
) -> tuple[Stage, ...]:
    """Stages of a chain of blocks, one per IPU.

    Args:
        order: The blocks.
        pipeline_splits: Blocks that start on the next IPU.
        checkpoints: Blocks whose input is kept; each starts a segment.
    """
    stages: list[list[list[str]]] = []
    for name in order:
        if not stages or name in pipeline_splits:
            stages.append([])
        if not stages[-1] or name in checkpoints:
            stages[-1].append([])
        stages[-1][-1].append(name)
    return tuple(_chain(index, segments) for index, segments in enumerate(stages))


def _chain(index: int, segments: Sequence[Sequence[str]]) -> Stage:
    first, last = segments[0][0], segments[-1][-1]
    label = first if first == last else f"{first} to {last}"
    return Stage(index, index, tuple(Segment(tuple(names)) for names in segments), label)


def stash_depth(stage_index: int, stage_count: int) -> int:
    """Micro-batches whose stage input is kept between forward and backward pass: 2·(S - 1 - i) + 1.

    Source: [popart_pipelining].
    """
    return 2 * (stage_count - 1 - stage_index) + 1
