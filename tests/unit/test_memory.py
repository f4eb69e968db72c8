"""Who fills an IPU's memory, whether it fits, and whether the cures of the message are cures."""

from __future__ import annotations

import pytest

import podsim
from podsim import DoesNotFitError, SpecError
from podsim.placement.memory import IpuMemory
from podsim.scenario import shipped_names
from podsim.units import parse_quantity
from tests.examples import Mapping, plan_of, small_bert, small_pod

GC200_BYTES = 1472 * 624 * 1024
LAYER = 4 * (64 * 64 + 64) + 2 * 2 * 64 + 2 * 64 * 256 + 256 + 64
"""Weights of a layer of the small BERT, as in test_program."""
STATE = "memory.optimizer_state"


def bert_large(**parallelism: object) -> Mapping:
    """BERT-Large on 4 IPUs: 2 sequences of 512 tokens, 3 + 7 + 7 + 7 layers, optimizer state off chip."""
    scenario = small_bert("ipu_pod16", [3, 7, 7, 7], replicas=4, storage="streaming_memory")
    layout = dict(scenario["parallelism"]) | {"micro_batch_size": 2} | parallelism  # type: ignore[call-overload]
    return scenario | {
        "model": {"kind": "bert", "size": "large"},
        "data": {"sequence_length": 512, "masked_token_count": 76},
        "parallelism": layout,
    }


def with_streaming_memory(per_ipu: str) -> Mapping:
    return {"base": "ipu_pod16", "machine": {"streaming_memory": {"capacity_per_ipu": per_ipu}}}


def tenants(ipu: IpuMemory) -> dict[str, int]:
    return {tenant.name: tenant.byte_count for tenant in ipu.tenants}


def refused(scenario: Mapping | str, *overrides: str) -> DoesNotFitError:
    with pytest.raises(DoesNotFitError) as caught:
        plan_of(scenario, *overrides)
    return caught.value


def test_tenants_of_a_middle_stage() -> None:
    """One layer as stage 1 of 3, in half precision; 2·(3 - 1 - 1) + 1 = 3 inputs of 4·32·64 halves are kept."""
    ipu = plan_of(small_bert(small_pod(), [1, 1])).memory[1]
    assert {name: size for name, size in tenants(ipu).items() if name != "temporaries"} == {
        "weights": LAYER * 2,
        "accumulators": LAYER * 2,
        "optimizer_state": LAYER * 8,
        "stash": 3 * 4 * 32 * 64 * 2,
        "code": 110_000 * 1472,
    }
    assert ipu.capacity_bytes == GC200_BYTES
    assert ipu.streaming_capacity_bytes == 112e9


def test_a_mask_for_all_layers_is_handed_on_and_kept_by_every_stage_with_attention() -> None:
    """One of 4·32·32 halves beside 4·32·64 of activations; the head does not read it, and it has no gradient."""
    packing = {"sequences_per_pack": 1.5, "max_sequences_per_pack": 2, "shared_mask": True}
    scenario = small_bert(small_pod(), [1, 1])
    plan = plan_of(scenario | {"data": scenario["data"] | {"packing": packing}})  # type: ignore[operator]
    mask, hidden = 4 * 32 * 32 * 2, 4 * 32 * 64 * 2
    assert [plan.handed_over_bytes(stage) for stage in (0, 1)] == [hidden + mask, hidden]
    assert [plan.handed_back_bytes(stage) for stage in (0, 1)] == [hidden, hidden]
    assert tenants(plan.memory[1])["stash"] == 3 * (hidden + mask)


def test_tenants_add_up() -> None:
    on_chip, off_chip = (
        plan_of(small_bert(small_pod(), [1, 1], storage=storage)).memory[1]
        for storage in ("in_processor_memory", "streaming_memory")
    )
    assert on_chip.used_bytes() == sum(tenants(on_chip).values())
    assert on_chip.used_bytes("streaming_memory") == 0
    assert off_chip.used_bytes("streaming_memory") == LAYER * 8
    assert off_chip.used_bytes() == on_chip.used_bytes() - LAYER * 8


def test_two_layers_have_twice_the_weights_and_twice_the_stash() -> None:
    one, two = (tenants(plan_of(small_bert(small_pod(), [1, layers])).memory[1]) for layers in (1, 2))
    for name in ("weights", "accumulators", "optimizer_state", "stash"):
        assert two[name] == 2 * one[name], name
    assert two["temporaries"] == one["temporaries"], "layers run one after the other"


def test_the_stash_grows_towards_the_front_of_the_pipeline() -> None:
    """Five stages; stages 1, 2 and 3 keep 7, 5 and 3 micro-batches."""
    memory = plan_of(small_bert(small_pod(), [1, 1, 1, 1])).memory
    one = 4 * 32 * 64 * 2
    assert [tenants(ipu)["stash"] for ipu in memory[1:]] == [7 * one, 5 * one, 3 * one]


def test_without_recomputation_everything_the_backward_pass_reads_is_kept() -> None:
    """At least the input and the attention probabilities, 4·2·32·32, for each of 3 micro-batches; less at work."""
    with_it, without = (
        tenants(plan_of(small_bert(small_pod(), [1, 1], recomputation=how)).memory[1]) for how in ("layer", "none")
    )
    assert without["stash"] >= 3 * (4 * 32 * 64 + 4 * 2 * 32 * 32) * 2
    assert without["temporaries"] < with_it["temporaries"]
    assert without["weights"] == with_it["weights"]


def test_bert_large_without_recomputation_is_refused() -> None:
    """IPU 1 keeps 7 layers for 7 micro-batches: input and attention probabilities alone are 0.92 GB.

    7·7·(2·512·1024 + 2·16·512·512)·2 B, with 7·12.6 million weights and accumulators of 2 B: over 941 MB.
    """
    error = refused(bert_large(recomputation="none"))
    stash = 7 * 7 * (2 * 512 * 1024 + 2 * 16 * 512 * 512) * 2
    assert stash + 2 * 2 * 7 * 12.6e6 > GC200_BYTES
    head, _, largest = error.message.partition(" (largest: ")
    assert head.startswith("IPU 1 of each replica needs ")
    assert head.endswith(" GiB of In-Processor-Memory; it has 897 MiB")
    named = [part.split(" ", 1) for part in largest.removesuffix(")").split(", ")]
    sizes = [parse_quantity(words[1], "bytes") for words in named]
    assert named[0][0] == "stash"
    assert sizes[0] > stash
    assert len(sizes) == 3
    assert sizes == sorted(sizes, reverse=True)


def test_bert_large_with_recomputation_fits() -> None:
    assert all(ipu.fits for ipu in plan_of(bert_large(recomputation="layer")).memory)


TOO_LARGE = {
    "no recomputation": ["parallelism.recomputation=none"],
    "nor state off chip": ["parallelism.recomputation=none", f"{STATE}.storage=in_processor_memory"],
    "larger micro-batch": ["parallelism.recomputation=none", "parallelism.micro_batch_size=4"],
    "state unsharded on chip": [f"{STATE}.storage=in_processor_memory", f"{STATE}.replicated_tensor_sharding=false"],
    "large temporaries too": [
        *(f"{STATE}.storage=in_processor_memory", f"{STATE}.replicated_tensor_sharding=false"),
        *("memory.available_memory_proportion=0.6", "parallelism.micro_batch_size=3"),
    ],
}
PREFIX = "any of these makes it fit: "


@pytest.mark.parametrize("overrides", TOO_LARGE.values(), ids=TOO_LARGE)
def test_every_cure_of_the_message_is_one(overrides: list[str]) -> None:
    """Each alternative, written into the scenario as the message words it, makes it fit; a part of it does not."""
    advice = str(refused(bert_large(), *overrides).do)
    assert advice.startswith(PREFIX)
    for alternative in advice.removeprefix(PREFIX).split("; "):
        changes = [change.replace(": ", "=") for change in alternative.split(" and ")]
        assert all(ipu.fits for ipu in plan_of(bert_large(), *overrides, *changes).memory), alternative
        for left_out in changes if len(changes) > 1 else []:
            refused(bert_large(), *overrides, *(change for change in changes if change != left_out))


def test_when_nothing_helps_the_message_says_so() -> None:
    """With a third of the memory even all changes together do not make room for 7 layers in 313 MB.

    Weights and accumulators of 7 layers of 12.6 million are 353 MB.
    """
    third = bert_large() | {"system": {"base": "ipu_pod16", "machine": {"ipu": {"tile": {"memory": "208 KiB"}}}}}
    error = refused(third)
    assert error.do == "spread the layers over more IPUs per replica; no smaller change that was tried makes it fit"
    refused(third, "parallelism.micro_batch_size=1", "memory.available_memory_proportion=0.1")


def test_streaming_memory_can_be_too_small_as_well() -> None:
    """Two single-precision moments of 7 layers of 12.6 million weights, over 4 replicas: 176.3 MB.

    The 13,312 elements of a layer's biases and norms are too small to be sharded: 3/4 of them 0.6 MB more.
    """
    error = refused(bert_large() | {"system": with_streaming_memory("100 MB")})
    assert error.message.startswith("IPU 1 of each replica needs 168.7 MiB of streaming memory; it has 95.37 MiB")
    assert error.message.endswith("(largest: optimizer_state 168.7 MiB)")
    plan_of(bert_large() | {"system": with_streaming_memory("177 MB")})


@pytest.mark.parametrize("name", [name for name in shipped_names()["scenarios"] if "_v1." in name])
def test_every_mlperf_scenario_fits(name: str) -> None:
    """They ran, on chips of 941 MB."""
    plan = plan_of(name)
    assert plan.memory[0].capacity_bytes == GC200_BYTES
    assert [ipu.ipu for ipu in plan.memory] == list(range(plan.layout.ipus_per_replica))
    assert max(ipu.used_bytes() for ipu in plan.memory) <= GC200_BYTES
    assert all(ipu.fits for ipu in plan.memory)


def test_there_are_sixteen_mlperf_scenarios() -> None:
    assert len([name for name in shipped_names()["scenarios"] if "_v1." in name]) == 16


# The format of the stash


def test_a_stash_in_eight_bits_is_half_as_large_and_takes_two_passes() -> None:
    """4·32·64 elements per segment, in half precision otherwise; the input is back in full while a layer is redone."""
    scenario = small_bert(small_pod(), [1, 1])
    half, eight = plan_of(scenario), plan_of(scenario, "precision.stash=fp8")
    one = 4 * 32 * 64
    assert tenants(half.memory[1])["stash"] == 3 * one * 2
    assert tenants(eight.memory[1])["stash"] == 3 * one
    assert tenants(eight.memory[1])["temporaries"] == tenants(half.memory[1])["temporaries"] + one * 2
    # 8,192 elements lie on as few tiles as hold 128 B each, 64 on a tile: 11 for a worker, 3 vectors of 4, which take
    # 11 + 6·(37 + 3) cycles and a superstep of 275, there and back.
    extra = [after.cycles - before.cycles for before, after in zip(half.stages, eight.stages, strict=True)]
    assert extra == pytest.approx([2 * (251 + 275)] * 3), "a layer, a layer, and the head"


def test_a_stash_in_the_format_of_activations_changes_nothing() -> None:
    scenario = small_bert(small_pod(), [1, 1])
    same, left_out = (plan_of(scenario, *sets) for sets in (["precision.stash=fp16"], []))
    assert same.memory == left_out.memory
    assert [stage.cycles for stage in same.stages] == [stage.cycles for stage in left_out.stages]


def test_a_stash_is_no_wider_than_activations() -> None:
    with pytest.raises(SpecError, match="a stash in fp32 for activations in fp16") as caught:
        plan_of(small_bert(small_pod(), [1, 1]), "precision.stash=fp32")
    assert "leave `stash` out" in str(caught.value)


# What is left free


def test_a_reserve_is_left_free() -> None:
    """A tenth of 1,472 x 624 KiB; what needs 0.95 of them is refused, with the reserve among the largest."""
    scenario = small_bert(small_pod(), [1, 1])
    without, with_it = plan_of(scenario).memory[1], plan_of(scenario, "memory.reserve=0.1").memory[1]
    assert tenants(with_it) == tenants(without) | {"reserve": round(0.1 * GC200_BYTES)}
    assert "reserve 807.3 MiB" in refused(scenario, "memory.reserve=0.9").message


@pytest.mark.parametrize("share", ["-0.1", "1", "much"])
def test_a_reserve_that_is_no_share(share: str) -> None:
    with pytest.raises(SpecError, match="reserve"):
        plan_of(small_bert(small_pod(), [1, 1]), f"memory.reserve={share}")


@pytest.mark.parametrize("name", ["vit_base_pod4", "llama2_7b_pod16_streamed"])
def test_a_reserve_without_training(name: str) -> None:
    """The same in forward passes and in text generation: with nearly everything left free nothing fits."""
    with pytest.raises(DoesNotFitError, match="reserve"):
        podsim.run(name, overrides=["memory.reserve=0.95"])
    share = 0.1
    result = podsim.run(name, overrides=[f"memory.reserve={share}"])
    assert not isinstance(result, podsim.RunResult)
    capacity = result.memory.in_processor_memory_bytes
    assert result.memory.tenants(0, "in_processor_memory")["reserve"] == round(share * capacity)
