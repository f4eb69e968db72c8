"""Layers that IPUs share in training: what a shard holds and computes, what shards add up, and how long that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import SpecError
from podsim.models import Workload
from podsim.models.transformer.bert import BertShape, bert
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch, Shards
from podsim.placement import Plan
from podsim.placement.cuts import Segment, kept_elements, stages_of
from podsim.program.compile import compile_program
from podsim.program.passes import sums_of
from podsim.program.rings import TENSOR_PARALLEL, Ring
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Work
from podsim.scenario import load_scenario
from tests.collectives import GATHER, REDUCE, collective_s
from tests.examples import plan_of, small_pod

LINK = 16e9 * 0.85
RUNG, RAIL = 6 * LINK, 2 * LINK
"""Of an IPU-M2000, in each direction. [B/s]"""
STEP_S = 600 / 1.33e9 + 0.57e-6
"""Of a collective on neighbours: a sync of 600 cycles, and a hop."""
LLAMA = DecoderShape(32, 4096, 11008, 32, 32, 32000)
GPT2 = DecoderShape(
    12, 768, 3072, 12, 12, 50257,
    gated=False, norm="layer", rotary=False, position_count=1024, biases=("qkv", "projection", "feed_forward"),
    tied_embedding=True,
)  # fmt: skip
GPTJ = DecoderShape(28, 4096, 16384, 16, 16, 50400, gated=False, norm="layer", parallel="one_norm")


def decoder(shape: DecoderShape, shards: int, tokens: int = 128) -> Workload:
    return causal_decoder(shape, Batch(1, tokens, False, False), shards=shards)


def small(tensor_parallel: int, stages: int = 1, pod: Any = None, **more: Any) -> dict[str, Any]:
    """A decoder of 16 heads: hidden states of 2 sequences of 64 tokens with 128 elements each, 32,768 B."""
    return {
        "system": pod or small_pod(4),
        "software": "popxl_sdk_3.3",
        "model": {
            "kind": "decoder",
            "layer_count": 4,
            "hidden_size": 128,
            "feed_forward_size": 512,
            "head_count": 16,
            "kv_head_count": 16,
            "vocabulary_size": 1600,
        },
        "data": {"sequence_length": 64, "dropout": 0.0, "attention_dropout": 0.0},
        "optimizer": {"kind": "adamw"},
        "parallelism": {
            "tensor_parallel": tensor_parallel,
            "pipeline_stages": stages,
            "micro_batch_size": 2,
            "accumulation_factor": 2 * stages,
            "replication_factor": 1,
            "recomputation": "none",
        }
        | more,
    }


@pytest.mark.parametrize("shards", [2, 4, 8, 16])
def test_parameters_of_a_shard_of_llama_by_hand(shards: int) -> None:
    """Four square projections, three matrices, words and head are divided; 65 norms of 4,096 are on every shard."""
    shard, whole = decoder(LLAMA, shards), decoder(LLAMA, 1)
    norms = 65 * 4096
    assert shard.parameter_count == 32 * (4 * 4096**2 + 3 * 4096 * 11008) // shards + 2 * 32000 * 4096 // shards + norms
    assert shards * (shard.parameter_count - norms) + norms == whole.parameter_count == 6738415616


@pytest.mark.parametrize("shards", [2, 4])
def test_parameters_of_a_shard_of_bert_by_hand(shards: int) -> None:
    """Every shard has positions, segments, norms, biases behind sums, the transform, and the head of sentences.

    Of 30,522 words 2 shards hold 15,261 each; 4 of them 7,631 at most, with 2 rows of padding in all.
    """
    shape = BertShape(1, 512, 24, 1024, 4096, 16, 30522, 512, 76)
    shard, whole = bert(replace(shape, sharing=Shards(shards))), bert(shape)
    layer = 2 * 1024 + 2 * 2 * 1024  # biases of projection and second matrix, two norms
    head = 2 * (1024**2 + 1024) + 2 * 1024 + 2 * 1024 + 2
    alike = 514 * 1024 + 2 * 1024 + 24 * layer + head
    padding = {2: 0, 4: 2}[shards] * 1024
    assert shards * (shard.parameter_count - alike) + alike == whole.parameter_count + padding


def test_the_largest_of_unequal_shards_by_hand() -> None:
    """Of 12 heads 8 shards hold 2 at most, of 50,257 words 6,283, of a width of 3,072 a whole eighth."""
    shard = decoder(GPT2, 8)
    layer = 4 * 768 * 128 + 3 * 128 + 768 + 2 * 768 * 384 + 384 + 768 + 4 * 768
    assert shard.parameter_count == (6283 + 1024) * 768 + 12 * layer + 2 * 768


@pytest.mark.parametrize("shape", [LLAMA, GPTJ])
def test_shards_do_the_work_of_the_whole(shape: DecoderShape) -> None:
    for shards in (2, 4, 8, 16):
        assert shards * decoder(shape, shards).forward_flop == decoder(shape, 1).forward_flop


def test_model_flop_is_counted_once() -> None:
    """Where heads are unequal, shards together would do more; utilisation goes by the undivided model."""
    plans = [plan_of(small(shards, pod=small_pod(8))) for shards in (1, 16)]
    assert plans[0].workload.training_flop == plans[1].workload.training_flop
    assert 16 * plans[1].workload.forward_flop == plans[0].workload.forward_flop


def sums(shape: DecoderShape, *blocks: str, backward: bool = False) -> Counter[int]:
    return Counter(sums_of(decoder(shape, 4), [Segment(blocks, 3)], backward=backward).columns)


def test_what_shards_add_up_in_each_block() -> None:
    """128 tokens of 4,096 halves, three times: one sum in each block and direction, as [shoeybi2019] has it.

    The embedding adds up words forward, the head what reads its input backward. Its loss joins maxima, sums and the
    logits of the labels: a number in single precision for each token.
    """
    hidden, twice = 128 * 4096 * 2, 2 * 3
    for name in ("attention", "feed_forward"):
        assert sums(LLAMA, name) == sums(LLAMA, name, backward=True) == {hidden: twice}
    assert (sums(LLAMA, "embedding"), sums(LLAMA, "embedding", backward=True)) == ({hidden: twice}, {})
    assert (sums(LLAMA, "head"), sums(LLAMA, "head", backward=True)) == ({128 * 4: 3 * twice}, {hidden: twice})


def test_blocks_side_by_side_are_added_up_at_once() -> None:
    """GPT-J: one sum for both blocks of a layer, in each direction."""
    layer = ("attention", "feed_forward")
    assert sums(GPTJ, *layer) == sums(GPTJ, *layer, backward=True) == {128 * 4096 * 2: 6}


def test_the_head_of_bert_joins_its_masked_rows_only() -> None:
    shape = BertShape(2, 512, 2, 1024, 4096, 16, 30522, 512, 76, sharing=Shards(4))
    assert sums_of(bert(shape), [Segment(("head",))]).columns == {2 * 76 * 4: 6}
    assert sums_of(bert(shape), [Segment(("head",))], backward=True).columns == {2 * 76 * 1024 * 2: 2}


def ring_s(
    byte_count: float, shards: int, rings: int = 2, step_s: float = STEP_S, passes: Sequence[int] = (REDUCE, GATHER)
) -> float:
    """Small tensors go half of the way around in both directions, between two IPUs once: two nths or a half in a step.

    One ring and two, as PopXL has, have a link each; one goes first one way, then the other. Four share all links: half
    of what is sent goes each way over a rail; between two IPUs both ways are one, over a rung.
    """
    rate = rings * LINK if rings <= 2 else RUNG if shards == 2 else 2 * RAIL
    exchanges = 2 if rings == 1 and shards > 2 else 1
    method = "meet" if shards > 2 else "ring"
    return collective_s(byte_count, shards, step_s, rate, method, passes, exchanges=exchanges)


HIDDEN, ROWS = 2 * 64 * 128 * 2, 2 * 64 * 4
LAYER_SUMS = {"none": 4 * 4, "layer": 4 * 5}
"""Two sums forward and backward of four layers; what the last sum of a layer makes is kept, so that one is redone."""


@pytest.mark.parametrize("topology", ["ladder", "torus"])
@pytest.mark.parametrize("recomputation", ["none", "layer"])
@pytest.mark.parametrize("shards", [2, 4, 8, 16])
def test_time_of_sums_by_hand(shards: int, recomputation: str, topology: str) -> None:
    """Those of layers, one of the embedding, one of the head, three of its loss, which may be redone; each twice."""
    pod = small_pod(4, topology=topology, domain_machines=4)
    plan = plan_of(small(shards, pod=pod, recomputation=recomputation))
    lanes = execute(compile_program(plan)).lanes
    again = 2 if recomputation == "layer" else 1
    once_s = (LAYER_SUMS[recomputation] + 2) * ring_s(HIDDEN, shards) + 3 * again * ring_s(ROWS, shards)
    for lane in range(shards):
        assert lanes[f"ipu{lane}"][TENSOR_PARALLEL] / 1e12 == pytest.approx(2 * once_s, rel=1e-6)


@pytest.mark.parametrize("shards", [3, 6, 12])
def test_time_and_memory_of_unequal_shards_by_hand(shards: int) -> None:
    """16 heads of 8 among 3, 6 and 12 IPUs: 6, 3 and 2 at most; a width of 512: 171, 86 and 43; words: 534, 267, 134.

    Sums go around as many IPUs. Half of what is sent goes each way over a link of each connection. Three are a rung and
    an IPU above it, which both others reach over the same rail, one of them by way of the rung: two hops. Two IPUs have
    their samples sooner than four that share the memory of a machine, and wait for them.
    """
    pod = small_pod(3, domain_machines=3)
    scenario = small(shards, pod=pod)
    plan = plan_of(scenario)
    heads, inner, words = {3: (6, 171, 534), 6: (3, 86, 267), 12: (2, 43, 134)}[shards]
    layer = 4 * 128 * 8 * heads + 3 * 128 * inner + 2 * 128
    assert plan.workload.parameter_count == 4 * layer + 2 * words * 128 + 128
    lanes = execute(compile_program(plan)).lanes
    link = plan.system.machine.ipu_link
    assert link is not None
    further_s = link.hop_latency_s if shards == 3 else 0.0
    sums_of_each = ((HIDDEN, 2 * 8 + 2), (ROWS, 3))
    expected = sum(count * ring_s(size, shards, step_s=STEP_S + further_s) for size, count in sums_of_each)
    spans = [lanes[f"ipu{lane}"][TENSOR_PARALLEL] / 1e12 for lane in range(shards)]
    assert spans[: shards // 4 * 4 or 3] == pytest.approx([2 * expected] * (shards // 4 * 4 or 3), rel=1e-6)
    assert all(2 * expected * (1 - 1e-6) < span < 2.001 * expected for span in spans)


@pytest.mark.parametrize("rings", [1, 2, 4])
@pytest.mark.parametrize("shards", [2, 4, 8, 16])
def test_time_of_divided_tokens_by_hand(shards: int, rings: int) -> None:
    """Forward a gather and a scatter stand for each sum; backward each block and the head gather their input again.

    So tensors go around 18 times forward, 2 + 4 · 2 · 3 + 1 times backward, and three sums of the loss. An odd number
    of passes is taken as gathers, an even one as sums: 18 forward and 27 backward.
    """
    plan = plan_of(small(shards, sequence_parallel=True), f"software.shard_rings={rings}")
    lanes = execute(compile_program(plan)).lanes
    once_s = 9 * ring_s(HIDDEN, shards, rings) + 27 * ring_s(HIDDEN, shards, rings, passes=(GATHER,))
    once_s += 3 * ring_s(ROWS, shards, rings)
    for lane in range(shards):
        assert lanes[f"ipu{lane}"][TENSOR_PARALLEL] / 1e12 == pytest.approx(2 * once_s, rel=1e-6)


def test_divided_tokens_are_kept_and_handed_on_in_parts() -> None:
    """Between stages each IPU hands on a quarter of a hidden state, and keeps as much of it."""
    whole, divided = (plan_of(small(4, 2, recomputation="layer", sequence_parallel=each)) for each in (False, True))
    assert whole.handed_over_bytes(0) == HIDDEN == 4 * divided.handed_over_bytes(0)
    stashed = [
        next(tenant.byte_count for tenant in plan.memory[4].tenants if tenant.name == "stash")
        for plan in (whole, divided)
    ]
    # The second stage, of two layers and the head, has the inputs of all three for one micro-batch.
    assert stashed == [3 * HIDDEN, 3 * HIDDEN // 4]


@pytest.mark.parametrize("rings", [1, 2, 4])
@pytest.mark.parametrize("shards", [2, 4, 8, 16])
@pytest.mark.parametrize("topology", ["ladder", "torus"])
def test_bytes_on_each_link_by_hand(topology: str, shards: int, rings: int) -> None:
    """Everything that passes a link in one direction while a tensor of 1 MiB is added up.

    Between two IPUs, half of it and back. Otherwise two nths in each of n/2 steps, and back: as much as it, twice, or
    half of that each way. Four IPUs take a pair of rings forth from 1,245,184 B and back from shards of 622,592 B.
    """
    pod = small_pod(4, topology=topology, domain_machines=4)
    ring = Ring.around(load_scenario(small(1, pod=pod)).spec.system, rings, range(shards))
    carried: Counter[str] = Counter()
    for ipu in range(shards):
        for step in ring.shard_sums(ipu, {1 << 20: 10}):
            for transfer in step.transfers if isinstance(step, Exchange) else ():
                for channel, time_ps in transfer.channels:
                    rate = LINK if "/ring" in channel else RAIL if "/rail" in channel else RUNG
                    carried[channel] += round(time_ps / 1e12 * rate)
    # One ring goes one way. Two have links of their own, also between two IPUs; more share those of a direction.
    parts = 1 if rings == 1 or (rings, shards) == (4, 2) else 2
    assert len(carried) == parts * shards
    for byte_count in carried.values():
        assert byte_count == pytest.approx(5 * 2 * (1 / 2 if shards == 2 else 1) * (1 << 20) / parts, rel=1e-5)


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
@pytest.mark.parametrize("topology", ["ladder", "machine_ring"])
@pytest.mark.parametrize("rings", [2, 4])
def test_steps_in_one_exchange_take_as_long_as_one_by_one(rings: int, topology: str, engine: Any) -> None:
    """Eight IPUs and tensors of two sizes: 3 · 4 and 2 · 4 steps, each with a meeting, against one of each size."""
    system = load_scenario(small(1, pod=small_pod(4, topology=topology, domain_machines=4))).spec.system
    ring = Ring.around(system, rings, range(8))
    sums = {1 << 20: 3, 1 << 12: 2}
    meet = Barrier("ring", TENSOR_PARALLEL)
    one_by_one = {
        f"ipu{ipu}": tuple(
            step
            for byte_count, what in ((1 << 20, "all_gather"),) * 3 + ((1 << 12, "all_reduce"),)
            for sent, steps in ring.steps(what, ipu, byte_count)
            for step in (sent, meet) * steps
        )
        for ipu in ring.members
    }
    at_once = {f"ipu{ipu}": tuple(ring.shard_sums(ipu, sums)) for ipu in ring.members}
    times = [
        execute(
            Program((Group("shards", tuple(steps), (Phase("sums", 1, steps, TENSOR_PARALLEL),)),)), engine=engine
        ).makespan_ps
        for steps in (one_by_one, at_once)
    ]
    assert times[0] == times[1] > 0


def replicated(stages: int = 2, replicas: int = 2, **more: Any) -> dict[str, Any]:
    """Replicas of stages on 4 IPUs each, on four machines."""
    return small(4, stages, replication_factor=replicas, **more)


@pytest.mark.parametrize("recomputation", ["none", "layer"])
@pytest.mark.parametrize("divided", [False, True])
def test_every_replica_written_out_gives_the_same(recomputation: str, divided: bool) -> None:
    plan = plan_of(replicated(1, 4, recomputation=recomputation, sequence_parallel=divided))
    folded, explicit = (execute(compile_program(plan, explicit=each)) for each in (False, True))
    assert folded.makespan_ps == explicit.makespan_ps
    assert folded.lanes.items() <= explicit.lanes.items()


def test_both_engines_agree() -> None:
    program = compile_program(plan_of(replicated()), explicit=True)
    one, other = (execute(program, engine=engine) for engine in ("simpy", "compiled"))
    assert (one.makespan_ps, one.lanes) == (other.makespan_ps, other.lanes)


def test_one_ipu_for_each_layer_is_what_it_was() -> None:
    """`pipeline_stages` alone is `layers_per_ipu` with layers spread evenly."""
    even, listed = small(1, 4), small(1, 4)
    listed["parallelism"] = {
        key: value for key, value in listed["parallelism"].items() if key not in ("tensor_parallel", "pipeline_stages")
    } | {"layers_per_ipu": [1, 1, 1, 1]}
    results = [podsim.simulate(each) for each in (even, listed)]
    assert results[0].weight_update_ps == results[1].weight_update_ps
    assert TENSOR_PARALLEL not in results[0].breakdown_ps


def test_stages_are_groups_of_neighbours_and_replicas_follow_one_another() -> None:
    """Two stages of four IPUs, two replicas: each IPU reduces gradients with the one eight places on."""
    plan = plan_of(replicated())
    assert [cost.stage.ipus for cost in plan.stages] == [range(4), range(4, 8)]
    program = compile_program(plan, explicit=True)
    lanes = [lane for group in program.groups if group.accounted for lane in group.lanes]
    assert sorted(lanes) == sorted(f"ipu{n}" for n in range(16))
    reduced = [phase for phase in program.groups[0].phases if "reduce-scatter" in phase.name]
    for step in (step for phase in reduced for step in phase.steps["ipu2"] if isinstance(step, Exchange)):
        assert {channel.rpartition("/")[0] for transfer in step.transfers for channel, _ in transfer.channels} == {
            f"domain0/rail0/rung{rung}-{rung + 1}" for rung in range(1, 5)
        }


def test_gradients_of_a_shard_are_reduced_over_replicas() -> None:
    """A reduce-scatter over two replicas moves half of an IPU's gradients: those of two layers and the words, over 4.

    Both directions of its rings lead to the other replica, along the same rails, of which each has half of that half.
    64 layers' matrices of 128 x 128 and 128 x 512, two norms a layer, 400 words; the second stage has the last norm.
    """
    plan = plan_of(replicated())
    layer = (4 * 128 * 128 + 3 * 128 * 512) // 4 + 2 * 128
    assert [cost.parameter_count for cost in plan.updates] == [2 * layer + 400 * 128] * 4 + [
        2 * layer + 400 * 128 + 128
    ] * 4
    phase = next(each for each in compile_program(plan).groups[0].phases if "reduce-scatter" in each.name)
    (exchange,) = (step for step in phase.steps["ipu0"] if isinstance(step, Exchange))
    there, back = (dict(transfer.channels) for transfer in exchange.transfers)
    assert there == back
    assert set(there) == {f"domain0/rail0/rung{rung}-{rung + 1}/up" for rung in range(4)}
    for time_ps in there.values():
        assert time_ps == pytest.approx((2 * layer + 400 * 128) * 2 / 2 / 2 / RAIL * 1e12, rel=1e-6)


def state_bytes(plan: Plan) -> int:
    return next(tenant.byte_count for tenant in plan.memory[0].tenants if tenant.name == "optimizer_state")


def test_optimizer_state_of_a_shard_is_sharded_over_replicas() -> None:
    """AdamW's two moments in single precision, 8 B a weight: those of all tensors but the two norms a layer halve."""
    whole, half = plan_of(replicated(replicas=1)), plan_of(replicated())
    norms = 4 * 128
    assert state_bytes(whole) == 8 * whole.updates[0].parameter_count
    sharded = load_scenario(replicated()).spec.software.sharding_threshold
    (small_tensors,) = {
        sum(
            parameter.element_count * count
            for name, count in half.stages[0].stage.blocks
            for parameter in half.workload.blocks[name].parameters
            if parameter.element_count < sharded
        )
    }
    assert small_tensors >= norms
    assert state_bytes(half) == 8 * (small_tensors + (half.updates[0].parameter_count - small_tensors) // 2)


def test_norms_of_shards_are_added_up_in_their_group() -> None:
    """LAMB's two norms of each tensor that is large enough: each of four sends its own to all, two hops away at most.

    Latency only: of one exchange, of a copy and of a sum.
    """
    scenario = replicated(1, 1)
    scenario["optimizer"] = {"kind": "lamb"}
    plan = plan_of(scenario)
    count = plan.updates[0].shard_norm_count
    large = sum(
        repeats
        for name, repeats in plan.stages[0].stage.blocks
        for parameter in plan.workload.blocks[name].parameters
        if parameter.element_count >= plan.software.sharding_threshold
    )
    assert count == 2 * large > 0
    phase = next(each for each in compile_program(plan).groups[0].phases if "small tensors" in each.name)
    works = [step for step in phase.steps["ipu0"] if isinstance(step, Work)]
    times = [time for work in works for kind, time in work.parts if kind == TENSOR_PARALLEL]
    assert times == [pytest.approx(count * (STEP_S + 0.16e-6 + 2 * 275 / 1.33e9) * 1e12, abs=1)]


def test_replicas_are_advised_by_stages_and_not_by_ipus() -> None:
    """Two stages of 4 IPUs need three micro-batches, and not fifteen."""
    (warning,) = (each for each in podsim.simulate(small(4, 2)).warnings if "uses 8 of 16 IPUs" in each)
    assert "`--set parallelism.replication_factor=2` would use all" in warning


def test_faster_links_never_slow_it_down() -> None:
    slow, fast = (
        podsim.simulate(small(8, 2, pod=small_pod(4, ipu_link={"bandwidth_per_direction": rate}))).weight_update_ps
        for rate in ("8 GB/s", "16 GB/s")
    )
    assert fast < slow


def test_a_stage_keeps_whole_inputs_on_every_shard() -> None:
    """With recomputation a layer keeps its input, which every shard reads whole."""
    plan = plan_of(small(4, recomputation="layer"))
    (stage,) = stages_of(plan.workload, plan.layout.cuts)  # type: ignore[arg-type]
    kept = {segment.blocks: kept_elements(segment, plan.workload, recompute=True) for segment in stage.segments}
    assert kept[("attention", "feed_forward")] == 4 * 2 * 64 * 128


@pytest.mark.parametrize(
    ("override", "message", "do"),
    [
        ("sequence_parallel=true", "tokens of blocks that stand side by side are not divided", "leave it out"),
        ("tensor_parallel=32", "32 shards are more than head_count 16; some would hold nothing", "use at most 16"),
        ("pipeline_stages=3", "2 micro-batches are too few for 3 pipeline stages", "2·3 - 1 = 5"),
        ("pipeline_stages=8", "8 stages for 4 layers", "use fewer stages"),
        ("layers_per_ipu=[2, 2]", "`pipeline_stages` and `layers_per_ipu` are both given", "keep one"),
        ("replication_factor=8", "8 replicas of 4 IPUs need 32 IPUs", "use at most 4"),
    ],
)
def test_combinations_that_cannot_be(override: str, message: str, do: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(small(4), overrides=[f"parallelism.{override}", "model.parallel_blocks=one_norm"])
    text = str(failure.value)
    assert "[parallelism" in text
    assert message in text
    assert do in text


def test_tokens_are_divided_among_several_ipus_only() -> None:
    with pytest.raises(SpecError, match="give tensor_parallel 2 or more"):
        load_scenario(small(1), overrides=["parallelism.sequence_parallel=true"])


def test_a_replica_beyond_a_link_domain() -> None:
    with pytest.raises(SpecError, match="16 IPUs has no room for a replica of 32 IPUs"):
        load_scenario(small(16), overrides=["parallelism.pipeline_stages=2"])


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ({"kind": "bert", "size": "base"}, {"sequence_length": 128, "masked_token_count": 20}),
        ({"kind": "decoder", "size": "gpt2_small"}, {"sequence_length": 128}),
        ({"kind": "t5", "size": "small"}, {"source_length": 128, "target_length": 64}),
        ({"kind": "vit", "size": "base"}, {"decoded_by_host": False}),
    ],
)
def test_every_family_of_transformers_runs_in_shards(model: dict[str, Any], data: dict[str, Any]) -> None:
    """Four shards take less time for products, and some for sums; with divided tokens less for what lies between."""
    memory = {"optimizer_state": {"storage": "streaming_memory"}, "available_memory_proportion": 0.1}
    scenario = small(1) | {"model": model, "data": data, "memory": memory}
    one, four, divided = (
        podsim.simulate(scenario, overrides=[f"parallelism.{each}" for each in ("recomputation=layer", *keys)])
        for keys in (
            (),
            ("tensor_parallel=4",),
            ("tensor_parallel=4", "sequence_parallel=true"),
        )
    )
    assert four.breakdown_ps["matmul"] < one.breakdown_ps["matmul"] / 2
    assert four.breakdown_ps[TENSOR_PARALLEL] > 0
    assert divided.breakdown_ps["vector"] < four.breakdown_ps["vector"]
    assert divided.breakdown_ps[TENSOR_PARALLEL] > four.breakdown_ps[TENSOR_PARALLEL]
    for result in (four, divided):
        assert sum(result.breakdown_ps.values()) == result.weight_update_ps
