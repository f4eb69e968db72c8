"""Cached plans of products, convolutions and look-ups.

Plans are cached in the process and on disk. The key is the chip, the operation, its formats, the share of memory and
the planning code. Costs are in cycles, so the clock is not part of the key. Planners are imported late, since they
import numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from podsim import disk, memo
from podsim.models.op import Conv
from podsim.scenario.conv_vertices import AmpVertex
from podsim.scenario.ipu import Ipu
from podsim.scenario.vertices import Vertices
from podsim.tiles.account import Account
from podsim.tiles.conv_method import Method
from podsim.tiles.conv_shape import ConvShape
from podsim.tiles.plans import ConvPlan, MatMulPlan, MatMulShape, SliceKind, SlicePlan, SliceShape

PLANNED_FOR = ("tile", "amp", "exchange", "superstep", "vertices")
"""Fields of a chip that cycles depend on; they hold no clock and no name."""


@dataclass
class Chip:
    """A chip to plan for."""

    ipu: Ipu

    @cached_property
    def key(self) -> str:
        """Hash of the fields that plans depend on, since these fields hold mappings and are not hashable."""
        parts = tuple(getattr(self.ipu, name) for name in PLANNED_FOR)

        def hashed() -> tuple[object, str]:
            written = [f"{name}={part!r}".encode() for name, part in zip(PLANNED_FOR, parts, strict=True)]
            return parts, disk.digest(written)  # keeping the parts alive keeps their ids unique

        return memo.CHIPS.get(tuple(map(id, parts)), hashed)[1]


def planned_matmul(
    chip: Chip,
    shape: MatMulShape,
    dtype: str = "fp16",
    partials: str = "fp16",
    available_memory_proportion: float = 0.6,
) -> MatMulPlan:
    """Return the cached result of `plan_matmul`."""

    def plan() -> MatMulPlan:
        from podsim.tiles.matmul import plan_matmul

        return plan_matmul(chip.ipu, shape, dtype, partials, available_memory_proportion)

    key = (chip.key, shape, dtype, partials, available_memory_proportion)
    return memo.PLANS.get(key, lambda: disk.cached(_on_disk(key), plan, asdict, _matmul_plan))


def planned_conv(
    chip: Chip,
    shape: ConvShape,
    dtype: str = "fp16",
    partials: str = "fp16",
    available_memory_proportion: float = 0.6,
    copy_cycles_per_byte: float | None = None,
) -> ConvPlan:
    """Return the cached result of `plan_conv`."""

    def plan() -> ConvPlan:
        from podsim.tiles.conv import plan_conv

        return plan_conv(chip.ipu, shape, dtype, partials, available_memory_proportion, copy_cycles_per_byte)

    key = (chip.key, shape, dtype, partials, available_memory_proportion, copy_cycles_per_byte)
    return memo.PLANS.get(key, lambda: disk.cached(_on_disk(key), plan, asdict, _conv_plan))


def planned_slices(
    chip: Chip, kind: SliceKind, shape: SliceShape, dtype: str = "fp32", available_memory_proportion: float = 0.6
) -> SlicePlan:
    """Return the cached result of `plan_slices`."""

    def plan() -> SlicePlan:
        from podsim.tiles.slices import plan_slices

        return plan_slices(chip.ipu, kind, shape, dtype, available_memory_proportion)

    key = (chip.key, kind, shape, dtype, available_memory_proportion)
    return memo.PLANS.get(key, lambda: disk.cached(_on_disk(key), plan, asdict, _slice_plan))


def planner_files() -> tuple[Path, ...]:
    """Return the source files that plans depend on: the formulas, and the definitions of chips and operations."""
    homes = (__name__, Conv.__module__, Ipu.__module__, Vertices.__module__, AmpVertex.__module__)
    cost, op, *chip = (Path(str(sys.modules[home].__file__)) for home in homes)
    return (*chip, *cost.parent.glob("*.py"), *op.parent.glob("*.py"))


def _on_disk(key: tuple[object, ...]) -> str:
    return disk.digest([b"plan", memo.SOURCES.get(__name__, lambda: disk.source(planner_files())), repr(key).encode()])


def _matmul_plan(data: Mapping[str, Any]) -> MatMulPlan:
    parts = {"shape": MatMulShape(**data["shape"]), "account": Account(**data["account"])}
    return disk.typed(MatMulPlan(**{**data, **parts}))


def _slice_plan(data: Mapping[str, Any]) -> SlicePlan:
    parts = {"shape": SliceShape(**data["shape"]), "account": Account(**data["account"])}
    return disk.typed(SlicePlan(**{**data, **parts}))


def _conv_plan(data: Mapping[str, Any]) -> ConvPlan:
    method = Method(**{**data["method"], "shape": _conv_shape(data["method"]["shape"])})
    parts = {"field_parts": tuple(data["field_parts"]), "account": Account(**data["account"])}
    return disk.typed(ConvPlan(**{**data, **parts, "shape": _conv_shape(data["shape"]), "method": method}))


def _conv_shape(data: Mapping[str, Any]) -> ConvShape:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    return ConvShape(**fields)
