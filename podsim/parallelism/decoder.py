"""Divisions of a decoder: IPUs that share layers, stages, and where weights are, for the shortest decode step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from podsim.cost.model import CostModel
from podsim.engine import execute
from podsim.errors import DoesNotFitError, InfeasibleError, NoPlanError
from podsim.parallelism.choice import Candidate, Choice, fullest_bytes, slower_by
from podsim.parallelism.factors import powers_of_two
from podsim.plan.fit import misfit_text
from podsim.plan.generation import Steps, draft_steps, generation_cost_model
from podsim.plan.generation_job import generation_job
from podsim.plan.memory import IpuMemory
from podsim.program.generation import compile_step
from podsim.specs import GenerationScenario, LoadedScenario, PodSpec
from podsim.specs.generation import AutoInferenceSpec, InferenceParallelismSpec
from podsim.specs.pods import larger_pods
from podsim.units import ps_to_seconds
from podsim.watch import Watch

_RUNNERS_UP = 4
_SHOWN_MISFITS = 3


@dataclass(frozen=True, slots=True)
class _Tried:
    """A division with its memory, and the time of a decode step where it fits. [s]"""

    spec: GenerationScenario
    memory: tuple[IpuMemory, ...]
    step_s: float | None

    @property
    def overflow(self) -> float:
        """The fullest memory over its capacity."""
        chip = max(ipu.used_bytes() / ipu.capacity_bytes for ipu in self.memory)
        off_chip = (ipu.used_bytes("streaming_memory") / ipu.streaming_capacity_bytes for ipu in self.memory)
        return max(chip, *off_chip)


def choose_decoder(loaded: LoadedScenario, spec: GenerationScenario, watch: Watch) -> tuple[LoadedScenario, Choice]:
    """The division with the shortest time per output token.

    Raises:
        DoesNotFitError: No division fits.
        NoPlanError: Nothing can be divided as it is pinned.
    """
    divisions = list(_divisions(loaded, spec))
    if not divisions:
        what = f"no division of the model over {spec.system.domain_ipu_count} IPUs has what is pinned"
        raise NoPlanError(what, do="pin less; shards must divide heads and feed-forward width")
    tried = _all_tried(divisions, watch)
    fitting = sorted(
        ((each.step_s, each.spec.parallelism.ipu_count, each) for each in tried if each.step_s is not None),
        key=lambda each: each[:2],
    )
    misfits = sorted((each for each in tried if each.step_s is None), key=lambda each: each.overflow)
    if not fitting:
        raise _nearest_miss(loaded, spec, misfits[0])
    best_s, _, best = fitting[0]
    shown = [
        _candidate(each, slower_by(best_s, step_s) if place else "chosen: the shortest time per output token")
        for place, (step_s, _, each) in enumerate(fitting[: _RUNNERS_UP + 1])
    ]
    shown += [_candidate(each, misfit_text(each.memory)) for each in misfits[:_SHOWN_MISFITS]]
    return loaded.divided(best.spec), Choice(tuple(shown), len(divisions), len(fitting))


def _all_tried(divisions: Sequence[GenerationScenario], watch: Watch) -> list[_Tried]:
    """Divisions that can be planned, but for longer pipelines that cannot be faster.

    Raises:
        NoPlanError: None can be planned.
    """
    planner, tried, refused = _Planner(), list[_Tried](), ""
    for _, each in zip(watch([_words(each) for each in divisions]), divisions, strict=True):
        if any(earlier.step_s is not None and _no_slower(earlier.spec, each) for earlier in tried):
            continue
        try:
            tried.append(planner.tried(each))
        except InfeasibleError as error:
            refused = error.message
    if not tried:
        raise NoPlanError(refused, do="ask for fewer tokens or a smaller batch_size, or take a smaller model")
    return tried


def _no_slower(short: GenerationScenario, long: GenerationScenario) -> bool:
    """Whether stages of the longer pipeline only wait for one another.

    A single batch goes through them in turn; without I/O tiles none loads weights ahead of its turn.
    """
    alike = short.memory.weights == long.memory.weights
    alike &= short.parallelism.tensor_parallel == long.parallelism.tensor_parallel
    ahead = long.memory.io_tiles > 0 and long.memory.weights == "streamed"
    return alike and long.parallelism.batches_in_flight == 1 and not ahead


def _divisions(loaded: LoadedScenario, spec: GenerationScenario) -> Iterator[GenerationScenario]:
    auto = loaded.auto
    assert isinstance(auto, AutoInferenceSpec)
    places = (spec.memory.weights,) if loaded.gives("memory", "weights") else ("resident", "streamed")
    domain = spec.system.domain_ipu_count
    for weights in places:
        for stages in powers_of_two(domain):
            for shards in powers_of_two(domain // stages):
                wanted = auto.tensor_parallel in (None, shards) and auto.pipeline_stages in (None, stages)
                if wanted and auto.batches_in_flight <= stages:
                    divided = _divided(spec, shards, stages, auto.batches_in_flight, weights)
                    if not any(divided.division_findings()):
                        yield divided


def _divided(spec: GenerationScenario, shards: int, stages: int, batches: int, weights: str) -> GenerationScenario:
    parallelism = InferenceParallelismSpec(tensor_parallel=shards, pipeline_stages=stages, batches_in_flight=batches)
    memory = spec.memory.model_copy(update={"weights": weights})
    return spec.model_copy(update={"parallelism": parallelism, "memory": memory})


def _words(spec: GenerationScenario) -> str:
    return f"{spec.parallelism.tensor_parallel} x {spec.parallelism.pipeline_stages} IPUs"


class _Planner:
    """Plans divisions of one model, which share what their operations cost."""

    def __init__(self) -> None:
        self._model: CostModel | None = None

    def tried(self, spec: GenerationScenario) -> _Tried:
        """A division with the time of a decode step, if it fits."""
        steps = self.steps(spec)
        if not all(ipu.fits for ipu in steps.memory):
            return _Tried(spec, steps.memory, None)
        trace = execute(compile_step(steps.decode), explicit=False)
        return _Tried(spec, steps.memory, ps_to_seconds(trace.makespan_ps))

    def steps(self, spec: GenerationScenario) -> Steps:
        """Its plan, whether or not it fits."""
        asked = generation_job(spec)
        self._model = self._model or generation_cost_model(asked)
        return draft_steps(asked, self._model)


def _nearest_miss(loaded: LoadedScenario, spec: GenerationScenario, nearest: _Tried) -> DoesNotFitError:
    what = f"no division of the model fits {spec.system.name}; the nearest, over {_words(nearest.spec)}: "
    for name, pod in larger_pods(spec.system):
        if _fits(loaded, spec, pod):
            do = f"use `system: {name}`, the smallest shipped pod on which it fits, or a smaller batch_size"
            return DoesNotFitError(what + misfit_text(nearest.memory), do=do)
    do = "ask for fewer tokens or a smaller batch_size, or take narrower weights; it fits no shipped pod"
    return DoesNotFitError(what + misfit_text(nearest.memory), do=do)


def _fits(loaded: LoadedScenario, spec: GenerationScenario, pod: PodSpec) -> bool:
    planner = _Planner()
    for divided in _divisions(loaded, spec.model_copy(update={"system": pod})):
        try:
            if all(ipu.fits for ipu in planner.steps(divided).memory):
                return True
        except InfeasibleError:
            continue
    return False


def _candidate(tried: _Tried, verdict: str) -> Candidate:
    parallelism: dict[str, Any] = tried.spec.parallelism.model_dump(mode="json")
    return Candidate(
        parallelism=parallelism,
        memory={"weights": tried.spec.memory.weights},
        decode_step_s=tried.step_s,
        used_bytes=fullest_bytes(tried.memory),
        streaming_bytes=fullest_bytes(tried.memory, "streaming_memory"),
        capacity_bytes=tried.memory[0].capacity_bytes,
        fits=tried.step_s is not None,
        verdict=verdict,
    )
