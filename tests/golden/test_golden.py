"""Did a number move? Every shipped scenario and variant, as it was last agreed on.

Figures of results are held by the baseline beside the scenarios, as `podsim check scenarios` does; the golden files
hold what lies behind them: breakdowns, the order and times of traces, the memory of IPUs, requests that are served.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from podsim import ForwardResult, GenerationResult, InfeasibleError, RunResult, ServingResult, run, serve
from podsim.result.rows import MemoryReport, OperationRow
from podsim.result.step import StepReport
from podsim.scenario import GenerationScenario, LoadedScenario, TrainingScenario
from podsim.study.check.measure import Case, cases_of, measured, read_baseline
from podsim.study.check.verdict import verdict_on
from tests.cases import every_case
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

SCENARIOS = Path(__file__).resolve().parent.parent.parent / "scenarios"
BASELINE = SCENARIOS / "podsim-baseline.json"
FILES = sorted(SCENARIOS.rglob("*.yaml"))
LONG = {"gpt3_175b_pod256"}
"""Scenarios whose traces have millions of records, which no golden file holds."""
_IMAGES = {"resnet", "efficientnet", "efficientnet_v2", "conductivity_cnn"}
"""Families without packs, which hold several samples, and without noise, which a mean time to train takes in."""
_SERVING = (
    *("service", "request_count", "rate_per_s", "load", "saturation", "load_curve", "queue_grows"),
    *("queueing", "time_to_first_token", "time_per_output_token", "latency"),
    *("throughput_requests_per_s", "throughput_tokens_per_s", "utilization", "mean_batch", "mean_waiting"),
)


def title(case: Case) -> str:
    return Path(case.name).name


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
    return digest([[row.stage, row.block, row.kind, row.name, row.count, row.seconds] for row in rows])


def results_of_step(step: StepReport) -> dict[str, Any]:
    """One of the steps of inference."""
    return {
        "breakdown_s": breakdown_s(step.breakdown),
        "loads_s": round(step.loads_s, DIGITS),
        "longest_stage_ps": step.longest_stage_ps,
        "phases": digest([[phase.name, phase.count, phase.seconds] for phase in step.phases]),
    }


def results_of_training(result: RunResult, spec: TrainingScenario) -> dict[str, Any]:
    room = result.memory.in_processor_memory_bytes
    assert 0 < result.mfu < 1
    assert all(result.memory.used_bytes(ipu) <= room for ipu in range(len(result.ipus)))
    if spec.model.kind in _IMAGES:
        division = spec.parallelism
        batch = division.micro_batch_size * division.accumulation_factor * division.replication_factor
        assert result.throughput_samples_per_s * result.weight_update_s == pytest.approx(batch)
        assert (result.time_to_train_s or 0.0) == pytest.approx(fsum(result.run_breakdown.values()))
    return {
        "run_s": rounded(result.run_breakdown),
        "breakdown_s": breakdown_s(result.breakdown),
        "operations": operations(result.operations),
        **({} if result.trace is None else {"trace": digests_of_trace(result.trace)}),
        "event_count": result.event_count,
        "memory_bytes": memory_bytes(result.memory),
    }


def results_of_generation(result: GenerationResult) -> dict[str, Any]:
    assert result.trace is not None
    return {
        "steps": {step.name: results_of_step(step) for step in (result.prefill, result.decode)},
        "trace": digests_of_trace(result.trace),
        "event_count": result.event_count,
        "memory_bytes": memory_bytes(result.memory),
    }


def results_of_passes(result: ForwardResult) -> dict[str, Any]:
    assert result.trace is not None
    return {
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


class Recorded:
    """Simulates a case once, for its figures and for what lies behind them."""

    def __init__(self, record: bool = True) -> None:
        self.record = record
        self.behind: dict[str, Any] = {}

    def __call__(self, loaded: LoadedScenario) -> Any:
        try:
            result = run(loaded, record=self.record)
        except InfeasibleError as error:  # "it does not fit" is an answer too
            self.behind = {"infeasible": error.message, "do": error.do}
            raise
        if isinstance(result, GenerationResult):
            self.behind = results_of_generation(result)
        elif isinstance(result, ForwardResult):
            self.behind = results_of_passes(result)
        else:
            self.behind = results_of_training(result, loaded.spec.require(TrainingScenario))
        if isinstance(loaded.spec, GenerationScenario) and loaded.spec.serving is not None:
            self.behind["serving"] = results_of_serving(serve(loaded, loads=[0.8]))
        return result


@pytest.fixture(scope="module")
def baseline() -> Any:
    return read_baseline(BASELINE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_number_moved(file: Path, baseline: Any, update_golden: bool) -> None:
    """Figures by the baseline, which `podsim check scenarios --accept` rewrites; the rest by golden files."""

    @every_case("case", lambda: cases_of([file], SCENARIOS))
    def holds(case: Case) -> None:
        recorded = Recorded(record=file.stem not in LONG)
        verdict = verdict_on({case.name: measured(case, recorded)}, baseline.for_case(case.name))
        check(f"results/{title(case)}", recorded.behind, update=update_golden)
        assert verdict.holds or update_golden, verdict.text()

    holds()


def test_no_golden_file_is_left_over(baseline: Any, update_golden: bool) -> None:
    cases = list(cases_of([SCENARIOS], SCENARIOS))
    check_none_is_left_over("results", {title(case) for case in cases}, update=update_golden)
    assert update_golden or set(baseline.scenarios) == {case.name for case in cases}, "run `./dev golden`"


def test_the_baseline_holds_every_digit_that_it_keeps(baseline: Any) -> None:
    """Nothing else is agreed on: a figure that moves in its eighth digit is found."""
    assert (baseline.tolerances, baseline.tolerance_of("any", "figure")) == ({}, 1e-8)
    name = "mlperf/bert_v1.1_pod16_open"
    kept = baseline.scenarios[name]
    for factor, holds in ((1 + 1e-9, True), (1 + 2e-8, False)):
        metrics = {**kept["metrics"], "weight_update_s": kept["metrics"]["weight_update_s"] * factor}
        now = {name: {**kept, "metrics": metrics, "reason": None, "expect": {}}}
        assert verdict_on(now, baseline.for_case(name)).holds == holds


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
