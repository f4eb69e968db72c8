"""From `parallelism: auto` to a division, and what was weighed against it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from podsim.engine import execute
from podsim.errors import NoPlanError
from podsim.placement.fit import misfit_text
from podsim.placement.layout import Layout
from podsim.placement.memory import IpuMemory
from podsim.placement.search.choice import Candidate, Choice, fullest_bytes, slower_by
from podsim.placement.search.decoder import choose_decoder
from podsim.placement.search.families import keys
from podsim.placement.search.search import Found, Search, nearest_miss
from podsim.placement.search.space import Space
from podsim.program.compile import compile_program, passes_one_by_one
from podsim.scenario import Activity, GenerationScenario, LoadedScenario, TrainingScenario
from podsim.scenario.wording import counted
from podsim.units import ps_to_seconds
from podsim.watch import Watch

_SIMULATED, _MOST_SIMULATED = 5, 40
_SHOWN_MISFITS = 3
_MOST_PASSES = 120_000
_MOST_BLOCKS = 420


def choose(loaded: LoadedScenario, watch: Watch) -> tuple[LoadedScenario, Choice]:
    """Choose the division of a scenario that leaves it open.

    Raises:
        DoesNotFitError: No division fits; says what the nearest one lacks, and what would help.
        NoPlanError: The batch cannot be divided as it is pinned.
    """
    if loaded.spec.activity is Activity.GENERATION:
        return choose_decoder(loaded, loaded.of(GenerationScenario), watch)
    search = _searched(loaded, loaded.of(TrainingScenario), watch)
    ranked = _affordable(search, sorted(search.found.values(), key=lambda found: found.estimate_s)[:_MOST_SIMULATED])
    shortlist, others = ranked[:_SIMULATED], ranked[_SIMULATED:]
    names = [f"division {place + 1} of {len(shortlist)}" for place in range(len(shortlist))]
    timed = [(_simulated_s(found), found) for _, found in zip(watch(names), shortlist, strict=True)]
    for found in others:
        # What cannot win even if nothing gets in its way need not be simulated, nor what comes behind it.
        if found.estimate_s >= min(update_s for update_s, _ in timed):
            break
        timed.append((_simulated_s(found), found))
    timed.sort(key=lambda each: each[0])
    best_s, best = timed[0]
    fitting = [
        _candidate(search, found, update_s, slower_by(best_s, update_s) if place else "chosen: the fastest that fits")
        for place, (update_s, found) in enumerate(timed)
    ]
    misfits = list(_misfits(search, best_s))
    choice = Choice((*fitting, *misfits), search.considered_count, len(timed))
    return loaded.divided(search.written(best.plan.layout)), choice


def _searched(loaded: LoadedScenario, spec: TrainingScenario, watch: Watch) -> Search:
    """Explore all groups; where nothing fits, once more with little memory for temporaries."""
    search = Search(loaded, spec)
    _check_size(search)
    for tight in (False, True):
        search = Search(loaded, spec, tight=tight)
        groups = search.groups()
        for _, group in zip(watch([_words(group) for group in groups]), groups, strict=True):
            search.explore(group)
        if search.found:
            return search
        if not search.considered_count:
            raise _undivided(search.space)
    raise nearest_miss(loaded, spec, search)


def _affordable(search: Search, shortlist: list[Found]) -> list[Found]:
    """The best divisions, as many as can be simulated without taking minutes."""
    passes = list(accumulate(passes_one_by_one(found.plan) for found in shortlist))
    if passes[0] > _MOST_PASSES:
        what = (
            f"batch_size {search.space.batch_size} is too large: host servers set the pace, so that each of its "
            f"{shortlist[0].plan.layout.accumulation_factor} micro-batches per weight update would have to be simulated"
        )
        most = max(1, search.space.batch_size * _MOST_PASSES // (2 * passes[0]))
        raise NoPlanError(what, do=f"use a batch_size of {most} or less, or more host servers")
    return shortlist[: bisect_right(passes, _MOST_PASSES)]


def _check_size(search: Search) -> None:
    blocks = search.space.block_count
    if blocks > _MOST_BLOCKS:
        what = f"the model has {blocks} blocks to cut between; `parallelism: auto` looks at {_MOST_BLOCKS} at most"
        raise NoPlanError(what, do="give the division, or use fewer layers")


def _words(group: Layout) -> str:
    return f"{counted(group.ipus_per_replica, 'IPU')} per replica"


def _undivided(space: Space) -> NoPlanError:
    names = ("micro_batch_size", "replication_factor", "ipus_per_replica")
    pins = [f"{name} {getattr(space.auto, name)}" for name in names if getattr(space.auto, name)]
    what = f"batch_size {space.batch_size} cannot be divided" + (f" with {' and '.join(pins)}" if pins else "")
    if pins:
        cure = "choose a batch_size that they divide, with 2·stages - 1 micro-batches or more per replica, or pin less"
        return NoPlanError(what, do=cure)
    reason, cure = space.objection or ("no number of micro-batches suits", "use another batch_size")
    return NoPlanError(f"{what}: {reason}", do=cure)


def _simulated_s(found: Found) -> float:
    return ps_to_seconds(execute(compile_program(found.plan), explicit=False).makespan_ps)


def _candidate(search: Search, found: Found, update_s: float, verdict: str) -> Candidate:
    workload, layout = found.plan.workload, found.plan.layout
    samples = workload.samples_per_micro_batch * layout.accumulation_factor * layout.replication_factor
    return _described(search, layout, found.plan.memory, verdict, samples / update_s)


def _described(
    search: Search, layout: Layout, memory: tuple[IpuMemory, ...], verdict: str, throughput: float | None = None
) -> Candidate:
    parallelism, chosen_memory = keys(search.written(layout))
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


def _misfits(search: Search, best_s: float) -> Iterator[Candidate]:
    """Divisions that would have been faster, the nearest of each kind."""
    kinds: set[tuple[int, bool]] = set()
    for setting in search.near_misses(best_s):
        kind = (setting.ipus_per_replica, setting.recompute)
        lean = search.leanest(setting) if kind not in kinds else None
        if lean is None:
            continue
        kinds.add(kind)
        memory = search.memory(lean[1])
        yield _described(search, lean[1], memory, misfit_text(memory))
        if len(kinds) == _SHOWN_MISFITS:
            return
