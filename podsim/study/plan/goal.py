"""Goals of a plan: jobs, objective, limits, and the pods and partitions to try.

A partition, `32 of ipu_pod64`, has a power of two of IPUs in whole machines. Within a link domain its ladder is open,
even if the pod's is closed. It has its share of the pod's host servers and switches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from podsim import metrics
from podsim.draws import MOST_DRAWS
from podsim.errors import BadValueError, NoPlanError, PodsimError, Problem, SpecError
from podsim.escaped import printable
from podsim.metrics import CONDITION, find_metric, metric_of, metrics_of
from podsim.scenario import System, load_hardware, shipped_names
from podsim.scenario.activity import Activity
from podsim.scenario.base import Spec
from podsim.scenario.document import Document, KeyPath
from podsim.scenario.expectations import Expectation, expectation
from podsim.scenario.library import shipped
from podsim.scenario.load import validated
from podsim.scenario.quantity import Count, CountOrZero
from podsim.scenario.scenario import Scenario
from podsim.scenario.serving import Rate
from podsim.scenario.wording import known_here, quoted
from podsim.scenario.yaml_file import read_yaml
from podsim.study.points import CombinedSpec, StudySpace, Varied, located, space_of
from podsim.study.store import figures_of
from podsim.units import parse_price

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult
    from podsim.runs import Result

GIVEN: Final = "as given"
CHOSEN: Final = "chosen"
SEQUENCE: Final = "sequence"
TOGETHER: Final = "together"
_DRAWS, _SERVED_DRAWS, _TRIALS = 50, 20, 200  # each sample of a serving plan serves all requests again
_STUDIED: Final = tuple(CombinedSpec.model_fields)  # sections that a goal has in common with a study
_PARTITION: Final = re.compile(r"\s*([+-]?\.?\d\S*)\s+of\s+(\S.*?)\s*")
"""Pattern of a partition, if its number matches `_IPUS`."""
_IPUS: Final = re.compile("[1-9][0-9]{0,5}")
_Limits = Annotated[Mapping[str, str | list[str]], Field(default_factory=dict)]
_Texts = Annotated[list[str], Field(default_factory=list)]
TOTALS: Final = (metrics.TIME, metrics.ENERGY, metrics.POWER, metrics.RACK_POWER, metrics.COST, metrics.IPUS)
"""Metrics of several jobs together."""
SERVED: Final = (
    *(metric.key for metric in metrics_of(metrics.SERVING) if metric.of == (metrics.SERVING,)),
    metrics.LOAD,
)
"""Metrics that only serving has; a goal with one of these serves requests."""
SHORTEST_WAIT: Final = "latency_p99_s"
"""Default objective of serving."""
_SIGNED_PRICE: Final = re.compile(r"\s*(<=|>=|<|>)\s*(.+?[A-Z]{3})\s*")
_SIGN: Final = re.compile(r"\s*[<>]")
_NEAR_NOTHING, _EXAMPLE = 0.0005, "500 USD"
_HEADLINES: Final = {
    Activity.TRAINING: metrics.TIME,
    Activity.GENERATION: metrics.TOKENS,
    Activity.FORWARD: metrics.THROUGHPUT,
}
"""Default objective by activity."""
_WORD: Final = re.compile(r"[^\W_]+")


class UnknownFigureError(BadValueError):
    """Error of a limit for a metric that no result has."""


def figure_named(name: str) -> str:
    """Return the key of a metric from a short name or a path in the JSON of a result."""
    key = metrics.SHORT.get(name.strip(), name.strip())
    metric = find_metric(key)
    return key if metric is None else metric.key


def figures(result: Result | ServingResult) -> dict[str, Any]:
    """Return the metrics of a result, including those per watt and per unit of currency, and its warnings."""
    own: Any = figures_of(result) if hasattr(result, "memory") else result.figures()  # type: ignore[arg-type]
    ratios = {metric.key: value for metric in metrics.MADE if (value := metric.get(result)) is not None}
    condition = getattr(result, CONDITION, None)
    remarks = {"warnings": "; ".join(result.warnings) or None} | ({CONDITION: condition} if condition else {})
    return {**dict(own), **remarks} | ratios


def names_of(spec: Scenario, *, served: bool) -> tuple[str, ...]:
    """Return the metrics that a result of a scenario can have; a name with a trailing dot is a prefix of metrics."""
    kind = metrics.SERVING if served else spec.activity.value
    own = (*metrics_of(kind), *(metric for metric in (*metrics.SPENT, *metrics.MADE) if kind in metric.of))
    names = (f"{metric.key}." if metric.is_family else metric.key for metric in own)
    return (*names, metrics.IPUS, *(() if served else (metrics.FULLEST,)))


def figure_cure(name: str, names: Sequence[str]) -> str:
    """Return the advice for an unknown metric: similar names, and all metrics.

    >>> figure_cure("p99_token", ["latency_p99_s", "time_per_output_token_p99_s"])
    'did you mean `time_per_output_token_p99_s`? known here: latency_p99_s, time_per_output_token_p99_s'
    """
    words = set(_WORD.findall(name.casefold()))
    shared = {metric: len(words.intersection(_WORD.findall(metric))) for metric in names}
    most = max(shared.values(), default=0)
    shown = [f"{metric}…" if metric.endswith(".") else metric for metric in names]
    similar = "` or `".join(metric for metric in names if shared[metric] == most) if most > 1 else ""
    return known_here(name, shown, "use another figure", similar)


def default_objective(goal: Goal, specs: Sequence[Scenario]) -> str:
    """Return the default objective of a goal with these scenarios.

    It is the P99 latency if requests are served, the rate of other text generation and of forward passes, or the time
    to train.
    """
    if len(specs) > 1:
        return metrics.TIME
    serving = getattr(specs[0], "serving", None)
    has_requests = any(getattr(serving, name, None) for name in ("rate", "file", "users"))
    return SHORTEST_WAIT if goal.is_served or has_requests else _HEADLINES[specs[0].activity]


def second_of(objective: str, known: Mapping[str, Any]) -> str | None:
    """Return the metric to trade off against an objective, of the `known` metrics of an option; None if there is none.

    Something spent, such as cost, is traded off against time or rate, and these against cost or energy.
    """
    metric = metric_of(objective)
    is_spent = metric.is_cost or metric.unit in (metrics.JOULES, metrics.WATTS, metrics.IPU) or metric in metrics.MADE
    time_or_rate = (metrics.TIME, metrics.TOKENS, metrics.THROUGHPUT, metrics.REQUESTS)
    order = time_or_rate if is_spent else (metrics.COST, metrics.ENERGY, metrics.HOURLY, metrics.POWER)
    return next((name for name in order if name != objective and known.get(name) is not None), None)


@dataclass(frozen=True, slots=True)
class Limit(Expectation):
    """Bounds of a metric, with a currency if the metric is a cost."""

    currency: str = ""


def limit(metric: str, text: float | str) -> Limit:
    """Return the bounds that a text such as `< 30 min` states for a metric, given by its key or short name.

    Raises:
        UnknownFigureError: No result has this metric.
        BadValueError: The text is no finite bound of it.
    """
    key, written, currency = figure_named(metric), str(text), ""
    if find_metric(key) is None:
        known = (*metrics.SHORT, *metrics.METRICS)
        raise UnknownFigureError(f"no result has a figure `{metric.strip()}`", figure_cure(metric, known))
    bounds: float | str = text
    if metric_of(key).unit == metrics.MONEY and (priced := _SIGNED_PRICE.fullmatch(written)):
        amount, currency = parse_price(priced[2], {"": 1.0}, _EXAMPLE)
        written, bounds = written.strip(), f"{priced[1]} {amount!r}"
    parsed = expectation(key, bounds)
    finite = [end for end in (parsed.low, parsed.high) if not math.isinf(end)]
    if len(finite) != 1 + (not _SIGN.match(written)) or any(map(math.isnan, finite)):
        raise BadValueError(f"`{written.strip()}` is no finite bound", "give a finite number, for example `< 30 min`")
    return Limit(key, written, parsed.low, parsed.high, parsed.open_ended, currency)


def at_most(metric: str, most: str) -> Limit:
    """Return an upper bound of a metric, such as `12h`; raise `BadValueError` for a cost without currency."""
    if metric_of(figure_named(metric)).unit == metrics.MONEY:
        parse_price(most, {"": 1.0}, _EXAMPLE)
    return limit(metric, f"<= {most}")


def check_limits(limits: Iterable[Expectation]) -> None:
    """Raise `PodsimError` for limits that exclude each other, or are in several currencies."""
    bounds = list(limits)
    if len(several := sorted({bound.currency for bound in bounds if isinstance(bound, Limit)} - {""})) > 1:
        what = f"limits are in several currencies: {', '.join(several)}"
        raise PodsimError(what, do="give all in that of the prices")
    for metric in dict.fromkeys(bound.metric for bound in bounds):
        same = [bound for bound in bounds if bound.metric == metric]
        for bound in same:
            if bound.high <= 0 and metric in metrics.METRICS and metrics.METRICS[metric].unit != metrics.SHARE:
                raise PodsimError(f"nothing can have {metric} {bound.text}", do="give a bound above 0")
        low, high = max(bound.low for bound in same), min(bound.high for bound in same)
        if low > high or (low == high and any(bound.open_ended for bound in same)):
            texts = " and ".join(bound.text for bound in same)
            raise PodsimError(f"limits contradict each other: {metric} {texts}", do="drop or loosen one of them")


def missed(limits: Iterable[tuple[str, Expectation]], known: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """Yield the relative violation and a message for each violated limit.

    Args:
        limits: Limits by metric; a metric of a job is prefixed with the job's name and a colon.
        known: Metrics of an option.
    """
    for name, bound in limits:
        value = known.get(name)
        job, separator, metric = name.rpartition(": ")
        if not isinstance(value, (int, float)):
            yield 1.0, f"{job}{separator}no {metric}"
        elif not bound.holds(value):
            end = bound.high if value >= bound.high else bound.low
            error = value / end - 1 if end else 0.0
            text = f": {error:+.1%}" if abs(error) >= _NEAR_NOTHING else f": {error:+.1e}"
            text = "" if not end else text if error else ": it is the bound itself"
            yield abs(error) + _NEAR_NOTHING if end else 1.0, f"{name} {bound.text}{text}"


class JobSpec(Spec):
    """Entry of `jobs` in a goal file; fields as in `Job`. The default name is that of the scenario."""

    name: str | None = None
    scenario: str
    variant: str | None = None
    overrides: _Texts
    limits: _Limits
    ipus: Count | None = None


class GoalSpec(CombinedSpec):
    """Content of a goal file; fields as in `Goal`, and short forms of some limits."""

    kind: Literal["goal"]
    description: str = ""
    scenario: str | None = None
    variant: str | None = None
    jobs: Annotated[list[JobSpec], Field(min_length=1)] | None = None
    order: Literal["sequence", "together"] = SEQUENCE
    objective: str | None = None
    second: str | None = None
    limits: _Limits
    deadline: str | None = None  # a limit of the time to train
    budget: str | None = None  # a limit of the cost of a run, with its currency
    request_rate: Rate | None = None
    systems: Annotated[list[str], Field(min_length=1)] | None = None
    divisions: Annotated[list[Literal["as given", "chosen"]], Field(min_length=1)] | None = None
    # machines that cost covers; by default as in the scenario
    lease: Literal["machines", "partition", "pod"] | None = None
    overrides: _Texts
    vary: Annotated[Mapping[str, Varied], Field(default_factory=dict)]  # as the `keys` of a study
    trials: Count = _TRIALS
    draws: Annotated[int, Field(strict=True, ge=0, le=MOST_DRAWS)] | None = None
    seed: CountOrZero = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a job: a pod by path or name, or a partition of it with `ipus` IPUs."""

    pod: str
    ipus: int | None = None

    @property
    def system(self) -> System:
        """The whole pod, read from its file; `SpecError` if the file is wrong or missing."""
        pod, _ = load_hardware(self.pod, "pod")
        assert isinstance(pod, System)
        return pod

    @property
    def text(self) -> str:
        """Place as in files, such as `32 of ipu_pod64`."""
        return self.pod if self.ipus is None else f"{self.ipus} of {self.pod}"

    @property
    def size(self) -> int:
        """Number of IPUs of the pod or partition."""
        return self.ipus or self.system.ipu_count

    def overrides(self) -> tuple[str, ...]:
        """Return the place in the form of `--set`; raise `NoPlanError` if it is not a valid partition."""
        override, system = f"system={self.pod}", self.system
        if self.ipus is None or self.ipus == system.ipu_count:
            return (override,)
        least, most = int(system.machine.ipu_count), int(system.ipu_count)
        if not least <= self.ipus <= most or self.ipus & (self.ipus - 1):
            below = max(least, min(most, 1 << (self.ipus.bit_length() - 1)))
            what = f"{self.ipus} IPUs are no partition of {system.name}: one has a power of two, {least} to {most}"
            raise NoPlanError(what, do=f"use {below} of them")
        machines, whole = self.ipus // int(system.machine.ipu_count), int(system.whole_machine_count)
        is_open = system.topology == "torus" and machines < min(whole, system.link_domain_machine_count)
        return (
            override,
            f"system.machine_count={machines}",
            f"system.pod_machine_count={whole}",
            f"system.name={self.ipus} of {system.name}",
            *(("system.topology=ladder",) if is_open else ()),
        )


def place_named(text: str) -> Place:
    """Return the place of a text such as `ipu_pod64` or `32 of ipu_pod64`.

    Raises:
        PodsimError: The number of IPUs is not a whole number.
    """
    match = _PARTITION.fullmatch(text)
    if match is None:
        return Place(text)
    if not _IPUS.fullmatch(match[1]):
        what = f"{quoted(text)} is no partition: {quoted(match[1])} is not a number of IPUs from 1 to 999999"
        do = f"write a whole number in the digits 0 to 9, without zeros in front, as in `8 of {printable(match[2])}`"
        raise PodsimError(what, do=do)
    return Place(match[2], int(match[1]))


@cache
def shipped_places() -> tuple[str, ...]:
    """Return all shipped pods, and partitions of them for the numbers of IPUs that no pod with such machines has."""
    names = shipped_names()["systems"]
    pods = {name: Place(name).system for name in names}
    sizes = {(pod.machine.name, int(pod.ipu_count)) for pod in pods.values()}
    partitions = []
    for name, pod in sorted(pods.items(), key=lambda item: int(item[1].ipu_count)):
        size = int(pod.machine.ipu_count)
        while size < int(pod.ipu_count):
            if (pod.machine.name, size) not in sizes:
                sizes.add((pod.machine.name, size))
                partitions.append(f"{size} of {name}")
            size *= 2
    return (*names, *partitions)


@dataclass(frozen=True)
class Job:
    """Scenario to run, with its variant and overrides."""

    name: str  # empty for the only job of a goal without `jobs`
    scenario: str  # path or name
    variant: str | None = None
    overrides: tuple[str, ...] = ()  # `key.path=value` texts for this job
    limits: tuple[Expectation, ...] = ()  # limits of the job's own metrics
    ipus: int | None = None  # size of its partition if jobs run side by side; by default equal parts of the pod


@dataclass(frozen=True)
class Goal:
    """Question for `podsim plan`: jobs, candidates, objective and limits."""

    scenario: str = ""  # path or name of the scenario to run, if there is one
    variant: str | None = None
    objective: str | None = None  # metric to optimise, by key or short name; `default_objective` if None
    limits: tuple[Expectation, ...] = ()
    systems: tuple[str, ...] = ()  # pods to try, by path or name, or partitions
    overrides: tuple[str, ...] = ()  # `key.path=value` texts for all candidates and jobs
    description: str = ""
    jobs: tuple[Job, ...] = ()  # several jobs, instead of the scenario
    order: str = SEQUENCE  # or `together`: side by side on partitions of one pod
    second: str | None = None  # second metric; by default time, cost or energy
    request_rate: float | None = None  # request rate [1/s]; by default the scenario's
    divisions: tuple[str, ...] = (GIVEN, CHOSEN)  # the scenario's own, one that podsim chooses, or both
    space: StudySpace | None = field(default=None, compare=False)  # keys that vary in addition to systems and divisions
    trials: int = _TRIALS  # most candidates; a goal with more is refused
    draws: int | None = None  # Monte Carlo samples; by default 50, 20 for requests
    seed: int = 0  # seed of the samples

    @property
    def more_is_better(self) -> bool:
        """True if a larger objective is better."""
        return metric_of(self.figure).more_is_better

    @property
    def figure(self) -> str:
        """Key of the objective's metric; the time to train if there is no objective."""
        return figure_named(self.objective or metrics.TIME)

    @property
    def second_figure(self) -> str | None:
        """Key of the second metric; None if the goal names none."""
        return None if self.second is None else figure_named(self.second)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Pods and partitions to try; by default all shipped pods, and partitions of other sizes."""
        return self.systems or shipped_places()

    @property
    def point_count(self) -> int:
        """Number of combinations of varied values, before `where` excludes some."""
        return 1 if self.space is None else len(self.space)

    @property
    def candidate_count(self) -> int:
        """Number of candidates (systems × divisions × varied values), before `where` excludes some."""
        return len(self.candidates) * len(self.divisions) * self.point_count

    @property
    def work(self) -> tuple[Job, ...]:
        """Jobs to run, one or several."""
        return self.jobs or (Job("", self.scenario, self.variant),)

    @property
    def title(self) -> str:
        """Name of the scenario, or the names of all jobs in one text."""
        joined = ", then " if self.order == SEQUENCE else " beside "
        return joined.join(job.name for job in self.jobs) if self.jobs else self.scenario

    @property
    def bounds(self) -> tuple[tuple[str, Expectation], ...]:
        """Limits with their metrics; a metric of a job is prefixed with the job's name and a colon."""
        of_jobs = ((f"{job.name}: {bound.metric}", bound) for job in self.jobs for bound in job.limits)
        return (*((bound.metric, bound) for bound in self.limits), *of_jobs)

    @property
    def is_served(self) -> bool:
        """True if requests are served: a rate is given, or the objective or a limit is a serving metric."""
        requested = (self.figure, *(bound.metric for _, bound in self.bounds))
        return self.request_rate is not None or any(metric in SERVED for metric in requested)

    @property
    def draw_count(self) -> int:
        """Number of Monte Carlo samples."""
        return self.draws if self.draws is not None else _SERVED_DRAWS if self.is_served else _DRAWS


def goal_of(name: str | Path) -> Goal:
    """Return the goal of a goal file, or a goal without limits for a scenario, by path or shipped name."""
    if not isinstance(name, str | Path):
        what = f"a goal is a path or the name of a scenario or study, not {quoted(name)}"
        raise PodsimError(what, do="write a scenario into a file, and give its path")
    file = shipped(str(name), "study") or Path(name)
    data = read_yaml(file).data if file.is_file() and file.suffix in {".yaml", ".yml"} else None
    return read_goal(file) if isinstance(data, dict) and data.get("kind") == "goal" else Goal(str(name))


def read_goal(path: Path) -> Goal:
    """Read a goal file.

    Returns:
        The goal, with paths relative to the working folder.

    Raises:
        SpecError: The file is wrong; each problem has its place.
        PodsimError: Limits contradict each other.
    """
    document, folder = read_yaml(path, str(path)), path.parent
    spec = validated(GoalSpec, document)
    problems = _contradictions(spec, document)

    def limits_at(
        path: KeyPath, bounds: Mapping[str, str | list[str]], make: Callable[[str, str], Limit] = limit
    ) -> Iterator[Limit]:
        """Yield the limits of a section by metric, and add invalid ones to the problems."""
        for metric, texts in bounds.items():
            for text in texts if isinstance(texts, list) else [texts]:
                try:
                    yield make(metric, text)
                except BadValueError as error:
                    key = (*path, metric)
                    problems.append(Problem(document.where(key), ".".join(map(str, key)), str(error), error.do))

    short_forms = {key: text for key in ("deadline", "budget") if (text := getattr(spec, key))}
    limits = (*limits_at(("limits",), spec.limits), *limits_at((), short_forms, at_most))
    jobs = []
    for place, job in enumerate(spec.jobs or []):
        scenario = located(job.scenario, folder)
        stem = Path(scenario).stem if Path(scenario).is_file() else scenario
        name = job.name or (f"{stem}:{job.variant}" if job.variant else stem)
        own = tuple(limits_at(("jobs", place, "limits"), job.limits))
        jobs.append(Job(name, scenario, job.variant, tuple(job.overrides), own, job.ipus))
    places = []
    for number, system in enumerate(spec.systems or ()):
        try:
            places.append(place_named(system))
        except PodsimError as error:
            problems.append(Problem(document.where(("systems", number)), f"systems.{number}", error.message, error.do))
    if problems:
        raise SpecError(problems)
    check_limits(limits)
    same_fields = {name: getattr(spec, name) for name in Goal.__dataclass_fields__ if name in GoalSpec.model_fields}
    goal = replace(
        Goal(**same_fields),
        scenario=located(spec.scenario or "", folder),
        limits=limits,
        systems=tuple(replace(place, pod=located(place.pod, folder)).text for place in places),
        overrides=(*spec.overrides, *([f"cost.lease={spec.lease}"] if spec.lease else [])),
        jobs=with_unique_names(jobs),
        divisions=tuple(dict.fromkeys(spec.divisions or (GIVEN, CHOSEN))),
    )
    if not spec.vary:
        return goal
    data = {key: document.data[key] for key in _STUDIED if key in document.data}
    data |= {"kind": "study", "scenario": goal.work[0].scenario, "keys": document.data["vary"]}
    study_places = {("keys", *path[1:]) if path[:1] == ("vary",) else path: at for path, at in document.places.items()}
    return replace(goal, space=space_of(Document(data, study_places), folder))


def with_unique_names(jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return jobs in which equal names are numbered, so that all names differ."""
    names = [job.name for job in jobs]
    return tuple(
        replace(job, name=f"{job.name} {names[: place + 1].count(job.name)}") if names.count(job.name) > 1 else job
        for place, job in enumerate(jobs)
    )


def _contradictions(spec: GoalSpec, document: Document) -> list[Problem]:
    """Return a problem for each key that contradicts another."""
    jobs, in_sequence = spec.jobs or [], spec.order == SEQUENCE
    whole_pod = "jobs after one another have the whole pod each"
    rules = [
        ("", not (spec.scenario or jobs), "nothing says what is to run", "add `scenario:`, or `jobs:` for several"),
        ("order", not (in_sequence or jobs), "there is one scenario and an order", "add `jobs:`, or leave `order` out"),
        ("jobs", in_sequence and any(job.ipus for job in jobs), whole_pod, "leave `ipus` out, or `order: together`"),
        ("vary", "system" in spec.vary, "`system` is not varied here", "list pods under `systems`"),
    ]
    for key in ("scenario", "variant"):
        both = f"`{key}` and `jobs` are both there"
        rules.append((key, bool(jobs and getattr(spec, key)), both, f"write `{key}` in each of the jobs"))
    rules += [
        (key, bool(getattr(spec, key)), f"`{key}` is there, and nothing varies", "add `vary:`")
        for key in (() if spec.vary else _STUDIED)
    ]
    return [Problem(document.where((key,)), key, what, do) for key, is_wrong, what, do in rules if is_wrong]


def check_figures(goal: Goal, specs: Sequence[Scenario]) -> None:
    """Raise `PodsimError` for contradictory limits, and for a metric that no result of the jobs can have.

    Callers check this before a simulation. `specs` are the scenarios of the jobs.
    """
    for limits in (goal.limits, *(job.limits for job in goal.work)):
        check_limits(limits)
    of_all = (goal.figure, *filter(None, [goal.second_figure]), *(bound.metric for bound in goal.limits))
    of_requests = [name for name in (goal.figure, *(bound.metric for _, bound in goal.bounds)) if name in SERVED]
    what = f"`{of_requests[0]}` is a figure" if of_requests else "a rate is one"
    for job, spec in zip(goal.work, specs, strict=True):
        if goal.is_served and spec.activity is not Activity.GENERATION:
            what = f"{what} of requests that are served, and {job.name or job.scenario} is {spec.activity.label}"
            raise PodsimError(what, do="serve a scenario whose model is of kind `decoder`, or count other figures")
    of_jobs = [names_of(spec, served=goal.is_served) for spec in specs]
    wanted = [(name, TOTALS if len(specs) > 1 else of_jobs[0]) for name in of_all]
    wanted += [(bound.metric, names) for job, names in zip(goal.work, of_jobs, strict=True) for bound in job.limits]
    varied = (key for axis in (goal.space.axes if goal.space else ()) for key in axis.keys)
    is_priced = any(spec.cost is not None for spec in specs) or any(key.startswith("cost") for key in varied)
    work = f"serving {goal.scenario}" if goal.is_served else goal.scenario or "these jobs together"
    for metric, names in wanted:
        if metric not in names and f"{metric.rpartition('.')[0]}." not in names:
            raise PodsimError(f"results of {work} have no figure `{metric}`", do=figure_cure(metric, names))
        if metric_of(metric).is_cost and not is_priced:
            do = "give one, for example --set 'cost.price_per_ipu_hour=1.5 USD'"
            raise PodsimError(f"results of {work} have no `{metric}`: there is no price", do=do)


def check_currencies(goal: Goal, paid: set[str]) -> None:
    """Raise `PodsimError` for prices in several currencies (`paid`), or a limit in another currency."""
    if len(paid) > 1:
        raise PodsimError(f"prices are in {' and '.join(sorted(paid))}", do="give all prices in one currency")
    limited = {bound.currency for _, bound in goal.bounds if isinstance(bound, Limit)}
    for currency in limited - {"", *paid} if paid else ():
        what = f"a limit is in {currency}, and prices are in {''.join(paid)}"
        raise PodsimError(what, do="give it in the currency of the prices: no rate of exchange is known")
