"""Shipped scenarios of decoder families: the published model, its sums over shards, its cache, its division."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from podsim import run
from podsim.models.op import MatMul
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch
from podsim.placement.generation import generation_cost_model, generation_job, plan_step, with_stages_of_shards
from podsim.placement.layout import Precision
from podsim.program.generation import ALL_REDUCE, compile_step
from podsim.program.task import Exchange
from podsim.scenario import GenerationScenario, load_scenario
from tests.unit.test_decoder_families import FALCON, GEMMA_2B, GPT_J, GPT_NEOX, MIXTRAL, QWEN2


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
    "falcon_7b_pod16": Known(
        replace(FALCON, tied_embedding=True),
        # 71 heads of 64; one of keys and one of values, of which each of the 16 shards keeps a copy.
        2 * (32 * (2 * 4544**2 + 2 * 4544 * 64 + 2 * 4544 * 18176) + 65024 * 4544) + 32 * 4 * 4544,
        1,
        16 * 32 * 2 * 64 * 2,
    ),
    "mixtral_8x7b_pod16": Known(
        MIXTRAL,
        # 32 heads with 8 of keys, of which two shards keep a copy; a router and 2 of 8 experts of 3·4096·14336.
        2 * (32 * (2 * 4096**2 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 3 * 4096 * 14336) + 32000 * 4096) + 32 * 4 * 4096,
        2,
        2 * 32 * 2 * 1024 * 2,
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
    return load_scenario(name).require(GenerationScenario)


@scenarios
def test_the_model_is_the_published_one(name: str, known: Known) -> None:
    assert spec_of(name).model.shape == known.shape


@scenarios
def test_work_of_a_token(name: str, known: Known) -> None:
    batch = Batch(1, 1, dropout=False, attention_dropout=False, context_length=1, cached=True)
    assert causal_decoder(spec_of(name).model.shape, batch).forward_flop == known.flop_per_token


@scenarios
def test_shards_add_up_their_results(name: str, known: Known) -> None:
    """A sum over four shards takes 2·2 steps, as both directions go half of the way around."""
    asked = with_stages_of_shards(generation_job(spec_of(name)), 1, 4).laid_out(batches_in_flight=1)
    step = compile_step(plan_step(asked, "decode", generation_cost_model(asked)))
    layers = next(phase for phase in step.groups[0].phases if phase.name.startswith("layers"))
    transfers = [each.transfers for each in layers.steps["ipu0"] if isinstance(each, Exchange)]
    assert sum(transfer[0].kind == ALL_REDUCE for transfer in transfers) == known.sums_per_layer * 2 * 2


@scenarios
def test_keys_and_values_of_all_tokens_are_kept(name: str, known: Known) -> None:
    """Shards divide them; a row stands for the IPUs of its stage. Every batch in flight has its own."""
    spec, result = spec_of(name), run(name)
    tokens = spec.generation.sequence_length * spec.parallelism.batches_in_flight
    kept = sum(row.size_bytes for row in result.memory.rows if row.tenant == "kv_cache")
    assert kept * spec.parallelism.tensor_parallel == tokens * known.cache_bytes_per_token


def read_bytes(batch_size: int) -> int:
    """Weights that a decode step of Mixtral reads. [B]"""
    batch = Batch(batch_size, 1, dropout=False, attention_dropout=False, context_length=768, cached=True)
    workload = causal_decoder(spec_of("mixtral_8x7b_pod16").model.shape, batch)
    return Precision(16).read_bytes(
        parameter for name in workload.order for parameter in workload.blocks[name].parameters
    )


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_a_batch_reads_the_experts_that_its_tokens_meet(batch_size: int) -> None:
    """8·(1 - (6/8)^n) of 8 experts of 3·4096·14336 for n tokens: 2, 3.5, and 7.199."""
    experts, met = 32 * 8 * 3 * 4096 * 14336, 1 - (6 / 8) ** batch_size
    assert read_bytes(batch_size) == pytest.approx(2 * (46_702_792_704 - experts * (1 - met)), rel=1e-6)


def test_more_tokens_cost_more_experts_to_stream() -> None:
    """Where streaming memory is the bound, the time of a step follows what is read."""
    one, two = (run("mixtral_8x7b_pod16", overrides=[f"generation.batch_size={size}"]) for size in (1, 2))
    streaming = [result.decode.breakdown["streaming"] for result in (one, two)]
    assert streaming[1] / streaming[0] == pytest.approx(read_bytes(2) / read_bytes(1), rel=0.02)


@pytest.mark.parametrize(
    ("override", "read", "said"),
    [
        # Three of 8 experts, and a single network in place of them.
        ("model.experts.per_token=3", 3, "model.experts.per_token"),
        ("model.experts=null", 1, "model.experts"),
    ],
)
def test_a_preset_s_experts_can_be_changed_and_it_is_said(override: str, read: int, said: str) -> None:
    result = run("mixtral_8x7b_pod16", overrides=[override])
    shape = load_scenario("mixtral_8x7b_pod16", overrides=[override]).require(GenerationScenario).model.shape
    batch = Batch(1, 1, dropout=False, attention_dropout=False, context_length=768, cached=True)
    up = next(op for op in causal_decoder(shape, batch).blocks["feed_forward"].forward if op.name == "feed_forward/up")
    assert isinstance(up, MatMul)
    assert up.group_count == read
    (change,) = result.simulated.changes
    assert (change.key, str(change.after)) == (said, override.partition("=")[2])
