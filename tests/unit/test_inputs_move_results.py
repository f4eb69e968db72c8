"""Every number of a hardware or software file moves some result, or is marked as information."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from podsim.errors import PodsimError
from podsim.models.op import Conv, Elementwise, Gather, MatMul, Op, Pool, Rearrange, Reduce, ScatterAdd, TopK
from podsim.placement.forward_job import forward_job
from podsim.placement.generation import generation_cost_model, generation_job
from podsim.placement.job import training_job
from podsim.placement.plan import cost_model
from podsim.result.cost import KernelCost, cost_multi_slice, cost_multi_update_add
from podsim.result.influence import Measure, Probe
from podsim.result.training_times import TrainingOutcome
from podsim.runs.forward import ForwardProbe
from podsim.runs.generation import GenerationProbe
from podsim.runs.train import TrainingProbe
from podsim.scenario import (
    Activity,
    ForwardScenario,
    GenerationScenario,
    Scenario,
    TrainingScenario,
    load_ipu,
    load_scenario,
)
from podsim.scenario.assumptions import numbers, with_number
from podsim.scenario.ipu import Ipu
from podsim.scenario.quantity import Info
from podsim.scenario.vertices import Vertices
from podsim.tiles.model import CostModel
from podsim.watch import silent

Kernel = Callable[..., KernelCost]
"""An operation in a loop."""
Case = tuple[Op | Kernel, str]
"""What is done, and the format of its sums."""

_SINGLE = ("precision.activations=fp32", "precision.weights=fp32", "precision.matmul_partials=fp32")
_CASES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("e5_large_pod4", ("model.layer_count=2",)),
    ("e5_large_pod4", ("model.layer_count=2", *_SINGLE)),
    ("e5_large_pod4", ("model.layer_count=2", "precision.matmul_partials=fp32")),
    ("e5_large_pod4", ("model.layer_count=2", "parallelism={pipeline_stages: 2, replication_factor: 2}")),
    ("bert_base_c600", ("model.layer_count=2", "precision.products=fp8")),
    ("vit_base_c600", ("model.layer_count=2",)),
    ("bert_base_256_c600", ("model.layer_count=2",)),
    ("llama2_7b_pod16_streamed", ("model.layer_count=16",)),
    ("llama2_7b_pod16_streamed", ("model.layer_count=16", "generation.kv_cache=in_processor_memory")),
    ("bert_v1.1_pod16_open", ()),
    ("bert_v1.1_pod128_open", ()),
    ("conductivity_cnn_pod4", ()),
    ("efficientnet_v2_s_8_stages_bow_pod16", ()),
    ("resnet50_v1.1_pod16", ()),
    ("resnet50_v1.0_pod16", ()),
    ("resnet50_v1.1_pod16", ("system.host.network.bandwidth_per_direction=1 GB/s",)),
    ("bert_base_squad_pod16", ()),
    ("llama2_7b_phased_pod64", ()),  # I/O tiles gather next to the sums of shards
)
"""Cheapest first."""
_OF_CHOICES = {"software.memory_reserve"}
"""These move what is chosen, not what comes of it."""


@cache
def case(name: str, overrides: tuple[str, ...]) -> tuple[Scenario, Probe[Any], Measure]:
    """A scenario, its probe, and what it comes to."""
    spec = load_scenario(name, overrides=overrides).spec
    probe: Probe[Any]
    if spec.activity is Activity.GENERATION:
        asked = generation_job(spec.require(GenerationScenario))
        probe = GenerationProbe(generation_job, generation_cost_model(asked))
    elif spec.activity is Activity.FORWARD:
        passes = spec.require(ForwardScenario)
        workload = passes.model.read(passes, Path(), silent).workload
        probe = ForwardProbe(workload, cost_model(forward_job(passes, workload)))
    else:
        job = training_job(spec.require(TrainingScenario))
        probe = TrainingProbe(job, cost_model(job), TrainingOutcome(1.0, 1.0))
    measure = probe(spec, resplit=True)
    assert measure is not None
    return spec, probe, measure


def keys() -> list[str]:
    """Of all quantities of systems and software stacks."""
    names = (
        "bert_v1.1_pod16_open",
        "llama2_7b_pod16_streamed",
        "resnet50_v1.1_pod16",
        "resnet50_v1.0_pod16",
        "bert_base_c600",
    )
    loaded = (load_scenario(name).spec for name in names)
    found = {key for spec in loaded for key, _, _ in numbers(spec) if key.startswith(("system.", "software."))}
    return sorted(found - _OF_CHOICES)


@pytest.mark.parametrize("key", keys())
def test_every_quantity_moves_a_result(key: str) -> None:
    assert any(moves(name, overrides, key) for name, overrides in _CASES)


def moves(name: str, overrides: tuple[str, ...], key: str) -> bool:
    """Whether half or twice the number gives another result, or none."""
    spec, probe, base = case(name, overrides)
    number = {each: found for each, found, _ in numbers(spec)}.get(key)
    for factor in (0.5, 2) if number is not None else ():
        try:
            moved = probe(
                with_number(spec, key, max(1.0, number * factor) if number >= 1 else number * factor), resplit=True
            )
        except (PodsimError, ValueError):
            return True
        if moved is not None and moved.others != base.others:
            return True
    return False


_CHIP = load_ipu("gc200")
# On a single tile the planner has no choice, so that shares of every size come up.
_TILE = _CHIP.with_tiles(1)
_EMPTY_SEGMENTS = {("nx1", "half_segment", 0), ("nx1", "single_segment", 0)}
"""The first number of these tables is information, as their declaration says: no row segment is empty."""


def conv(in_channels: int, out_channels: int, groups: int = 1, **given: Any) -> tuple[Conv, ...]:
    """A convolution of a small image in all three directions."""
    size, kernel, stride = given.pop("size", (12, 12)), given.pop("kernel", (3, 3)), given.pop("stride", (1, 1))
    out = tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
    return tuple(
        Conv(
            name="conv",
            shape=(1,),
            batch=given.get("batch", 2),
            in_channels=in_channels,
            out_channels=out_channels,
            group_count=groups,
            input_size=size,
            output_size=out,
            kernel=kernel,
            stride=stride,
            direction=direction,
            dtype=given.get("dtype", "fp16"),
        )
        for direction in ("forward", "input_grad", "weight_grad")
    )


_PRODUCTS = tuple(
    MatMul(name="product", shape=(n, n), inner=inner, dtype=dtype)
    for n, inner in ((1, 16), (40, 64), (300, 300), (2000, 3000), (64, 40_000))
    for dtype in ("fp16", "fp32")
)
_SHARES = tuple(
    MatMul(name="product", shape=(rows, columns), inner=32, dtype=dtype)
    for rows in (2, 6, 10, 12, 18, 60)
    for columns in (16, 48)
    for dtype in ("fp16", "fp32")
)
_CONVS = (
    *conv(16, 16, size=(3, 4), batch=1),
    *conv(16, 16, size=(4, 12), batch=1),
    *conv(16, 16, size=(4, 18), batch=1),
    *conv(8, 48, size=(4, 12), batch=1),
    *conv(4, 48, size=(4, 12), kernel=(4, 4), batch=1),
    *conv(1, 8, kernel=(1, 1), size=(4, 12), batch=1),
    *conv(1, 20, kernel=(1, 1), size=(4, 12), batch=1),
    *conv(16, 16),
    *conv(32, 32, dtype="fp32"),
    *conv(3, 64, kernel=(7, 7), stride=(2, 2), size=(32, 32)),
    *conv(32, 32, groups=8),
    *conv(32, 32, groups=8, stride=(2, 2), size=(32, 32), batch=16),
    *conv(64, 64, groups=32, batch=32),
    *conv(64, 64, groups=64, batch=32),
    *conv(8, 8, groups=8, kernel=(5, 5), batch=64),
    *conv(1, 2, kernel=(3,), stride=(1,), size=(8,)),
    *conv(2, 2, kernel=(3, 3), dtype="fp32"),
    *conv(1, 64, kernel=(1, 1)),
    *conv(16, 16, groups=16, kernel=(1, 1)),
    *conv(64, 64, groups=64, size=(16, 16), batch=1),
)
_OTHERS: tuple[Op, ...] = (
    Pool(name="pool", shape=(8, 64, 16, 16), window=9),
    Pool(name="pool", shape=(8, 64, 16, 16), window=9, backward=True),
    Reduce(name="sum", shape=(64,), input_count=10**6),
    Gather(name="rows", shape=(512, 1024), table_rows=30_000),
    ScatterAdd(name="rows", shape=(512, 1024), table_rows=30_000),
)
# Tables that are cut along rows that are no power of two, and such whose many copies are summed.
_PLANNED: tuple[Op, ...] = (
    Gather(name="rows", shape=(300, 16), dtype="fp32", table_rows=256, planned=True),
    Gather(name="rows", shape=(5000, 16), dtype="fp32", table_rows=3001, planned=True),
    ScatterAdd(name="rows", shape=(5000, 16), dtype="fp32", table_rows=50, planned=True),
)
_LOOPS: tuple[Kernel, ...] = (partial(cost_multi_slice, 256, 16, 300), partial(cost_multi_update_add, 50, 16, 5000))
# Rows of two words, of four and of many on a tile, in both formats.
_UPDATES: tuple[Op, ...] = tuple(
    ScatterAdd(name="rows", shape=(300, width), dtype=dtype, table_rows=6, planned=True)
    for dtype, widths in (("fp16", (4, 8, 64)), ("fp32", (2, 4, 64)))
    for width in widths
)
_ROWS = tuple(
    Rearrange(name="rows", shape=(96, 197, count), row_length=count, dtype=dtype)
    for dtype, count in (("fp8", 197), ("fp16", 197), ("fp16", 198))
)
_OPS: dict[str, tuple[Op | Kernel, ...]] = {
    "amp": (*_SHARES, *_PRODUCTS),
    **dict.fromkeys(("reduction", "slice"), (*_PRODUCTS, *_OTHERS, *_PLANNED)),
    **dict.fromkeys(("nx1", "slic", "vmac", "hmac", "outer_product"), _CONVS),
    **dict.fromkeys(("pool", "gather"), (*_OTHERS, *_PLANNED)),
    "update": _UPDATES,
    "compare_swap": (TopK(name="nearest", shape=(600, 28), dtype="fp32", candidates=600),),
    "seed": (Elementwise(name="d", shape=(10**5,), function="dropout"),),
    "call": (*_OTHERS, *_CONVS, *_ROWS, *_PLANNED, *_LOOPS),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every number of the vertices."""
    if isinstance(value, int):
        yield path
    elif isinstance(value, BaseModel):
        for name, each in value:
            yield from leaves(each, (*path, name))
    elif value is not None and not isinstance(value, str):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[key], (*path, key))


def changed(value: Any, path: tuple[Any, ...], factor: float) -> Any:
    """The same with one number multiplied, by at least one more or less, or one switch turned."""
    if not path and isinstance(value, bool):
        return not value
    if not path:
        return max(1, round(value * factor)) if factor < 1 else round(value * factor) + 1
    head, *rest = path
    if isinstance(value, BaseModel):
        return value.model_copy(update={head: changed(getattr(value, head), tuple(rest), factor)})
    if isinstance(value, dict):
        return value | {head: changed(value[head], tuple(rest), factor)}
    return tuple(changed(each, tuple(rest), factor) if place == head else each for place, each in enumerate(value))


def ops_of(path: tuple[Any, ...]) -> tuple[Op | Kernel, ...]:
    if path[0] == "elementwise":
        kinds = ("fp16", "fp32")
        return tuple(Elementwise(name="e", shape=(10**5,), function=path[1], dtype=kind) for kind in kinds)
    return _OPS[path[0]]


def costed(op: Op | Kernel, partials: str, chip: Ipu) -> object:
    if callable(op):
        return op(ipu=chip).account
    return CostModel(chip, 1.0, partials).op(op, 0.6).account


@cache
def before(op: Op | Kernel, partials: str, tile_count: int) -> object:
    """Costs with the vertices as they are."""
    return costed(op, partials, _CHIP.with_tiles(tile_count))


def paths() -> list[tuple[Any, ...]]:
    """To every number that is not marked as information."""
    marked = {
        name
        for name, model_field in Vertices.model_fields.items()
        if any(isinstance(m, Info) for m in model_field.metadata)
    }
    return [path for path in leaves(_CHIP.vertices) if path[0] not in marked and path not in _EMPTY_SEGMENTS]


def moved(paths: Iterable[tuple[Any, ...]], chip: Ipu, cases: Iterable[Case]) -> Iterator[Case]:
    """The operations, with the format of their sums, that cost something else once some numbers are changed."""
    others = []
    for factor in (3, 0.3):
        vertices = chip.vertices
        for path in paths:
            vertices = changed(vertices, path, factor)
        others.append(chip.model_copy(update={"vertices": vertices}))
    for each in cases:
        if any(costed(*each, other) != before(*each, chip.tile.count) for other in others):
            yield each


@cache
def users(family: str, ops: tuple[Op | Kernel, ...], tile_count: int) -> tuple[Case, ...]:
    """The operations that the numbers of a family of vertices move together."""
    family_paths = [path for path in paths() if path[0] == family]
    cases = [(op, partials) for op in ops for partials in ("fp16", "fp32")]
    return tuple(moved(family_paths, _CHIP.with_tiles(tile_count), cases))


def moves_an_operation(path: tuple[Any, ...], chip: Ipu) -> bool:
    return any(moved([path], chip, users(path[0], ops_of(path), chip.tile.count)))


@pytest.mark.parametrize("path", paths(), ids=lambda path: ".".join(map(str, path)))
def test_every_cycle_count_of_a_vertex_moves_an_operation(path: tuple[Any, ...]) -> None:
    assert moves_an_operation(path, _TILE) or moves_an_operation(path, _CHIP)
