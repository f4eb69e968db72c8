"""From a goal to its options: each job is run on its part of a system, and what they give is added up.

Options are made on all cores, kept in a file if one is given, and never made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podsim.disk import digest, simulator, source
from podsim.draws import Draws
from podsim.errors import NoPlanError, PodsimError, Problem, SpecError
from podsim.memo import files_held
from podsim.metrics import IPUS
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.library import HARDWARE, data_file
from podsim.study.plan.figures import figures, served_figures
from podsim.study.plan.goal import Goal, Job
from podsim.study.plan.option import Option, Part, option_of
from podsim.study.plan.spec import CHOSEN, TOGETHER
from podsim.study.plan.systems import Place, place_named
from podsim.study.plan.totals import totals
from podsim.study.plan.writing import written
from podsim.study.store import STATUS, Row, Store
from podsim.study.sweep.rows import DONE
from podsim.study.sweep.spec import Value
from podsim.watch import Tell

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult
    from podsim.runs import Result

AUTO: Final = "parallelism=auto"
_ONE_LOAD: Final = (0.8,)
_OPTION: Final = "option"
_NAMED: Final = ("system", "system.base")
_NOT_NAMED: Final = 24
"""As few candidates need no words."""


@dataclass(frozen=True)
class SystemCandidate:
    """What is to be looked at, by its number among all of a goal.

    Overrides are values of what varies as `--set` takes them; `problem` says which expression has no value at them.
    """

    number: int
    system: str
    division: str
    values: Mapping[str, Value] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class CandidateSystems:
    """All that a goal can look at: systems × divisions × what varies."""

    goal: Goal

    def __len__(self) -> int:
        """How many there are, those included that `where` leaves out."""
        return len(self.goal.candidates) * len(self.goal.divisions) * self._points

    @property
    def _points(self) -> int:
        return len(self.goal.space) if self.goal.space else 1

    def candidate(self, number: int) -> SystemCandidate | None:
        """A candidate by its number; None if `where` leaves it out."""
        rest, place = divmod(number, self._points)
        system, division = divmod(rest, len(self.goal.divisions))
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
        """Refuse systems that are none, what leaves nothing, and more candidates than are to be looked at.

        Raises:
            PodsimError: Says which, and what to do.
        """
        for name in self.goal.candidates:
            _ = place_named(name).system
        for text in (*self.goal.overrides, *(each for job in self.goal.work for each in job.overrides)):
            if text.partition("=")[0].strip() in _NAMED:
                what = f"`{text}` names one pod for all candidates"
                raise PodsimError(what, do="name pods with --system, or under `systems`")
        if self.goal.space is not None and next(self.goal.space.points(), None) is None:
            raise PodsimError(f"`where` leaves out all of {len(self):,} candidates", do="loosen a condition")
        if len(self) > self.goal.trials:
            what = f"{len(self):,} candidates are more than the {self.goal.trials:,} that are looked at"
            do = f"give ranges without `count` and `samples: {{count: 64}}`, vary less, or --trials {len(self)}"
            raise PodsimError(what, do=do)


def options_of(
    candidates: CandidateSystems,
    journal: Path | None,
    inputs: Sequence[tuple[str, str]],
    tell: Tell,
    say: Callable[[str], None],
    processes: int | None,
) -> list[Option]:
    """The options of all candidates, in their order, kept in a journal if one is given."""
    wanted = [each.number for each in candidates.all()]
    cure = "give another --journal, or remove that file"
    with Store(journal, fingerprint(candidates.goal, inputs), what="goal", option=cure) as store, files_held():
        if len(wanted) > _NOT_NAMED and len(store) < len(wanted):
            say(f"{len(candidates):,} candidates: all are looked at")
        store.fill(partial(_row, candidates), wanted, tell, processes=processes)
        return [option_of(store[number][_OPTION]) for number in wanted]


def _row(candidates: CandidateSystems, number: int) -> Row:
    candidate = candidates.candidate(number)
    assert candidate is not None
    option = option_for(candidates.goal, candidate)
    return {STATUS: "ruled out" if option.reason else DONE, _OPTION: asdict(option)}


def fingerprint(goal: Goal, inputs: Sequence[tuple[str, str]]) -> str:
    """Of all that options depend on; objective, limits, trials and draws can be others when a plan goes on."""
    jobs = [(job.name, job.scenario, job.variant, job.overrides, job.ipus) for job in goal.work]
    study = goal.space.study.model_dump_json() if goal.space is not None else ""
    asked: Any = (jobs, goal.order, goal.candidates, goal.divisions, goal.overrides, goal.request_rate, goal.is_served)
    shipped = source(data_file(HARDWARE).rglob("*.yaml"))  # what varies may name any of them
    return digest([simulator().encode(), shipped, repr(asked).encode(), study.encode(), repr(sorted(inputs)).encode()])


def option_for(goal: Goal, candidate: SystemCandidate) -> Option:
    """Simulate a candidate; one that cannot be simulated is an option with its reason."""
    option = Option(
        candidate.system,
        candidate.division,
        values=candidate.values,
        number=candidate.number,
        together=goal.order == TOGETHER,
    )
    if candidate.problem:
        return replace(option, reason=candidate.problem)
    place = place_named(candidate.system)
    try:
        parts = _parts(goal, place, candidate)
    except PodsimError as error:
        return replace(option, reason=cause(error))
    refused = [f"{part.name}: {part.refused}" if goal.jobs else part.refused for part in parts if part.refused]
    first = parts[0]
    return with_parts(
        replace(
            option,
            title=place.system.name,
            ipu_count=place.size,
            ipus_per_replica=first.ipus_per_replica,
            replicas=first.replicas,
            reason="; ".join(refused),
            written=first.written if len(parts) == 1 else "",
            currency=first.bill.get("currency") or "",
        ),
        parts,
    )


def with_parts(option: Option, parts: Sequence[Part]) -> Option:
    """An option with its jobs, and the figures that they have together."""
    of_one = len(parts) == 1
    found = parts[0].figures if of_one else totals(parts, place_named(option.system).system, together=option.together)
    return replace(option, parts=parts, figures=dict(found) | {IPUS: option.ipu_count})


def _parts(goal: Goal, whole: Place, candidate: SystemCandidate) -> list[Part]:
    """All jobs; equal ones are simulated once."""
    known: dict[tuple[Job, Place], Part] = {}
    parts = []
    for job, place in zip(goal.work, _places(goal, whole), strict=True):
        same = replace(job, name="", limits=()), place
        try:
            known[same] = known.get(same) or _part(goal, job, place, candidate)
        except PodsimError as error:
            what = f"{job.name}: {cause(error)}" if goal.jobs else cause(error)
            raise NoPlanError(what, do=error.do) from None
        parts.append(replace(known[same], name=job.name))
    return parts


def cause(error: PodsimError) -> str:
    """What is wrong, without place and cure."""
    problems = getattr(error, "problems", None)
    text: str = problems[0].message if problems else error.message
    return text.partition("\n")[0]


def _places(goal: Goal, whole: Place) -> tuple[Place, ...]:
    """Where each job runs: all of the system one after another, or partitions of it side by side."""
    if goal.order != TOGETHER:
        return (whole,) * len(goal.work)
    whole.overrides()  # refuses what is no partition
    equal = 1 << ((whole.size // len(goal.work)).bit_length() - 1) if whole.size >= len(goal.work) else 1
    sizes = [job.ipus or equal for job in goal.work]
    if sum(sizes) > whole.size:
        words = " + ".join(map(str, sizes))
        what = f"jobs side by side need {words} = {sum(sizes)} IPUs; {whole.text} has {whole.size}"
        raise NoPlanError(what, do="use a larger pod, or smaller partitions")
    return tuple(Place(whole.pod, size) for size in sizes)


def _part(goal: Goal, job: Job, place: Place, candidate: SystemCandidate) -> Part:
    division = (AUTO,) if candidate.division == CHOSEN else ()
    # In this order: what varies can pin a part of a chosen division.
    overrides = (*place.overrides(), *goal.overrides, *job.overrides, *division, *candidate.overrides)
    loaded = load_scenario(job.scenario, job.variant, overrides)
    if goal.is_served:
        loaded = _asked(goal, loaded)
    result: Any = served(loaded) if goal.is_served else run(loaded)
    chosen = result.choice.chosen if result.choice is not None else None
    ipus, replicas = _divided(result)
    return Part(
        name=job.name,
        system=place.text,
        ipu_count=loaded.spec.system.ipu_count,
        ipus_per_replica=ipus,
        replicas=replicas,
        figures=(served_figures(result) if goal.is_served else figures(result)) | {IPUS: loaded.spec.system.ipu_count},
        bill=result.cost.to_dict() | {"lease": result.prices.lease} if result.cost is not None else {},
        overrides=overrides,
        written=written(job.scenario, loaded, chosen, f"{loaded.spec.system.name}, planned"),
        refused=_swamped(result) if goal.is_served else "",
    )


def _asked(goal: Goal, loaded: LoadedScenario) -> LoadedScenario:
    """A scenario with the rate of requests that a goal gives, in place of its users, so that its file says the same."""
    serving: Any = getattr(loaded.spec, "serving", None)
    known = serving is not None and (serving.rate or serving.file or serving.users)
    if goal.request_rate is None:
        if not known:
            what, do = "nothing says how many requests come", "give `request_rate`, or --rate 3.5"
            raise SpecError([Problem("", "request_rate", what, do)])
        return loaded
    if known and serving.file:
        what = f"requests come as `{serving.file}` says, and the goal gives a rate"
        do = "leave `request_rate` out, or replace the file: --set serving.file=null with `serving.lengths`"
        raise SpecError([Problem("", "request_rate", what, do)])
    alone = ("serving.users=null", "serving.think=null") if known and serving.users else ()
    return load_scenario(loaded, overrides=[*alone, f"serving.rate={goal.request_rate}"])


def served(loaded: LoadedScenario, draws: Draws | None = None) -> ServingResult:
    """The requests of a scenario as `podsim serve` has them, with draws of uncertain inputs if these are asked for."""
    from podsim.runs.serve import serve

    return serve(loaded, loads=_ONE_LOAD, uncertainty=draws)


def _swamped(result: ServingResult) -> str:
    """Why requests wait without end, if they do."""
    if result.users is None and result.load is not None and result.load >= 1:
        limit = result.saturation.rate_per_s
        return f"{result.rate_per_s:.4g} requests/s come, {limit:.4g} can be served: {result.load - 1:+.1%}"
    return "the queue grows as long as requests come" if result.outcome.queue_grows else ""


def _divided(result: Result) -> tuple[int, int]:
    """IPUs of a copy, and copies."""
    division = result.scenario.get("parallelism")
    replicas = division.get("replication_factor") if isinstance(division, Mapping) else None
    used = result.simulated.ipus_used
    copies = int(replicas) if isinstance(replicas, int) else int(getattr(result, "copy_count", 1))
    return used // copies, copies
