"""Narrow formats of the matrices of layers; norms, biases, embedding and head keep their format.

Source: [popxl_addons].
"""

from __future__ import annotations

from dataclasses import replace

from podsim.models.block import Block, Parameter, Workload
from podsim.models.layers import GraphBuilder
from podsim.models.op import DType, Op


def with_narrow_weights(workload: Workload, dtype: DType, *, offset: bool = False) -> Workload:
    """Return the workload with narrow weights, which each layer converts to a wider format before its products."""
    layers = {name for names in workload.layers.values() for name in names}

    def is_wide(block: Block, parameter: Parameter) -> bool:
        return block.name not in layers or len(parameter.shape) == 1

    blocks = {
        name: replace(
            block,
            parameters=tuple(replace(each, dtype=dtype) if is_wide(block, each) else each for each in block.parameters),
        )
        for name, block in workload.blocks.items()
    }
    for names in workload.layers.values():
        matrices = (each for name in names for each in blocks[name].parameters if each.dtype is None)
        read = round(sum(matrix.element_count * matrix.share_read for matrix in matrices))
        first = blocks[names[0]]
        blocks[first.name] = replace(first, forward=unpack_ops(read, dtype, offset=offset) + first.forward)
    return replace(workload, blocks=blocks)


def unpack_ops(element_count: int, dtype: DType = "fp16", *, offset: bool = False) -> tuple[Op, ...]:
    """Return the operations that convert narrow weights to the matrix unit's format.

    With `offset`, a 16-bit integer holds four weights of four bits, and a last operation changes the layout to that
    of products.
    """
    g, shape = GraphBuilder("weights", dtype), (element_count,)
    g.elementwise("unpack" if offset else "cast", shape, ("@packed",), name="unpack")
    g.elementwise("scale", shape, ("@unpacked",))
    if offset:
        g.elementwise("add", shape, ("@scaled", "@offsets"))
        g.rearrange("laid_out", shape, "@added")
    return g.ops()
