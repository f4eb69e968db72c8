"""Did `parallelism: auto` choose another way? Every candidate of a spread of models, pods, batches and pins."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from podsim import InfeasibleError, generate, load_scenario, memo, serve, simulate
from podsim.scenario import GenerationScenario
from podsim.search.choice import Choice
from tests.golden.agreed import check, check_none_is_left_over, rounded

AUTO = "parallelism=auto"
CASES: dict[str, tuple[str, list[str]]] = {
    "bert_large_pod16": ("bert_v1.1_pod16_open", [AUTO]),
    "bert_large_pod64": ("bert_v1.1_pod64_closed", [AUTO]),
    "bert_large_pod16_on_4_ipus": ("bert_v1.1_pod16_open", ["parallelism={auto: true, ipus_per_replica: 4}"]),
    "bert_large_pod16_too_few_samples": ("bert_v1.1_pod16_open", [AUTO, "batch_size=7"]),
    "bert_base_squad": ("bert_base_squad_pod16", [AUTO]),
    "gpt2_small": ("gpt2_small_pod16", [AUTO]),
    "gpt2_large": ("gpt2_large_pod16", [AUTO]),
    "vit_base": ("vit_base_pod16", [AUTO]),
    "t5_small": ("t5_small_xsum_pod16", [AUTO]),
    "resnet50_pod256": ("resnet50_v1.1_pod256", [AUTO]),
    "resnet50_pod64": ("resnet50_v1.0_pod64", [AUTO]),
    "conductivity_cnn": ("conductivity_cnn_pod4", [AUTO]),
    "llama2_7b": ("llama2_7b_pods", [AUTO]),
    "llama2_7b_pod64_int4": ("llama2_7b_pods", [AUTO, "system=ipu_pod64", "precision.weights=int4"]),
    "llama2_13b": ("llama2_13b_pod16", [AUTO]),
    "llama2_70b_pod4_too_large": ("llama2_70b_pod64", [AUTO, "system=ipu_pod4", "generation.batch_size=64"]),
    "serving_llama2_7b": ("serving_llama2_7b_pod64", [AUTO]),
}


def of_choice(choice: Choice | None) -> dict[str, Any]:
    """What was chosen, and what was weighed against it."""
    assert choice is not None
    return rounded(asdict(choice))


def outcome(name: str, overrides: list[str]) -> dict[str, Any]:
    loaded = load_scenario(name, overrides=overrides)
    try:
        if not isinstance(loaded.spec, GenerationScenario):
            return of_choice(simulate(loaded).choice)
        if loaded.spec.serving is None:
            return of_choice(generate(loaded).choice)
        scenario = serve(loaded, loads=[0.8]).scenario
        return {key: scenario[key] for key in ("parallelism", "memory")}
    except InfeasibleError as error:
        return {"infeasible": error.message, "do": error.do}


@pytest.mark.parametrize("case", CASES)
def test_no_choice_changed(case: str, update_golden: bool) -> None:
    memo.forget()  # bounds that an earlier search left behind change which runners-up are simulated
    check(f"choices/{case}", outcome(*CASES[case]), update=update_golden)


def test_no_golden_file_of_a_choice_is_left_over(update_golden: bool) -> None:
    check_none_is_left_over("choices", set(CASES), update=update_golden)
