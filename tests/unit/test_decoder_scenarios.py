"""Shipped scenarios of decoder families: the published model, its sums over shards, its cache, its division."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from podsim import run
from podsim.plan.generation import plan_generation
from podsim.plan.generation_job import generation_job
from podsim.program.generation import ALL_REDUCE, compile_step
from podsim.program.task import Exchange
from podsim.specs import GenerationScenario, load_scenario
from podsim.workload import Batch, DecoderShape, causal_decoder
from tests.unit.test_decoder_families import GEMMA_2B, GPT_J, GPT_NEOX, QWEN2


@dataclass(frozen=True)
class Known:
    """What is known of a scenario by hand.

    `shape` has the published number of parameters; the others are work of a token without its context [FLOP], sums over
    shards in each layer, and keys and values of a token [B].
    """

    shape: DecoderShape
    flop_per_token: int
    sums_per_layer: int
    cache_bytes_per_token: int


SCENARIOS = {
    "gptj_6b_pod16": Known(
        GPT_J,
        # Attention of 4·4096², a feed-forward block of 2·4096·16384, a head of 50,400 words; one key of 256 per head.
        2 * (28 * (4 * 4096**2 + 2 * 4096 * 16384) + 50400 * 4096) + 28 * 4 * 4096,
        1,
        28 * 2 * 4096 * 2,
    ),
    "gpt_neox_20b_pod16": Known(
        GPT_NEOX,
        2 * (44 * (4 * 6144**2 + 2 * 6144 * 24576) + 50432 * 6144) + 44 * 4 * 6144,
        1,
        44 * 2 * 6144 * 2,
    ),
    "qwen2_7b_pod4": Known(
        QWEN2,
        # 28 heads of 128 with 4 of keys and of values, a gated feed-forward block, 152,064 words.
        2 * (28 * (2 * 3584**2 + 2 * 3584 * 512 + 3 * 3584 * 18944) + 152064 * 3584) + 28 * 4 * 3584,
        2,
        28 * 2 * 4 * 128 * 2,
    ),
    "gemma_2b_pod4": Known(
        GEMMA_2B,
        # 8 heads of 256 with one of keys and of values, of which each of the 4 shards keeps a copy.
        2 * (18 * (2 * 2048**2 + 2 * 2048 * 256 + 3 * 2048 * 16384) + 256000 * 2048) + 18 * 4 * 2048,
        2,
        4 * 18 * 2 * 256 * 2,
    ),
}
scenarios = pytest.mark.parametrize(("name", "known"), SCENARIOS.items(), ids=SCENARIOS)


def spec_of(name: str) -> GenerationScenario:
    return load_scenario(name).of(GenerationScenario)


@scenarios
def test_the_model_is_the_published_one(name: str, known: Known) -> None:
    assert spec_of(name).model.shape == known.shape


@scenarios
def test_work_of_a_token(name: str, known: Known) -> None:
    batch = Batch(1, 1, dropout=False, attention_dropout=False, context_length=1, cached=True)
    assert causal_decoder(spec_of(name).model.shape, batch).forward_flop == known.flop_per_token


@scenarios
def test_shards_add_up_their_results(name: str, known: Known) -> None:
    """A ring of n shards takes 2·(n - 1) steps for a sum."""
    spec = spec_of(name)
    layers = next(
        phase
        for phase in compile_step(plan_generation(generation_job(spec)).decode).groups[0].phases
        if phase.name.startswith("layers")
    )
    transfers = [each.transfers for each in layers.steps["ipu0"] if isinstance(each, Exchange)]
    steps = sum(each[0].kind == ALL_REDUCE for each in transfers)
    shards = spec.parallelism.tensor_parallel
    assert shards > 1
    assert steps == known.sums_per_layer * 2 * (shards - 1)


@scenarios
def test_keys_and_values_of_all_tokens_are_kept(name: str, known: Known) -> None:
    """Shards divide them; a row stands for the IPUs of its stage."""
    spec, result = spec_of(name), run(name)
    tokens = spec.generation.batch_size * spec.generation.sequence_length
    kept = sum(row.size_bytes for row in result.memory.rows if row.tenant == "kv_cache")
    assert kept * spec.parallelism.tensor_parallel == tokens * known.cache_bytes_per_token
