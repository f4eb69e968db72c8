"""Common parts of all runs: settings, choice of a layout, and locations of errors."""

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

    explicit: bool = False  # True to simulate every IPU of every replica, and every layer, with the same result
    record: bool = False  # True to keep the timeline
    influence: bool = False  # True to measure all assumptions, even if products have to be planned again
    watch: Watch = watched  # progress callback of a search for `parallelism: auto`, or of reading a graph
    follow: Follow = unseen  # progress callback of an explicit simulation, by numbers of events
    fit: Fit = "refuse"  # treatment of a given layout that does not fit
    engine: Engine = "auto"  # engine of the simulation
    noise: Seeds | None = None  # repetitions with noise, if any
    uncertainty: Draws | None = None  # repetitions with sampled inputs, if any

    def __post_init__(self) -> None:
        """Raise `PodsimError` for values that the command line does not allow."""
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
    """Add the location of their key to errors; an infeasible plan gets the location of `section`."""
    try:
        yield
    except (ModelError, MissingDataError) as error:
        raise error.with_place(loaded.where(*error.key.split("."))) from None
    except InfeasibleError as error:
        raise error.with_place(loaded.where(section)) from None


def divided(loaded: LoadedScenario, watch: Watch) -> tuple[LoadedScenario, Choice | None]:
    """Return a scenario with its layout, and the choice if a search chose the layout (`parallelism: auto`)."""
    if loaded.auto is None:
        return loaded, None
    from podsim.search.auto import choose

    return choose(loaded, watch)
