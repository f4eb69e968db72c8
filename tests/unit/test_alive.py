"""What is alive at once while a block runs, counted by hand on chains of a few operations."""

from __future__ import annotations

import pytest

from podsim.plan.alive import Task, needs
from podsim.workload import Workload
from podsim.workload.block import Block, Parameter
from podsim.workload.op import Elementwise, MatMul, Op, Reduce

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


def tasks(workload: Workload, temporary_bytes: dict[str, int], *holding: str) -> tuple[list[Task], list[Task]]:
    block = workload.blocks["block"]
    first, second = (
        [Task(op, temporary_bytes.get(op.name, 0), op.name in holding) for op in ops]
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


def test_partial_results_that_are_the_result_count_once() -> None:
    """Of 1,000 B of temporaries 200 are the result, so that 200 B of input are all that comes on top."""
    workload = model(product("a", "@input", "@weight"))
    whole, split = (
        needs(workload, "block", *tasks(workload, {"a": 1000}, *holding)).forward.byte_count for holding in (["a"], [])
    )
    assert (whole, split) == (1200, 1400)


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
    found = needs(workload, "block", [Task(block.forward[0], 70)], [])
    assert (found.forward.tensors, found.forward.temporaries) == (2 * ROW + 2 * live, 70)
