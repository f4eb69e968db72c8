"""Blocks of a stack of layers, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from podsim.models.block import Block
from podsim.models.transformer.attention import Attention, attention
from podsim.models.transformer.feed_forward import feed_forward
from podsim.models.transformer.shape import LayerShape


class RunOrder(TypedDict):
    """Fields of a workload with its blocks and their order."""

    blocks: Mapping[str, Block]
    order: tuple[str, ...]
    layers: Mapping[str, tuple[str, ...]]


def layer_stack(layer: LayerShape, embedding: Block, head: Block) -> RunOrder:
    """Return embedding, layers of attention and feed-forward block, and head, in this order."""
    blocks = (embedding, attention(Attention(layer)), feed_forward(layer), head)
    names = (blocks[1].name, blocks[2].name)
    return {
        "blocks": {block.name: block for block in blocks},
        "order": (embedding.name, *names * layer.layer_count, head.name),
        "layers": {"layer": names},
    }
