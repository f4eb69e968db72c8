"""Workloads with FP8 products: operands are cast and scaled; the rest stays in FP16.

Results are stored in groups of 16 channels and FP8 operands in groups of 32, so operands change their layout. Training
computes a scale from the largest element of a tensor; forward passes have constant scales. The backward pass casts its
operands again. Source: [micikevicius2022] [noune2022] for scales and products; [poplibs_poplin]
for the formats of the matrix unit; [popart_fp8] for scales in casts and products.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from podsim.models.block import Block, Parameter, Workload
from podsim.models.op import Conv, Elementwise, MatMul, Op, Reduce

# Passes over a scale that is computed: a range check, a branch, for a cast a negation, and the conversion to tensor
# metadata. Forward passes have constant scales, whose metadata are assumed to be made before the first batch.
# Source: [popart_fp8] for the passes.
_CAST_SCALE_PASSES, _PRODUCT_SCALE_PASSES = 4, 3


def with_products_in_fp8(workload: Workload, *, attention: bool = False) -> Workload:
    """Return a workload of forward passes with FP8 operands of dense layers and ungrouped convolutions.

    Weights are stored in FP8. An activation is cast once in a block, even if several products read it. Grouped
    convolutions keep FP16, since their vertices do not take FP8. With `attention`, products of two activations read FP8
    as well.
    """
    blocks = {name: _narrowed(block, attention=attention) for name, block in workload.blocks.items()}
    return replace(workload, blocks=blocks)


def with_weights_in_fp8(workload: Workload) -> Workload:
    """Return the workload with weights stored in FP8 and cast to FP16 before each product."""
    return replace(workload, blocks={name: _unpacked(block) for name, block in workload.blocks.items()})


def with_training_in_fp8(workload: Workload, *, stored: bool) -> Workload:
    """Return the workload with FP8 products in both passes.

    With `stored`, weights that are not tied are stored in FP8; all other weights are cast in every pass.
    """
    return replace(workload, blocks={name: _trained(block, stored=stored) for name, block in workload.blocks.items()})


def _unpacked(block: Block) -> Block:
    weights = {f"@{parameter.name}" for parameter in block.parameters}
    ops, read = list[Op](), set[str]()
    for op in block.forward:
        if _reads_weights(op, weights):
            source, elements = op.inputs[1], op.operand_elements[1]
            read.add(source)
            name = f"{block.name}/{source[1:]}/fp16"
            ops.append(Elementwise(name=name, shape=(elements,), dtype="fp16", inputs=(source,), function="cast"))
            op = replace(op, inputs=(op.inputs[0], name, *op.inputs[2:]))
        ops.append(op)
    narrow = tuple(replace(each, dtype="fp8") if f"@{each.name}" in read else each for each in block.parameters)
    return replace(block, forward=tuple(ops), parameters=narrow)


def _narrowed(block: Block, *, attention: bool) -> Block:
    weights = {f"@{parameter.name}" for parameter in block.parameters}
    ops = tuple(_Casts(block, block.name, weights, weights, attention=attention).with_casts(block.forward))
    alive = block.live_elements
    if alive is not None:  # an FP8 copy has half the bytes of its source
        alive += max((-(-op.element_count // 2) for op in ops if op.dtype == "fp8"), default=0)
    return replace(block, forward=ops, parameters=_in_eight_bits(block, ops, weights), live_elements=alive)


def _trained(block: Block, *, stored: bool) -> Block:
    weights = {f"@{parameter.name}" for parameter in block.parameters}
    kept = {f"@{each.name}" for each in block.parameters if stored and each.tied_to is None}
    # In the backward pass the input of a layer has the name of that layer.
    read = {f"@{_layer(op)}/input": op.inputs[0] for op in block.forward if _reads_weights(op, weights)}
    forward = tuple(_Casts(block, block.name, weights, kept, scales=True).with_casts(block.forward))
    backward = tuple(
        _Casts(block, f"{block.name}_backward", weights, kept, scales=True, read=read).with_casts(block.backward)
    )
    return replace(block, forward=forward, backward=backward, parameters=_in_eight_bits(block, forward, kept))


def _in_eight_bits(block: Block, ops: Collection[Op], stored: Collection[str]) -> tuple[Parameter, ...]:
    narrow = {op.inputs[1] for op in ops if isinstance(op, (Conv, MatMul)) and op.operand_dtype == "fp8"} & {*stored}
    return tuple(
        replace(parameter, dtype="fp8") if f"@{parameter.name}" in narrow else parameter
        for parameter in block.parameters
    )


@dataclass(frozen=True)
class _Casts:
    """Inserter of casts before the products of a pass."""

    block: Block
    prefix: str  # prefix of names of operations in the pass
    weights: Collection[str]  # names by which products read the block's parameters
    stored: Collection[str]  # weights that are stored in FP8
    attention: bool = False  # True if products of two activations read FP8 as well
    scales: bool = False  # True if scales are computed from the largest elements; otherwise they are constants
    read: Mapping[str, str] = field(default_factory=dict)  # original names of tensors, by their names in the pass
    _known: dict[str, str] = field(default_factory=dict)

    def with_casts(self, ops: Collection[Op]) -> Iterator[Op]:
        """Yield the operations of the pass, with a cast of each operand before its first product."""
        for op in ops:
            meets = self.attention and isinstance(op, MatMul)
            if not (_reads_weights(op, self.weights) or _makes_gradient_of_weights(op) or meets):
                yield op
                continue
            assert isinstance(op, (Conv, MatMul))
            names = []
            for place, source in enumerate(op.inputs[:2]):
                if source not in self.stored:
                    yield from self._cast(op, place)
                    source = self._known[self._tensor(source)]
                names.append(source)
            if self.scales:
                yield from _scale(op.name, _PRODUCT_SCALE_PASSES)
            # A cast keeps the groups of channels of its source, which are half as large as those of the product.
            narrow = replace(op, operands="fp8", inputs=(*names, *op.inputs[2:]))
            if isinstance(narrow, MatMul):
                yield replace(narrow, left_arranged=False)
            else:
                yield replace(narrow, regrouped=True)

    def _tensor(self, source: str) -> str:
        return self.read.get(source, source)

    def _cast(self, op: Conv | MatMul, place: int) -> Iterator[Op]:
        """Yield the cast of an operand, unless the operand is already cast."""
        source, tensor = op.inputs[place], self._tensor(op.inputs[place])
        if tensor in self._known:
            return
        name = f"{self.prefix}/{source[1:]}" if source.startswith("@") else source
        elements = op.operand_elements[place]
        shape = (math.prod(op.shape[:-1]), op.inner) if isinstance(op, MatMul) and not place else (elements,)
        if self.scales:
            yield Reduce(name=f"{name}/largest", shape=(1,), dtype="fp16", inputs=(source,), input_count=elements)
            yield from _scale(f"{name}/fp8", _CAST_SCALE_PASSES)
        self._known[tensor] = f"{name}/fp8"
        yield Elementwise(name=f"{name}/fp8", shape=shape, dtype="fp8", inputs=(source,), function="cast")


def _scale(name: str, count: int) -> Iterator[Op]:
    """Yield passes over one number, which check a tensor's scale and convert it to the unit's format."""
    for number in range(1, count + 1):
        yield Elementwise(name=f"{name}/scale.{number}", shape=(1,), dtype="fp32", function="mul")


def _layer(op: Op) -> str:
    return op.inputs[1].removeprefix("@").removesuffix("/weight")


def _reads_weights(op: Op, weights: Collection[str]) -> TypeGuard[Conv | MatMul]:
    return isinstance(op, (Conv, MatMul)) and op.inputs[1] in weights and not _is_grouped(op)


def _makes_gradient_of_weights(op: Op) -> bool:
    """Return True if a product computes the gradient of weights."""
    if isinstance(op, Conv):
        return op.direction == "weight_grad" and not _is_grouped(op)
    return isinstance(op, MatMul) and not op.output_arranged


def _is_grouped(op: Op) -> bool:
    return isinstance(op, Conv) and op.group_count > 1
