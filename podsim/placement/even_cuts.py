"""Where to cut a chain: stages of even time, each within the memory of one IPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from podsim.errors import NoPlanError
from podsim.placement.cuts import Cuts, cuts_at
from podsim.placement.layout import PlanInput
from podsim.placement.stage_cost import block_cost
from podsim.tiles.model import CostModel

_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class UncutPart:
    """A part of the chain that is not cut."""

    cycles: float
    kept_bytes: int  # what it keeps in memory [B]
    running_bytes: int  # what it takes while it runs; pieces of a stage run one after the other [B]


def cuts_of_even_time(job: PlanInput, model: CostModel) -> Cuts:
    """The forward pass of a model cut into a stage for each IPU."""
    workload, count, proportion = job.workload, job.layout.ipus_per_replica, job.layout.available_memory_proportion[0]
    if count > len(workload.order):
        what = f"{count} pipeline stages for a model that can be cut into {len(workload.order)} parts"
        raise NoPlanError(what, do=f"use at most {len(workload.order)} pipeline stages")
    costs = {name: block_cost(name, workload, model, proportion) for name in workload.blocks}

    def piece(name: str) -> UncutPart:
        stored_bytes, cost = job.precision.stored_bytes(workload.blocks[name].parameters), costs[name]
        return UncutPart(cost.forward_account.cycles, stored_bytes, cost.needs.forward.byte_count)

    pieces = [piece(name) for name in workload.order]
    held_free = round(job.layout.reserve * model.ipu.memory_bytes)
    room_bytes = model.ipu.memory_bytes - held_free - job.code_bytes_per_tile * model.ipu.tile.count
    return cuts_at((0, *even_cuts(pieces, count, room_bytes)), len(pieces))


def even_cuts(pieces: Sequence[UncutPart], stage_count: int, room_bytes: int) -> tuple[int, ...]:
    """Places before which the chain is cut, so that the longest stage is as short as can be.

    If no cuts keep every stage within the room, it is the memory that is evened out.

    >>> even_cuts([UncutPart(cycles, 0, 0) for cycles in (3, 1, 1, 3)], 2, 0)
    (2,)
    """
    total = list(accumulate(piece.cycles for piece in pieces))[-1]
    everything = sum(piece.kept_bytes + piece.running_bytes for piece in pieces)
    cuts = _least(lambda limit: _cut(pieces, stage_count, limit, room_bytes), total)
    if cuts is None:
        cuts = _least(lambda limit: _cut(pieces, stage_count, total, limit), everything)
    assert cuts is not None
    return tuple(cuts)


def _least(cuts_within: Callable[[float], list[int] | None], most: float) -> list[int] | None:
    """The cuts of the least limit that has any, to within a 2^-40th of the greatest."""
    found, low, high = cuts_within(most), 0.0, most
    for _ in range(_HALVINGS if found is not None else 0):
        middle = (low + high) / 2
        cuts = cuts_within(middle)
        if cuts is None:
            low = middle
        else:
            found, high = cuts, middle
    return found


def _cut(pieces: Sequence[UncutPart], stage_count: int, cycles: float, room_bytes: float) -> list[int] | None:
    """Fill stage after stage up to the limits; None if more stages would be needed."""
    cuts: list[int] = []
    time, kept, running = 0.0, 0, 0
    for place, piece in enumerate(pieces):
        time, kept, running = time + piece.cycles, kept + piece.kept_bytes, max(running, piece.running_bytes)
        # Later stages must not be left without a piece.
        each_its_own = len(pieces) - place == stage_count - len(cuts) - 1
        if place and (each_its_own or time > cycles or kept + running > room_bytes):
            cuts.append(place)
            time, kept, running = piece.cycles, piece.kept_bytes, piece.running_bytes
        if len(cuts) == stage_count or time > cycles or kept + running > room_bytes:
            return None
    return cuts
