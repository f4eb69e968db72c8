"""All candidates of a goal, by number: systems × divisions × what varies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from podsim.errors import PodsimError
from podsim.many.capacity.goal import Goal
from podsim.many.capacity.option import SystemCandidate
from podsim.many.capacity.systems import place_named

_NAMED: Final = ("system", "system.base")


@dataclass(frozen=True)
class CandidateSystems:
    """All that a goal can look at.

    Attributes:
        goal: What is wanted.
    """

    goal: Goal

    def __len__(self) -> int:
        """How many there are, those included that `where` leaves out."""
        systems, divisions, points = self.sizes
        return systems * divisions * points

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many systems, divisions and combinations of what varies."""
        return len(self.goal.candidates), len(self.goal.divisions), len(self.goal.space) if self.goal.space else 1

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """How many values each choice has: system, division, then each axis of what varies; the last runs fastest."""
        varied = [len(axis.values) for axis in self.goal.space.axes] if self.goal.space else []
        return (len(self.goal.candidates), len(self.goal.divisions), *varied)

    def number(self, places: tuple[int, ...]) -> int:
        """The number of a candidate by its place on each axis."""
        number = 0
        for place, count in zip(places, self.axes, strict=True):
            number = number * count + place
        return number

    def candidate(self, number: int) -> SystemCandidate | None:
        """A candidate by its number; None if `where` leaves it out."""
        _, divisions, points = self.sizes
        rest, place = divmod(number, points)
        system, division = divmod(rest, divisions)
        where, how = self.goal.candidates[system], self.goal.divisions[division]
        if self.goal.space is None:
            return SystemCandidate(number, where, how)
        point = self.goal.space.point(place)
        if point is None:
            return None
        derived, problem = self.goal.space.study.derived, point.problem.message if point.problem else ""
        values = {key: value for key, value in point.values.items() if key not in derived}
        return SystemCandidate(number, where, how, values, point.overrides, problem)

    def all(self) -> Iterator[SystemCandidate]:
        """Those that `where` lets through."""
        found = map(self.candidate, range(len(self)))
        return (each for each in found if each is not None)

    def check(self) -> None:
        """Refuse systems that are none, and what leaves nothing.

        Raises:
            PodsimError: Says which.
        """
        for name in self.goal.candidates:
            _ = place_named(name).system
        for text in (*self.goal.overrides, *(each for job in self.goal.work for each in job.overrides)):
            if text.partition("=")[0].strip() in _NAMED:
                what = f"`{text}` names one pod for all candidates"
                raise PodsimError(what, do="name pods with --system, or under `systems`")
        if self.goal.space is not None and next(self.goal.space.points(), None) is None:
            raise PodsimError(f"`where` leaves out all of {len(self):,} candidates", do="loosen a condition")
