"""Options of a goal: each job runs on its part of a system, and the metrics are added up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podsim.disk import digest, simulator, source
from podsim.draws import Draws
from podsim.errors import NoPlanError, PodsimError
from podsim.memo import files_held
from podsim.metrics import CONDITION, COST, ENERGY, IPUS, POWER, RACK_POWER, TIME, metric_of
from podsim.result.division import section_lines
from podsim.runs import run
from podsim.scenario import LoadedScenario, System, load_scenario
from podsim.scenario.auto import AUTO
from podsim.scenario.document import Document
from podsim.scenario.library import HARDWARE, data_file
from podsim.scenario.pins import PARALLELISM
from podsim.scenario.resolve import assigned, merge_recorded
from podsim.scenario.wording import flow
from podsim.search.choice import Candidate
from podsim.study.plan.goal import CHOSEN, TOGETHER, Goal, Job, Place, figures, place_named
from podsim.study.points import Value, short
from podsim.study.store import DONE, STATUS, Row, Store
from podsim.watch import Tell

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult

_LONGEST: Final = 120  # most characters of a file name
_KEYS_OF_JOBS: Final = ("name", "system", "ipus", "ipus_per_replica", "replicas", "figures")
_SECONDS_PER_HOUR: Final = 3600
_LOADS: Final = (0.8,)  # only one point of the load curve, because a plan does not show the curve
_OPTION: Final = "option"
_POD_KEYS: Final = ("system", "system.base")  # keys that a goal must not override, as candidates set them
_NOT_ANNOUNCED: Final = 24  # number of candidates up to which it is not announced
_MEMORY: Final = "memory"
_SUFFIXES: Final = (".yaml", ".yml", ".csv")
_PLACEMENTS: Final = ("stages", "layers_per_ipu", "pipeline_stages", "chunks_per_ipu", "head_on", "schedule")
"""Keys for the placement and order of layers; a chosen layout replaces all of them."""


@dataclass(frozen=True)
class Part:
    """A job on a pod or partition, with its result."""

    name: str  # name of the job; empty if there is only one
    system: str  # pod or partition that the job has
    ipu_count: int  # size of that pod or partition
    ipus_per_replica: int
    replicas: int
    figures: Mapping[str, Any]  # metrics of the result by key
    bill: Mapping[str, Any] = field(default_factory=dict)  # `cost` of the result's JSON; empty without prices
    overrides: Sequence[str] = ()  # `--set` texts that reproduce the result
    written: str = ""  # scenario file that reproduces the result
    refused: str = ""  # why the result is not valid, such as a growing queue; empty if it is valid

    @property
    def used(self) -> int:
        """Number of IPUs in use."""
        return self.ipus_per_replica * self.replicas


@dataclass(frozen=True)
class Option:
    """A candidate (a system, a layout and values of varied keys) with its result."""

    system: str  # pod or partition, as in the goal
    division: str  # `as given` or `chosen`: whose layout it has
    title: str = ""  # name of the pod
    ipu_count: int = 0  # size of the pod or partition
    ipus_per_replica: int = 0
    replicas: int = 0
    figures: Mapping[str, Any] | None = None  # metrics by key, of all jobs together; None without a result
    reason: str = ""  # why it is ruled out; empty if it is not
    written: str = ""  # scenario file that reproduces the result; empty for several jobs
    currency: str = ""  # currency of its cost; empty without prices
    values: Mapping[str, Value] = field(default_factory=dict)  # values of varied keys
    parts: Sequence[Part] = ()  # its jobs
    number: int = 0  # number among all candidates of the goal
    together: bool = False  # True if jobs run side by side

    def value(self, figure: str | None) -> float | None:
        """Return a metric in its SI unit; None if the option does not have it."""
        known = (self.figures or {}).get(figure) if figure else None
        return float(known) if isinstance(known, (int, float)) else None

    def rank(self, figure: str) -> float:
        """Return a sort key for a metric; a better value has a smaller key."""
        value = self.value(figure)
        assert value is not None
        return metric_of(figure).rank(value)

    @property
    def known(self) -> dict[str, Any]:
        """Metrics of the option by key; a metric of a job is prefixed with the job's name and a colon."""
        of_jobs = {f"{part.name}: {name}": value for part in self.parts for name, value in part.figures.items()}
        return {**(self.figures or {}), **of_jobs}

    @property
    def name(self) -> str:
        """System, layout and values of varied keys, as a file name without suffix."""
        values = (f"{key.rpartition('.')[2]}-{short(value)}" for key, value in self.values.items())
        text = "-".join((self.system.removesuffix(".yaml").rpartition("/")[2], self.division, *values))
        return re.sub(r"[^\w.-]", "-", text)[:_LONGEST]

    @property
    def varied(self) -> str:
        """Values of varied keys as text, such as `micro_batch_size 4`."""
        return ", ".join(f"{key.rpartition('.')[2]} {short(value)}" for key, value in self.values.items())

    @property
    def label(self) -> str:
        """Text that distinguishes the option: system, layout and varied keys."""
        return ", ".join(filter(None, (self.system, self.division, self.varied)))

    @property
    def arithmetic(self) -> str:
        """Number of IPUs and their use, such as `64 (= 4 × 16)`: IPUs per replica × replicas of each job."""
        parts: Sequence[Part | Option] = self.parts or [self]
        products = [(part.ipus_per_replica, part.replicas) for part in parts if part.ipus_per_replica]
        if not products:
            return f"{self.ipu_count}"
        used = (sum if self.together else max)(ipus * replicas for ipus, replicas in products)
        products = products if self.together else list(dict.fromkeys(products))
        text = (" + " if self.together else ", then ").join(f"{ipus} × {replicas}" for ipus, replicas in products)
        return f"{self.ipu_count} ({'=' if used == self.ipu_count else f'{used} used,'} {text})"

    @property
    def files(self) -> dict[str, str]:
        """Contents of the scenario files that reproduce the result, by file name; one for each job."""
        if len(self.parts) <= 1:
            return {f"{self.name}.yaml": self.written}
        names = [re.sub(r"[\W_]", "-", part.name) for part in self.parts]
        return {f"{self.name}-{name}.yaml": part.written for name, part in zip(names, self.parts, strict=True)}

    def with_parts(self, parts: Sequence[Part]) -> Option:
        """Return the option with its jobs and their joint metrics."""
        own = parts[0].figures if len(parts) == 1 else totals(parts, place_named(self.system).system, self.together)
        return replace(self, parts=parts, figures=dict(own) | {IPUS: self.ipu_count})

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        plain = {
            "system": self.system,
            "division": self.division,
            "varied": dict(self.values),
            "ipus": self.ipu_count,
            "ipus_per_replica": self.ipus_per_replica,
            "replicas": self.replicas,
            "arithmetic": self.arithmetic,
            "figures": None if self.figures is None else dict(self.figures),
            "currency": self.currency or None,
            "reason": self.reason or None,
        }
        if len(self.parts) > 1:
            jobs = (asdict(part) | {"ipus": part.ipu_count} for part in self.parts)
            plain["jobs"] = [{key: job[key] for key in _KEYS_OF_JOBS} for job in jobs]
        return plain


def totals(parts: Sequence[Part], system: System, together: bool) -> dict[str, Any]:
    """Return the metrics of all jobs on a pod, in sequence or side by side; None if a job lacks the metric.

    In sequence, times add up; side by side, the longest counts. Cost and energy add up in both cases. If the whole pod
    is leased, its fixed price is paid for the time of all jobs. Power is the peak.
    """

    def joined(figure: str, join: Callable[[Any], Any]) -> float | None:
        values = [part.figures.get(figure) for part in parts]
        return None if None in values else float(join(values))

    time_s = joined(TIME, max if together else sum)
    joint: dict[str, Any] = {
        TIME: time_s,
        ENERGY: joined(ENERGY, sum),
        POWER: joined(POWER, sum if together else max),
        RACK_POWER: _rack_power_w(parts, system) if together else joined(RACK_POWER, max),
    }
    if any(part.bill for part in parts):
        joint[COST] = joined(COST, sum)
        if joint[COST] is not None and together and all(part.bill.get("lease") == "pod" for part in parts):
            hourly = parts[0].bill["fixed_per_hour"] or 0.0  # of the whole pod, equal for all jobs
            energy = sum(part.bill["energy_per_run"] or 0.0 for part in parts)
            joint[COST] = energy + hourly * (time_s or 0.0) / _SECONDS_PER_HOUR
    notes = (f"{part.name}: {part.figures['warnings']}" for part in parts if part.figures.get("warnings"))
    conditions = dict.fromkeys(part.figures[CONDITION] for part in parts if part.figures.get(CONDITION))
    return {**joint, "warnings": "; ".join(notes) or None} | ({CONDITION: "; ".join(conditions)} if conditions else {})


def _rack_power_w(parts: Sequence[Part], system: System) -> float | None:
    """Return the power of one rack with the machines that consume most; None if a job has no power. [W]"""
    room, total_w, per_machine = int(system.link_domain_machine_count), 0.0, list[tuple[float, int]]()
    for part in parts:
        machines, power_w = -(-part.used // int(system.machine.ipu_count)), part.figures.get(POWER)
        if power_w is None:
            return None
        per_machine.append((power_w / machines, machines))
    for machine_w, machines in sorted(per_machine, reverse=True):
        taken = min(room, machines)
        total_w, room = total_w + taken * machine_w, room - taken
    return total_w


def candidate(goal: Goal, number: int) -> tuple[Option, tuple[str, ...]] | None:
    """Return a candidate by number, and its varied values as `--set` texts; None if `where` excludes it."""
    rest, point_number = divmod(number, goal.point_count)
    system, division = divmod(rest, len(goal.divisions))
    option = Option(goal.candidates[system], goal.divisions[division], number=number, together=goal.order == TOGETHER)
    if goal.space is None:
        return option, ()
    if (point := goal.space.point(point_number)) is None:
        return None
    values = {key: value for key, value in point.values.items() if key not in goal.space.study.derived}
    return replace(option, values=values, reason=point.problem.message if point.problem else ""), point.overrides


def check_candidates(goal: Goal) -> None:
    """Raise `PodsimError` for a goal with an unknown system, too many or no candidates, or an override of the system.

    Callers check this before a simulation.
    """
    for name in goal.candidates:
        _ = place_named(name).system  # raises an error if there is no such pod
    for text in (*goal.overrides, *(text for job in goal.work for text in job.overrides)):
        if text.partition("=")[0].strip() in _POD_KEYS:
            what = f"`{text}` names one pod for all candidates"
            raise PodsimError(what, do="name pods with --system, or under `systems`")
    if (count := goal.candidate_count) > goal.trials:
        what = f"{count:,} candidates are more than the {goal.trials:,} that are looked at"
        do = f"give ranges without `count` and `samples: {{count: 64}}`, vary less, or --trials {count}"
        raise PodsimError(what, do=do)
    if goal.space is not None and not any(goal.space.points()):
        raise PodsimError(f"`where` leaves out all of {count:,} candidates", do="loosen a condition")


def options_of(
    goal: Goal,
    journal: Path | None,
    inputs: Sequence[tuple[str, str]],
    tell: Tell,
    say: Callable[[str], None],
    processes: int | None,
) -> list[Option]:
    """Simulate all candidates, and return them in order.

    Args:
        goal: Goal of the plan.
        journal: File that stores finished candidates, from which the next call resumes; None for none.
        inputs: (path, SHA-256) of every file read.
        tell: Progress callback, called as `tell(done, total)`.
        say: Callback for a line about the number of candidates.
        processes: Number of processes; by default the number of cores.
    """
    count = goal.candidate_count
    wanted = [number for number in range(count) if candidate(goal, number)]
    cure = "give another --journal, or remove that file"
    with Store(journal, _fingerprint(goal, inputs), what="goal", option=cure) as store, files_held():
        if len(wanted) > _NOT_ANNOUNCED and len(store) < len(wanted):
            say(f"{count:,} candidates: all are looked at")
        store.fill(partial(_row, goal), wanted, tell, processes=processes)
        rows = [store[number][_OPTION] for number in wanted]
    return [Option(**row | {"parts": [Part(**part) for part in row["parts"]]}) for row in rows]


def _row(goal: Goal, number: int) -> Row:
    option = option_for(goal, number)
    return {STATUS: "ruled out" if option.reason else DONE, _OPTION: asdict(option)}


def _fingerprint(goal: Goal, inputs: Sequence[tuple[str, str]]) -> str:
    """Return a hash of all that options depend on; objective, limits, trials and samples may change."""
    jobs = [(job.name, job.scenario, job.variant, job.overrides, job.ipus) for job in goal.work]
    study = goal.space.study.model_dump_json() if goal.space is not None else ""
    parts: Any = (jobs, goal.order, goal.candidates, goal.divisions, goal.overrides, goal.request_rate, goal.is_served)
    hardware = source(data_file(HARDWARE).rglob("*.yaml"))  # varied keys may name any of these
    return digest([simulator().encode(), hardware, repr(parts).encode(), study.encode(), repr(sorted(inputs)).encode()])


def option_for(goal: Goal, number: int) -> Option:
    """Simulate a candidate; if that is impossible, the option has a reason and no metrics."""
    numbered = candidate(goal, number)
    assert numbered is not None
    option, overrides = numbered
    if option.reason:
        return option
    place = place_named(option.system)
    try:
        parts = list(_parts(goal, place, option.division, overrides))
    except PodsimError as error:
        return replace(option, reason=cause(error))
    refused = [f"{part.name}: {part.refused}" if goal.jobs else part.refused for part in parts if part.refused]
    first = parts[0]
    return replace(
        option,
        title=place.system.name,
        ipu_count=place.size,
        ipus_per_replica=first.ipus_per_replica,
        replicas=first.replicas,
        reason="; ".join(refused),
        written=first.written if len(parts) == 1 else "",
        currency=first.bill.get("currency") or "",
    ).with_parts(parts)


def cause(error: PodsimError) -> str:
    """Return the first line of an error's message, without place and cure."""
    problems = getattr(error, "problems", None)
    text: str = problems[0].message if problems else error.message
    return text.partition("\n")[0]


def _parts(goal: Goal, whole: Place, division: str, varied: Sequence[str]) -> Iterator[Part]:
    """Yield all jobs with their results; equal jobs are simulated once.

    Args:
        goal: Goal of the plan.
        whole: Pod or partition of all jobs.
        division: `as given` or `chosen`.
        varied: Varied values, as `--set` texts.
    """
    simulated: dict[tuple[Job, Place], Part] = {}
    for job, place in zip(goal.work, _places(goal, whole), strict=True):
        key = replace(job, name="", limits=()), place
        try:
            if key not in simulated:
                simulated[key] = _part(goal, job, place, division, varied)
        except PodsimError as error:
            what = f"{job.name}: {cause(error)}" if goal.jobs else cause(error)
            raise NoPlanError(what, do=error.do) from None
        yield replace(simulated[key], name=job.name)


def _places(goal: Goal, whole: Place) -> tuple[Place, ...]:
    """Return the place of each job: the whole system in sequence, or partitions of it side by side."""
    count = len(goal.work)
    if goal.order != TOGETHER:
        return (whole,) * count
    whole.overrides()  # raises NoPlanError if it is no valid partition
    equal = 1 << (max(1, whole.size // count).bit_length() - 1)
    sizes = [job.ipus or equal for job in goal.work]
    if sum(sizes) > whole.size:
        needed = " + ".join(map(str, sizes))
        what = f"jobs side by side need {needed} = {sum(sizes)} IPUs; {whole.text} has {whole.size}"
        raise NoPlanError(what, do="use a larger pod, or smaller partitions")
    return tuple(Place(whole.pod, size) for size in sizes)


def _part(goal: Goal, job: Job, place: Place, division: str, varied: Sequence[str]) -> Part:
    """Simulate a job at its place."""
    chosen = (f"{PARALLELISM}={AUTO}",) if division == CHOSEN else ()
    # In this order, because a varied key can fix a part of a chosen layout.
    overrides = (*place.overrides(), *goal.overrides, *job.overrides, *chosen, *varied)
    loaded = load_scenario(job.scenario, job.variant, overrides)
    loaded = _with_requests(goal, loaded) if goal.is_served else loaded
    result: Any = served(loaded) if goal.is_served else run(loaded)
    parallelism = result.scenario.get(PARALLELISM)
    replicas = parallelism.get("replication_factor") if isinstance(parallelism, Mapping) else None
    copies = replicas if isinstance(replicas, int) else int(getattr(result, "copy_count", 1))
    system = loaded.spec.system
    return Part(
        name=job.name,
        system=place.text,
        ipu_count=system.ipu_count,
        ipus_per_replica=result.simulated.ipus_used // copies,
        replicas=copies,
        figures=figures(result) | {IPUS: system.ipu_count},
        bill=result.cost.to_dict() | {"lease": result.prices.lease} if result.cost is not None else {},
        overrides=overrides,
        written=written(job.scenario, loaded, result.choice and result.choice.chosen, f"{system.name}, planned"),
        refused=_overload(result) if goal.is_served else "",
    )


def _with_requests(goal: Goal, loaded: LoadedScenario) -> LoadedScenario:
    """Return a scenario with the request rate of a goal, if it names one; raise `PodsimError` without any requests."""
    serving = getattr(loaded.spec, "serving", None)
    rate, file, users = (getattr(serving, name, None) for name in ("rate", "file", "users"))
    if goal.request_rate is None:
        if not (rate or file or users):
            raise PodsimError("nothing says how many requests come", do="give `request_rate`, or --rate 3.5")
        return loaded
    if file:
        do = "leave `request_rate` out, or replace the file: --set serving.file=null with `serving.lengths`"
        raise PodsimError(f"requests come as `{file}` says, and the goal gives a rate", do=do)
    without_users = ("serving.users=null", "serving.think=null") if users else ()
    return load_scenario(loaded, overrides=[*without_users, f"serving.rate={goal.request_rate}"])


def served(loaded: LoadedScenario, draws: Draws | None = None) -> ServingResult:
    """Serve the requests of a scenario, with samples of uncertain inputs if `draws` is given."""
    from podsim.runs.serve import serve

    return serve(loaded, loads=_LOADS, uncertainty=draws)


def _overload(result: ServingResult) -> str:
    """Return why the queue grows without end; empty if it does not."""
    if result.users is None and result.load is not None and result.load >= 1:
        limit = result.saturation.rate_per_s
        return f"{result.rate_per_s:.4g} requests/s come, {limit:.4g} can be served: {result.load - 1:+.1%}"
    return "the queue grows as long as requests come" if result.outcome.queue_grows else ""


def written(scenario: str, loaded: LoadedScenario, chosen: Candidate | None, about: str) -> str:
    """Return a scenario file that reproduces a run.

    Args:
        scenario: Path or name of the scenario, the base of the file.
        loaded: The scenario with its changes.
        chosen: Layout that a search chose; None for the scenario's own.
        about: Rest of the description, behind `NAME on`.
    """
    path = Path(scenario)
    name, base = (path.stem, str(path.resolve())) if path.is_file() else (scenario, scenario)
    variant = [loaded.written.variants[loaded.variant]] if loaded.variant else []
    layers = [*map(Document, variant), *map(assigned, loaded.overrides)]
    data = _absolute(reduce(merge_recorded, layers, Document({})).data, (Path(), loaded.folder))
    if chosen is not None:
        # Keys of a given layout are replaced one by one, so other placement keys have to be removed.
        value_at, parallelism = loaded.written.document.value_at, chosen.parallelism
        replaced = [key for key in _PLACEMENTS if key not in parallelism and value_at((PARALLELISM, key)) is not None]
        section, memory = (data[key] if isinstance(data.get(key), dict) else {} for key in (PARALLELISM, _MEMORY))
        pinned = {key: value for key, value in section.items() if key not in (AUTO, *_PLACEMENTS)}
        layout = dict.fromkeys(replaced) | pinned | dict(parallelism)
        data |= {PARALLELISM: layout, _MEMORY: memory | dict(chosen.memory)}
    description = f"{name}{f' ({loaded.variant})' if loaded.variant else ''} on {about}"
    lines = [f"base: {flow(base)}", f"description: {flow(description)}"]
    for key, value in data.items():
        if key != "description":
            lines += section_lines(key, value) if isinstance(value, dict) and value else [f"{key}: {flow(value)}"]
    return "\n".join(lines) + "\n"


def _absolute(value: Any, folders: tuple[Path, ...]) -> Any:
    """Return a value of a scenario in which names of files, found in one of the folders, are absolute paths."""
    if isinstance(value, dict):
        return {key: _absolute(inner, folders) for key, inner in value.items()}
    if isinstance(value, str) and value.endswith(_SUFFIXES):
        return next((str(path.resolve()) for folder in folders if (path := folder / value).is_file()), value)
    return value
