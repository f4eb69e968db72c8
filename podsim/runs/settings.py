"""Common parts of all runs: settings, choice of a layout, and places of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from podsim.engine import Engine
from podsim.errors import InfeasibleError, MissingDataError, ModelError, PodsimError, Problem, SpecError
from podsim.options import Fit
from podsim.program.size import Follow, unseen
from podsim.scenario import LoadedScenario
from podsim.scenario.wording import quoted
from podsim.watch import Watch, watched

if TYPE_CHECKING:
    from podsim.draws import Draws, Seeds
    from podsim.search.choice import Choice


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a simulation."""

    explicit: bool = False  # every IPU of every replica, and every layer; the result is the same, more slowly
    record: bool = False  # the timeline is kept
    influence: bool = False  # all assumptions are measured, those too for which products have to be planned anew
    # receives the names of the steps of a search for `parallelism: auto`, or of reading a graph
    watch: Watch = watched
    # progress callback: receives the approximate number of events of an explicit simulation, and follows it
    follow: Follow = unseen
    fit: Fit = "refuse"  # treatment of a given layout that does not fit
    engine: Engine = "auto"  # which engine runs programs
    noise: Seeds | None = None  # repetitions with noise, if any
    # repetitions with assumed and calibrated inputs sampled from their ranges, if any
    uncertainty: Draws | None = None

    def __post_init__(self) -> None:
        """Refuse values that the command line does not allow."""
        if self.fit not in get_args(Fit):
            do = 'give "refuse" or "warn"'
            raise SpecError([Problem("", "fit", f"{quoted(self.fit)} is not a way to treat what does not fit", do)])
        if self.engine not in get_args(Engine):
            do = 'give "auto", "simpy" or "compiled"'
            raise SpecError([Problem("", "engine", f"{quoted(self.engine)} is not an engine", do)])
        if self.noise is not None and self.uncertainty is not None:
            what = "--noise says how much runs differ, and --uncertainty how far all of them may be off: two questions"
            raise PodsimError(what, do="ask one at a time; neither range holds the other")


@contextmanager
def placed(loaded: LoadedScenario, section: str = "parallelism") -> Iterator[None]:
    """Add the place of the key to errors; an infeasible plan gets the place of a section."""
    try:
        yield
    except (ModelError, MissingDataError) as error:
        raise error.with_place(loaded.where(*error.key.split("."))) from None
    except InfeasibleError as error:
        raise error.with_place(loaded.where(section)) from None


def divided(loaded: LoadedScenario, watch: Watch) -> tuple[LoadedScenario, Choice | None]:
    """Return the scenario with its layout and, if the search chose it, the choice."""
    if loaded.auto is None:
        return loaded, None
    from podsim.search.auto import choose

    return choose(loaded, watch)
