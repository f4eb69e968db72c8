"""Experts of a layer: tokens of the fullest, room for them, and what an IPU holds of experts that IPUs divide."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import podsim
from podsim.errors import SpecError
from podsim.models import Workload
from podsim.models.op import MatMul, TokenExchange
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.experts import Experts, expected_fullest, mean_of_largest
from podsim.models.transformer.shape import Batch, Shards
from podsim.scenario import load_scenario
from tests.examples import plan_of, small_pod


def loads(tokens: int, count: int, per_token: int) -> Iterator[list[int]]:
    """Tokens of each expert for every way in which tokens can choose."""
    subsets = list(itertools.combinations(range(count), per_token))
    for choices in itertools.product(subsets, repeat=tokens):
        chosen = Counter(itertools.chain(*choices))
        yield [chosen[expert] for expert in range(count)]


@pytest.mark.parametrize(("tokens", "count", "per_token"), [(10, 3, 1), (7, 4, 2), (9, 4, 3), (8, 4, 1)])
def test_the_fullest_expert_of_all_choices_written_out(tokens: int, count: int, per_token: int) -> None:
    """Normal numbers stand for whole ones; even of so few tokens the mean is within a fortieth of the exact one."""
    fullest = [max(load) for load in loads(tokens, count, per_token)]
    exact = sum(fullest) / len(fullest)
    assert len(fullest) == math.comb(count, per_token) ** tokens
    assert expected_fullest(tokens, count, per_token) == pytest.approx(exact, rel=0.025)


@pytest.mark.parametrize(("tokens", "count", "per_token"), [(1024, 8, 2), (4096, 64, 8), (2048, 16, 1)])
def test_the_fullest_expert_of_many_draws(tokens: int, count: int, per_token: int) -> None:
    """Each token takes the experts with the largest of as many random numbers; 60 draws, seed 1."""
    random, fullest = np.random.default_rng(1), []
    for _ in range(60):
        chosen = np.argpartition(random.random((tokens, count)), count - per_token, axis=1)[:, count - per_token :]
        fullest.append(np.bincount(chosen.ravel(), minlength=count).max())
    error = np.std(fullest) / math.sqrt(len(fullest))
    assert abs(expected_fullest(tokens, count, per_token) - np.mean(fullest)) < 3 * error + 0.5


def test_means_of_the_largest_of_normal_numbers() -> None:
    """1/√π and 3/(2·√π) for two and three, as they are in closed form; 1.03, 1.54 for four and ten in tables."""
    closed = [0.0, 1 / math.sqrt(math.pi), 3 / (2 * math.sqrt(math.pi))]
    assert [mean_of_largest(count) for count in (1, 2, 3)] == pytest.approx(closed, abs=1e-9)
    assert [round(mean_of_largest(count), 5) for count in (4, 10)] == [1.02938, 1.53875]


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.3])
def test_dropped_tokens_of_all_choices_written_out(factor: float) -> None:
    """Six tokens that choose 2 of 4 experts, 3 each on average; the binomial number of one is exact."""
    experts, room = Experts(4, 2, "random", capacity_factor=factor), math.ceil(factor * 3)
    ways = list(loads(6, 4, 2))
    beyond = sum(max(0, load - room) for way in ways for load in way) / len(ways)
    assert experts.load(6)[1] == room
    assert experts.dropped_share(6) == pytest.approx(beyond / 12, rel=1e-12)


def test_rows_of_products_by_hand() -> None:
    """1,024 tokens choose 2 of 8 experts: 256 each; a half more; room for a quarter more.

    At random the fullest has √(1,024·2·6/(8·7))·1.4236 = 14.81·1.4236 = 21.09 tokens more.
    """
    rows = [
        Experts(8, 2, **more).load(1024)
        for more in ({}, {"imbalance": 1.5}, {"capacity_factor": 1.25}, {"routing": "random"}, {"imbalance": 9.0})
    ]
    assert rows == [(8, 256), (8, 384), (8, 320), (8, 278), (8, 1024)]


def test_room_for_less_than_the_fullest_drops_what_is_beyond() -> None:
    """The fullest of 8 has 512 of 2,048 choices and room for 320; the others have 1,536/7 = 219.4 each."""
    assert Experts(8, 2, imbalance=2.0, capacity_factor=1.25).dropped_share(1024) == 192 / 2048
    assert Experts(8, 2, capacity_factor=0.75).dropped_share(1024) == pytest.approx(0.25)
    assert Experts(8, 2, imbalance=3.0).dropped_share(1024) == 0


def shard(groups: int, shards: int = 16, experts: Experts | None = None, **more: Any) -> Workload:
    shape = DecoderShape(2, 4096, 14336, 32, 8, 32000, experts=experts or Experts(8, 2))
    return causal_decoder(shape, Batch(1, 1024, False, False), shards=Shards(shards, expert_groups=groups, **more))


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_an_ipu_holds_its_part_of_every_expert_or_a_larger_one_of_some(groups: int) -> None:
    """3·8·4,096·14,336 weights over 16 IPUs, whichever way; router and norm are on each."""
    block = shard(groups).blocks["feed_forward"]
    assert block.parameter_count == 3 * 8 * 4096 * 14336 // 16 + 4096 * 8 + 4096
    assert block.parameter_count == shard(1).blocks["feed_forward"].parameter_count
    (up,) = (parameter for parameter in block.parameters if parameter.name == "up/weight")
    assert up.shape == (8 // groups, 4096, 14336 // (16 // groups))


@pytest.mark.parametrize("groups", [1, 8])
def test_work_is_that_of_the_experts_that_tokens_choose(groups: int) -> None:
    """2 experts for each of 1,024 tokens, a sixteenth on each IPU, however many rows are padding; the router apart.

    An IPU that routes a sixteenth of the tokens does a sixteenth of the router's work.
    """
    chosen = 2 * 3 * 4096 * 14336 * 2 * 1024 // 16
    router = 2 * 1024 * 4096 * 8 // (16 if groups > 1 else 1)
    for experts in (Experts(8, 2), Experts(8, 2, imbalance=1.5), Experts(8, 2, capacity_factor=2.0)):
        assert shard(groups, experts=experts).blocks["feed_forward"].forward_flop == chosen + router


def test_padding_is_computed_all_the_same() -> None:
    """With room for twice as many, products have twice the rows: 512 of each expert."""
    block = shard(8, experts=Experts(8, 2, capacity_factor=2.0)).blocks["feed_forward"]
    rows = {op.name: op.rows for op in block.forward if isinstance(op, MatMul)}
    assert rows == {
        "feed_forward/router": 64,
        "feed_forward/up": 512,
        "feed_forward/gate": 512,
        "feed_forward/down": 512,
    }


@pytest.mark.parametrize("divided", [False, True])
def test_tokens_travel_to_experts_and_back_in_both_directions(divided: bool) -> None:
    """Eight groups of two IPUs, an expert each: of 256 rows an IPU sends a sixteenth, 4,096 halves wide, to each."""
    block = shard(8, divide_tokens=divided).blocks["feed_forward"]
    for ops in (block.forward, block.backward):
        exchanges = [op for op in ops if isinstance(op, TokenExchange)]
        assert [op.name.rpartition("/")[2] for op in exchanges] == ["to_experts", "to_tokens"]
        for op in exchanges:
            assert (op.group_count, op.sent_count, op.whole_count) == (8, 16 * 4096, 256 * 4096)
        assert [op.shape for op in exchanges] == [(256, 4096), (8 * 16, 4096)]


SMALL: dict[str, Any] = {
    "system": small_pod(4),
    "software": "popxl_sdk_3.3",
    "model": {
        "kind": "decoder",
        "layer_count": 2,
        "hidden_size": 128,
        "feed_forward_size": 512,
        "head_count": 16,
        "kv_head_count": 16,
        "vocabulary_size": 1600,
        "experts": {"count": 8, "per_token": 2},
    },
    "data": {"sequence_length": 64, "dropout": 0.0, "attention_dropout": 0.0},
    "optimizer": {"kind": "adamw"},
    "parallelism": {
        "tensor_parallel": 16,
        "pipeline_stages": 1,
        "expert_parallel": 8,
        "micro_batch_size": 1,
        "accumulation_factor": 2,
        "replication_factor": 1,
    },
}


def test_utilisation_counts_active_parameters() -> None:
    """Padding takes time and is no work: the same FLOP, in more time."""
    plans = [plan_of(SMALL, *changes) for changes in ((), ("model.experts.capacity_factor=4",))]
    assert plans[0].workload.training_flop == plans[1].workload.training_flop
    assert plans[0].stages[0].cycles < plans[1].stages[0].cycles


def test_imbalance_is_an_assumption_with_its_range() -> None:
    imbalance = "{value: 1.5, source: given, basis: assumed, range: [1, 3]}"
    result = podsim.simulate(SMALL, overrides=[f"model.experts.imbalance={imbalance}"])
    (found,) = (assumption for assumption in result.assumptions if assumption["key"] == "model.experts.imbalance")
    assert (found["value"], found["basis"], tuple(found["range"])) == ("1.5", "assumed", (1.0, 3.0))
    more, fewer = (
        podsim.simulate(SMALL, overrides=[f"model.experts.imbalance={each}"]).weight_update_ps for each in (1, 3)
    )
    assert found["influence"]["low"] == pytest.approx(result.weight_update_ps / more - 1, rel=1e-6)
    assert found["influence"]["high"] == pytest.approx(result.weight_update_ps / fewer - 1, rel=1e-6)


def test_how_full_experts_are_is_no_other_model() -> None:
    """The length of a run holds for the model however even its router is; dropped tokens make it another one."""
    for variant, is_other in ((None, False), ("even", False), ("uneven", False), ("capacity", True)):
        notices = load_scenario("mixtral_8x7b_experts_pod64", variant=variant).notices
        assert any("given for another model" in notice for notice in notices) is is_other


def test_a_result_says_what_is_dropped() -> None:
    """64 tokens choose 2 of 8 experts, 16 each; the fullest has 32 and room for 20: 12 of 128 are 9.4 %."""
    changes = ["model.experts.imbalance=2", "model.experts.capacity_factor=1.25"]
    (warning,) = (each for each in podsim.simulate(SMALL, overrides=changes).warnings if "dropped" in each)
    assert warning.startswith("9.4 % of what tokens choose finds no room")
    assert "`model.experts.capacity_factor: 2.00` would have room" in warning
    assert not any("dropped" in each for each in podsim.simulate(SMALL, overrides=changes[:1]).warnings)


@pytest.mark.parametrize(
    ("overrides", "message", "do"),
    [
        (["parallelism.expert_parallel=3"], "8 experts on 16 IPUs cannot be divided into 3 groups", "use 2"),
        (["parallelism.expert_parallel=16"], "8 experts on 16 IPUs cannot be divided into 16 groups", "use 8"),
        (
            ["parallelism.expert_parallel=2", "parallelism.tensor_parallel=1"],
            "8 experts on 1 IPU cannot be divided into 2 groups",
            "leave it out, or raise tensor_parallel",
        ),
        (["model.experts=null"], "has no experts to divide", "leave it out, or give `model.experts`"),
        (["model.parallel_blocks=one_norm"], "experts beside an attention that reads the same input", "leave it out"),
        (
            ["model.experts.imbalance=1.5", "model.experts.routing=random"],
            "`imbalance` and `routing: random` both say how many tokens the fullest expert gets",
            "keep one of the two",
        ),
        (["model.experts.imbalance=0.5"], "`0.5` is too small", "write 1 to 1000"),
        (["model.experts.imbalance=much"], "`much` is not a quantity", "write for example `1`"),
        (["model.experts.imbalance=4.5"], "an expert that all tokens choose has 4", "use at most 4"),
        (["model.experts.capacity_factor=0"], "`0` is too small", "write a number above 0"),
    ],
)
def test_what_cannot_be_divided(overrides: list[str], message: str, do: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(SMALL, overrides=overrides)
    problem = caught.value.problems[0]
    assert message in problem.message
    assert do in problem.do


def test_other_families_have_no_experts() -> None:
    with pytest.raises(SpecError, match="has no experts to divide"):
        load_scenario("bert_large_phased_pod16", overrides=["parallelism.expert_parallel=2"])
