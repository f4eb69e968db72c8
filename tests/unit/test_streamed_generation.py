"""Steps that stream their weights and compute whole sequences anew: bytes, unpacking and the host, by hand."""

from __future__ import annotations

import pytest

import podsim
from podsim.errors import SpecError
from podsim.models.transformer.weights import unpack_ops
from podsim.placement.layout import Precision

GPTJ = "gptj_6b_pod4_streamed"
LAYERS_AND_HEADS = 28 * (4 * 4096**2 + 2 * 4096 * 16384) + 2 * 50400 * 4096


@pytest.mark.parametrize(("group_size", "bits"), [(16, 6), (32, 5), (64, 4.5), (128, 4.25), (256, 4.125)])
def test_a_group_adds_a_scale_and_an_offset(group_size: int, bits: float) -> None:
    """Four bits, and two numbers of 16 bits for each group."""
    assert Precision(4, group_size=group_size).weight_bytes(256) == 256 * bits / 8


def test_a_group_that_is_begun_has_its_scale() -> None:
    """65 weights of four bits, two groups: 260 + 64 bits, 41 bytes."""
    assert Precision(4, group_size=64).weight_bytes(65) == 41


def test_an_offset_is_one_more_pass() -> None:
    plain, grouped = unpack_ops(64), unpack_ops(64, offset=True)
    assert [op.name.rpartition("/")[-1] for op in grouped[len(plain) :]] == ["add"]


def test_streamed_weights_take_their_bytes_at_the_rate_of_the_machine() -> None:
    """Four IPUs share 24.7 GB/s. Norms and biases, and latencies, are small beside the matrices."""
    for variant, bits in ((None, 16), ("int4", 4.5)):
        step = podsim.generate(GPTJ, variant=variant).decode
        expected_s = LAYERS_AND_HEADS * bits / 8 / 24.7e9
        assert step.breakdown["streaming"] == pytest.approx(expected_s, rel=2e-3)


def test_four_bits_have_groups_of_64_unless_told() -> None:
    plain = podsim.generate(GPTJ, variant="int4").decode
    grouped = podsim.generate(GPTJ, variant="int4", overrides=["precision.weight_group_size=64"]).decode
    assert plain.time_s == grouped.time_s


def test_the_host_chooses_from_all_logits_of_a_step() -> None:
    """Twelve sequences of 50,400 logits at 218 ns, and a call of 0.124 ms."""
    step = podsim.generate(GPTJ, variant="int4").decode
    assert step.breakdown["host"] == pytest.approx(12 * 50400 * 218e-9 + 0.124e-3, rel=1e-6)


def test_with_kept_keys_the_call_for_a_token_stays() -> None:
    step = podsim.generate("llama2_7b_pods", variant="pod16").decode
    assert step.breakdown["host"] == pytest.approx(7e-3, rel=1e-6)


def test_a_stack_without_host_sampling_has_its_call_for_a_token() -> None:
    software = {"base": "popart_sdk_2.3", "token_call": "3 ms"}
    scenario = {"base": GPTJ, "software": software, "model": {"kind": "decoder", "size": "gptj_6b", "layer_count": 2}}
    assert podsim.generate(scenario).decode.breakdown["host"] == pytest.approx(3e-3, rel=1e-6)


def test_groups_of_other_formats_are_refused() -> None:
    with pytest.raises(SpecError, match=r"weight_group_size 64 with weights in fp16, which have no groups"):
        podsim.generate(GPTJ, overrides=["precision.weight_group_size=64"])


def test_one_set_of_constants_gives_llama_and_gptj_in_four_bits() -> None:
    """Published: 7.0 and 7.02 steps/s, and 29.5 ms per token of twelve sequences."""
    llama = podsim.generate("llama2_7b_pod16_streamed").decode.time_s
    gptj = podsim.generate(GPTJ, variant="int4").decode.time_s
    assert llama == pytest.approx(1 / 7.0, rel=0.12)
    assert gptj == pytest.approx(12 * 29.5e-3, rel=0.12)
