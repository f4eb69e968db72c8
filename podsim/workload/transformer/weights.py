"""Weights of a decoder as they are stored and loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from podsim.workload.block import Workload
from podsim.workload.layers import GraphBuilder
from podsim.workload.op import DType, Op
from podsim.workload.transformer.causal import DecoderShape, causal_decoder
from podsim.workload.transformer.shape import Batch


@dataclass(frozen=True, slots=True)
class Weights:
    """Elements of the parts of a model that are loaded as one, of all shards together.

    Attributes:
        embedding: The tables of words and positions.
        layer: One layer.
        head: The last norm, and the head.
    """

    embedding: int
    layer: int
    head: int

    @classmethod
    def stored(cls, shape: DecoderShape) -> Self:
        """Those that the parts store themselves."""
        blocks = causal_decoder(shape, Batch(1, 1)).blocks
        return cls._of({name: block.parameter_count for name, block in blocks.items()})

    @classmethod
    def read(cls, workload: Workload) -> Self:
        """Those that a step reads: not all experts, but tied tensors as well."""
        return cls._of({name: block.read_parameter_count for name, block in workload.blocks.items()})

    @classmethod
    def _of(cls, counts: Mapping[str, int]) -> Self:
        return cls(counts["embedding"], counts["attention"] + counts["feed_forward"], counts["head"])


def unpack_ops(element_count: int, dtype: DType = "fp16") -> tuple[Op, ...]:
    """Weights of a narrow format brought to the one that the matrix unit takes."""
    g = GraphBuilder("weights", dtype)
    g.elementwise("cast", (element_count,), ("@packed",), name="unpack")
    g.elementwise("scale", (element_count,), ("@unpacked",))
    return g.ops()
