"""Steps that stream their weights and compute whole sequences anew: bytes, unpacking and the host, by hand."""

from __future__ import annotations

import math

import pytest

import podsim
from podsim.errors import SpecError
from podsim.models.transformer.weights import unpack_ops
from podsim.placement.layout import Precision
from podsim.scenario import load_ipu, load_scenario
from podsim.tiles.vector import elementwise_cycles

GPTJ = "gptj_6b_pod4_streamed"
LAYERS, EMBEDDING_AND_HEAD = 28 * (4 * 4096**2 + 2 * 4096 * 16384), 2 * 50400 * 4096


@pytest.mark.parametrize(("group_size", "bits"), [(16, 6), (32, 5), (64, 4.5), (128, 4.25), (256, 4.125)])
def test_a_group_adds_a_scale_and_an_offset(group_size: int, bits: float) -> None:
    """Four bits, and two numbers of 16 bits for each group."""
    assert Precision(4, group_size=group_size).weight_bytes(256) == 256 * bits / 8


def test_a_group_that_is_begun_has_its_scale() -> None:
    """65 weights of four bits, two groups: 260 + 64 bits, 41 bytes."""
    assert Precision(4, group_size=64).weight_bytes(65) == 41


def test_groups_have_an_offset_and_lie_elsewhere_than_products_want_them() -> None:
    plain, grouped = unpack_ops(64), unpack_ops(64, offset=True)
    assert [op.name.rpartition("/")[-1] for op in grouped[len(plain) :]] == ["add", "laid_out"]


def test_packed_integers_are_unpacked_by_workers_one_instruction_after_another() -> None:
    """48 on a tile, a word for each worker: 11 + 6 x (100 + 30) cycles."""
    assert elementwise_cycles(load_ipu("gc200"), "unpack", 48, "fp16") == 11 + 6 * (100 + 30)


def test_streamed_weights_take_their_bytes_at_the_rate_of_their_machine() -> None:
    """Four IPUs read 19.2 GB/s. Norms and biases, and latencies, are small; embedding and head keep 16 bits."""
    for variant, bits in ((None, 16), ("int4", 4.5)):
        step = podsim.generate(GPTJ, variant=variant).decode
        expected_s = (LAYERS * bits / 8 + EMBEDDING_AND_HEAD * 2) / 19.2e9
        assert step.breakdown["streaming"] == pytest.approx(expected_s, rel=2e-3)


def test_four_bits_have_groups_of_64_unless_told() -> None:
    plain = podsim.generate(GPTJ, variant="int4").decode
    grouped = podsim.generate(GPTJ, variant="int4", overrides=["precision.weight_group_size=64"]).decode
    assert plain.time_s == grouped.time_s


def test_the_host_chooses_from_all_logits_that_it_is_handed() -> None:
    """Two sequences of 32,000 logits at 10 ns, as NumPy takes 0.6 ms for them, and a call of 0.15 ms."""
    step = podsim.generate("llama2_7b_pod16_streamed").decode
    assert step.breakdown["host"] == pytest.approx(2 * 32000 * 10e-9 + 0.15e-3, rel=1e-6)


def test_a_token_that_ipus_choose_costs_the_call() -> None:
    assert podsim.generate(GPTJ, variant="int4").decode.breakdown["host"] == pytest.approx(0.15e-3, rel=1e-6)


def test_a_stack_without_host_sampling_has_its_call_for_a_token() -> None:
    software = {"base": "popart_sdk_2.3", "token_call": "3 ms"}
    scenario = {"base": GPTJ, "software": software, "model": {"kind": "decoder", "size": "gptj_6b", "layer_count": 2}}
    assert podsim.generate(scenario).decode.breakdown["host"] == pytest.approx(3e-3, rel=1e-6)


def test_groups_of_other_formats_are_refused() -> None:
    with pytest.raises(SpecError, match=r"weight_group_size 64 with weights in fp16, which have no groups"):
        podsim.generate(GPTJ, overrides=["precision.weight_group_size=64"])


@pytest.mark.parametrize(("variant", "token_ms"), [(None, 61.9), ("int4", 29.5)])
def test_gptj_is_met_in_both_formats(variant: str | None, token_ms: float) -> None:
    """Published per token of twelve sequences."""
    assert podsim.generate(GPTJ, variant=variant).decode.time_s == pytest.approx(12e-3 * token_ms, rel=0.1)


def test_the_bandwidth_of_a_machine_follows_from_gptj_in_two_formats() -> None:
    """8.1 GB lie between 16 and 4.5 bits, and 12 x (61.9 - 29.5) ms, less what unpacking takes; both to 3 %.

    LLaMa2-7B, 13.5 GB in 264.8 ms less all that is no load, asks for 20.7 GB/s.
    """
    wide, narrow = (podsim.generate(GPTJ, variant=variant).decode for variant in (None, "int4"))
    loads_s = wide.breakdown["streaming"] - narrow.breakdown["streaming"]
    unpacking_s = loads_s - (wide.time_s - narrow.time_s)
    published_s, doubt_s = 12 * (61.9e-3 - 29.5e-3), 0.03 * 12 * math.hypot(61.9e-3, 29.5e-3)
    between = LAYERS * (16 - 4.5) / 8
    assert between == pytest.approx(8.1e9, rel=0.01)
    asked = between / (published_s + unpacking_s)
    committed = float(load_scenario(GPTJ).spec.system.machine.streaming_memory.machine_bytes_per_s)
    assert asked == pytest.approx(20.5e9, rel=0.01)
    assert abs(asked - committed) < 1.1 * asked * doubt_s / published_s
    llama = podsim.generate("llama2_7b_pod16_streamed").decode
    rest_s = llama.time_s - llama.breakdown["streaming"]
    assert 6738.4e6 * 2 / 4 / (264.8e-3 - rest_s) == pytest.approx(20.7e9, rel=0.01)
