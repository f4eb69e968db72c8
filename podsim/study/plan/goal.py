"""What is wanted: what is to run, the figure that counts, its limits, and the pods and partitions that are looked at.

A partition, `32 of ipu_pod64`, has a power of two of IPUs in whole machines. Within a link domain its ladder is open,
whether or not that of the pod is closed. It has its part of the pod's host servers and switches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from podsim.draws import MOST_DRAWS
from podsim.errors import BadValueError, NoPlanError, PodsimError, Problem, SpecError
from podsim.metrics import metric_of
from podsim.scenario import System, load_hardware, shipped_names
from podsim.scenario.base import Spec
from podsim.scenario.document import Document, KeyPath, read_yaml
from podsim.scenario.expectations import Expectation
from podsim.scenario.library import shipped
from podsim.scenario.load import validated
from podsim.scenario.quantity import Count, CountOrZero
from podsim.scenario.serving import Rate
from podsim.scenario.wording import shown
from podsim.study.plan.figures import SERVED, Limit, at_most, check_limits, figure_named, limit
from podsim.study.sweep.space import StudySpace, space_of
from podsim.study.sweep.spec import CombinedSpec, Varied

GIVEN: Final = "as given"
CHOSEN: Final = "chosen"
SEQUENCE: Final = "sequence"
TOGETHER: Final = "together"
DRAWS: Final = 50
SERVED_DRAWS: Final = 20
"""Of a plan for requests, in which each draw serves all of them again."""
TRIALS: Final = 200
_STUDIED: Final = tuple(CombinedSpec.model_fields)
"""Sections that a goal has in common with a study."""
_AS_WRITTEN: Final = (
    "variant",
    "objective",
    "description",
    "order",
    "second",
    "request_rate",
    "trials",
    "draws",
    "seed",
)
"""Attributes of a goal that its file has."""
_PARTITION: Final = re.compile(r"\s*(\d{1,6})\s+of\s+(\S.*?)\s*")
_Limits = Annotated[Mapping[str, str | list[str]], Field(default_factory=dict)]
_Texts = Annotated[list[str], Field(default_factory=list)]


class JobSpec(Spec):
    """One of several jobs in a file: a `Job`, named after its scenario if it has no name."""

    name: str | None = None
    scenario: str
    variant: str | None = None
    overrides: _Texts
    limits: _Limits
    ipus: Count | None = None


class GoalSpec(CombinedSpec):
    """A goal file: a `Goal`, and short forms of some of its attributes."""

    kind: Literal["goal"]
    description: str = ""
    scenario: str | None = None
    variant: str | None = None
    jobs: Annotated[list[JobSpec], Field(min_length=1)] | None = None
    order: Literal["sequence", "together"] = SEQUENCE
    objective: str = "time_to_train_s"
    second: str | None = None
    limits: _Limits
    deadline: str | None = None  # a limit of the time to train
    budget: str | None = None  # a limit of the cost of a run, with its currency
    request_rate: Rate | None = None
    systems: Annotated[list[str], Field(min_length=1)] | None = None
    divisions: Annotated[list[Literal["as given", "chosen"]], Field(min_length=1)] | None = None
    lease: Literal["machines", "partition", "pod"] | None = None  # what cost counts; as the scenario says if left out
    overrides: _Texts
    vary: Annotated[Mapping[str, Varied], Field(default_factory=dict)]  # as the `keys` of a study
    trials: Count = TRIALS
    draws: Annotated[int, Field(strict=True, ge=0, le=MOST_DRAWS)] | None = None
    seed: CountOrZero = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs: a pod by path or name, or so many IPUs of it."""

    pod: str
    ipus: int | None = None

    @property
    def system(self) -> System:
        """The pod as its file has it, which is refused if it is wrong or not there."""
        pod, _ = load_hardware(self.pod, "pod")
        assert isinstance(pod, System)
        return pod

    @property
    def text(self) -> str:
        """As it is written."""
        return self.pod if self.ipus is None else f"{self.ipus} of {self.pod}"

    @property
    def size(self) -> int:
        """IPUs."""
        return self.ipus or self.system.ipu_count

    def overrides(self) -> tuple[str, ...]:
        """The place as `--set` takes it; `NoPlanError` if it is no partition."""
        named, system = f"system={self.pod}", self.system
        if self.ipus is None or self.ipus == system.ipu_count:
            return (named,)
        _check_partition(self.ipus, system)
        machines, whole = self.ipus // int(system.machine.ipu_count), int(system.whole_machine_count)
        opened = system.topology == "torus" and machines < min(whole, system.link_domain_machine_count)
        return (
            named,
            f"system.machine_count={machines}",
            f"system.pod_machine_count={whole}",
            f"system.name={self.ipus} of {system.name}",
            *(("system.topology=ladder",) if opened else ()),
        )


def place_named(text: str) -> Place:
    """The place that a text stands for.

    >>> place_named("32 of ipu_pod64"), place_named("ipu_pod16")
    (Place(pod='ipu_pod64', ipus=32), Place(pod='ipu_pod16', ipus=None))
    """
    match = _PARTITION.fullmatch(text)
    return Place(match[2], int(match[1])) if match else Place(text)


def _check_partition(ipus: int, system: System) -> None:
    """Refuse a number of IPUs that is no partition of a pod, and say what is one."""
    smallest, largest = int(system.machine.ipu_count), int(system.ipu_count)
    if ipus > largest:
        raise NoPlanError(f"{ipus} IPUs are more than the {largest} of {system.name}", do=f"use {largest} or fewer")
    if ipus < smallest:
        what = f"{ipus} IPUs are less than a machine of {system.name}, which has {smallest}"
        raise NoPlanError(what, do=f"use {smallest} IPUs or more")
    if ipus & (ipus - 1):
        below = 1 << (ipus.bit_length() - 1)
        parts = " + ".join(str(1 << bit) for bit in reversed(range(ipus.bit_length())) if ipus >> bit & 1)
        above = f" and {2 * below}" if 2 * below <= largest else ""
        what = f"{ipus} IPUs are no partition: one has a power of two, {below}{above} here"
        raise NoPlanError(f"{what}; jobs side by side may have {parts}", do=f"use {below} of them")


@cache
def shipped_places() -> tuple[str, ...]:
    """All shipped pods, and partitions of the smallest of them for sizes that no pod of such machines has."""
    names = shipped_names()["systems"]
    pods = {name: Place(name).system for name in names}
    taken = {(pod.machine.name, int(pod.ipu_count)) for pod in pods.values()}
    parts = []
    for name, pod in sorted(pods.items(), key=lambda item: int(item[1].ipu_count)):
        size = int(pod.machine.ipu_count)
        while size < int(pod.ipu_count):
            if (pod.machine.name, size) not in taken:
                taken.add((pod.machine.name, size))
                parts.append(f"{size} of {name}")
            size *= 2
    return (*names, *parts)


@dataclass(frozen=True)
class Job:
    """What is to run."""

    name: str  # empty for the one of a goal without jobs
    scenario: str  # by path or name
    variant: str | None = None
    overrides: tuple[str, ...] = ()  # `key.path=value` texts that hold for it alone
    limits: tuple[Expectation, ...] = ()  # of its own figures
    ipus: int | None = None  # its partition where jobs run side by side; equal parts of the pod if left out


@dataclass(frozen=True)
class Goal:
    """What is wanted."""

    scenario: str = ""  # what is to run, by path or name, if it is one
    variant: str | None = None
    objective: str = "time_to_train_s"  # the figure that counts, by its key in a result or a short name
    limits: tuple[Expectation, ...] = ()
    systems: tuple[str, ...] = ()  # pods to look at, by path or name, or partitions of them
    overrides: tuple[str, ...] = ()  # `key.path=value` texts that hold for all of them
    description: str = ""
    jobs: tuple[Job, ...] = ()  # several things that are to run, in place of the scenario
    order: str = SEQUENCE  # or `together`: side by side on partitions of one pod
    second: str | None = None  # the figure that the objective is weighed against; time, or cost or energy, if left out
    request_rate: float | None = None  # requests that are to be served [1/s]; that of the scenario if left out
    divisions: tuple[str, ...] = (GIVEN, CHOSEN)  # the scenario's own, one that podsim chooses, or both
    space: StudySpace | None = field(default=None, compare=False)  # what varies beside systems and divisions
    trials: int = TRIALS  # most candidates; a goal with more is refused
    draws: int | None = None  # how often uncertain inputs are drawn; 50 times if left out, 20 for requests
    seed: int = 0  # of the draws

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
    def point_count(self) -> int:
        """Combinations of what varies."""
        return 1 if self.space is None else len(self.space)

    @property
    def candidate_count(self) -> int:
        """All that can be looked at: systems × divisions × what varies, those included that `where` leaves out."""
        return len(self.candidates) * len(self.divisions) * self.point_count

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
    def bounds(self) -> tuple[tuple[str, Expectation], ...]:
        """All limits by their figures, those of a job behind its name and a colon."""
        of_jobs = ((f"{job.name}: {bound.metric}", bound) for job in self.jobs for bound in job.limits)
        return (*((bound.metric, bound) for bound in self.limits), *of_jobs)

    @property
    def is_served(self) -> bool:
        """Whether requests are served: a rate is given, or one of the figures is one of requests."""
        asked = (self.figure, *(bound.metric for _, bound in self.bounds))
        return self.request_rate is not None or any(metric in SERVED for metric in asked)

    @property
    def draw_count(self) -> int:
        """How often uncertain inputs are drawn."""
        return self.draws if self.draws is not None else SERVED_DRAWS if self.is_served else DRAWS


def goal_of(name: str | Path) -> Goal:
    """The goal of a file, of a shipped study, or of a scenario alone, by path or name."""
    if not isinstance(name, str | Path):
        what = f"a goal is a path or the name of a scenario or study, not {shown(name)}"
        raise PodsimError(what, do="write a scenario into a file, and give its path")
    file = shipped(str(name), "study") or Path(name)
    data = read_yaml(file).data if file.is_file() and file.suffix in {".yaml", ".yml"} else None
    return read_goal(file) if isinstance(data, dict) and data.get("kind") == "goal" else Goal(str(name))


def read_goal(path: Path) -> Goal:
    """Read a goal file.

    Returns:
        The goal, with paths as seen from here.

    Raises:
        SpecError: It is wrong; each problem with its place.
        PodsimError: Its limits contradict each other.
    """
    document, folder = read_yaml(path, str(path)), path.parent
    spec = validated(GoalSpec, document)
    problems = _wrong(spec, document)

    def limits_at(
        at: KeyPath, given: Mapping[str, str | list[str]], make: Callable[[str, str], Limit] = limit
    ) -> Iterator[Limit]:
        for metric, texts in given.items():
            for text in texts if isinstance(texts, list) else [texts]:
                try:
                    yield make(metric, text)
                except BadValueError as error:
                    key = (*at, metric)
                    problems.append(Problem(document.where(key), ".".join(map(str, key)), str(error), error.do))

    shortened = {key: text for key in ("deadline", "budget") if (text := getattr(spec, key))}
    limits = (*limits_at(("limits",), spec.limits), *limits_at((), shortened, at_most))
    jobs = [
        _job(job, tuple(limits_at(("jobs", place, "limits"), job.limits)), folder)
        for place, job in enumerate(spec.jobs or [])
    ]
    if problems:
        raise SpecError(problems)
    check_limits(limits)
    places = [place_named(system) for system in spec.systems or ()]
    goal = Goal(
        scenario=_located(spec.scenario or "", folder),
        limits=limits,
        systems=tuple(replace(place, pod=_located(place.pod, folder)).text for place in places),
        overrides=(*spec.overrides, *([f"cost.lease={spec.lease}"] if spec.lease else [])),
        jobs=told_apart(jobs),
        divisions=tuple(dict.fromkeys(spec.divisions or (GIVEN, CHOSEN))),
        **{name: getattr(spec, name) for name in _AS_WRITTEN},
    )
    return replace(goal, space=_space(goal, document, folder)) if spec.vary else goal


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


def _wrong(spec: GoalSpec, document: Document) -> list[Problem]:
    """Keys that do not go together."""
    jobs, in_sequence = spec.jobs or [], spec.order == SEQUENCE
    alone = "jobs after one another have the whole pod each"
    rules = [
        ("", not (spec.scenario or jobs), "nothing says what is to run", "add `scenario:`, or `jobs:` for several"),
        ("order", not (in_sequence or jobs), "there is one scenario and an order", "add `jobs:`, or leave `order` out"),
        ("jobs", in_sequence and any(job.ipus for job in jobs), alone, "leave `ipus` out, or `order: together`"),
        ("vary", "system" in spec.vary, "`system` is not varied here", "list pods under `systems`"),
    ]
    for key in ("scenario", "variant"):
        both = f"`{key}` and `jobs` are both there"
        rules.append((key, bool(jobs and getattr(spec, key)), both, f"write `{key}` in each of the jobs"))
    studied = () if spec.vary else _STUDIED
    rules += [
        (key, bool(getattr(spec, key)), f"`{key}` is there, and nothing varies", "add `vary:`") for key in studied
    ]
    return [Problem(document.where((key,)), key, what, do) for key, is_wrong, what, do in rules if is_wrong]


def _space(goal: Goal, document: Document, folder: Path) -> StudySpace:
    """What varies, as the points of a study."""
    data = {key: document.data[key] for key in _STUDIED if key in document.data}
    data |= {"kind": "study", "scenario": goal.work[0].scenario, "keys": document.data["vary"]}
    moved = {("keys", *at[1:]) if at[:1] == ("vary",) else at: place for at, place in document.places.items()}
    return space_of(Document(data, moved), folder)
