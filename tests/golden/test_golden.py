"""Did a number move? The key results of every shipped scenario and variant, as they were last agreed on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
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
from podsim.specs import ForwardScenarioSpec, InferenceScenarioSpec, load_scenario, shipped_names, variant_names

FOLDER = Path(__file__).resolve().parent / "results"
DIGITS = 9
"""Significant digits of floating-point numbers; parts of a breakdown are rounded to the nanosecond."""


def cases() -> list[tuple[str, str | None]]:
    """Every scenario by itself and with each of its variants."""
    names = shipped_names()["scenarios"]
    return [(name, variant) for name in names for variant in (None, *variant_names(name))]


def title(case: tuple[str, str | None]) -> str:
    return case[0] if case[1] is None else f"{case[0]}@{case[1]}"


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")


def key_results(result: RunResult) -> dict[str, Any]:
    """What the golden file of a result holds."""
    memory, fullest = result.memory, result.memory.fullest_ipu()
    return {
        "throughput_samples_per_s": rounded(result.throughput_samples_per_s),
        "weight_update_s": rounded(result.weight_update_s),
        "time_to_train_s": rounded(result.time_to_train_s),
        "time_to_train_percentiles": {k: rounded(v) for k, v in (result.time_to_train_percentiles or {}).items()},
        "mfu": rounded(result.mfu),
        "breakdown_s": {kind: round(seconds, DIGITS) for kind, seconds in result.breakdown.items()},
        "event_count": result.event_count,
        "fullest_ipu": {
            "ipu": fullest,
            "capacity_bytes": memory.in_processor_memory_bytes,
            "used_bytes": memory.used_bytes(fullest) if fullest is not None else 0,
            "tenants_bytes": memory.tenants(fullest, "in_processor_memory") if fullest is not None else {},
        },
    }


def key_results_of_generation(result: GenerationResult) -> dict[str, Any]:
    """The same for text generation."""
    return {
        "time_to_first_token_s": rounded(result.time_to_first_token_s),
        "time_per_output_token_s": rounded(result.time_per_output_token_s),
        "tokens_per_s": rounded(result.tokens_per_s),
        "breakdowns_s": {
            step.name: {kind: round(seconds, DIGITS) for kind, seconds in step.breakdown.items()}
            for step in (result.prefill, result.decode)
        },
        "event_count": result.event_count,
    }


def key_results_of_serving(result: ServingResult) -> dict[str, Any]:
    """The same for requests under load."""
    served = result.outcome
    return {
        "saturation_per_s": rounded(result.saturation.rate_per_s),
        "time_to_first_token_p95_s": rounded(served.time_to_first_token.p95_s),
        "latency_p95_s": rounded(served.latency.p95_s),
        "utilization": rounded(served.utilization),
        "mean_waiting": rounded(served.mean_waiting),
    }


def key_results_of_passes(result: ForwardResult) -> dict[str, Any]:
    """The same for forward passes."""
    return {
        "latency_s": rounded(result.latency_s),
        "throughput_samples_per_s": rounded(result.throughput_samples_per_s),
        "breakdowns_s": {
            step.name: {kind: round(seconds, DIGITS) for kind, seconds in step.breakdown.items()}
            for step in (result.batch, result.call)
        },
        "event_count": result.event_count,
    }


def outcome(name: str, variant: str | None) -> dict[str, Any]:
    """Key results, or why there are none: "it does not fit" is an answer too."""
    loaded = load_scenario(name, variant)
    try:
        if isinstance(loaded.spec, InferenceScenarioSpec):
            results = key_results_of_generation(generate(loaded))
            if loaded.spec.serving is not None:
                results["serving"] = key_results_of_serving(serve(loaded, loads=[0.8]))
            return json.loads(json.dumps(results))
        if isinstance(loaded.spec, ForwardScenarioSpec):
            return json.loads(json.dumps(key_results_of_passes(infer(loaded))))
        result = simulate(loaded)
    except InfeasibleError as error:
        return {"infeasible": error.message, "do": error.do}
    return json.loads(json.dumps(key_results(result)))


def flat(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """(dotted key, value) of everything in a golden file."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from flat(each, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """One line for each number that is not what it was."""
    old, new = dict(flat(before)), dict(flat(after))
    lines = []
    for key in dict.fromkeys([*old, *new]):
        was, now = old.get(key), new.get(key)
        if was != now:
            both = isinstance(was, (int, float)) and isinstance(now, (int, float)) and was
            change = f"  ({now / was - 1:+.3%})" if both else ""
            lines.append(f"  {key}: {was} → {now}{change}")
    return lines


def message(name: str, lines: list[str]) -> str:
    return "\n".join(
        [
            f"{name}: {len(lines)} numbers are not what tests/golden/results/{name}.json says:",
            *lines,
            "If the change is meant: run `./dev golden`, look at the difference, and record it in CHANGELOG.md.",
        ]
    )


@pytest.mark.parametrize("case", cases(), ids=title)
def test_no_number_moved(case: tuple[str, str | None], update_golden: bool) -> None:
    path = FOLDER / f"{title(case)}.json"
    now = outcome(*case)
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    assert path.is_file(), f"{title(case)} has no golden file; run `./dev golden`"
    lines = moved(json.loads(path.read_text(encoding="utf-8")), now)
    assert not lines, message(title(case), lines)


def test_no_golden_file_is_left_over(update_golden: bool) -> None:
    left_over = {path.stem for path in FOLDER.glob("*.json")} - {title(case) for case in cases()}
    if update_golden:
        for name in left_over:
            (FOLDER / f"{name}.json").unlink()
        left_over = set()
    assert not left_over, "scenarios that are gone; run `./dev golden`"


def test_the_message_names_what_moved_and_what_to_do() -> None:
    before = {"weight_update_s": 0.5, "breakdown_s": {"matmul": 0.2, "host": 0.3}, "event_count": 7}
    after = {"weight_update_s": 0.6, "breakdown_s": {"matmul": 0.2, "sync": 0.4}, "event_count": 7}
    assert message("x", moved(before, after)).splitlines() == [
        "x: 3 numbers are not what tests/golden/results/x.json says:",
        "  weight_update_s: 0.5 → 0.6  (+20.000%)",
        "  breakdown_s.host: 0.3 → None",
        "  breakdown_s.sync: None → 0.4",
        "If the change is meant: run `./dev golden`, look at the difference, and record it in CHANGELOG.md.",
    ]
