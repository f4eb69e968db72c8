"""What a graph of general operations adds to attention."""

from __future__ import annotations

from dataclasses import replace

from podsim.models.block import Block, Workload
from podsim.models.op import MatMul, Op, Rearrange


def with_copies(workload: Workload, count: int) -> Workload:
    """The same with results of products per head that are laid out anew before they are read.

    A graph written for the machine leaves them where the product left them. One that a framework traces from
    transpositions, reshapes and products of its own copies them: heads to the front, heads back, keys transposed.

    Args:
        workload: A model, or one of its shards.
        count: Copies of each such result, in forward and backward pass alike.
    """
    if not count:
        return workload
    return replace(workload, blocks={name: _copying(block, count) for name, block in workload.blocks.items()})


def _copying(block: Block, count: int) -> Block:
    if not any(op.name == f"{block.name}/scores" for op in block.forward):
        return block
    return replace(block, forward=_with_copies(block.forward, count), backward=_with_copies(block.backward, count))


def _with_copies(ops: tuple[Op, ...], count: int) -> tuple[Op, ...]:
    """Products of several heads, each with its copies behind it."""
    result: list[Op] = []
    for op in ops:
        result.append(op)
        if isinstance(op, MatMul) and op.group_count > 1:
            result += (_copy(op, number) for number in range(1, count + 1))
    return tuple(result)


def _copy(op: MatMul, number: int) -> Rearrange:
    return Rearrange(name=f"{op.name}/copy.{number}", shape=op.shape, dtype=op.dtype, inputs=(op.name,))
