"""Did a number move? The results of every shipped scenario and variant, as they were last agreed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from podsim import (
    ForwardResult,
    GenerationResult,
    InfeasibleError,
    RunResult,
    ServingResult,
    generate,
    infer,
    serve,
    simulate,
)
from podsim.report.rows import MemoryReport, OperationRow
from podsim.report.step import StepReport
from podsim.specs import ForwardScenario, GenerationScenario, load_scenario, shipped_names, variant_names
from tests.golden.agreed import (
    DIGITS,
    check,
    check_none_is_left_over,
    digest,
    digests_of_trace,
    message,
    moved,
    rounded,
)

_SERVING = (
    *("service", "request_count", "rate_per_s", "load", "saturation", "load_curve", "queue_grows"),
    *("queueing", "time_to_first_token", "time_per_output_token", "latency"),
    *("throughput_requests_per_s", "throughput_tokens_per_s", "utilization", "mean_batch", "mean_waiting"),
)


def cases() -> list[tuple[str, str | None]]:
    """Every scenario by itself and with each of its variants."""
    names = shipped_names()["scenarios"]
    return [(name, variant) for name in names for variant in (None, *variant_names(name))]


def title(case: tuple[str, str | None]) -> str:
    return case[0] if case[1] is None else f"{case[0]}@{case[1]}"


def breakdown_s(breakdown: dict[str, float]) -> dict[str, float]:
    return {kind: round(seconds, DIGITS) for kind, seconds in breakdown.items()}


def memory_bytes(memory: MemoryReport) -> dict[str, Any]:
    """What every IPU of a replica holds in each of the memories that are used, and the room there."""
    places = sorted({row.where for row in memory.rows})
    ipus = {where: sorted({row.ipu for row in memory.rows if row.where == where}) for where in places}
    return {
        where: {"capacity": memory.capacity_bytes(where)}
        | {f"ipu{ipu}": memory.tenants(ipu, where) for ipu in ipus[where]}
        for where in places
    }


def operations(rows: Sequence[OperationRow]) -> str:
    """A fingerprint of the time of every operation, by kind."""
    return digest([[each.stage, each.block, each.kind, each.name, each.count, each.seconds] for each in rows])


def results_of_step(step: StepReport) -> dict[str, Any]:
    """One of the steps of inference."""
    return {
        "breakdown_s": breakdown_s(step.breakdown),
        "loads_s": round(step.loads_s, DIGITS),
        "longest_stage_ps": step.longest_stage_ps,
        "phases": digest([[each.name, each.count, each.seconds] for each in step.phases]),
    }


def results_of_training(result: RunResult) -> dict[str, Any]:
    assert result.trace is not None
    numbers = {
        "throughput_samples_per_s": result.throughput_samples_per_s,
        "weight_update_s": result.weight_update_s,
        "time_to_train_s": result.time_to_train_s,
        "time_to_train_percentiles": result.time_to_train_percentiles or {},
        "run_s": result.run_breakdown,
        "mfu": result.mfu,
    }
    return rounded(numbers) | {
        "breakdown_s": breakdown_s(result.breakdown),
        "operations": operations(result.operations),
        "trace": digests_of_trace(result.trace),
        "event_count": result.event_count,
        "memory_bytes": memory_bytes(result.memory),
    }


def results_of_generation(result: GenerationResult) -> dict[str, Any]:
    assert result.trace is not None
    numbers = {
        "time_to_first_token_s": result.time_to_first_token_s,
        "time_per_output_token_s": result.time_per_output_token_s,
        "tokens_per_s": result.tokens_per_s,
    }
    return rounded(numbers) | {
        "steps": {step.name: results_of_step(step) for step in (result.prefill, result.decode)},
        "trace": digests_of_trace(result.trace),
        "event_count": result.event_count,
        "memory_bytes": memory_bytes(result.memory),
    }


def results_of_passes(result: ForwardResult) -> dict[str, Any]:
    assert result.trace is not None
    numbers = {
        "latency_s": result.latency_s,
        "throughput_samples_per_s": result.throughput_samples_per_s,
    }
    return rounded(numbers) | {
        "steps": {step.name: results_of_step(step) for step in (result.batch, result.call)},
        "operations": operations(result.operations),
        "trace": digests_of_trace(result.trace),
        "event_count": result.event_count,
        "memory_bytes": memory_bytes(result.memory),
    }


def results_of_serving(result: ServingResult) -> dict[str, Any]:
    """All numbers; of the queue over time and of every request a fingerprint."""
    told = result.to_dict()
    numbers = {key: told[key] for key in _SERVING}
    queue, timeline = result.outcome.queue, result.outcome.timeline
    times = [timeline.start_ps, timeline.first_token_ps, timeline.last_token_ps]
    return rounded(numbers) | {
        "queue": {"most": result.most_waiting, "over_time": digest([queue.time_s, queue.mean, queue.peak])},
        "requests": digest([timeline.requests.arrival_ps, *times]),
    }


def outcome(name: str, variant: str | None) -> dict[str, Any]:
    """Results, or why there are none: "it does not fit" is an answer too."""
    loaded = load_scenario(name, variant)
    try:
        if isinstance(loaded.spec, GenerationScenario):
            results = results_of_generation(generate(loaded, record=True))
            if loaded.spec.serving is not None:
                results["serving"] = results_of_serving(serve(loaded, loads=[0.8]))
            return results
        if isinstance(loaded.spec, ForwardScenario):
            return results_of_passes(infer(loaded, record=True))
        return results_of_training(simulate(loaded, record=True))
    except InfeasibleError as error:
        return {"infeasible": error.message, "do": error.do}


@pytest.mark.parametrize("case", cases(), ids=title)
def test_no_number_moved(case: tuple[str, str | None], update_golden: bool) -> None:
    check(f"results/{title(case)}", outcome(*case), update=update_golden)


def test_no_golden_file_is_left_over(update_golden: bool) -> None:
    check_none_is_left_over("results", {title(case) for case in cases()}, update=update_golden)


def test_the_message_names_what_moved_and_what_to_do() -> None:
    before = {"weight_update_s": 0.5, "breakdown_s": {"matmul": 0.2, "host": 0.3}, "counts": [7, 8]}
    after = {"weight_update_s": 0.6, "breakdown_s": {"matmul": 0.2, "sync": 0.4}, "counts": [7, 9]}
    assert message("results/x", moved(before, after)).splitlines() == [
        "results/x: 4 numbers are not what tests/golden/results/x.json says:",
        "  weight_update_s: 0.5 → 0.6  (+20.000%)",
        "  breakdown_s.host: 0.3 → None",
        "  counts.1: 8 → 9  (+12.500%)",
        "  breakdown_s.sync: None → 0.4",
        "If the change is meant: run `./dev golden`, look at the difference, and record it in CHANGELOG.md.",
    ]


def test_a_digest_tells_the_tenth_digit_from_the_ninth() -> None:
    assert digest({"a": [0.1234567891]}) == digest({"a": [0.1234567892]})
    assert digest({"a": [0.123456789]}) != digest({"a": [0.123456788]})
