"""Stretches of a run in which the same faults hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.scenario.faults import FaultSpec


@dataclass(frozen=True, slots=True)
class Stretch:
    """Time spent on weight updates, from the first of a run on, in which nothing about faults changes."""

    start_s: float  # when it begins [s]
    end_s: float | None  # when it is over; None for the last one [s]
    faults: tuple[FaultSpec, ...]


def stretches_of(faults: Sequence[FaultSpec]) -> Iterator[Stretch]:
    """The stretches of a run with these faults, in order; a run without has one."""
    ends = {float(fault.end) for fault in faults if fault.end is not None}
    marks = sorted({0.0} | {float(fault.begin) for fault in faults} | ends)
    for start, end in zip(marks, [*marks[1:], None], strict=True):
        holding = (each for each in faults if each.begin <= start and (each.end is None or each.end > start))
        yield Stretch(start, end, tuple(holding))


def updates_in(stretches: Sequence[tuple[Stretch, float]], update_count: float) -> list[float]:
    """How many of the weight updates of a run fall into each stretch; one that a mark divides counts in parts.

    >>> fault = FaultSpec.model_validate({"ipu": 0, "clock": 0.5, "from": "10 s", "until": "30 s"})
    >>> updates_in([(each, 2.0 if each.faults else 1.0) for each in stretches_of([fault])], 25)
    [10.0, 10.0, 5.0]

    `stretches`: each with the time of a weight update in it [s].
    """
    counts, left = [], update_count
    for stretch, update_s in stretches:
        room = left if stretch.end_s is None else (stretch.end_s - stretch.start_s) / update_s
        counts.append(min(left, room))
        left -= counts[-1]
    return counts
