"""`parallelism: auto` is at most 0.5 % slower than random legal layouts, and no slower than what it replaces."""

from __future__ import annotations

from random import Random

import pytest

from podsim.scenario import LoadedScenario, TrainingScenario, load_scenario
from podsim.search.auto import choose
from podsim.watch import silent
from tests.property.test_search_is_honest import FOUR, GROUPED, LLAMA, MOE, bert, decoder, t5
from tests.random_layouts import random_layouts, update_s

_AS_FAST = 0.995
SMALL = {
    "bert": bert(FOUR, 3, 16),
    "bert grouped": bert(FOUR, 3, 16, software=GROUPED),
    "gpt": decoder(FOUR, 16, size={"layer_count": 3}),
    "llama": decoder(FOUR, 16, size={**LLAMA, "layer_count": 3}),
    "experts": decoder(FOUR, 16, size={**MOE, "layer_count": 3}),
    "t5": t5(FOUR, 8),
}
# Number of layouts: one of GPT-3 that fits takes 80 to draw, 0.15 s each.
LARGE = {
    "llama2_7b_phased_pod64": 5,
    "llama2_70b_phased_pod64": 3,
    "gpt3_175b_pod256": 2,
    "mixtral_8x7b_phased_pod64": 2,
    "bert_v1.1_pod64_closed": 5,
    "resnet50_v1.1_pod64": 3,
}


def is_as_fast_as_random_ones(auto: LoadedScenario, drawn: int, seed: int) -> None:
    loaded, choice = choose(auto, silent)
    spec = loaded.require(TrainingScenario)
    chosen_s = update_s(spec)
    assert chosen_s is not None, "what is chosen leaves the reserve free"
    found = list(random_layouts(spec, spec.parallelism.batch_size, Random(seed), drawn))
    assert len(found) == drawn
    fastest = min(found, key=lambda each: each.update_s)
    assert fastest.update_s >= chosen_s * _AS_FAST, fastest.spec.parallelism
    if choice.replaced is not None and auto.replaced is not None:
        given = update_s(auto.replaced.require(TrainingScenario))
        assert given is None or given >= chosen_s


@pytest.mark.parametrize("case", SMALL)
def test_small_models_on_four_ipus(case: str) -> None:
    is_as_fast_as_random_ones(load_scenario(SMALL[case]), 25, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "drawn"),
    [*(pytest.param(*each, marks=pytest.mark.ci) for each in LARGE.items()), ("vit_base_pod16", 5)],
)
def test_shipped_models(name: str, drawn: int) -> None:
    is_as_fast_as_random_ones(load_scenario(name, overrides=["parallelism=auto"]), drawn, seed=7)


def test_the_layout_of_the_file_is_a_candidate() -> None:
    """With a division, its batch and memory keys come back; pins that differ from it, or another batch, exclude it."""
    name = "gpt3_175b_pod256"
    auto = load_scenario(name, overrides=["parallelism=auto"])
    assert auto.replaced is not None
    given = auto.replaced.require(TrainingScenario)
    assert given.parallelism == load_scenario(name).require(TrainingScenario).parallelism
    assert given.memory.io_tiles == 128
    for other in ("parallelism.tensor_parallel=32", "batch_size=256"):
        assert load_scenario(name, overrides=["parallelism.auto=true", other]).replaced is None
