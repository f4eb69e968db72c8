"""Products with weights in FP8: operands of eight bits, results and everything else in half precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from podsim.models.block import Block, Workload
from podsim.models.op import Conv, Elementwise, MatMul, Op


def with_products_in_fp8(workload: Workload) -> Workload:
    """The same with FP8 operands of dense layers and of convolutions that are not grouped.

    Their weights are stored in FP8. What they read is cast once in a block, however many of them read it.
    Products of two activations, as in attention, and grouped convolutions, whose other vertices take no FP8,
    stay as they are.

    Args:
        workload: Forward passes in half precision.
    """
    return replace(workload, blocks={name: _narrowed(block) for name, block in workload.blocks.items()})


def _narrowed(block: Block) -> Block:
    stored = {f"@{parameter.name}" for parameter in block.parameters}
    ops = tuple(_with_casts(block, stored))
    narrow = {op.inputs[1] for op in ops if isinstance(op, (Conv, MatMul)) and op.operand_dtype == "fp8"}
    parameters = tuple(replace(each, dtype="fp8") if f"@{each.name}" in narrow else each for each in block.parameters)
    return replace(block, forward=ops, parameters=parameters)


def _with_casts(block: Block, stored: set[str]) -> Iterator[Op]:
    """The forward pass, with a cast in front of the first product that reads something."""
    casts: dict[str, Elementwise] = {}
    for op in block.forward:
        if not isinstance(op, (Conv, MatMul)) or not _reads_weights(op, stored):
            yield op
            continue
        source = op.inputs[0]
        if source not in casts:
            casts[source] = _cast(block, op)
            yield casts[source]
        yield replace(op, operands="fp8", inputs=(casts[source].name, *op.inputs[1:]))


def _reads_weights(op: Conv | MatMul, stored: set[str]) -> bool:
    grouped = isinstance(op, Conv) and op.group_count > 1
    return op.inputs[1] in stored and not grouped


def _cast(block: Block, op: Conv | MatMul) -> Elementwise:
    """One pass over the left operand; `@input` gets the name of the block in front."""
    source = op.inputs[0]
    name = f"{block.name}/{source[1:]}" if source.startswith("@") else source
    elements, _ = op.operand_elements
    shape = (math.prod(op.shape[:-1]), op.inner) if isinstance(op, MatMul) else (elements,)
    return Elementwise(name=f"{name}/fp8", shape=shape, dtype="fp8", inputs=(source,), function="cast")
