"""What property tests ask of any result: its times, its shares, its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import podsim
from podsim.result.inference import ForwardResult, GenerationResult
from podsim.result.result import RunResult
from podsim.result.serving import ServingResult
from podsim.result.step import StepReport
from podsim.scenario import LoadedScenario

Result = RunResult | GenerationResult | ForwardResult | ServingResult


def run(scenario: Mapping[str, Any] | LoadedScenario, **options: Any) -> Result:
    """Whatever the scenario asks for."""
    if isinstance(scenario, LoadedScenario):
        return _run_loaded(scenario)
    if "serving" in scenario:
        return podsim.serve(scenario, **options)
    if "generation" in scenario:
        return podsim.generate(scenario, **options)
    model = scenario.get("model")
    if "forward" in scenario or (isinstance(model, Mapping) and model.get("kind") == "graph"):
        return podsim.infer(scenario, **options)
    return podsim.simulate(scenario, **options)


def _run_loaded(loaded: LoadedScenario) -> Result:
    return podsim.serve(loaded) if loaded.has_key("serving") else podsim.run(loaded)


def times(result: Result) -> dict[str, float]:
    """What a reader would call faster or slower: the less the faster. [s]"""
    if isinstance(result, RunResult):
        return {"per sample": 1 / result.throughput_samples_per_s}
    if isinstance(result, GenerationResult):
        return {
            "first token": result.time_to_first_token_s,
            "next token": result.time_per_output_token_s,
            "per token": 1 / result.tokens_per_s,
        }
    if isinstance(result, ForwardResult):
        return {"latency": result.latency_s, "per sample": 1 / result.throughput_samples_per_s}
    return {"per request": 1 / result.saturation.rate_per_s}


def steps(result: Result) -> list[StepReport]:
    """The stretches of inference that a result reports."""
    if isinstance(result, GenerationResult):
        return [result.prefill, result.decode]
    return [result.batch, result.call] if isinstance(result, ForwardResult) else []


def complaints(result: Result) -> Iterator[str]:
    """What no result may be: shares that do not add up, memories overfull, work beyond the peak."""
    for step in steps(result):
        if sum(step.breakdown_ps.values()) != step.time_ps or sum(step.breakdown.values()) != step.time_s:
            yield f"the shares of {step.name} do not add up"
        if min(step.breakdown_ps.values(), default=0) < 0:
            yield f"a share of {step.name} is negative"
    if isinstance(result, RunResult):
        accounts = [result.breakdown_ps, *(ipu.time_ps for ipu in result.ipus)]
        if any(sum(account.values()) != result.weight_update_ps for account in accounts):
            yield "the shares of the weight update do not add up"
        if not 0 < result.mfu <= 1:
            yield f"MFU is {result.mfu}"
    if isinstance(result, ForwardResult) and not 0 < result.utilization <= 1:
        yield f"utilization is {result.utilization}"
    if isinstance(result, ServingResult):
        if not 0 < result.outcome.utilization <= 1:
            yield f"utilization is {result.outcome.utilization}"
    else:
        yield from _overfull(result)
    if not all(0 < time < float("inf") for time in times(result).values()):
        yield f"a time is none: {times(result)}"


def _overfull(result: RunResult | GenerationResult | ForwardResult) -> Iterator[str]:
    memory = result.memory
    limits = {
        "in_processor_memory": memory.in_processor_memory_bytes,
        "streaming_memory": memory.streaming_memory_bytes,
    }
    used: dict[tuple[int, str], int] = {}
    for row in memory.rows:
        used[row.ipu, row.where] = used.get((row.ipu, row.where), 0) + row.size_bytes
    for (ipu, storage), size in used.items():
        if size > limits[storage]:
            yield f"IPU {ipu} holds {size} B in {storage}, which has {limits[storage]}"
