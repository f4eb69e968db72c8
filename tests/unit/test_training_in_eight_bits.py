"""FP8 in training: which products, what casts and scales cost, what is stored, and what is refused; by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

import podsim
from podsim.errors import SpecError
from podsim.models import Workload
from podsim.models.op import Conv, Elementwise, MatMul, Op, Reduce
from podsim.placement import Plan
from podsim.runs.train import model_flop_utilization
from podsim.scenario import TrainingScenario, load_ipu, load_scenario
from podsim.tiles.model import CostModel
from tests.examples import plan_of, small_pod

C600 = load_ipu("ipu_c600")
FP8 = "precision.products=fp8"
STORED = (FP8, "precision.weights=fp8", "optimizer.master_weights=true")
POD: dict[str, Any] = {**small_pod(1, ipu="ipu_c600")}
HIDDEN, INNER, TOKENS, LAYERS, WORDS = 64, 256, 128, 2, 1600


def decoder(**more: Any) -> dict[str, Any]:
    return {
        "system": POD,
        "software": "popxl_sdk_3.3",
        "model": {
            "kind": "decoder",
            "layer_count": LAYERS,
            "hidden_size": HIDDEN,
            "feed_forward_size": INNER,
            "head_count": 2,
            "kv_head_count": 2,
            "vocabulary_size": WORDS,
        }
        | more,
        "data": {"sequence_length": TOKENS, "dropout": 0.0, "attention_dropout": 0.0},
        "optimizer": {"kind": "adamw"},
        "parallelism": {
            "pipeline_stages": 1,
            "micro_batch_size": 1,
            "accumulation_factor": 2,
            "replication_factor": 1,
        },
    }


def workload(*overrides: str, **more: Any) -> Workload:
    return plan_of(decoder(**more), *overrides).workload


def casts(ops: tuple[Op, ...]) -> list[str]:
    return [op.name.partition("/")[2].removesuffix("/fp8") for op in ops if op.dtype == "fp8"]


def test_casts_of_a_feed_forward_block() -> None:
    """Forward its input, in front of two products, and what the last reads; backward three gradients and these again.

    Gradients of up and gate read the same input. Weights are cast in every pass unless they are stored in FP8.
    """
    weights = {"up/weight", "gate/weight", "down/weight"}
    for changes, more in (((FP8,), weights), (STORED, set())):
        block = workload(*changes).blocks["feed_forward"]
        assert set(casts(block.forward)) == {"norm/scale", "gated"} | more
        assert len(casts(block.forward)) == 2 + len(more)
        assert len(casts(block.backward)) == 2 + 3 + len(more)
        assert {"down/input", "gradient"} | more <= set(casts(block.backward))


def test_products_of_weights_are_in_eight_bits_both_ways_and_others_are_not() -> None:
    for name in ("attention", "feed_forward"):
        block = workload(FP8).blocks[name]
        dense = ("qkv", "projection", "up", "gate", "down")
        for op in (*block.forward, *block.backward):
            if isinstance(op, MatMul):
                narrow = op.name.split("/")[1] in dense
                assert op.operand_dtype == ("fp8" if narrow else "fp16"), op.name
                assert op.dtype == "fp16"


def test_every_cast_follows_the_largest_element_of_what_it_casts() -> None:
    for block in workload(FP8).blocks.values():
        for ops in (block.forward, block.backward):
            for before, op in pairwise(op for op in ops if "/scale." not in op.name):
                if op.dtype == "fp8":
                    assert isinstance(before, Reduce)
                    assert before.inputs == op.inputs
                    assert before.input_count == op.element_count
            assert len({op.name for op in ops}) == len(ops)


def test_twice_the_tokens_in_eight_bits_take_the_time_of_half_precision() -> None:
    """A gradient of weights sums over tokens: 2,048 of one byte fill what 1,024 of two do, and take as many cycles."""
    model = CostModel(C600, 1.0)
    eight, half = (
        model.op(
            MatMul(name="grad", shape=(1, 512, 768), inner=tokens, operands=operands, is_weight_gradient=True), 1.0
        ).account
        for tokens, operands in ((2048, "fp8"), (1024, "fp16"))
    )
    assert eight == half


def cast_cycles(elements: int) -> int:
    """11 + 6·(37 + steps): six workers, four elements a step; a tile has 128 elements of a byte, or more."""
    held = max(math.ceil(elements / 1472), 128)
    return 11 + 6 * (37 + math.ceil(math.ceil(held / 6) / 4))


def test_vector_cycles_of_casts_by_hand() -> None:
    """Weights stored in FP8: forward two casts, backward those and three gradients, of 128 tokens, 64 or 256 wide.

    Each has four passes over its scale, each of 3 and 6 products three; one number takes 11 + 6·(26 + 3) cycles.
    """
    half, eight = (plan_of(decoder(), *changes).stages[0].blocks["feed_forward"] for changes in ((), STORED))
    narrow, wide = cast_cycles(TOKENS * HIDDEN), cast_cycles(TOKENS * INNER)
    scale = 11 + 6 * (26 + 3)
    forward, backward = narrow + wide + (2 * 4 + 3 * 3) * scale, 2 * narrow + 3 * wide + (5 * 4 + 6 * 3) * scale
    assert eight.forward_account.vector - half.forward_account.vector == forward
    assert eight.backward_account.vector - half.backward_account.vector == backward


def test_cycles_of_scales_by_hand() -> None:
    """A maximum reads four halves a cycle, and pays a fixed time: of both casts of the forward pass."""
    half, eight = (plan_of(decoder(), *changes).stages[0].blocks["feed_forward"] for changes in ((), STORED))
    (found, known) = (
        sum(cost.account.reduction for cost in block.forward if isinstance(cost.op, Reduce)) for block in (eight, half)
    )
    fixed = C600.vertices.reduction.general_fixed
    assert found - known == pytest.approx(2 * fixed + TOKENS * (HIDDEN + INNER) / 1472 / 4)


MATRICES = LAYERS * (4 * HIDDEN**2 + 3 * HIDDEN * INNER) + WORDS * HIDDEN
"""Those of layers, and the head; words are looked up in half precision."""


def held(plan: Plan, tenant: str) -> int:
    return sum(each.byte_count for each in plan.memory[0].tenants if each.name == tenant)


def test_bytes_that_are_stored() -> None:
    """Weights of products lose a byte each; the master copy is 4 B beside two moments of 4 B."""
    half, cast, stored = (plan_of(decoder(), *changes) for changes in ((), (FP8,), STORED))
    parameters = MATRICES + WORDS * HIDDEN + (2 * LAYERS + 1) * HIDDEN
    assert held(half, "weights") == held(cast, "weights") == 2 * parameters
    assert held(stored, "weights") == 2 * parameters - MATRICES
    assert held(half, "accumulators") == held(stored, "accumulators") == 2 * parameters
    assert [held(plan, "optimizer_state") for plan in (half, stored)] == [8 * parameters, 12 * parameters]


def test_bytes_that_an_update_hands_out() -> None:
    half, stored = (plan_of(decoder(), *changes).updates[0] for changes in ((), STORED))
    assert half.handed_out_bytes - stored.handed_out_bytes == half.weight_bytes - stored.weight_bytes == MATRICES
    assert (half.gradient_bytes, half.gather) == (stored.gradient_bytes, stored.gather)
    assert stored.scatter.rearrange < half.scatter.rearrange


def test_an_update_finds_the_scale_of_what_it_stores() -> None:
    """A maximum over each matrix in single precision: as many elements as weights, and a fixed time for each tensor."""
    half, stored = (plan_of(decoder(), *changes).updates[0] for changes in (STORED[2:], STORED))
    tensors = LAYERS * 5 + 1  # qkv, projection, up, gate, down; the head
    fixed = C600.vertices.reduction.general_fixed
    assert stored.optimizer.reduction - half.optimizer.reduction == pytest.approx(tensors * fixed + MATRICES / 1472 / 4)


def test_words_that_are_the_head_stay_in_half_precision_and_are_cast_in_every_pass() -> None:
    head = workload(*STORED, tied_embedding=True).blocks["head"]
    (parameter,) = (each for each in head.parameters if each.tied_to)
    assert parameter.dtype is None
    assert any(name.endswith("weight") for name in casts(head.forward))
    assert any(name.endswith("weight") for name in casts(head.backward))


def test_it_is_counted_against_the_peak_of_its_format() -> None:
    half, eight = (plan_of(decoder(), *changes) for changes in ((), (FP8,)))
    assert half.workload.training_flop == eight.workload.training_flop
    assert model_flop_utilization(half, 1.0) == 2 * model_flop_utilization(eight, 1.0)


def test_half_asked_for_is_what_is_left_out() -> None:
    results = [podsim.simulate(decoder(), overrides=changes) for changes in ((), ("precision.products=fp16",))]
    assert results[0].weight_update_ps == results[1].weight_update_ps


def test_convolutions_and_their_gradients() -> None:
    network = {
        "system": "c600",
        "software": "tensorflow1_sdk_3.0",
        "model": {"kind": "resnet", "depth": 50},
        "data": {"decoded_by_host": False, "samples_per_epoch": 1000},
        "parallelism": {"micro_batch_size": 2, "accumulation_factor": 4, "replication_factor": 1},
        "optimizer": {"kind": "sgd"},
    }
    plan = plan_of(network, FP8, "memory.available_memory_proportion=0.1")
    for block in plan.workload.blocks.values():
        convs = [op for op in (*block.forward, *block.backward) if isinstance(op, Conv)]
        assert {op.operand_dtype for op in convs} <= {"fp8"}
        assert sum(isinstance(op, Elementwise) and op.dtype == "fp8" for op in block.forward) >= bool(convs)


@pytest.mark.parametrize("system", ["ipu_pod16", "bow_pod16"])
def test_chips_without_it_refuse_it(system: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(decoder() | {"system": system}, overrides=[FP8])
    (problem,) = caught.value.problems
    assert problem.message.endswith("takes no FP8")
    assert "--set system=c600" in problem.do


@pytest.mark.parametrize(
    ("overrides", "message", "do"),
    [
        (["precision.weights=fp8"], "weights in fp8 without products in fp8", "write `products: fp8` beside it"),
        ([FP8, "precision.weights=fp8"], "weights in fp8 without a master copy", "optimizer.master_weights: true"),
        ([FP8, "precision.matmul_partials=fp32"], "products in fp8 with matmul_partials in fp32", "fp16"),
        (["precision.products=fp32"], "products in fp32 with activations in fp16", "leave `products` out"),
        ([FP8, "precision.weights=fp32"], "weights in fp32 with activations in fp16", "give both the same format"),
    ],
)
def test_formats_that_do_not_go_together(overrides: list[str], message: str, do: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(decoder(), overrides=overrides)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert do in problem.do


def test_phases_load_and_store_weights_of_eight_bits() -> None:
    """A layer of phases streams a byte less for each weight of its products."""
    scenario = decoder()
    del scenario["parallelism"]["pipeline_stages"]
    scenario["parallelism"]["execution"] = "phased"
    half, stored = (plan_of(scenario, *changes) for changes in ((), STORED))
    layers = [next(phase for phase in plan.phases if phase.title == "layer") for plan in (half, stored)]
    matrices = 4 * HIDDEN**2 + 3 * HIDDEN * INNER
    assert layers[0].exchanged.weight_bytes - layers[1].exchanged.weight_bytes == matrices
    assert load_scenario(scenario).require(TrainingScenario).precision.weights == "fp16"
