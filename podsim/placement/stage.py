"""Pipeline stages: which blocks run on which IPUs, in which order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from podsim.models import Workload


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
    """One pipeline stage of the forward pass; its backward pass runs on the same IPUs.

    Attributes:
        index: Position in the pipeline, from 0.
        ipus: IPUs of the replica that hold it, from 0; if several, each holds a shard of every block.
        places: What it holds of the order of the workload.
        segments: The blocks there, gathered.
        last_block: The block whose result the next stage takes.
        label: What it holds in words, for example `embedding + 3 layers`.
    """

    index: int
    ipus: range
    places: range
    segments: tuple[Segment, ...]
    last_block: str
    label: str

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """(block name, how often), in order of first appearance."""
        counts: Counter[str] = Counter()
        for segment in self.segments:
            for name in segment.blocks:
                counts[name] += segment.count
        return tuple(counts.items())


def stash_depth(stage_index: int, stage_count: int) -> int:
    """Micro-batches whose stage input is kept between forward and backward pass: 2·(S - 1 - i) + 1.

    Source: [popart_pipelining].
    """
    return 2 * (stage_count - 1 - stage_index) + 1


def kept_elements(segment: Segment, workload: Workload, *, recompute: bool) -> int:
    """Elements kept per micro-batch: the input, and without recomputation all that the backward pass reads."""
    saved = 0 if recompute else sum(workload.blocks[name].saved_elements for name in segment.blocks)
    return segment.count * (workload.input_elements(segment.blocks[0]) + saved)
