"""What is alive at once while a block runs, counted by hand on chains of a few operations."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.models import Workload
from podsim.models.block import Block, Parameter
from podsim.models.op import Elementwise, MatMul, Op, Reduce
from podsim.placement.alive import LiveOp, needs
from podsim.placement.alive import tasks as tasks_of
from podsim.tiles.account import Account
from podsim.tiles.model import OpCost
from podsim.tiles.plans import MatMulPlan, MatMulShape

ROW = 100
"""Elements of a small tensor; 200 B in half precision."""


def named(function: str, name: str, *inputs: str, elements: int = ROW) -> Op:
    return Elementwise(name=name, shape=(elements,), inputs=inputs, function=function)


def product(name: str, *inputs: str, columns: int = ROW, arranged: bool = True) -> MatMul:
    """One row of 100 times a matrix."""
    return MatMul(
        name=name, shape=(1, 1, columns), inner=ROW, inputs=inputs, left_arranged=arranged, right_arranged=True
    )


def model(*forward: Op, backward: tuple[Op, ...] = (), kept: int = 0) -> Workload:
    """One block that reads 200 B, hands on 200 B and has a weight."""
    block = Block("block", forward, backward, (Parameter("weight", (ROW, ROW)),), ROW, kept)
    return Workload("model", {"block": block}, ("block",), 1, host_input_bytes=2 * ROW)


def tasks(
    workload: Workload, temporary_bytes: dict[str, int], last_bytes: dict[str, int] | None = None
) -> tuple[list[LiveOp], list[LiveOp]]:
    """Temporaries live as long as their operation, unless it is said how many do."""
    block, last = workload.blocks["block"], temporary_bytes | (last_bytes or {})
    first, second = (
        [LiveOp(op, temporary_bytes.get(op.name, 0), last.get(op.name, 0)) for op in ops]
        for ops in (block.forward, block.backward)
    )
    return first, second


def test_an_elementwise_operation_writes_over_what_is_read_no_more() -> None:
    """Input 200 B and a product of 200 B; the activation and what follows take no room of their own."""
    workload = model(product("a", "@input", "@weight"), named("gelu", "b", "a"), named("scale", "c", "b"))
    assert needs(workload, "block", *tasks(workload, {})).forward.tensors == 400


def test_a_result_that_is_read_again_is_not_written_over() -> None:
    """The input is gone behind the product: `a`, `b` and then their sum in the place of one: 400 B, not 600."""
    steps = (product("a", "@input", "@weight"), named("gelu", "b", "a"), named("add", "c", "a", "b"))
    workload = model(*steps)
    found = needs(workload, "block", *tasks(workload, {}))
    assert found.forward.tensors == 400
    residual = model(*steps[:2], named("add", "c", "@input", "a"), named("add", "d", "b", "c"))
    # Input, a and b; then the sum of input and a may not lie on b.
    assert needs(residual, "block", *tasks(residual, {})).forward.tensors == 600


def test_temporaries_count_where_they_live() -> None:
    """The first product has 1,000 B of temporaries beside 400 B, the second 10 B beside 800 B: 1,400, not 1,800."""
    workload = model(product("a", "@input", "@weight"), product("b", "a", "@weight", columns=300))
    found = needs(workload, "block", *tasks(workload, {"a": 1000, "b": 10})).forward
    assert (found.tensors, found.temporaries) == (400, 1000)


@pytest.mark.parametrize(("last", "needed"), [(0, 1200), (300, 1200), (900, 1300), (1000, 1400)])
def test_a_result_counts_beside_the_temporaries_that_are_left_when_it_is_made(last: int, needed: int) -> None:
    """200 B of input, then 1,000 B of temporaries, or a result of 200 B and what is left of them."""
    workload = model(product("a", "@input", "@weight"))
    found = needs(workload, "block", *tasks(workload, {"a": 1000}, {"a": last}))
    assert found.forward.byte_count == needed


def task_of(parts: dict[str, int], partials: str = "fp16") -> LiveOp:
    """A result of 200 B on two tiles, with 25,000 B of temporaries on the fullest."""
    one = ("group_parts", "row_parts", "inner_parts", "column_parts", "column_slices", "inner_slices")
    fields: dict[str, Any] = dict.fromkeys(one, 1) | parts
    shape = MatMulShape(1, ROW, ROW)
    plan = MatMulPlan(
        shape=shape, dtype="fp16", partials=partials, account=Account(), temporary_bytes_per_tile=25_000, **fields
    )
    (task,) = tasks_of([OpCost(product("a", "@input", "@weight"), Account(), 25_000, plan)], tile_count=2)
    return task


SPLITS: dict[str, tuple[dict[str, int], str, int]] = {
    "whole sums are the result": ({}, "fp16", 0),
    "whole sums are cast": ({}, "fp32", 2 * 200),
    "sums of three parts: sent and received": ({"inner_parts": 3}, "fp16", 2 * 3 * 200),
    "slices: operands stay": ({"inner_parts": 3, "column_slices": 2}, "fp16", 50_000),
    "never more than there are": ({"inner_parts": 1000}, "fp16", 50_000),
}


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_left_of_a_product_when_its_result_is_made(split: str) -> None:
    parts, partials, left = SPLITS[split]
    task = task_of(parts, partials)
    assert (task.temporary_bytes, task.last_bytes) == (50_000, left)


def test_tiles_copy_operands_whole() -> None:
    """With what they own of them."""
    assert task_of({"row_parts": 4, "column_parts": 4, "column_slices": 2}).temporary_bytes == 50_000


def test_an_operand_out_of_place_is_copied_and_then_gone() -> None:
    """200 B of `a` and 200 B of its copy; then copy, 200 B of result and temporaries."""
    workload = model(product("a", "@input", "@weight"), product("b", "a", "@weight", arranged=False))
    found = needs(workload, "block", *tasks(workload, {"b": 50}))
    assert found.forward.byte_count == 450
    still_read = model(
        product("a", "@input", "@weight"), product("b", "a", "@weight", arranged=False), named("add", "c", "a", "b")
    )
    assert needs(still_read, "block", *tasks(still_read, {"b": 50})).forward.byte_count == 650


def test_what_was_kept_is_alive_until_it_has_been_read() -> None:
    """Two tensors of 200 B kept: both at the first operation with gradient and temporaries, one at the second."""
    backward = (
        product("grad_a", "@gradient", "@weight"),
        named("mul", "grad_b", "grad_a", "@first"),
        product("grad_c", "grad_b", "@weight"),
        named("mul", "grad_d", "grad_c", "@second"),
    )
    workload = model(product("a", "@input", "@weight"), backward=backward, kept=2 * ROW)
    early = needs(workload, "block", *tasks(workload, {"grad_a": 1000}))
    late = needs(workload, "block", *tasks(workload, {"grad_c": 1000}))
    # Gradient, result and both; then the gradient so far, the result and the second.
    assert (early.behind_redone_bytes, late.behind_redone_bytes) == (1000 + 400 + 400, 1000 + 400 + 200)
    assert early.backward_bytes == late.backward_bytes == 1400


def test_a_gradient_that_is_accumulated_takes_no_room_of_its_own() -> None:
    backward = (
        named("scale", "grad", "@gradient"),
        Elementwise(name="add", shape=(ROW * ROW,), inputs=("grad", "@weight/accumulator"), function="scaled_add"),
    )
    workload = model(product("a", "@input", "@weight"), backward=backward)
    # The gradient that comes, and one that may not be written over it, as it is not this block's.
    assert needs(workload, "block", *tasks(workload, {})).backward_bytes == 400


def test_a_forward_pass_that_is_redone_holds_what_it_keeps() -> None:
    """Three tensors of 200 B are made, each in place of the last unless they are kept: two of them are."""
    steps = (
        product("a", "@input", "@weight"),
        named("gelu", "b", "a"),
        product("c", "b", "@weight"),
        Reduce(name="d", shape=(1,), dtype="fp32", inputs=("c",), input_count=ROW),
    )
    workload = model(*steps, kept=2 * ROW)
    found = needs(workload, "block", *tasks(workload, {"c": 1000}))
    assert found.first_bytes == 1000 + 400
    assert found.redone_bytes == 1000 + 400
    more = model(*steps, kept=3 * ROW)
    assert needs(more, "block", *tasks(more, {"c": 1000})).redone_bytes == 1000 + 600


@pytest.mark.parametrize("live", [0, ROW])
def test_a_block_that_knows_what_is_alive_is_believed(live: int) -> None:
    """As those of files are, whose operations do not name each other."""
    block = Block("block", (named("gelu", "a", "@input"),), (), (), ROW, 0, live)
    workload = Workload("model", {"block": block}, ("block",), 1, host_input_bytes=2 * ROW)
    found = needs(workload, "block", [LiveOp(block.forward[0], 70, 70)], [])
    assert (found.forward.tensors, found.forward.temporaries) == (2 * ROW + 2 * live, 70)
