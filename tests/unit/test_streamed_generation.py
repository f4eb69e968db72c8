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


def test_streamed_weights_take_their_bytes_at_the_rate_of_each_ipu() -> None:
    """Four IPUs read 6.64 GB/s each. Norms and biases, and latencies, are small beside the matrices."""
    for variant, bits in ((None, 16), ("int4", 4.5)):
        step = podsim.generate(GPTJ, variant=variant).decode
        expected_s = LAYERS_AND_HEADS * bits / 8 / (4 * 6.64e9)
        assert step.breakdown["streaming"] == pytest.approx(expected_s, rel=2e-3)


def test_four_bits_have_groups_of_64_unless_told() -> None:
    plain = podsim.generate(GPTJ, variant="int4").decode
    grouped = podsim.generate(GPTJ, variant="int4", overrides=["precision.weight_group_size=64"]).decode
    assert plain.time_s == grouped.time_s


def test_the_host_chooses_from_all_logits_of_a_step() -> None:
    """Twelve sequences of 50,400 logits at 220 ns, and a call of 0.121 ms."""
    step = podsim.generate(GPTJ, variant="int4").decode
    assert step.breakdown["host"] == pytest.approx(12 * 50400 * 220e-9 + 0.121e-3, rel=1e-6)


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


@pytest.mark.parametrize(("variant", "token_ms"), [(None, 61.9), ("int4", 29.5)])
def test_gptj_follows_from_one_ipu_that_reads_alone(variant: str | None, token_ms: float) -> None:
    """Published per token of twelve sequences; nothing is fitted to them."""
    assert podsim.generate(GPTJ, variant=variant).decode.time_s == pytest.approx(12e-3 * token_ms, rel=0.1)


def test_gptj_in_two_formats_reads_more_slowly_than_one_ipu_alone() -> None:
    """2.17 GB per IPU lie between 16 and 4.5 bits; 12 x (61.9 - 29.5) ms are published: 5.6 GB/s."""
    published_s = 12 * (61.9e-3 - 29.5e-3)
    between = LAYERS_AND_HEADS * (16 - 4.5) / 8 / 4
    assert between / published_s == pytest.approx(5.6e9, rel=0.01)
    wide, narrow = (podsim.generate(GPTJ, variant=variant).decode.time_s for variant in (None, "int4"))
    assert between / (wide - narrow) == pytest.approx(6.64e9, rel=0.01)
