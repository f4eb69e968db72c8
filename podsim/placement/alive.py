"""Memory of a block while it runs: live tensors, and temporaries of the current operation.

An elementwise operation overwrites an operand that nothing reads later. A product copies operands whose layout is not
that of its plan. The copies are freed before its partial results are summed; if the sum is not split, the partial
results are the result. Source: [poplibs_poplin] for temporaries of products; [popart_inplacing] for results in the
place of operands.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from podsim.models import Workload
from podsim.models.op import DTYPE_BYTES, Conv, Elementwise, MatMul, Op, Reduce
from podsim.tiles.model import OpCost
from podsim.tiles.plans import ConvPlan, MatMulPlan


@dataclass(frozen=True, slots=True)
class LiveOp:
    """Operation with its temporaries."""

    op: Op
    temporary_bytes: int = 0  # temporaries of the fullest tile, times the number of tiles [B]
    # temporaries that remain when the result is written; 0 if they become the result [B]
    last_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Alive:
    """Memory in use while one operation runs. [B]"""

    tensors: int = 0  # operands, the result, and tensors that later operations read
    temporaries: int = 0

    @property
    def byte_count(self) -> int:
        """Sum of tensors and temporaries. [B]"""
        return self.tensors + self.temporaries


@dataclass(frozen=True, slots=True)
class Needs:
    """Peak memory of a block, by pass."""

    forward: Alive  # forward pass without training, including the block's input
    first_bytes: int = 0  # forward pass in training, without its input and its kept tensors [B]
    redone_bytes: int = 0  # recomputed forward pass with its kept tensors, without its input [B]
    backward_bytes: int = 0  # backward pass, without kept tensors [B]
    behind_redone_bytes: int = 0  # backward pass with the kept tensors that it has still to read [B]


def tasks(costs: Sequence[OpCost], tile_count: int) -> list[LiveOp]:
    """Return operations with their temporaries, from their costs."""
    return [_task(cost, cost.temporary_bytes_per_tile * tile_count) for cost in costs]


def _task(cost: OpCost, temporary_bytes: int) -> LiveOp:
    """Return an operation with all its temporaries, and with the temporaries that remain until the result is ready."""
    if cost.plan is None:
        return LiveOp(cost.op, temporary_bytes, temporary_bytes)
    inner, slices = _inner(cost.plan)
    if slices > 1:
        return LiveOp(cost.op, temporary_bytes, temporary_bytes)
    # If the sum is split, tiles hold both the partial results to send and those received.
    copies = 2 if inner > 1 else 1
    if inner == 1 and cost.op.dtype == cost.plan.partials:
        copies = 0
    partials = inner * cost.op.element_count * DTYPE_BYTES[cost.plan.partials]
    return LiveOp(cost.op, temporary_bytes, min(temporary_bytes, copies * partials))


def _inner(plan: MatMulPlan | ConvPlan) -> tuple[int, int]:
    """Return the number of parts of the sums of a product or convolution, and the number of sequential slices."""
    if isinstance(plan, MatMulPlan):
        return plan.inner_parts, plan.inner_slices * plan.column_slices
    return plan.in_parts * plan.kernel_parts, plan.in_slices * plan.out_slices


def needs(workload: Workload, name: str, forward: Sequence[LiveOp], backward: Sequence[LiveOp]) -> Needs:
    """Return the memory that a block needs in each pass."""
    block, element_bytes = workload.blocks[name], workload.activation_bytes
    input_bytes = workload.input_elements(name) * element_bytes or workload.host_input_bytes
    if block.live_elements is not None:
        largest = max((each.temporary_bytes for each in forward), default=0)
        return Needs(Alive(input_bytes + block.live_elements * element_bytes, largest))
    stored = {f"@{parameter.name}" for parameter in block.parameters}
    kept_bytes, output_bytes = block.saved_elements * element_bytes, block.output_elements * element_bytes
    first = _Pass(forward, stored)
    back = _Pass(backward, stored)
    gradients = {name for name in back.given if name.endswith("gradient")}
    alone = [Alive(*alive) for _, alive in first.alive(input_bytes, first.given)]
    training = list(first.alive())
    redone = list(first.alive(lasting=block.kept_results)) if block.kept_results else training
    return Needs(
        forward=max(alone, key=lambda alive: alive.byte_count, default=Alive(input_bytes)),
        first_bytes=_most(training),
        redone_bytes=_most(first.with_made(redone, kept_bytes)),
        backward_bytes=_most(back.alive(output_bytes, gradients)),
        behind_redone_bytes=_most(back.alive(output_bytes, gradients, kept_bytes)),
    )


_InUse: TypeAlias = tuple[int, int]
"""Bytes of tensors and of temporaries. [B]"""


def _most(alive: Iterable[tuple[int, _InUse]]) -> int:
    """Return the largest memory in use. [B]"""
    return max((tensors + temporaries for _, (tensors, temporaries) in alive), default=0)


class _Pass:
    """Operations of a pass in order, with the last reader of each tensor."""

    def __init__(self, passed: Sequence[LiveOp], stored: Collection[str]) -> None:
        self._tasks = passed
        self._made = [_made_bytes(task.op) for task in passed]
        self._copied = [_copied(task.op) for task in passed]
        self._last = {name: place for place, task in enumerate(passed) for name in task.op.inputs}
        # names of tensors from other passes: read here, but neither computed here nor stored as parameters
        self.given = {
            name
            for name in self._last
            if name.startswith("@") and name not in stored and not name.endswith("/accumulator")
        }

    def alive(
        self,
        arriving_bytes: int = 0,
        arriving: Collection[str] = (),  # names of the arriving tensor, which is freed after its last reader
        kept_bytes: int = 0,  # tensors that another pass kept for this one; counted until they are read [B]
        lasting: Collection[str] = (),  # results that stay to the end, since another pass reads them
    ) -> Iterator[tuple[int, _InUse]]:
        """Yield the index of each operation with the memory in use while it copies operands, and while it runs."""
        until = max((self._last[name] for name in arriving), default=-1)
        kept = [min(kept_bytes, unread) for unread in self._unread(self.given.difference(arriving))]
        held, held_bytes = dict[str, int](), 0
        for place, task in enumerate(self._tasks):
            dying = {
                name: held[name]
                for name in task.op.inputs
                if name in held and self._last[name] == place and name not in lasting
            }
            given_bytes = held_bytes + (arriving_bytes if place <= until else 0) + kept[place]
            for alive in self._during(place, given_bytes, dying, kept[place] - kept[place + 1]):
                yield place, alive
            for name in dying:
                held_bytes -= held.pop(name)
            if self._last.get(task.op.name, -1) > place or place == len(self._tasks) - 1:
                held_bytes += self._made[place] - held.get(task.op.name, 0)
                held[task.op.name] = self._made[place]

    def _during(self, place: int, held_bytes: int, dying: Mapping[str, int], read_bytes: int) -> Iterator[_InUse]:
        """Yield the memory in use while operands are copied, then while the operation runs."""
        task, size, copied = self._tasks[place], self._made[place], self._copied[place]
        if copied:
            held_bytes += sum(copied.values())
            yield held_bytes, 0
            held_bytes -= sum(dying[name] for name in copied if name in dying)
            held_bytes -= min(read_bytes, sum(copied[name] for name in copied if name in self.given))
        # A cast to eight bits cannot run in place: it reads two bytes for each byte it writes.
        in_place = isinstance(task.op, Elementwise) and task.op.dtype != "fp8"
        over = in_place and any(each >= size for each in dying.values())
        made_bytes = held_bytes + (0 if over else size)
        if made_bytes + task.last_bytes >= held_bytes + task.temporary_bytes:
            yield made_bytes, task.last_bytes
        else:
            yield held_bytes, task.temporary_bytes

    def with_made(self, known: Iterable[tuple[int, _InUse]], kept_bytes: int) -> Iterator[tuple[int, _InUse]]:
        """Yield the memory in use, but at least the kept tensors that have been computed so far."""
        made = list(accumulate(self._made))
        for place, (tensors, temporaries) in known:
            yield place, (max(tensors, min(made[place], kept_bytes)), temporaries)

    def _unread(self, names: Collection[str]) -> list[int]:
        """Return the bytes of `names` that each operation and later ones read; the list ends with 0. [B]"""
        sizes: dict[str, int] = {}
        unread = [0]
        for task in reversed(self._tasks):
            for place, name in enumerate(task.op.inputs):
                if name in names:
                    sizes[name] = max(sizes.get(name, 0), _operand_bytes(task.op, place))
            unread.append(sum(sizes.values()))
        return unread[::-1]


def _copied(op: Op) -> dict[str, int]:
    """Return the bytes of operands that a product has to copy into the layout of its plan, by name. [B]"""
    copied: dict[str, int] = {}
    if isinstance(op, MatMul):
        for place, arranged in enumerate((op.left_arranged, op.right_arranged)):
            if not arranged:
                copied[op.inputs[place]] = copied.get(op.inputs[place], 0) + _operand_bytes(op, place)
    elif isinstance(op, Conv) and op.regrouped:
        copied[op.inputs[0]] = _operand_bytes(op, 0)
    return copied


def _made_bytes(op: Op) -> int:
    """Return the bytes of a new result; 0 if it is added to a stored tensor. [B]"""
    stored = any(name.endswith("/accumulator") for name in op.inputs)
    return 0 if stored else op.byte_count


def _operand_bytes(op: Op, place: int) -> int:
    """Return the bytes of an operand, by its position. [B]"""
    match op:
        case MatMul() | Conv():
            return op.operand_elements[place] * DTYPE_BYTES[op.operand_dtype]
        case Reduce():
            elements = op.input_count
        case _:
            elements = op.element_count
    return elements * DTYPE_BYTES[op.dtype]
