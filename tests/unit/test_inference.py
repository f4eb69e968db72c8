"""Text generation: models against their published sizes, steps by hand, the published run of LLaMa 2."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

import podsim
from podsim.errors import PodsimError, SpecError
from podsim.models import Workload
from podsim.models.op import MatMul
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch
from podsim.placement.cuts import even_layers
from podsim.placement.generation import Steps, generation_job, plan_generation
from podsim.placement.topologies import ladder
from podsim.result.perfetto import write_trace
from podsim.scenario import GenerationScenario, load_scenario
from tests.collectives import collective_s

PUBLISHED, PODS = "llama2_7b_pod16_streamed", "llama2_7b_pods"
OVERLAPPED = "overlapped"
READ = 19.2e9 / 4
"""What an IPU reads from streaming memory beside the three others of its machine. [B/s]"""
FEW = ["model.layer_count=4"]
"""Layers beyond these repeat what these do."""
LLAMA = DecoderShape(32, 4096, 11008, 32, 32, 32000)
# Four square projections and three matrices of the feed-forward block, which 16 shards divide; two norms in each.
LLAMA_SHARD = (4 * 4096**2 + 3 * 4096 * 11008) // 16 + 2 * 4096


def step(shape: DecoderShape, batch: int, tokens: int, context: int, shards: int = 1) -> Workload:
    return causal_decoder(shape, Batch(batch, tokens, False, False, context_length=context), shards=shards)


def plan_of(name: str, *overrides: str) -> Steps:
    spec = load_scenario(name, overrides=overrides).spec
    assert isinstance(spec, GenerationScenario)
    return plan_generation(generation_job(spec))


@pytest.mark.parametrize(
    ("size", "millions"),
    [
        ("llama2_7b", 6738.4),
        ("llama2_13b", 13015.9),
        ("llama2_70b", 68976.6),
        ("gpt2_small", 124.44),
        ("gpt2_xl", 1557.6),
    ],
)
def test_parameters(size: str, millions: float) -> None:
    scenario = {
        "system": "ipu_pod64",
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": size},
        "generation": {"prompt_tokens": 8, "output_tokens": 8},
    }
    spec = load_scenario(scenario).spec
    assert isinstance(spec, GenerationScenario)
    assert generation_job(spec).shape.parameter_count / 1e6 == pytest.approx(millions, abs=0.06)


def test_work_of_a_whole_sequence_of_llama2_7b() -> None:
    """26,526 GFLOP in dense layers and 2,199 in attention for 2,048 tokens, without a cache and undivided."""
    blocks = step(LLAMA, 1, 2048, 2048).blocks
    layer = [op for op in blocks["attention"].forward + blocks["feed_forward"].forward if isinstance(op, MatMul)]
    attention = sum(op.flop for op in layer if op.name.split("/")[-1] in ("scores", "context"))
    dense = sum(op.flop for op in layer) - attention
    assert 32 * dense / 1e9 == pytest.approx(26525.7, abs=0.1)
    assert 32 * attention / 1e9 == pytest.approx(2199.0, abs=0.1)


@pytest.mark.parametrize("shards", [2, 4, 16])
def test_shards_divide_the_work(shards: int) -> None:
    whole, shard = step(LLAMA, 2, 64, 64), step(LLAMA, 2, 64, 64, shards)
    assert shard.forward_flop * shards == whole.forward_flop


def tenant(steps: Steps, name: str, storage: str) -> int:
    return next(each.byte_count for each in steps.memory[0].tenants if (each.name, each.storage) == (name, storage))


def test_the_largest_of_unequal_shards_by_hand() -> None:
    """LLaMa2-13B's 40 heads of 128 on 16 shards: some hold 2, others 3, and these set time and memory."""
    blocks = step(DecoderShape(40, 5120, 13824, 40, 40, 32000), 2, 1, 100, 16).blocks
    products = {op.name.split("/")[-1]: op for op in blocks["attention"].forward if isinstance(op, MatMul)}
    qkv, scores, projection = (products[name] for name in ("qkv", "scores", "projection"))
    assert (qkv.inner, qkv.columns) == (5120, 3 * 3 * 128)
    assert scores.group_count == 2 * 3
    assert (projection.inner, projection.columns) == (3 * 128, 5120)
    assert blocks["feed_forward"].parameter_count == 3 * 5120 * 13824 // 16 + 5120


def test_memory_of_the_largest_of_unequal_shards_by_hand() -> None:
    """3 of 40 heads: 4·5120·3·128 in the attention, 3·5120·864 in the feed-forward block, a norm in each."""
    steps = plan_of("llama2_13b_pod16_shards", "model.layer_count=2")
    layer = 4 * 5120 * 3 * 128 + 3 * 5120 * 864 + 2 * 5120
    assert tenant(steps, "weights", "in_processor_memory") == 2 * layer
    assert tenant(steps, "weights", "streaming_memory") == 2 * (2 * layer + 2 * 2000 * 5120 + 5120)
    assert tenant(steps, "kv_cache", "in_processor_memory") == 2 * 2 * 1024 * 3 * 128 * 2


def test_words_are_padded_to_the_largest_shard() -> None:
    """50,257 words over 16 shards: 3,142 of them in the largest, of width 768."""
    embedding = step(DecoderShape(12, 768, 3072, 12, 12, 50257), 1, 1, 8, 16).blocks["embedding"]
    assert embedding.parameter_count == 3142 * 768


def test_shards_that_share_a_key_head_each_hold_it() -> None:
    """LLaMa2-70B on 16 shards: 4 of 64 query heads, and a whole one of 8 key and value heads, in each."""
    attention = step(DecoderShape(80, 8192, 28672, 64, 8, 32000), 1, 1, 100, 16).blocks["attention"]
    assert attention.parameter_count == 8192 * 128 * (2 * 4 + 2 * 1) + 8192


def test_grouped_queries_share_keys() -> None:
    """64 query heads on 8 key heads, over 4 shards: 2 groups of 8 queries each per sequence."""
    scores = next(
        op
        for op in step(DecoderShape(80, 8192, 28672, 64, 8, 32000), 3, 1, 100, 4).blocks["attention"].forward
        if isinstance(op, MatMul) and op.name.endswith("scores")
    )
    assert (scores.group_count, scores.rows, scores.inner, scores.columns) == (3 * 2, 8, 128, 100)


def test_layers_are_spread_evenly() -> None:
    assert even_layers(32, 4) == (8, 8, 8, 8)
    assert even_layers(80, 32) == (3,) * 16 + (2,) * 16


def test_a_ring_goes_up_one_side_and_down_the_other() -> None:
    assert ladder.ring(range(4, 12)) == (4, 6, 8, 10, 11, 9, 7, 5)


def test_streamed_weights_by_hand() -> None:
    """13.477 GB of half weights over 16 IPUs, each at 4.8 GB/s: 175.5 ms, and 1.5 us for each of 34 loads, all of
    them waited for."""
    result = podsim.generate(PUBLISHED)
    time_s = 6738.4e6 * 2 / 16 / READ + 34 * 1.5e-6
    assert result.decode.breakdown["streaming"] == pytest.approx(time_s, rel=1e-3)
    assert result.decode.bound == "streaming memory"


def test_what_loads_hide_by_hand() -> None:
    """A layer takes 5.3 ms to load, more than the work and the two sums over it, and than head and host: loads set the
    pace, and none of them waits for a slot.
    """
    result = podsim.generate(PUBLISHED, variant=OVERLAPPED)
    loads_s = 6738.4e6 * 2 / 16 / READ + 34 * 1.5e-6
    assert result.decode.time_s == pytest.approx(loads_s, rel=1e-3)
    assert result.decode.bound == "streaming memory"


def test_a_host_that_takes_long_lets_both_slots_fill_by_hand() -> None:
    """Loads set the pace but while the host samples: both slots are full by then, embedding and first layer.

    The next load starts once the embedding is done, with its sum over the shards, so that a step takes the sampling
    (2 x 32,000 logits at 500 ns, and 0.15 ms), 1.2 ms for that sum, and the loads of 31 layers and of the head.
    """
    result = podsim.generate(PUBLISHED, variant=OVERLAPPED, overrides=["software.sampling_per_logit=500 ns"])
    sampling_s = 2 * 32000 * 500e-9 + 0.15e-3
    sum_s = result.decode.breakdown["all_reduce"] / 65
    loads_s = (31 * LLAMA_SHARD + 2000 * 4096 + 4096) * 2 / READ + 32 * 1.5e-6
    assert result.decode.time_s == pytest.approx(sampling_s + sum_s + loads_s, rel=2e-3)


def test_sums_over_shards_by_hand() -> None:
    """65 sums of 2·1024·4096 halves over 16 IPUs, both ways half around at 13.6 GB/s each; a sync and a hop a step."""
    result = podsim.generate(PUBLISHED)
    volume, exchange_s = 2 * 1024 * 4096 * 2, 600 / 1.33e9 + 0.57e-6
    once_s = collective_s(volume, 16, exchange_s, 2 * 13.6e9)
    assert result.decode.breakdown["all_reduce"] == pytest.approx(65 * once_s, rel=0.01)


def test_the_published_step_of_llama2_7b_is_met_with_nothing_under_its_loads() -> None:
    """264.8 ms, as 348 steps take 92.15 s and nothing is printed meanwhile."""
    assert podsim.generate(PUBLISHED).decode.time_s == pytest.approx(92.15 / 348, rel=0.05)


def test_more_ipus_are_faster_and_later_tokens_cheaper_than_the_first() -> None:
    results = [podsim.generate(PODS, variant=variant) for variant in ("pod4", "pod8", "pod16", "pod32")]
    rates = [result.tokens_per_s for result in results]
    assert all(1.7 * slow < fast < 2.0 * slow for slow, fast in pairwise(rates))
    assert all(result.time_per_output_token_s < result.time_to_first_token_s for result in results)


def test_overlapped_loads_hide_what_they_can() -> None:
    """Loads set the pace where everything else takes less."""
    waited, hidden = (podsim.generate(PODS, variant=variant, overrides=FEW) for variant in ("pod16", "overlapped"))
    loads_s = waited.decode.breakdown["streaming"]
    assert loads_s <= hidden.time_per_output_token_s < waited.time_per_output_token_s


@pytest.mark.parametrize("name", [PUBLISHED, f"{PODS}:overlapped", f"{PODS}:pod32_resident"])
def test_every_layer_written_out_gives_the_same(name: str) -> None:
    scenario, _, variant = name.partition(":")
    short, full = (
        podsim.generate(scenario, variant=variant or None, overrides=FEW, explicit=explicit)
        for explicit in (False, True)
    )
    for one, other in ((short.prefill, full.prefill), (short.decode, full.decode)):
        assert (one.time_ps, one.breakdown_ps) == (other.time_ps, other.breakdown_ps)


def test_a_breakdown_adds_up() -> None:
    for step in (podsim.generate(PUBLISHED).prefill, podsim.generate(PUBLISHED).decode):
        assert sum(step.breakdown.values()) == step.time_s


def test_memory_by_hand() -> None:
    """Keys and values: 2·32 layers·1024 tokens·(4096/16) halves. Weights: the largest of layer, words and head."""
    tenants = {(t.name, t.storage): t.byte_count for t in plan_of(PODS).memory[0].tenants}
    assert tenants["kv_cache", "in_processor_memory"] == 2 * 32 * 1024 * 256 * 2
    assert tenants["weights", "in_processor_memory"] == LLAMA_SHARD * 2
    assert tenants["weights", "streaming_memory"] == 2 * (32 * LLAMA_SHARD + 2 * 2000 * 4096 + 4096)


def test_loads_under_computation_need_a_second_slot() -> None:
    """One layer computes while the next is loaded; a shard of a layer is the largest thing that is loaded."""
    layer = LLAMA_SHARD * 2
    slots = {
        tiles: next(each.byte_count for each in plan_of(PODS, f"memory.io_tiles={tiles}").memory[0].tenants)
        for tiles in (0, 64)
    }
    assert slots == {0: layer, 64: 2 * layer}


GPT2_LAYER = 12 * 768**2 + 13 * 768


def test_tied_words_are_with_the_embedding_and_with_the_head() -> None:
    """GPT-2 small with 1,000 words in four stages of two layers: neither words nor positions are in the middle."""
    scenario = {
        "system": "ipu_pod4",
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 8, "vocabulary_size": 1000},
        "generation": {"prompt_tokens": 8, "output_tokens": 8},
        "parallelism": {"pipeline_stages": 4},
    }
    spec = load_scenario(scenario).spec
    assert isinstance(spec, GenerationScenario)
    memory = plan_generation(generation_job(spec)).memory
    layers, words, positions, norm = 2 * GPT2_LAYER, 1000 * 768, 1024 * 768, 2 * 768
    held = [next(each.byte_count for each in ipu.tenants if each.name == "weights") for ipu in memory]
    assert held == [2 * (layers + words + positions), 2 * layers, 2 * layers, 2 * (layers + words + norm)]


def test_resident_weights_that_do_not_fit_are_refused_with_cures_that_work() -> None:
    with pytest.raises(podsim.DoesNotFitError) as caught:
        podsim.generate(PODS, variant="pod16_resident")
    cures = (caught.value.do or "").removeprefix("any of these makes it fit: ").split("; ")
    assert cures
    for cure in cures:
        key, _, value = cure.partition(": ")
        podsim.generate(PODS, variant="pod16_resident", overrides=[f"{key}={value}"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("parallelism.tensor_parallel=32", "32 x 1 = 32 IPUs are wanted; a link domain of IPU-POD16 has 16"),
        ("model.kv_head_count=5", "5 key and value heads do not divide 32 query heads"),
        ("model.hidden_size=4001", "32 heads do not divide a width of 4001"),
        ("model.feed_forward_size=11", "16 shards are more than feed_forward_size 11; some would hold nothing"),
        ("model={head_count: 8, kv_head_count: 8}", "16 shards are more than head_count 8; some would hold nothing"),
        ("parallelism.batches_in_flight=2", "2 batches for 1 pipeline stage"),
        ("generation.prompt_tokens=0", "`0` is too small"),
        ("memory.weights=cached", "`cached` is not one of `resident` or `streamed`"),
        ("memory.io_tiles=1472", "1472 of 1472 tiles"),
        ("model.rotary=false", "learned positions have no rows"),
    ],
)
def test_bad_input(override: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(PUBLISHED, overrides=[override])
    assert any(message in problem.message for problem in caught.value.problems)
    assert all(problem.do for problem in caught.value.problems)


def test_training_and_generation_are_not_mixed_up() -> None:
    with pytest.raises(PodsimError, match=r"podsim\.generate"):
        podsim.simulate(PUBLISHED)
    with pytest.raises(PodsimError, match=r"podsim\.simulate"):
        podsim.generate("bert_v1.1_pod16_open")


def test_a_software_stack_without_a_call_for_a_token() -> None:
    with pytest.raises(podsim.MissingDataError, match=r"software\.token_call"):
        podsim.generate(PUBLISHED, overrides=["software=popart_sdk_2.3"])


def test_a_decode_step_as_a_timeline(tmp_path: Path) -> None:
    """16 IPUs; the loads of their weights are slices of their own."""
    result = podsim.generate(PUBLISHED, overrides=FEW, record=True)
    timeline = write_trace(result, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert timeline.slice_count > 0
    assert {f"ipu{ipu}" for ipu in range(16)} <= {
        event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert any(event.get("cat") == "streaming" for event in events)


def test_batches_in_flight_share_the_loads_of_weights() -> None:
    """Each batch needs all weights of a stage once: more in flight bring nothing where loads set the pace."""
    slow = {"base": "ipu_pod4", "machine": {"streaming_memory": {"read_bandwidth_per_ipu": "0.5 GB/s"}}}
    scenario = {
        "system": slow,
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 4, "vocabulary_size": 1000},
        "generation": {"prompt_tokens": 8, "output_tokens": 8},
        "parallelism": {"pipeline_stages": 2, "batches_in_flight": 2},
        "memory": {"weights": "streamed", "io_tiles": 64},
    }
    spec = load_scenario(scenario).spec
    assert isinstance(spec, GenerationScenario)
    # The first stage: two layers of GPT-2 small, and the embedding: words and positions.
    loads = (GPT2_LAYER, GPT2_LAYER, (1000 + 1024) * 768)
    turn_s = sum(2 * count / 0.5e9 + 1.5e-6 for count in loads)
    assert podsim.generate(scenario).decode.longest_stage_ps / 1e12 == pytest.approx(turn_s, rel=0.01)
    assert podsim.generate(scenario).tokens_per_s == pytest.approx(1 / turn_s, rel=0.01)


def test_each_shard_hands_on_the_whole_hidden_state() -> None:
    """64 tokens of 768 halves over a rail of two IPU-Links of 16 GB/s at 85 %, 0.57 us a hop; half of the IPUs do."""
    scenario = {
        "system": "ipu_pod4",
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 2, "vocabulary_size": 1000},
        "generation": {"prompt_tokens": 64, "output_tokens": 2},
        "parallelism": {"tensor_parallel": 2, "pipeline_stages": 2},
    }
    sent_s = 64 * 768 * 2 / (2 * 16e9 * 0.85) + 0.57e-6
    assert podsim.generate(scenario).prefill.breakdown["inter_ipu"] == pytest.approx(sent_s / 2, rel=1e-6)


def test_stages_of_a_machine_share_its_streaming_memory() -> None:
    """Four IPUs of one machine, each a stage of two layers, load at once: 6.64 GB/s each alone, 19.2 GB/s together.

    The last stage's head is loaded alone, once the layers of all stages are.
    """
    one = {
        "system": "ipu_pod4",
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 8},
        "generation": {"prompt_tokens": 8, "output_tokens": 8},
        "parallelism": {"pipeline_stages": 4},
        "memory": {"weights": "streamed"},
    }
    alone = podsim.generate(one).decode.longest_stage_ps
    together = podsim.generate(one, overrides=["parallelism.batches_in_flight=4"]).decode.longest_stage_ps
    longer_s = 2 * GPT2_LAYER * 2 * (1 / READ - 1 / 6.64e9)
    assert (together - alone) / 1e12 == pytest.approx(longer_s, rel=1e-3)


def test_each_batch_in_flight_has_keys_and_values_of_its_own() -> None:
    """Of 4 sequences of 768 tokens each, for 16 layers of a stage, in halves of 256 on a shard; two batches in two."""
    served = "serving_llama2_7b_pod64"
    one = 2 * 4 * 768 * 16 * 256 * 2
    assert tenant(plan_of(served, "parallelism.batches_in_flight=1"), "kv_cache", "in_processor_memory") == one
    assert tenant(plan_of(served), "kv_cache", "in_processor_memory") == 2 * one
