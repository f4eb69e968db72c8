"""From a candidate to an option: each job is run on its part of the system, and what they give is added up.

Options are made on all cores, kept in a file if one is given, and never made twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from podsim.disk import digest, simulator, source
from podsim.draws import Draws
from podsim.errors import NoPlanError, PodsimError, Problem, SpecError
from podsim.many.capacity.candidates import CandidateSystems
from podsim.many.capacity.figures import figures, served_figures
from podsim.many.capacity.goal import Goal, Job
from podsim.many.capacity.option import Option, Part, SystemCandidate, option_of
from podsim.many.capacity.spec import CHOSEN, TOGETHER
from podsim.many.capacity.systems import Place, place_named
from podsim.many.capacity.totals import totals
from podsim.many.capacity.writing import written
from podsim.many.store import STATUS, Row, Store
from podsim.many.sweeps.rows import DONE
from podsim.memo import files_held
from podsim.metrics import IPUS
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.library import HARDWARE, data_file
from podsim.watch import Tell

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult
    from podsim.runs import Result

AUTO: Final = "parallelism=auto"
_ONE_LOAD: Final = (0.8,)
_OPTION: Final = "option"
_OUT: Final = "ruled out"
_LONG_S: Final = 5.0
_ENOUGH: Final = 8
"""Candidates after which the time that the others take can be told; the first waits for processes to start."""
_NOT_NAMED: Final = 24
"""As few candidates need no words."""


class Options:
    """The options of a goal that are known."""

    def __init__(
        self,
        candidates: CandidateSystems,
        journal: Path | None,
        inputs: Sequence[tuple[str, str]],
        tell: Tell,
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
        self._tell, self._say, self._processes = tell, say, processes
        goal, count = candidates.goal, len(candidates)
        option = "give another --journal, or remove that file"
        self._store = Store(journal, fingerprint(goal, inputs), what="goal", option=option)
        self._most = min(count, goal.trials)
        self._told()
        if len(self._store) < self._most:
            if count > goal.trials:
                say(f"{count:,} candidates: a search looks at {goal.trials:,} of them (--trials)")
            elif count > _NOT_NAMED:
                say(f"{count:,} candidates: all are looked at")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.__exit__()

    def of(self, numbers: Sequence[int]) -> list[Option]:
        """The options of candidates, in their order; those that `where` leaves out are missing.

        Args:
            numbers: Of the candidates.
        """
        wanted = [number for number in dict.fromkeys(numbers) if self.candidates.candidate(number)]
        left = sum(number not in self._store for number in wanted)
        begun_s = list[float]()

        def tell(done: int, total: int) -> None:
            self._told()
            made = left - (total - done)
            if made and not begun_s:
                begun_s.append(time.monotonic() if made < _ENOUGH else 0.0)
            elif made >= _ENOUGH and begun_s[0]:
                each_s, begun_s[0] = (time.monotonic() - begun_s[0]) / (made - 1), 0.0
                if each_s * (left - made) > _LONG_S:
                    self._say(f"{left - made:,} more candidates take about {each_s * (left - made):.0f} s")

        with files_held():
            self._store.fill(partial(_row, self.candidates), wanted, tell, processes=self._processes)
        return [option_of(self._store[number][_OPTION]) for number in numbers if number in self._store]

    def _told(self) -> None:
        self._tell(min(len(self._store), self._most), self._most)


def _row(candidates: CandidateSystems, number: int) -> Row:
    candidate = candidates.candidate(number)
    assert candidate is not None
    option = option_for(candidates.goal, candidate)
    return {STATUS: _OUT if option.reason else DONE, _OPTION: option.row()}


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
    return replace(
        option,
        title=place.system.name,
        ipu_count=place.size,
        ipus_per_replica=first.ipus_per_replica,
        replicas=first.replicas,
        figures=dict(first.figures if len(parts) == 1 else totals(parts, place.system, together=option.together))
        | {IPUS: place.size},
        reason="; ".join(refused),
        written=first.written if len(parts) == 1 else "",
        currency=first.bill.get("currency") or "",
        parts=parts,
    )


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
    return tuple(whole.within(size) for size in sizes)


def overrides_for(goal: Goal, job: Job, place: Place, candidate: SystemCandidate) -> tuple[str, ...]:
    """What is laid over a scenario for a candidate, in this order; what varies can pin a part of a chosen division."""
    division = (AUTO,) if candidate.division == CHOSEN else ()
    return (*place.overrides(), *goal.overrides, *job.overrides, *division, *candidate.overrides)


def _part(goal: Goal, job: Job, place: Place, candidate: SystemCandidate) -> Part:
    overrides = overrides_for(goal, job, place, candidate)
    loaded = load_scenario(job.scenario, job.variant, overrides)
    if goal.is_served:
        loaded = _asked(goal, loaded)
    result: Any = served(goal, loaded) if goal.is_served else run(loaded)
    chosen = result.choice.chosen if result.choice is not None else None
    ipus, replicas = _divided(result)
    return Part(
        name=job.name,
        system=place.text,
        ipu_count=loaded.spec.system.ipu_count,
        ipus_per_replica=ipus,
        replicas=replicas,
        figures=(served_figures(result) if goal.is_served else figures(result)) | {IPUS: loaded.spec.system.ipu_count},
        bill=result.cost.to_dict() | {"lease": result.cost.prices.lease} if result.cost is not None else {},
        overrides=overrides,
        written=written(job.scenario, loaded, chosen, f"{loaded.spec.system.name}, planned"),
        refused=_swamped(result) if goal.is_served else "",
    )


def _asked(goal: Goal, loaded: LoadedScenario) -> LoadedScenario:
    """A scenario with the rate of requests that a goal gives; files and users are replaced by it while serving."""
    serving: Any = getattr(loaded.spec, "serving", None)
    known = serving is not None and (serving.rate or serving.file or serving.users)
    if goal.request_rate is None and not known:
        what, do = "nothing says how many requests come", "give `request_rate`, or --rate 3.5"
        raise SpecError([Problem("", "request_rate", what, do)])
    if goal.request_rate is None or (serving is not None and (serving.file or serving.users)):
        return loaded
    return load_scenario(loaded, overrides=[f"serving.rate={goal.request_rate}"])


def served(goal: Goal, loaded: LoadedScenario, draws: Draws | None = None) -> ServingResult:
    """The requests of a scenario, at the rate of the goal if it gives one.

    Args:
        goal: What is wanted.
        loaded: The scenario.
        draws: How often uncertain inputs are drawn; not at all if None.
    """
    from podsim.runs.serve import serve

    return serve(loaded, rate=goal.request_rate, loads=_ONE_LOAD, uncertainty=draws)


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
