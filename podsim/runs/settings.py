"""What is the same in a run of any kind: how it is simulated, a division that is chosen, errors with their place."""

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
from podsim.scenario.wording import shown
from podsim.watch import Watch, watched

if TYPE_CHECKING:
    from podsim.draws import Draws, Seeds
    from podsim.search.choice import Choice


@dataclass(frozen=True, slots=True)
class Settings:
    """How a scenario is simulated."""

    explicit: bool = False  # every IPU of every replica, and every layer; the result is the same, more slowly
    record: bool = False  # the timeline is kept
    influence: bool = False  # all assumptions are measured, those too for which products have to be planned anew
    # passes on the names of the steps in which `parallelism: auto` is chosen, or a graph is read
    watch: Watch = watched
    # is told the rough number of events of an explicit simulation before it starts, and follows it
    follow: Follow = unseen
    fit: Fit = "refuse"  # what becomes of a division that is given and does not fit
    engine: Engine = "auto"  # which engine runs programs
    noise: Seeds | None = None  # how often the run is repeated with noise, if at all
    # how often it is repeated with its assumed and calibrated inputs drawn from their ranges, if at all
    uncertainty: Draws | None = None

    def __post_init__(self) -> None:
        """What Python lets through and the command line does not."""
        if self.fit not in get_args(Fit):
            do = 'give "refuse" or "warn"'
            raise SpecError([Problem("", "fit", f"{shown(self.fit)} is not a way to treat what does not fit", do)])
        if self.engine not in get_args(Engine):
            do = 'give "auto", "simpy" or "compiled"'
            raise SpecError([Problem("", "engine", f"{shown(self.engine)} is not an engine", do)])
        if self.noise is not None and self.uncertainty is not None:
            what = "--noise says how much runs differ, and --uncertainty how far all of them may be off: two questions"
            raise PodsimError(what, do="ask one at a time; neither range holds the other")


@contextmanager
def placed(loaded: LoadedScenario, section: str = "parallelism") -> Iterator[None]:
    """Errors get the place of the key to blame; those of a plan that cannot be, of a section."""
    try:
        yield
    except (ModelError, MissingDataError) as error:
        raise error.at(loaded.where(*error.key.split("."))) from None
    except InfeasibleError as error:
        raise error.at(loaded.where(section)) from None


def divided(loaded: LoadedScenario, watch: Watch) -> tuple[LoadedScenario, Choice | None]:
    """The scenario with its division, and how that was chosen if it was left open."""
    if loaded.auto is None:
        return loaded, None
    from podsim.search.auto import choose

    return choose(loaded, watch)
