"""Methods to compute a convolution: a vertex, and transforms that bring the operands into its form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.tiles.amp import out_grains
from podsim.tiles.conv_shape import ConvShape
from podsim.tiles.vector import WORD_BYTES, ceil_div, layout_cycles

Vertex = Literal["amp", "slic", "vmac", "hmac", "outer_product"]
_FILTER_HEIGHTS = (1, 2, 4)
_FEWEST_CHANNELS = 4
"""Minimum channels of the matrix unit, and most channels without groups for which `hmac` can be cheaper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A vertex with the convolution that it computes."""

    vertex: Vertex
    shape: ConvShape  # the convolution after the transforms
    transform: str = ""  # description of the transforms; empty without any
    moved_count: int = 0  # elements copied by the transforms
    group_grain: int = 1  # groups that the vertex processes at once
    in_grain: int = 1  # input channels that the vertex processes at once
    out_grain: int = 1  # output channels that the vertex processes at once
    filter_height: int = 1  # kernel rows that the matrix unit holds at once


def methods(ipu: Ipu, shape: ConvShape, dtype: str) -> Iterator[Method]:
    """Yield the methods that are worth costing; only the matrix unit takes FP8."""
    direct, moved = shape.without_empty_positions(), _compacted_count(shape) + _unarranged_count(shape)
    if dtype == "fp16":
        yield from _half_only(ipu, direct, moved)
    # A library that does not combine groups computes groups of few channels by dot products.
    for transform, form, moved in _forms(ipu, shape, dtype):
        narrow = form.groups > 1 and shape.in_channels <= _FEWEST_CHANNELS
        if not narrow or ipu.vertices.transform.combines_groups:
            yield from _amp(ipu, form, transform, moved, dtype)
        few = ipu.amp.in_channels(dtype) - 1 if shape.groups > 1 else _FEWEST_CHANNELS
        if dtype != "fp8" and min(shape.in_channels, shape.out_channels) <= few:
            # Channels are padded to words of the exchange only.
            grain = WORD_BYTES // DTYPE_BYTES[dtype]
            yield Method(vertex="hmac", shape=form, transform=transform, moved_count=moved, in_grain=grain)


def copy_cycles(ipu: Ipu, element_count: int, dtype: str, cycles_per_byte: float | None) -> float:
    """Return the time to reorder elements on all tiles, with their exchange. [cycles]

    Without a rate: one call with 1.25·bytes/min(8, element size). Source: [poplibs_poplin].
    """
    if not element_count:
        return 0.0
    share, vertex = ceil_div(element_count, ipu.tile.count), ipu.vertices.transform
    byte_count = share * DTYPE_BYTES[dtype]
    if cycles_per_byte is not None:
        return layout_cycles(ipu, byte_count, cycles_per_byte)
    copies = ceil_div(share * vertex.cycles, vertex.elements)
    return float(ipu.vertices.call.copy_cycles + copies + ceil_div(byte_count, ipu.exchange.bytes_per_cycle))


def _forms(ipu: Ipu, shape: ConvShape, dtype: str) -> Iterator[tuple[str, ConvShape, int]]:
    """Yield a description of each transform, the convolution after it and the number of elements copied."""
    direct = shape.without_empty_positions()
    always = _compacted_count(shape) + _unarranged_count(replace(shape, input_arranged=True))
    unmoved_input = 0 if shape.input_arranged else shape.input_count
    sampled = any(k == 1 < s for k, s in zip(direct.kernel, direct.stride, strict=True))
    for axes in _foldable(direct):
        folded = direct.folded(axes)
        if folded.is_pointwise:
            folded = folded.flattened()
        input_count = folded.input_count if axes or (sampled and folded.is_pointwise) else unmoved_input
        weights = folded.weight_count if axes and shape.weights_arranged else 0
        words = f"fold kernel axes {axes}" if axes else ""
        yield words, folded, always + input_count + weights
        if folded.is_pointwise and not (shape.input_arranged or shape.weights_arranged):
            # A swapped product leaves its result in the order of the weights [poplibs_poplin].
            saved = 0 if shape.result_arranged else shape.result_count
            both = ", ".join(filter(None, (words, "swap operands")))
            yield both, folded.swapped(), always + input_count - saved
    if direct.lone_axes and shape.groups == 1:
        spread = direct.spread(direct.lone_axes)
        moved = shape.weights_arranged * shape.weight_count + shape.result_arranged * shape.result_count
        form = spread.flattened() if spread.is_pointwise else spread
        yield f"outputs of axes {direct.lone_axes} as channels", form, always + unmoved_input + moved
    factor = _combined_groups(ipu, shape, dtype)
    if factor > 1 and ipu.vertices.transform.combines_groups:
        combined = direct.combined(factor)
        moved = combined.input_count + combined.weight_count + combined.result_count
        combined = combined.flattened() if combined.is_pointwise else combined
        yield f"combine {factor} groups", combined, _compacted_count(shape) + moved


def _foldable(shape: ConvShape) -> Iterator[tuple[int, ...]]:
    """Yield the sets of axes whose kernel positions can become channels.

    Dilated axes are left out: their zeros would become work.
    """
    axes = [a for a, (size, d) in enumerate(zip(shape.kernel, shape.dilation, strict=True)) if size > 1 and d == 1]
    if math.prod(shape.field) == 1 and len(axes) == len(shape.kernel):
        yield tuple(axes)  # With one output position the input is not repeated.
        return
    for count in range(len(axes) + 1):
        yield from combinations(axes, count)


def _combined_groups(ipu: Ipu, shape: ConvShape, dtype: str) -> int:
    """Return how many groups are combined into one: a power of two that fills a block; 1 if a group exceeds a word.

    Source: [poplibs_poplin], which combines groups of one input channel, and of two in half precision.
    """
    channels = max(shape.in_channels, shape.out_channels)
    if dtype == "fp8" or shape.in_channels > WORD_BYTES // DTYPE_BYTES[dtype]:
        return 1
    return 1 << (min(ipu.amp.in_channels(dtype) // channels, shape.groups) or 1).bit_length() - 1


def _unarranged_count(shape: ConvShape) -> int:
    """Return the elements of operands and result that every method has to move."""
    moved = (
        (shape.input_arranged, shape.input_count),
        (shape.weights_arranged, shape.weight_count),
        (shape.result_arranged, shape.result_count),
    )
    return sum(count for arranged, count in moved if not arranged)


def _compacted_count(shape: ConvShape) -> int:
    """Return the number of results that are computed densely and then spaced out by empty positions."""
    compact = shape.without_empty_positions()
    return 0 if compact.field == shape.field else compact.result_count


def _amp(ipu: Ipu, shape: ConvShape, transform: str, moved: int, dtype: str) -> Iterator[Method]:
    """Yield methods of the matrix unit, whose input channels serve one, two or four rows of the kernel."""
    grain = ipu.amp.in_channels(dtype)
    least = None
    for height in _FILTER_HEIGHTS:
        if height > 1 and (len(shape.kernel) < 2 or shape.kernel[0] == 1 or grain // height < _FEWEST_CHANNELS):
            return
        blocks = ceil_div(shape.in_channels, grain // height) * ceil_div(shape.kernel[0] if shape.kernel else 1, height)
        if least is not None and blocks >= least:
            continue
        least = blocks
        for out_grain in out_grains(ipu, shape.out_channels):
            padded = _padded_count(shape, grain // height, out_grain, folded="fold" in transform)
            yield Method(
                vertex="amp",
                shape=shape,
                transform=transform,
                moved_count=moved + padded,
                in_grain=grain // height,
                out_grain=out_grain,
                filter_height=height,
            )


def _padded_count(shape: ConvShape, in_grain: int, out_grain: int, *, folded: bool) -> int:
    """Return the elements copied to pad the channels of each group to whole grains.

    Operands that move anyway are not counted, and operands without groups are allocated with their padding.
    Source: [poplibs_poplin].
    """
    if shape.groups == 1:
        return 0
    inner = ceil_div(shape.in_channels, in_grain) * in_grain
    outer = ceil_div(shape.out_channels, out_grain) * out_grain
    padded = 0
    if inner != shape.in_channels and not folded and shape.input_arranged:
        padded += shape.input_count // shape.in_channels * inner
    if outer != shape.out_channels and shape.result_arranged:
        padded += shape.result_count // shape.out_channels * outer
    return padded


def _half_only(ipu: Ipu, shape: ConvShape, moved: int) -> Iterator[Method]:
    """Yield the methods whose vertices exist only for half-precision operands."""
    slic, vmac = ipu.vertices.slic, ipu.vertices.vmac
    widest = max(shape.in_channels, shape.out_channels)
    dense = bool(shape.kernel) and math.prod(shape.kernel_dilation) == 1 and shape.stride[-1] <= 2
    if slic and shape.groups > 1 and widest <= slic.channels and dense:
        channels = 1 << (widest - 1).bit_length()
        yield Method(
            vertex="slic",
            shape=shape,
            moved_count=moved,
            group_grain=slic.channels // channels,
            in_grain=channels,
            out_grain=channels,
        )
    if vmac and shape.groups > 1 and shape.out_channels == 1:
        for width in (vmac.half_width, 2 * vmac.half_width):
            yield Method(vertex="vmac", shape=shape, moved_count=moved, group_grain=width)
    if shape.in_channels == 1 and shape.is_pointwise:
        yield Method(vertex="outer_product", shape=shape.flattened(), moved_count=moved)
