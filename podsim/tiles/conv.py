"""The convolution planner: it chooses the cheapest vertex, operand transform and split whose temporaries fit.

A convolution is split over tiles and over time. Each part of the field also receives its halo.
Source: [poplibs_poplin]; docs/background/convolutions.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import NoPlanError
from podsim.scenario.hardware import present
from podsim.scenario.ipu import Ipu
from podsim.tiles.account import Account
from podsim.tiles.conv_cost import KINDS, SplitArrays, enumerate_splits, split_costs
from podsim.tiles.conv_method import Method, copy_cycles, methods
from podsim.tiles.conv_shape import ConvShape
from podsim.tiles.plans import ConvPlan
from podsim.tiles.split import choose, serial_slices
from podsim.tiles.vector import ceil_div

_MOST_ELEMENTS = 2**40


@dataclass(frozen=True, slots=True)
class _Costed:
    """A method with the candidates for its split and their costs."""

    method: Method
    candidates: SplitArrays
    parts: NDArray[Any]  # cycles by kind, one line per kind of `KINDS` [cycles]
    cycles: NDArray[Any]  # total cycles of each candidate [cycles]
    temporary: NDArray[Any]  # peak of each candidate's temporaries on the fullest tile [B]


def plan_conv(
    ipu: Ipu,
    shape: ConvShape,
    dtype: str = "fp16",  # format of the operands: `fp8`, `fp16` or `fp32`
    partials: str = "fp16",
    available_memory_proportion: float = 0.6,  # share of tile memory for temporaries, above 0
    copy_cycles_per_byte: float | None = None,
) -> ConvPlan:
    """Return the cheapest method and split whose temporaries fit.

    `copy_cycles_per_byte` is the rate of copies [cycles/B]; None takes the library's estimate. When nothing fits, the
    bound is doubled until it passes twice the tile's memory and then dropped; the memory plan decides if the whole
    graph fits.
    """
    _refuse_beyond_reason(shape)
    bound_bytes = available_memory_proportion * ipu.tile.memory_bytes
    planner = _Planner(ipu, dtype, partials, bound_bytes, copy_cycles_per_byte)
    costed = planner.cost_unsliced(methods(ipu, shape, dtype))
    costed += planner.cost_sliced(costed)
    cycles = np.concatenate([one.cycles for one in costed])
    temporary = np.concatenate([one.temporary for one in costed])
    best = choose(cycles, temporary, ipu.tile.memory_bytes, available_memory_proportion)
    ends = np.cumsum([len(one.temporary) for one in costed])
    owner = int(np.searchsorted(ends, best, side="right"))
    return _plan(shape, dtype, partials, costed[owner], best - int(ends[owner]))


def _refuse_beyond_reason(shape: ConvShape) -> None:
    if max(shape.input_count, shape.weight_count, shape.result_count) > _MOST_ELEMENTS:
        extents = (shape.batch, shape.groups * shape.in_channels, shape.groups * shape.out_channels)
        sizes = " and ".join("x".join(map(str, axes)) for axes in (extents + shape.field, shape.kernel))
        raise NoPlanError(
            f"a convolution of {sizes} is too large to be planned", do="make the micro-batch or the model smaller"
        )


def _plan(shape: ConvShape, dtype: str, partials: str, costed: _Costed, index: int) -> ConvPlan:
    c = costed.candidates
    batch_parts, *field_parts = (int(parts) for parts in c.rows.parts[:, c.index[index]])
    return ConvPlan(
        shape=shape,
        dtype=dtype,
        partials=partials,
        method=costed.method,
        group_parts=int(c.groups[index]),
        batch_parts=batch_parts,
        field_parts=tuple(field_parts),
        kernel_parts=int(c.kernel[index]),
        in_parts=int(c.inner[index]),
        out_parts=int(c.out[index]),
        in_slices=int(c.in_slices[index]),
        out_slices=int(c.out_slices[index]),
        account=Account(**{kind: float(cycles) for kind, cycles in zip(KINDS, costed.parts[:, index], strict=True)}),
        temporary_bytes_per_tile=int(costed.temporary[index]),
    )


@dataclass
class _Planner:
    """Planner that costs methods one after the other and skips methods that cannot become the cheapest.

    `cheapest` is the least cost so far within the memory bound. [cycles]
    """

    ipu: Ipu
    dtype: str
    partials: str
    bound_bytes: float
    copy_cycles_per_byte: float | None
    cheapest: float = math.inf

    def cost_unsliced(self, every: Iterable[Method]) -> list[_Costed]:
        """Cost the splits without serial slices."""
        costed = []
        for method in every:
            copies = copy_cycles(self.ipu, method.moved_count, self.dtype, self.copy_cycles_per_byte)
            if _least_cycles(self.ipu, method, self.dtype) + copies < self.cheapest:
                costed.append(self._cost(method, serial_slices(self.ipu)[:1]))
        return costed

    def cost_sliced(self, whole: Iterable[_Costed]) -> list[_Costed]:
        """Cost serial slices of methods whose best split does not fit; slices save memory but never cycles."""
        return [
            self._cost(one.method, serial_slices(self.ipu)[1:])
            for one in sorted(whole, key=lambda one: float(one.cycles.min()))
            if one.cycles.min() < self.cheapest
        ]

    def _cost(self, method: Method, slices: Sequence[tuple[int, int]]) -> _Costed:
        candidates = enumerate_splits(self.ipu, method, self.dtype, self.partials, slices)
        parts, temporary = split_costs(
            self.ipu, method, candidates, self.dtype, self.partials, self.copy_cycles_per_byte
        )
        costed = _Costed(method, candidates, parts, parts.sum(axis=0), temporary)
        fitting = costed.cycles[temporary <= self.bound_bytes]
        self.cheapest = min(self.cheapest, float(fitting.min(initial=math.inf)))
        return costed


def _least_cycles(ipu: Ipu, method: Method, dtype: str) -> float:
    """Return a lower bound: the inner loop only, for whole grains spread evenly over all tiles. [cycles]"""
    shape, vertices = method.shape, ipu.vertices
    first, *others = shape.kernel or (1,)
    taps = ceil_div(first, method.filter_height) * math.prod(others) / math.prod(shape.dilation)
    positions = shape.batch * math.prod(shape.field) * ceil_div(shape.groups, method.group_grain)
    in_grains = ceil_div(shape.in_channels, method.in_grain)
    match method.vertex:
        case "amp":
            per_tap = float(in_grains * ipu.amp.cycles_per_position(dtype))
        case "vmac":
            vmac = present(vertices.vmac)
            per_tap = in_grains * vmac.tap * method.group_grain / vmac.half_width
        case "hmac":
            per_tap = float(vertices.hmac.output + shape.in_channels / vertices.hmac.products_per_cycle(dtype))
        case _:
            per_tap = 0.0
    blocks = positions * ceil_div(shape.out_channels, method.out_grain)
    return float(blocks * taps * per_tap / ipu.tile.count)
