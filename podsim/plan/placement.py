"""Pipeline stages: which blocks run where, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

EMBEDDING, ATTENTION, FEED_FORWARD, HEAD = "embedding", "attention", "feed_forward", "head"


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline stage of the forward pass; its backward pass runs on the same IPU.

    Attributes:
        index: Position in the pipeline, from 0.
        ipu: IPU of the replica that holds it, from 0.
        blocks: (block name, how often), in order; zero counts left out.
    """

    index: int
    ipu: int
    blocks: tuple[tuple[str, int], ...]

    def count(self, block: str) -> int:
        """How often the stage holds a block."""
        return dict(self.blocks).get(block, 0)

    @property
    def label(self) -> str:
        """The blocks in short, for example `embedding + 3 layers`."""
        attention, feed_forward = self.count(ATTENTION), self.count(FEED_FORWARD)
        parts = [EMBEDDING] if self.count(EMBEDDING) else []
        if attention == feed_forward and attention:
            parts.append(f"{attention} layer{'s' if attention > 1 else ''}")
        elif attention or feed_forward:
            parts.append(f"{attention} attention, {feed_forward} feed-forward")
        return " + ".join(parts + ([HEAD] if self.count(HEAD) else []))


def make_stage(
    index: int,
    ipu: int,
    attention: int = 0,
    feed_forward: int = 0,
    *,
    embedding: bool = False,
    head: bool = False,
) -> Stage:
    """A stage from counts."""
    counts = (
        (EMBEDDING, int(embedding)),
        (ATTENTION, attention),
        (FEED_FORWARD, feed_forward),
        (HEAD, int(head)),
    )
    return Stage(index, ipu, tuple((name, count) for name, count in counts if count))


def stages_of_layers(layers_per_ipu: Sequence[int]) -> tuple[Stage, ...]:
    """Stages of a plain split: embedding with the first IPU's layers, head and loss back on IPU 0.

    With a single IPU everything is one stage.
    """
    if len(layers_per_ipu) == 1:
        count = layers_per_ipu[0]
        return (make_stage(0, 0, count, count, embedding=True, head=True),)
    encoder = [make_stage(ipu, ipu, count, count, embedding=ipu == 0) for ipu, count in enumerate(layers_per_ipu)]
    return (*encoder, make_stage(len(encoder), 0, head=True))


def stash_depth(stage_index: int, stage_count: int) -> int:
    """Micro-batches whose stage input is kept between forward and backward pass: 2·(S - 1 - i) + 1.

    Source: [popart_pipelining].
    """
    return 2 * (stage_count - 1 - stage_index) + 1
