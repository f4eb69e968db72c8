"""Divisions of a decoder: IPUs that share layers, stages, and where weights are, for the shortest decode step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from podsim.engine import Trace, execute
from podsim.errors import DoesNotFitError, InfeasibleError, NoPlanError
from podsim.placement.fit import misfit_text
from podsim.placement.generation import (
    Generation,
    draft_steps,
    generation_cost_model,
    generation_job,
    with_stages_of_shards,
)
from podsim.placement.layout import ON_CHIP, STREAMING, Layout
from podsim.placement.memory import IpuMemory
from podsim.placement.plan import Plan
from podsim.program.generation import compile_step, compile_turn, stages_interfere
from podsim.program.passes import BUBBLE
from podsim.scenario import GenerationScenario, LoadedScenario, System
from podsim.scenario.generation import AutoInferenceSpec, InferenceParallelismSpec
from podsim.scenario.pods import larger_pods
from podsim.search.choice import Candidate, Choice, fullest_bytes, slower_by
from podsim.search.dimensions import powers_of_two
from podsim.tiles.model import CostModel
from podsim.units import ps_to_seconds
from podsim.watch import Watch


def longest_stage_ps(plan: Plan, trace: Trace) -> int:
    """Return the longest time of any stage for a single batch, the host call included. [ps]"""
    if stages_interfere(plan):
        return execute(compile_turn(plan)).makespan_ps
    return max(trace.makespan_ps - account.get(BUBBLE, 0) for account in trace.lanes.values())


_SMALLER_SHARES = (0.2, 0.1, 0.05)
"""Of memory for temporaries: tried where a division does not fit with the one that the scenario has."""
_RUNNERS_UP = 4
_SHOWN_MISFITS = 3


@dataclass(frozen=True, slots=True)
class _Tried:
    """A division with its memory, and the time from one token of a sequence to its next where it fits. [s]"""

    layout: Layout
    memory: tuple[IpuMemory, ...]
    step_s: float | None

    @property
    def overflow(self) -> float:
        """The fullest memory over its capacity."""
        chip = max(ipu.used_bytes() / ipu.capacity_bytes for ipu in self.memory)
        off_chip = (ipu.used_bytes("streaming_memory") / ipu.streaming_capacity_bytes for ipu in self.memory)
        return max(chip, *off_chip)


def choose_decoder(loaded: LoadedScenario, spec: GenerationScenario, watch: Watch) -> tuple[LoadedScenario, Choice]:
    """Return the scenario with the shortest time per output token, and the choice behind it."""
    divisions = list(_divisions(loaded, spec))
    if not divisions:
        what = f"no division of the model over {spec.system.domain_ipu_count} IPUs has what is pinned"
        raise NoPlanError(what, do="pin less; there can be no more shards than heads")
    tried = _tried_with_margin(loaded, spec, divisions, watch)
    fitting = sorted(
        ((each.step_s, each.layout.ipus_per_replica, each) for each in tried if each.step_s is not None),
        key=lambda each: each[:2],
    )
    misfits = sorted((each for each in tried if each.step_s is None), key=lambda each: each.overflow)
    if not fitting:
        raise _nearest_miss(loaded, spec, misfits[0])
    best_s, _, best = fitting[0]
    shown = [
        _candidate(spec, each, slower_by(best_s, step_s) if place else "chosen: the shortest time per output token")
        for place, (step_s, _, each) in enumerate(fitting[: _RUNNERS_UP + 1])
    ]
    shown += [_candidate(spec, misfit, misfit_text(misfit.memory)) for misfit in misfits[:_SHOWN_MISFITS]]
    return loaded.divided(_written(spec, best.layout)), Choice(tuple(shown), len(divisions), len(fitting))


def _tried_with_margin(
    loaded: LoadedScenario, spec: GenerationScenario, divisions: Sequence[Layout], watch: Watch
) -> list[_Tried]:
    """Divisions with the margin of memory that is left free, or with none if otherwise nothing fits."""
    margin, given, shares = spec.software.memory_reserve or 0.0, spec.memory.reserve, _shares(loaded, spec)
    for reserve in (margin, 0.0) if given is None else (given,):
        tried = _all_tried(
            generation_job(spec), [replace(division, reserve=reserve) for division in divisions], shares, watch
        )
        if any(each.step_s is not None for each in tried):
            break
    return tried


def _shares(loaded: LoadedScenario, spec: GenerationScenario) -> tuple[float, ...]:
    """Shares of memory for temporaries that may be tried, the largest first: with more, no operation is slower."""
    given = float(spec.memory.available_memory_proportion)
    if loaded.has_key("memory", "available_memory_proportion"):
        return (given,)
    return (given, *(share for share in _SMALLER_SHARES if share < given))


def _all_tried(asked: Generation, divisions: Sequence[Layout], shares: Sequence[float], watch: Watch) -> list[_Tried]:
    """Try the divisions that can be planned, except longer pipelines that cannot be faster."""
    model, tried, refused = generation_cost_model(asked), list[_Tried](), ""
    for _, each in zip(watch([_layout_text(division) for division in divisions]), divisions, strict=True):
        if any(earlier.step_s is not None and _no_slower(earlier.layout, each) for earlier in tried):
            continue
        try:
            tried.append(_roomiest(replace(asked, layout=each), shares, model))
        except InfeasibleError as error:
            refused = error.message
    if not tried:
        raise NoPlanError(refused, do="ask for fewer tokens or a smaller batch_size, or take a smaller model")
    return tried


def _roomiest(asked: Generation, shares: Sequence[float], model: CostModel) -> _Tried:
    """Try shares for temporaries from the largest down; return the first that fits, or else the last."""
    for share in shares:
        tried = _evaluated(_with_share(asked, share), model)
        if tried.step_s is not None:
            break
    return tried


def _with_share(asked: Generation, share: float) -> Generation:
    return asked.laid_out(available_memory_proportion=(share,) * asked.layout.ipus_per_replica)


def _evaluated(asked: Generation, model: CostModel) -> _Tried:
    """Return the layout, its memory and its time per output token, which is None if it does not fit."""
    steps = draft_steps(asked, model)
    if not all(ipu.fits for ipu in steps.memory):
        return _Tried(asked.layout, steps.memory, None)
    trace = execute(compile_step(steps.decode), explicit=False)
    turns = asked.layout.batches_in_flight
    turns_ps = turns * longest_stage_ps(steps.decode, trace) if turns > 1 else 0
    return _Tried(asked.layout, steps.memory, ps_to_seconds(max(trace.makespan_ps, turns_ps)))


def _no_slower(short: Layout, long: Layout) -> bool:
    """Return True if a longer pipeline cannot be faster, because its stages only wait for one another.

    A single batch goes through them in turn; without I/O tiles none loads weights ahead of its turn.
    """
    alike = (short.weight_storage, short.tensor_parallel) == (long.weight_storage, long.tensor_parallel)
    ahead = long.io_tiles > 0 and long.weight_storage == STREAMING
    return alike and long.batches_in_flight == 1 and not ahead


def _divisions(loaded: LoadedScenario, spec: GenerationScenario) -> Iterator[Layout]:
    auto, asked = loaded.auto, generation_job(spec)
    assert isinstance(auto, AutoInferenceSpec)
    given, domain = asked.layout.weight_storage, spec.system.domain_ipu_count
    for weights in (given,) if loaded.has_key("memory", "weights") else (ON_CHIP, STREAMING):
        for stages in (auto.pipeline_stages,) if auto.pipeline_stages else powers_of_two(domain):
            for shards in (auto.tensor_parallel,) if auto.tensor_parallel else powers_of_two(domain // stages):
                if auto.batches_in_flight <= stages:
                    divided = with_stages_of_shards(asked, stages, shards).laid_out(
                        weight_storage=weights, batches_in_flight=auto.batches_in_flight
                    )
                    if not any(_written(spec, divided.layout).division_findings()):
                        yield divided.layout


def _written(spec: GenerationScenario, layout: Layout) -> GenerationScenario:
    """Return the scenario with a layout written into it."""
    parallelism = InferenceParallelismSpec(
        tensor_parallel=layout.tensor_parallel,
        pipeline_stages=layout.stage_count,
        batches_in_flight=layout.batches_in_flight,
    )
    weights = "streamed" if layout.weight_storage == STREAMING else "resident"
    share = layout.available_memory_proportion[0]
    memory = spec.memory.model_copy(update={"weights": weights, "available_memory_proportion": share})
    return spec.model_copy(update={"parallelism": parallelism, "memory": memory})


def _layout_text(layout: Layout) -> str:
    return f"{layout.tensor_parallel} x {layout.stage_count} IPUs"


def _nearest_miss(loaded: LoadedScenario, spec: GenerationScenario, nearest: _Tried) -> DoesNotFitError:
    what = f"no division of the model fits {spec.system.name}; the nearest, over {_layout_text(nearest.layout)}: "
    for name, pod in larger_pods(spec.system):
        if _fits(loaded, spec, pod):
            do = f"use `system: {name}`, the smallest shipped pod on which it fits, or a smaller batch_size"
            return DoesNotFitError(what + misfit_text(nearest.memory), do=do)
    do = "ask for fewer tokens or a smaller batch_size, or take narrower weights; it fits no shipped pod"
    return DoesNotFitError(what + misfit_text(nearest.memory), do=do)


def _fits(loaded: LoadedScenario, spec: GenerationScenario, pod: System) -> bool:
    spec = spec.model_copy(update={"system": pod})
    asked, share = generation_job(spec), _shares(loaded, spec)[-1]
    model = generation_cost_model(asked)
    for layout in _divisions(loaded, spec):
        lean = _with_share(replace(asked, layout=layout), share)
        try:
            if all(ipu.fits for ipu in draft_steps(lean, model).memory):
                return True
        except InfeasibleError:
            continue
    return False


def _candidate(spec: GenerationScenario, tried: _Tried, verdict: str) -> Candidate:
    written = _written(spec, tried.layout)
    return Candidate(
        parallelism=written.parallelism.model_dump(mode="json"),
        memory=_memory_keys(spec, written),
        decode_step_s=tried.step_s,
        used_bytes=fullest_bytes(tried.memory),
        streaming_bytes=fullest_bytes(tried.memory, "streaming_memory"),
        capacity_bytes=tried.memory[0].capacity_bytes,
        fits=tried.step_s is not None,
        verdict=verdict,
    )


def _memory_keys(spec: GenerationScenario, written: GenerationScenario) -> dict[str, Any]:
    """Return the chosen keys of `memory`, without an unchanged share for temporaries."""
    keys: dict[str, Any] = {"weights": written.memory.weights}
    if (share := written.memory.available_memory_proportion) != spec.memory.available_memory_proportion:
        keys["available_memory_proportion"] = share
    return keys
