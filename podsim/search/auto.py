"""From `parallelism: auto` to a division, and what was weighed against it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial

from podsim.errors import DoesNotFitError, NoPlanError, PodsimError
from podsim.placement.fit import HELPS, misfit_text, overflow
from podsim.placement.job import training_job
from podsim.placement.layout import Layout
from podsim.placement.memory import IpuMemory
from podsim.placement.plan import make_plan, shared_cost_model
from podsim.program.compile import passes_one_by_one
from podsim.scenario import Activity, GenerationScenario, LoadedScenario, TrainingScenario, load_hardware
from podsim.scenario.pods import larger_pods
from podsim.scenario.software import PHASED_STACK
from podsim.scenario.wording import counted
from podsim.search.best_first import Found, Lead, best_first
from podsim.search.choice import Candidate, Choice, fullest_bytes, slower_by
from podsim.search.decoder import choose_decoder
from podsim.search.dimensions import Pins, batch_of, may_be_phased, may_be_pipelined, shared
from podsim.search.families import keys
from podsim.search.phased import PhasedSearch, phased_s
from podsim.search.search import Search, least_s
from podsim.watch import Watch, silent

_SHOWN = 5
_NEARLY, _REFINED = 1.02, 3
# The fastest layouts whose neighbours are tried, and how many of them.
_WORTH = 0.99
# Of the time of the choice: what a faster division behind the reserve has to come to.
_SHOWN_MISFITS = 3
_MOST_PASSES = 120_000
_MOST_BLOCKS = 420


def choose(loaded: LoadedScenario, watch: Watch, *, prune: bool = True) -> tuple[LoadedScenario, Choice]:
    """Choose the division of a scenario that leaves it open; without `prune` the choice is the same, but slower."""
    if loaded.spec.activity is Activity.GENERATION:
        return choose_decoder(loaded, loaded.require(GenerationScenario), watch)
    spec = loaded.require(TrainingScenario)
    divisions, timed, reserve = _searched(loaded, spec, watch, prune=prune)
    best_s, best = timed[0]
    fastest: dict[object, tuple[float, Found]] = {}  # of each kind, with its time [s]
    for update_s, found in timed:
        fastest.setdefault(found.kind, (update_s, found))
    fitting = [
        _candidate(found, update_s, slower_by(best_s, update_s) if place else "chosen: the fastest that fits")
        for place, (update_s, found) in enumerate(list(fastest.values())[: 2 * _SHOWN])
    ]
    misfits = list(divisions.near_misses(best_s))
    choice = Choice(
        (*fitting, *misfits),
        divisions.considered_count,
        len(timed),
        tuple(Pins(loaded).pinned_texts()),
        _replaced(loaded, best_s),
        _behind(divisions, timed[0], prune=prune) if reserve else None,
        reserve,
    )
    return loaded.divided(best.written()), choice


class Divisions:
    """Divisions of a scenario to search: a pipeline for each way to share layers, and phased execution.

    `reserve`: share of In-Processor-Memory that is left free.
    """

    def __init__(
        self, loaded: LoadedScenario, spec: TrainingScenario, *, pinned: bool = True, reserve: float = 0.0
    ) -> None:
        pins = Pins(loaded, kept=pinned)
        ways = shared(spec, pins) if may_be_pipelined(pins) else ()
        self.phased = [PhasedSearch(spec, pins, reserve=reserve)] if may_be_phased(spec, pins) else []
        pipelines = (Search(loaded, way, pinned=pinned, reserve=reserve) for way in ways)
        # Phases need not be cut, however many blocks there are.
        self.pipelines = [
            pipeline for pipeline in pipelines if not self.phased or pipeline.space.block_count <= _MOST_BLOCKS
        ]

    def leaving(self, reserve: float) -> Divisions:
        """Return the same divisions with another share of memory left free; costs stay known."""
        other = copy(self)
        other.pipelines = [each.leaving(reserve) for each in self.pipelines]
        other.phased = [each.leaving(reserve) for each in self.phased]
        return other

    @property
    def _searches(self) -> list[Search | PhasedSearch]:
        return [*self.pipelines, *self.phased]

    @property
    def considered_count(self) -> int:
        """Divisions that were looked at."""
        return sum(each.considered_count for each in self._searches)

    def leads(self) -> list[Lead[Found]]:
        """Return the leads of all searches."""
        return [lead for each in self._searches for lead in each.leads()]

    def near(self, found: Found) -> list[Lead[Found]]:
        """Layouts next to one that was found, in what is not tried in all combinations."""
        return [lead for each in self.phased if found.plan.layout.phased for lead in each.near(found)]

    def fits(self) -> bool:
        """Return True if any division fits."""
        return any(each.fits() for each in reversed(self._searches))

    def near_misses(self, best_s: float) -> Iterator[Candidate]:
        """Divisions that do not fit and would take less time, the nearest of each kind."""
        kinds: set[tuple[int, int, bool]] = set()
        for search in self.pipelines:
            for setting in search.near_misses(best_s):
                kind = (search.space.shards, setting.ipus_per_replica, setting.recompute)
                lean = search.leanest(setting) if kind not in kinds else None
                if lean is None:
                    continue
                kinds.add(kind)
                memory = search.memory(lean[1])
                yield _described(search.written(lean[1]), memory, misfit_text(memory))
                if len(kinds) == _SHOWN_MISFITS:
                    return

    def nearest(self) -> tuple[TrainingScenario, tuple[IpuMemory, ...]] | None:
        """Return the division with the smallest memory overflow, and the memory of its IPUs."""
        lean = [lean_misfit for search in self._searches for lean_misfit in search.lean_misfits()]
        return min(lean, key=lambda each: overflow(each[1]), default=None)


def _searched(
    loaded: LoadedScenario, spec: TrainingScenario, watch: Watch, *, prune: bool
) -> tuple[Divisions, list[tuple[float, Found]], float]:
    """Return the divisions, the simulated ones with their times [s], and the share of memory that they leave free.

    Where no division leaves the reserve free, none is left free.
    """
    for reserve in dict.fromkeys((kept_reserve(spec), spec.memory.reserve or 0.0)):
        divisions, affordable = Divisions(loaded, spec, reserve=reserve), _Affordable()
        for search in divisions.pipelines if not divisions.phased else ():
            if (blocks := search.space.block_count) > _MOST_BLOCKS:
                what = (
                    f"the model has {blocks} blocks to cut between; `parallelism: auto` looks at {_MOST_BLOCKS} at most"
                )
                raise NoPlanError(what, do="give the division, or use fewer layers")
        given = replaced_division(loaded, reserve)
        leads = [*([given.lead()] if given else ()), *map(affordable.limited, divisions.leads())]
        timed = best_first(leads, lambda found: found.kind, _SHOWN, watch, prune=prune)
        if timed:
            return divisions, _refined(divisions, timed, prune=prune), reserve
        if not divisions.considered_count:
            raise _undivided(divisions, loaded)
    raise nearest_miss(loaded, spec, divisions)


def _refined(divisions: Divisions, timed: list[tuple[float, Found]], *, prune: bool) -> list[tuple[float, Found]]:
    """Return the same with layouts next to the fastest ones, as long as they are faster still."""
    looked = set[str]()
    while True:
        best_s = timed[0][0]
        close = {repr(keys(found.written())): found for time_s, found in timed if time_s <= best_s * _NEARLY}
        fastest = [found for written, found in close.items() if written not in looked][:_REFINED]
        leads = [lead for found in fastest for lead in divisions.near(found)]
        looked.update(close)
        if not leads:
            return timed
        best = Lead(best_s, None, timed[0][1])
        found = best_first([best, *leads], lambda found: found.kind, 0, silent, prune=prune)
        timed = sorted([*timed, *(each for each in found if each[1] is not best.made)], key=lambda each: each[0])


def kept_reserve(spec: TrainingScenario) -> float:
    """Return the share of In-Processor-Memory that a chosen division leaves free."""
    given = spec.memory.reserve
    return float((spec.software.memory_reserve or 0.0) if given is None else given)


def replaced_division(loaded: LoadedScenario, reserve: float) -> Found | None:
    """Return the division that `auto` takes the place of; None if there is none, or it does not go with the rest."""
    replaced = loaded.replaced
    if replaced is None or replaced.activity is not Activity.TRAINING:
        return None
    spec = replaced.require(TrainingScenario)
    job = replace(training_job(spec), changes=(), others=()).laid_out(reserve=reserve)
    try:
        plan = make_plan(job, shared_cost_model(job), advise=False)
    except PodsimError:
        return None
    estimate_s = phased_s(plan) if plan.phases else least_s(plan)
    return Found(plan, estimate_s, lambda: spec)


def _replaced(loaded: LoadedScenario, best_s: float) -> Candidate | None:
    """Return the division that `auto` takes the place of, whatever it leaves free."""
    if (found := replaced_division(loaded, 0.0)) is None:
        return None
    update_s = found.simulated()[0].bound_s
    return _candidate(found, update_s, slower_by(best_s, update_s))


def _behind(divisions: Divisions, best: tuple[float, Found], *, prune: bool) -> Candidate | None:
    """Return the fastest division where no memory is left free, if that is worth a word."""
    divisions, affordable = divisions.leaving(0.0), _Affordable()
    leads = [
        Lead(best[0] * _WORTH, None, best[1]),
        *map(affordable.limited, [*divisions.near(best[1]), *divisions.leads()]),
    ]
    (update_s, found), *_ = best_first(leads, lambda found: found.kind, 0, silent, prune=prune)
    return _candidate(found, update_s, slower_by(update_s, best[0])) if found is not best[1] else None


class _Affordable:
    """Leads of which no more are simulated than can be without taking minutes."""

    def __init__(self) -> None:
        self._passes = 0

    def limited(self, lead: Lead[Found]) -> Lead[Found]:
        """Return the lead with a check of the simulation budget."""
        if lead.closer is None:
            return lead
        return Lead(lead.bound_s, partial(self._closer, lead), lead.made, lead.name)

    def _closer(self, lead: Lead[Found]) -> Iterator[Lead[Found]]:
        assert lead.closer is not None
        if lead.made is not None:
            first, passes = not self._passes, passes_one_by_one(lead.made.plan)
            if first and passes > _MOST_PASSES:
                raise _too_long(lead.made.plan.layout, passes)
            if self._passes + passes > _MOST_PASSES:
                return
            self._passes += passes
        yield from map(self.limited, lead.closer())


def _too_long(layout: Layout, passes: int) -> NoPlanError:
    what = (
        f"batch_size {layout.batch_size} is too large: host servers set the pace, so that each of its "
        f"{layout.accumulation_factor} micro-batches per weight update would have to be simulated"
    )
    most = max(1, layout.batch_size * _MOST_PASSES // (2 * passes))
    return NoPlanError(what, do=f"use a batch_size of {most} or less, or more host servers")


def _undivided(divisions: Divisions, loaded: LoadedScenario) -> NoPlanError:
    batch = getattr(loaded.spec, "batch_size", None)
    pins = [f"{name} {value}" for name, value in Pins(loaded).pinned_items() if name in _DIVIDE]
    what = f"batch_size {batch} cannot be divided" + (f" with {' and '.join(pins)}" if pins else "")
    if pins:
        cure = "choose a batch_size that they divide, with 2·stages - 1 micro-batches or more per replica, or pin less"
        return NoPlanError(what, do=cure)
    objections = [pipeline.space.objection for pipeline in divisions.pipelines if pipeline.space.objection]
    reason, cure = objections[0] if objections else ("no number of micro-batches suits", "use another batch_size")
    return NoPlanError(f"{what}: {reason}", do=cure)


_DIVIDE = (
    "micro_batch_size",
    "replication_factor",
    "ipus_per_replica",
    "tensor_parallel",
    "hidden_parallel",
    "expert_parallel",
    "pipeline_stages",
    "schedule",
)
"""Pins that divide the batch, or the IPUs."""


def _candidate(found: Found, update_s: float, verdict: str) -> Candidate:
    workload, layout = found.plan.workload, found.plan.layout
    samples = workload.samples_per_micro_batch * layout.accumulation_factor * layout.replication_factor
    return _described(found.written(), found.plan.memory, verdict, samples / update_s)


def _described(
    spec: TrainingScenario, memory: tuple[IpuMemory, ...], verdict: str, throughput: float | None = None
) -> Candidate:
    parallelism, chosen_memory = keys(spec)
    return Candidate(
        parallelism=parallelism,
        memory=chosen_memory,
        throughput_samples_per_s=throughput,
        used_bytes=fullest_bytes(memory),
        streaming_bytes=fullest_bytes(memory, "streaming_memory"),
        capacity_bytes=memory[0].capacity_bytes,
        fits=throughput is not None,
        verdict=verdict,
    )


_OTHERWISE = (
    "make the model, its sequences or images smaller; with one sample at a time it does not fit, "
    "so that a smaller batch is no help"
)


def nearest_miss(loaded: LoadedScenario, spec: TrainingScenario, divisions: Divisions) -> DoesNotFitError:
    """Return the error for a scenario without a fitting division."""
    what = f"no division of batch_size {spec.batch_size} fits {spec.system.name}"
    if (nearest := divisions.nearest()) is not None:
        what += f"; the nearest has {_division_words(nearest[0])}: {misfit_text(nearest[1])}"
    cures = list(_cures(loaded, spec))
    return DoesNotFitError(what, do=HELPS + "; ".join(cures) if cures else _OTHERWISE)


def _division_words(spec: TrainingScenario) -> str:
    parallelism = spec.parallelism
    words = (
        f"{counted(parallelism.ipus_per_replica, 'IPU')} per replica, micro_batch_size {parallelism.micro_batch_size}"
    )
    if getattr(parallelism, "is_phased", False):
        return f"{words} in phases"
    shards = parallelism.shards.count
    return f"{words}, tensor_parallel {shards}" if shards > 1 else words


def _cures(loaded: LoadedScenario, spec: TrainingScenario) -> Iterator[str]:
    """Yield changes that make the scenario fit: fewer pins, a pipeline with more micro-batches, a larger pod."""
    if Divisions(loaded, spec, pinned=False, reserve=spec.memory.reserve or 0.0).fits():
        yield "pin less under `parallelism` and `memory`"
    if False in (spec.software.phased_execution, spec.software.shared_layers):
        stack, _ = load_hardware(PHASED_STACK, "software")
        other = spec.model_copy(update={"software": stack})
        if Divisions(loaded, other, reserve=spec.memory.reserve or 0.0).fits():
            yield f"`software: {PHASED_STACK}`, which divides layers among IPUs and runs them in phases"
    batch = 2 * batch_of(spec)
    while batch < 4 * spec.system.domain_ipu_count:  # more fill a pipeline over a whole link domain
        if Divisions(loaded, spec.model_copy(update={"batch_size": batch}), reserve=spec.memory.reserve or 0.0).fits():
            yield f"`batch_size: {batch}`, which has micro-batches enough for a longer pipeline"
            break
        batch *= 2
    for name, pod in larger_pods(spec.system):
        if Divisions(loaded, spec.model_copy(update={"system": pod}), reserve=spec.memory.reserve or 0.0).fits():
            yield f"`system: {name}`, the smallest shipped pod on which it does"
            return
