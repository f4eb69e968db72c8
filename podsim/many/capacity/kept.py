"""Options as they are found: simulated on all cores, kept in a file if one is given, and never simulated twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from podsim.disk import digest, source
from podsim.errors import OutputError
from podsim.many.capacity.candidates import Candidates
from podsim.many.capacity.goal import Goal
from podsim.many.capacity.option import Option, option_of
from podsim.many.capacity.simulate import option_for
from podsim.many.sweeps.journal import Journal
from podsim.many.sweeps.names import POINT
from podsim.many.sweeps.run import simulator
from podsim.many.sweeps.workers import spread
from podsim.memo import files_held
from podsim.scenario.library import HARDWARE, data_file

_OPTION: Final = "option"
_LONG_S: Final = 5.0
_ENOUGH: Final = 8
"""Candidates after which the time that the others take can be told; the first waits for processes to start."""
_NOT_NAMED: Final = 24
"""As few candidates need no words."""


class Kept:
    """The options of a goal that are known."""

    def __init__(
        self,
        candidates: Candidates,
        journal: Path | None,
        inputs: Sequence[tuple[str, str]],
        tell: Callable[[int, int], None],
        say: Callable[[str], None],
        processes: int | None,
    ) -> None:
        """Nothing is simulated yet.

        Args:
            candidates: All that can be looked at.
            journal: File that keeps them.
            inputs: (path, SHA-256) of every file that they stand on.
            tell: Is told of progress.
            say: Takes lines for the reader.
            processes: How many are looked at at a time.
        """
        self.candidates = candidates
        self._known: dict[int, Option] = {}
        self._tell, self._say, self._processes = tell, say, processes
        self._stack = ExitStack()
        self._journal = None if journal is None else self._opened(journal, inputs)
        if self._journal is not None:
            self._known = {row[POINT]: option_of(row[_OPTION]) for row in self._journal.rows()}
        self._goal_count = min(len(candidates), candidates.goal.trials)
        self._tell(min(len(self._known), self._goal_count), self._goal_count)
        self._announce()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _opened(self, path: Path, inputs: Sequence[tuple[str, str]]) -> Journal:
        try:
            return self._stack.enter_context(Journal(path, fingerprint(self.candidates.goal, inputs)))
        except OutputError as error:
            what = error.message.replace("another study", "another goal").replace("rows of", "options of")
            raise OutputError(what, where=error.where, do="give another --journal, or remove that file") from None

    def _announce(self) -> None:
        count, most = len(self.candidates), self.candidates.goal.trials
        if len(self._known) >= min(count, most):
            return
        if count > most:
            self._say(f"{count:,} candidates: a search looks at {most:,} of them (--trials)")
        elif count > _NOT_NAMED:
            self._say(f"{count:,} candidates: all are looked at")

    def options(self, numbers: Sequence[int]) -> list[Option]:
        """The options of candidates, in their order; those that `where` leaves out are missing.

        Args:
            numbers: Of the candidates.
        """
        wanted = [number for number in numbers if number not in self._known]
        left = [each for number in dict.fromkeys(wanted) if (each := self.candidates.candidate(number))]
        make = partial(option_for, self.candidates.goal)
        first_s = 0.0
        with files_held():
            found = map(make, left) if self._processes == 1 else spread(make, left, self._processes)
            for count, option in enumerate(found, 1):
                self._add(option)
                first_s = first_s or time.monotonic()
                if count == _ENOUGH:
                    self._estimate((time.monotonic() - first_s) / (count - 1), len(left) - count)
        return [self._known[number] for number in numbers if number in self._known]

    def _add(self, option: Option) -> None:
        if self._journal is not None:
            self._journal.add({POINT: option.number, _OPTION: option.row()})
        self._known[option.number] = option
        self._tell(min(len(self._known), self._goal_count), self._goal_count)

    def _estimate(self, each_s: float, left: int) -> None:
        if each_s * left > _LONG_S:
            self._say(f"{left:,} more candidates take about {each_s * left:.0f} s")


def fingerprint(goal: Goal, inputs: Sequence[tuple[str, str]]) -> str:
    """Of all that options depend on; objective, limits, trials and draws can be others when a plan goes on.

    Args:
        goal: What is wanted.
        inputs: (path, SHA-256) of every file that it reads.
    """
    jobs = [(job.name, job.scenario, job.variant, job.overrides, job.ipus) for job in goal.work]
    study = goal.space.study.model_dump_json() if goal.space is not None else ""
    asked: Any = (jobs, goal.order, goal.candidates, goal.divisions, goal.overrides, goal.request_rate, goal.is_served)
    shipped = source(data_file(HARDWARE).rglob("*.yaml"))  # what varies may name any of them
    return digest([simulator().encode(), shipped, repr(asked).encode(), study.encode(), repr(sorted(inputs)).encode()])
