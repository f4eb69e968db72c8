"""What a timeline is drawn with: operations, and one mark for neighbours that are too short to be told apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from podsim.format import format_percent
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.slices import PASS, REPEATED, Slice
from podsim.result.windows import Window

_FINEST: Final = 4000
_STEP: Final = 1.1


class Mark(NamedTuple):
    """What is drawn as one; there are many thousands, and a tuple is made fastest.

    Attributes:
        lane: The IPU.
        name: What went on.
        kind: Kind of time that it is drawn as.
        start_ps: Where it begins. [ps]
        end_ps: Where it ends. [ps]
        operations: How many it stands for.
        mixture: Its kinds of time in words, where there are several.
    """

    lane: str
    name: str
    kind: str
    start_ps: int
    end_ps: int
    operations: int = 1
    mixture: str = ""

    @property
    def length_ps(self) -> int:
        """How long it takes. [ps]"""
        return self.end_ps - self.start_ps


def marks_of(slices: Iterable[Slice], window: Window, most: int) -> list[Mark]:
    """What a stretch of a timeline is drawn with.

    Args:
        slices: Passes with their operations.
        window: The stretch.
        most: Marks that are not too many; neighbours that are short become one until there are no more than that.
    """
    by_lane: dict[str, list[Mark]] = {}
    for one in slices:
        by_lane.setdefault(one.lane, []).extend(_pieces_in(one, window))
    lanes = [sorted(lane, key=lambda each: each.start_ps) for lane in by_lane.values()]
    length_ps = window.end_ps - window.start_ps
    shortest_ps = max(1, length_ps // _FINEST)
    while shortest_ps < length_ps and (count := sum(1 for lane in lanes for _ in _runs(lane, shortest_ps))) > most:
        shortest_ps = int(shortest_ps * max(_STEP, count / most)) + 1
    return [mark for lane in lanes for mark in merged(lane, shortest_ps)]


def _pieces_in(one: Slice, window: Window) -> Iterator[Mark]:
    """The pieces of all repetitions of a slice that show in a window, cut to it."""
    period_ps = one.repeat_period_ps
    numbers = range(1)
    if one.repeat_count > 1 and period_ps:
        first, last = (window.start_ps - one.end_ps) // period_ps, (window.end_ps - one.start_ps) // period_ps
        numbers = range(max(0, first), min(one.repeat_count, last + 1))
    shifts_ps = [number * period_ps for number in numbers]
    shown = [each for each in shifts_ps if one.start_ps + each < window.end_ps and one.end_ps + each > window.start_ps]
    for piece in pieces_of(one) if shown else ():
        for shift_ps in shown:
            start_ps, end_ps = (
                max(piece.start_ps + shift_ps, window.start_ps),
                min(piece.end_ps + shift_ps, window.end_ps),
            )
            if start_ps < end_ps:
                yield Mark(piece.lane, piece.name, piece.kind, start_ps, end_ps)


def pieces_of(one: Slice) -> Iterator[Mark]:
    """The stretches of one kind of time that a slice is made of, with the names of their operations.

    Operations of a pass that are repeated stand as often as they run.
    """
    if one.category != PASS:
        for leaf in one.leaves:
            yield Mark(one.lane, one.name, leaf.category, leaf.start_ps, leaf.end_ps)
        return
    before: list[Slice] = []
    for part in one.inside:
        count = int(str(part.arguments.get("repetitions", 1)))
        alike = [each for each in before if each.arguments.get("runs in this pass") == count + 1]
        if part.category == REPEATED and alike:
            yield from _repeated(part, count, [piece for each in alike for piece in pieces_of(each)])
            before = []
        else:
            before.append(part)
            yield from pieces_of(part)


def _repeated(part: Slice, count: int, once: Sequence[Mark]) -> Iterator[Mark]:
    """The pieces of so many repetitions in the time that they take together.

    Args:
        part: That time.
        count: How many there are.
        once: The pieces of one before them, which takes nearly as long.
    """
    first_ps, length_ps = once[0].start_ps, once[-1].end_ps - once[0].start_ps
    edges = [part.start_ps + (part.end_ps - part.start_ps) * number // count for number in range(count + 1)]
    for start_ps, end_ps in pairwise(edges):
        for lane, name, kind, from_ps, until_ps, _, _ in once:
            moved = [start_ps + (each - first_ps) * (end_ps - start_ps) // length_ps for each in (from_ps, until_ps)]
            yield Mark(lane, name, kind, moved[0], moved[1])


def merged(pieces: Iterable[Mark], shortest_ps: int) -> Iterator[Mark]:
    """Pieces of a lane in order, in which those that are too short are joined until they are long enough.

    What is joined is drawn as one of its kinds. Which one is chosen so that over a few marks the kinds are drawn for as
    long as they take.
    """
    owed_ps: dict[str, int] = {}
    for run in _runs(pieces, shortest_ps):
        yield run[0] if len(run) == 1 else _joined(run, owed_ps)


def _runs(pieces: Iterable[Mark], shortest_ps: int) -> Iterator[list[Mark]]:
    """Pieces that are long enough alone, the others in runs without gaps."""
    run: list[Mark] = []
    for piece in pieces:
        is_long = piece.end_ps - piece.start_ps >= shortest_ps
        if run and (is_long or run[-1].end_ps != piece.start_ps or run[-1].end_ps - run[0].start_ps >= shortest_ps):
            yield run
            run = []
        if is_long:
            yield [piece]
        else:
            run.append(piece)
    if run:
        yield run


def _joined(run: Sequence[Mark], owed_ps: dict[str, int]) -> Mark:
    """One mark for a few; each kind is owed its time, and the one that is drawn gets all of it."""
    times_ps: dict[str, int] = {}
    for each in run:
        times_ps[each.kind] = times_ps.get(each.kind, 0) + each.length_ps
    for kind, time_ps in times_ps.items():
        owed_ps[kind] = owed_ps.get(kind, 0) + time_ps
    whole_ps = sum(times_ps.values())
    drawn = max(in_kind_order(times_ps), key=lambda kind: owed_ps[kind])
    owed_ps[drawn] -= whole_ps
    names = [name for name, _ in groupby(run, key=lambda each: each.name)]
    name = names[0] if len(names) == 1 else f"{len(names)} short operations, {names[0]} to {names[-1]}"
    largest = sorted(times_ps.items(), key=lambda item: -item[1])
    mixture = ", ".join(f"{kind_of(kind).label} {format_percent(time / whole_ps, 0)}" for kind, time in largest)
    return Mark(run[0].lane, name, drawn, run[0].start_ps, run[-1].end_ps, len(names), mixture)
