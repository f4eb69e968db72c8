"""Weights in narrow formats."""

from __future__ import annotations

from dataclasses import replace

from podsim.models.block import Workload
from podsim.models.layers import GraphBuilder
from podsim.models.op import DType, Op


def unpacking(workload: Workload, dtype: DType, *, offset: bool = False) -> Workload:
    """The same with layers whose weights are brought to a wider format before they are multiplied.

    Args:
        workload: A model, or one of its shards.
        dtype: The wider format.
        offset: Whether groups of weights have an offset beside their scale.
    """
    blocks = dict(workload.blocks)
    for names in workload.layers.values():
        read = sum(workload.blocks[name].read_parameter_count for name in names)
        first = blocks[names[0]]
        blocks[first.name] = replace(first, forward=unpack_ops(read, dtype, offset=offset) + first.forward)
    return replace(workload, blocks=blocks)


def unpack_ops(element_count: int, dtype: DType = "fp16", *, offset: bool = False) -> tuple[Op, ...]:
    """Weights of a narrow format brought to the one that the matrix unit takes."""
    g = GraphBuilder("weights", dtype)
    g.elementwise("cast", (element_count,), ("@packed",), name="unpack")
    g.elementwise("scale", (element_count,), ("@unpacked",))
    if offset:
        g.elementwise("add", (element_count,), ("@scaled", "@offsets"))
    return g.ops()
