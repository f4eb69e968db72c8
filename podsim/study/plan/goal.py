"""What is wanted: the scenario or several, the figure that counts, the limits, and what is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from podsim.errors import BadValueError, PodsimError, Problem, SpecError
from podsim.metrics import metric_of
from podsim.scenario.document import Document, KeyPath
from podsim.scenario.expectations import Expectation
from podsim.scenario.library import shipped
from podsim.scenario.load import validated
from podsim.scenario.wording import shown
from podsim.scenario.yaml_file import read_yaml
from podsim.study.plan.figures import SERVED, figure_named
from podsim.study.plan.limits import Limit, at_most, check_limits, limit
from podsim.study.plan.spec import CHOSEN, DRAWS, GIVEN, SEQUENCE, SERVED_DRAWS, TRIALS, GoalSpec, JobSpec
from podsim.study.plan.systems import place_named, shipped_places
from podsim.study.points import CombinedSpec, StudySpace, space_of

_STUDIED: Final = tuple(CombinedSpec.model_fields)
"""Sections that a goal has in common with a study."""


@dataclass(frozen=True)
class Job:
    """What is to run.

    Attributes:
        name: What it is called; empty for the one of a goal without jobs.
        scenario: By path or name.
        variant: Its variant.
        overrides: `key.path=value` texts that hold for it alone.
        limits: Bounds of its own figures.
        ipus: Its partition where jobs run side by side.
    """

    name: str
    scenario: str
    variant: str | None = None
    overrides: tuple[str, ...] = ()
    limits: tuple[Expectation, ...] = ()
    ipus: int | None = None


@dataclass(frozen=True)
class Goal:
    """What is wanted.

    Attributes:
        scenario: What is to run, if it is one.
        variant: Its variant.
        objective: Figure that counts.
        limits: Bounds of figures.
        systems: Pods to look at, or partitions of them.
        overrides: `key.path=value` texts that hold for all of them.
        description: What it is about.
        jobs: Several things that are to run.
        order: Whether they run in `sequence` or `together`.
        second: Figure that the objective is weighed against; left open if None.
        request_rate: Requests per second that are to be served.
        divisions: Divisions to look at.
        space: What varies beside systems and divisions.
        trials: Most candidates; a goal with more is refused.
        draws: How often uncertain inputs are drawn; as often as suits what is run if None.
        seed: Of the draws.
    """

    scenario: str = ""
    variant: str | None = None
    objective: str = "time_to_train_s"
    limits: tuple[Expectation, ...] = ()
    systems: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    description: str = ""
    jobs: tuple[Job, ...] = ()
    order: str = SEQUENCE
    second: str | None = None
    request_rate: float | None = None
    divisions: tuple[str, ...] = (GIVEN, CHOSEN)
    space: StudySpace | None = field(default=None, compare=False)
    trials: int = TRIALS
    draws: int | None = None
    seed: int = 0

    @property
    def more_is_better(self) -> bool:
        """Whether the figure that counts is to be large."""
        return metric_of(self.figure).more_is_better

    @property
    def figure(self) -> str:
        """The figure that counts, by its key in a result."""
        return figure_named(self.objective)

    @property
    def second_figure(self) -> str | None:
        """The figure that it is weighed against, by its key in a result; None if that is left open."""
        return None if self.second is None else figure_named(self.second)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Pods to look at; where none is named all that are shipped, and partitions of them of other sizes."""
        return self.systems or shipped_places()

    @property
    def work(self) -> tuple[Job, ...]:
        """What is to run, one job or several."""
        return self.jobs or (Job("", self.scenario, self.variant),)

    @property
    def title(self) -> str:
        """What is to run, in words."""
        joined = ", then " if self.order == SEQUENCE else " beside "
        return joined.join(job.name for job in self.jobs) if self.jobs else self.scenario

    @property
    def is_served(self) -> bool:
        """Whether requests are served: a rate is given, or one of the figures is one of requests."""
        asked = (self.figure, *(limit.metric for limit in self.asked))
        return self.request_rate is not None or any(metric in SERVED for metric in asked)

    @property
    def draw_count(self) -> int:
        """How often uncertain inputs are drawn."""
        return self.draws if self.draws is not None else SERVED_DRAWS if self.is_served else DRAWS

    @property
    def asked(self) -> tuple[Expectation, ...]:
        """All limits: of the whole, and of each job."""
        return (*self.limits, *(limit for job in self.work for limit in job.limits))


def is_goal(path: Path) -> bool:
    """Whether a file says that it is a goal."""
    if not path.is_file() or path.suffix not in {".yaml", ".yml"}:
        return False
    data = read_yaml(path).data
    return isinstance(data, dict) and data.get("kind") == "goal"


def goal_of(name: str | Path) -> Goal:
    """The goal of a file, of a shipped study, or of a scenario alone, by path or name."""
    if not isinstance(name, str | Path):
        what = f"a goal is a path or the name of a scenario or study, not {shown(name)}"
        raise PodsimError(what, do="write a scenario into a file, and give its path")
    file = shipped(str(name), "study") or Path(name)
    return read_goal(file) if is_goal(file) else Goal(str(name))


def read_goal(path: Path) -> Goal:
    """Read a goal file.

    Raises:
        SpecError: It is wrong; each problem with its place.
        PodsimError: Its limits contradict each other.
    """
    document = read_yaml(path, str(path))
    spec = validated(GoalSpec, document)
    problems: list[Problem] = []

    def placed(at: KeyPath, make: Callable[[str, str], Limit], metric: str, text: str) -> Iterator[Limit]:
        try:
            yield make(metric, text)
        except BadValueError as error:
            problems.append(Problem(document.where(at), ".".join(map(str, at)), str(error), error.do))

    def limits_at(given: Mapping[str, str | list[str]], at: KeyPath) -> Iterator[Limit]:
        for metric, texts in given.items():
            for text in texts if isinstance(texts, list) else [texts]:
                yield from placed((*at, metric), limit, metric, text)

    limits = [*limits_at(spec.limits, ("limits",))]
    problems += _wrong(spec, document)
    jobs = [
        _job(each, (*limits_at(each.limits, ("jobs", place, "limits")),), path.parent)
        for place, each in enumerate(spec.jobs or [])
    ]
    for key in ("deadline", "budget"):
        if text := getattr(spec, key):
            limits += placed((key,), at_most, key, text)
    if problems:
        raise SpecError(problems)
    check_limits(limits)
    goal = Goal(
        scenario=_located(spec.scenario or "", path.parent),
        variant=spec.variant,
        objective=spec.objective,
        limits=tuple(limits),
        systems=tuple(_found(name, path.parent) for name in spec.systems or ()),
        overrides=(*spec.overrides, *([f"cost.lease={spec.lease}"] if spec.lease else [])),
        description=spec.description,
        jobs=told_apart(jobs),
        order=spec.order,
        second=spec.second,
        request_rate=spec.request_rate,
        divisions=tuple(dict.fromkeys(spec.divisions or (GIVEN, CHOSEN))),
        trials=spec.trials,
        draws=spec.draws,
        seed=spec.seed,
    )
    return replace(goal, space=_space(goal, spec, document, path.parent))


def told_apart(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Jobs with names that differ: those with the same name are numbered."""
    names = [job.name for job in jobs]
    return tuple(
        replace(job, name=f"{job.name} {names[: place + 1].count(job.name)}") if names.count(job.name) > 1 else job
        for place, job in enumerate(jobs)
    )


def _job(spec: JobSpec, limits: tuple[Limit, ...], folder: Path) -> Job:
    scenario = _located(spec.scenario, folder)
    stem = Path(scenario).stem if Path(scenario).is_file() else scenario
    name = spec.name or (f"{stem}:{spec.variant}" if spec.variant else stem)
    return Job(name, scenario, spec.variant, tuple(spec.overrides), limits, spec.ipus)


def _located(name: str, folder: Path) -> str:
    """A path as seen from the file of the goal; the name of a shipped scenario as it is."""
    beside = folder / name
    return str(beside) if Path(name).suffix and beside.is_file() else name


def _found(system: str, folder: Path) -> str:
    """A pod or partition, whose file is named as seen from that of the goal."""
    place = place_named(system)
    return replace(place, pod=_located(place.pod, folder)).text


def _wrong(spec: GoalSpec, document: Document) -> Iterator[Problem]:
    """Keys that do not go together."""

    def problem(key: str, what: str, do: str) -> Problem:
        return Problem(document.where((key,)), key, what, do)

    if spec.scenario is None and spec.jobs is None:
        yield problem("", "nothing says what is to run", "add `scenario:`, or `jobs:` for several")
    for key in ("scenario", "variant"):
        if spec.jobs is not None and getattr(spec, key) is not None:
            yield problem(key, f"`{key}` and `jobs` are both there", f"write `{key}` in each of the jobs")
    if spec.order != SEQUENCE and not spec.jobs:
        yield problem("order", "there is one scenario and an order", "add `jobs:`, or leave `order` out")
    if spec.order == SEQUENCE and any(each.ipus for each in spec.jobs or []):
        yield problem(
            "jobs", "jobs after one another have the whole pod each", "leave `ipus` out, or `order: together`"
        )
    for key in spec.vary:
        if key == "system":
            yield problem("vary", "`system` is not varied here", "list pods under `systems`")
    for key in _STUDIED:
        if getattr(spec, key) and not spec.vary:
            yield problem(key, f"`{key}` is there, and nothing varies", "add `vary:`")


def _space(goal: Goal, spec: GoalSpec, document: Document, folder: Path) -> StudySpace | None:
    """What varies, as the points of a study."""
    if not spec.vary:
        return None
    data = {key: document.data[key] for key in _STUDIED if key in document.data}
    data |= {"kind": "study", "scenario": goal.work[0].scenario, "keys": document.data["vary"]}
    moved: dict[KeyPath, str] = {}
    for path, place in document.places.items():
        moved[("keys", *path[1:]) if path[:1] == ("vary",) else path] = place
    return space_of(Document(data, moved), folder)
