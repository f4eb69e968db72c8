"""Models that the pod could hold and a pipeline cannot: podsim says what else there is."""

from __future__ import annotations

from typing import Any

import pytest

import podsim
from podsim.errors import DoesNotFitError, MissingMethodError, SpecError
from podsim.placement.fit import least_fullest, missing_method
from podsim.placement.job import training_job
from podsim.scenario import load_hardware, load_scenario
from podsim.scenario.software import PHASED_STACK

LAYOUT = {"micro_batch_size": 1, "accumulation_factor": 512, "replication_factor": 1}
LACKS = "a pipeline lacks the room, not"


def scenario(size: str, pod: str, **more: Any) -> dict[str, Any]:
    return {
        "system": pod,
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": size},
        "data": {"sequence_length": 128},
        "optimizer": {"kind": "adamw"},
        "batch_size": 512,
        "parallelism": "auto",
    } | more


def given(layers: list[int]) -> dict[str, Any]:
    return {"parallelism": LAYOUT | {"layers_per_ipu": layers}, "batch_size": None}


def test_a_stack_without_phases_and_shared_layers_is_refused_or_named() -> None:
    """PyTorch runs neither, as its file says; PopART's file says nothing of it."""
    torch = {"software": "pytorch_sdk_3.1"}
    with pytest.raises(DoesNotFitError, match="no division of batch_size 512 fits") as failure:
        podsim.simulate(scenario("gptj_6b", "ipu_pod16", **torch))
    assert "`software: popxl_sdk_3.3`, which divides layers among IPUs" in (failure.value.do or "")
    for pins, words in (
        ({"execution": "phased"}, "runs no layers in phases"),
        ({"tensor_parallel": 4}, "divides no layer"),
    ):
        for parallelism in ({"auto": True, **pins}, LAYOUT | {"layers_per_ipu": [28]} | pins):
            given = torch | {"parallelism": parallelism}
            if "micro_batch_size" in parallelism:
                given |= {"batch_size": None}
                if "execution" in pins:
                    parallelism["layers_per_ipu"] = None  # type: ignore[assignment]
            with pytest.raises(SpecError, match=f"PyTorch, SDK 3.1 {words}") as refused:
                load_scenario(scenario("gptj_6b", "ipu_pod16", **given))
            assert "write `software: popxl_sdk_3.3`" in str(refused.value)
            load_scenario(scenario("gptj_6b", "ipu_pod16", **given | {"software": "popart_sdk_2.3"}))


def test_the_stack_that_messages_name_runs_both() -> None:
    stack, _ = load_hardware(PHASED_STACK, "software")
    assert stack.phased_execution is True and stack.shared_layers is True  # type: ignore[union-attr]


def test_auto_that_may_not_take_another_method_says_what_was_pinned() -> None:
    pinned = {"parallelism": {"auto": True, "execution": "pipelined", "tensor_parallel": 1}}
    with pytest.raises(DoesNotFitError, match="no division of batch_size 512 fits IPU-POD16") as failure:
        podsim.simulate(scenario("gptj_6b", "ipu_pod16", **pinned))
    assert "pin less under `parallelism` and `memory`" in (failure.value.do or "")


@pytest.mark.parametrize("pod", ["ipu_pod16", "ipu_pod64"])
def test_a_division_that_is_given_says_it_too(pod: str) -> None:
    """GPT-J has 28 layers: 14 IPUs of two."""
    with pytest.raises(MissingMethodError, match=LACKS) as failure:
        podsim.simulate(scenario("gptj_6b", pod, **given([0, *[2] * 14, 0])))
    assert "tensor parallelism" in failure.value.message
    assert "phased execution" in failure.value.message
    assert "write `parallelism: auto`" in (failure.value.do or "")
    assert "tensor_parallel: 4" in (failure.value.do or "")
    assert "sequences or images smaller" not in str(failure.value)


def method_of(size: str, pod: str) -> str | None:
    layers = {"gptj_6b": 28, "llama2_7b": 32, "gpt3_175b": 96, "gpt2_small": 12, "gpt2_xl": 48}[size]
    spec = load_scenario(scenario(size, pod, **given([layers]))).spec
    return missing_method(training_job(spec))  # type: ignore[arg-type]


def test_what_an_ipu_needs_at_least_is_told() -> None:
    """GPT-J's embedding, 50,400 x 4,096 weights and gradients of 2 B: 787.5 MiB; the head has 58,592 more
    for biases and its norm, 0.22 MiB.

    LLaMa2-7B on 64 IPUs: 66 blocks, so that one IPU holds both blocks of a layer, (4·4,096 + 3·11,008)·4,096 weights
    and two norms: 772.06 MiB of weights and gradients.
    """
    code_mib = 1472 * training_job(load_scenario("gpt2_small_pod16").spec).code_bytes_per_tile / 2**20  # type: ignore[arg-type]
    assert f"needs {772.06 + code_mib:.1f} MiB" in (method_of("llama2_7b", "ipu_pod64") or "")
    assert f"needs {787.72 + code_mib:.1f} MiB" in (method_of("gptj_6b", "ipu_pod64") or "")


def test_a_pod_that_is_too_small_and_a_model_that_a_pipeline_holds_get_advice_on_memory() -> None:
    """GPT3-175B with AdamW takes 2.1 TB, a POD4 has 4 · 64 GiB at most; GPT2 of 124 million weights fits anywhere."""
    assert method_of("gpt3_175b", "ipu_pod4") is None
    assert method_of("gpt2_small", "ipu_pod4") is None
    assert method_of("gpt3_175b", "ipu_pod256") is not None


def test_the_smallest_pod_that_holds_the_model_is_named() -> None:
    """A layer of GPT3-175B, 1.8 billion weights of 2 B with their gradients, takes 7.2 GB: the chips of a POD16 have
    15 GB, but 16 shards leave no room for what its products need; 64 do."""
    with pytest.raises(DoesNotFitError, match="no division of batch_size 512 fits IPU-POD4") as failure:
        podsim.simulate(scenario("gpt3_175b", "ipu_pod4"))
    assert not isinstance(failure.value, MissingMethodError)
    assert "`system: ipu_pod64`, the smallest shipped pod on which it does" in str(failure.value)


@pytest.mark.parametrize(
    ("sizes", "parts", "most"), [([5, 5, 5, 5], 2, 10), ([9, 1, 1, 1], 2, 9), ([2, 3, 4], 1, 9), ([7], 4, 7)]
)
def test_the_most_even_cut(sizes: list[int], parts: int, most: int) -> None:
    assert least_fullest(sizes, parts) == most
