"""A pod of one IPU: a card without links to other IPUs, in every kind of run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import podsim
from podsim.errors import SpecError
from podsim.scenario import load_scenario
from podsim.scenario.catalogue import catalogue
from tests.examples import small_bert, small_cnn, system_of

CARD = system_of("c600")
FORWARD = "bert_base_c600"
LINKS = ("ipu_link", "rung_link_count", "rail_link_count", "gateway_link", "gw_link")
DECODER = {
    "system": "c600",
    "software": "popxl_sdk_3.3",
    "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 2, "vocabulary_size": 1000},
    "generation": {"prompt_tokens": 8, "output_tokens": 8},
}


def test_a_card_is_one_ipu_and_nothing_that_joins_ipus() -> None:
    assert (CARD.ipu_count, CARD.domain_ipu_count, CARD.domain_count, CARD.topology) == (1, 1, 1, None)
    assert [getattr(CARD.machine, name) for name in LINKS] == [None] * len(LINKS)


def test_the_peak_of_the_card() -> None:
    """1,472 tiles of 16·16/4 multiply-adds at 1.486 GHz: 280 TFLOP/s, as published."""
    assert CARD.machine.ipu.peak_flop_per_s("fp16") == pytest.approx(280e12, rel=1e-3)


def test_it_is_listed() -> None:
    assert ("c600", "C600") in {(system.name, system.description) for system in catalogue().systems}


def test_a_batch_on_the_card_waits_for_its_host_by_hand() -> None:
    """A call of 0.124 ms and the host's answer in 0.054 ms; in and out over PCIe at 1 + 1.5 us each; four numbers of
    4 bytes for 16·128 tokens."""
    moved_s = 4 * 4 * 16 * 128 / 13.6e9
    host_s = 0.124e-3 + 0.054e-3 + 2 * 2.5e-6 + moved_s
    assert podsim.infer(FORWARD).batch.breakdown["host"] == pytest.approx(host_s, rel=1e-6)


def links_used(breakdown: Mapping[str, float]) -> set[str]:
    return {kind for kind in ("all_reduce", "gw_link", "inter_ipu") if breakdown.get(kind)}


def test_four_ipus_do_use_their_links() -> None:
    assert links_used(podsim.simulate(small_bert("ipu_pod4", [2], replicas=4)).breakdown)


@pytest.mark.parametrize(
    "scenario", [small_bert("c600", [2]), small_cnn("c600", decoded=False)], ids=["a transformer", "a network"]
)
def test_training_on_the_card_has_no_collective(scenario: Any) -> None:
    """Neither sums over replicas nor traffic between IPUs or link domains."""
    assert not links_used(podsim.simulate(scenario).breakdown)


def test_text_generation_on_the_card_has_no_collective() -> None:
    assert not links_used(podsim.generate(DECODER).decode.breakdown)


@pytest.mark.parametrize(
    ("scenario", "overrides"), [(DECODER, []), (small_bert("c600", [2]), ["batch_size=80"])], ids=["text", "training"]
)
def test_a_division_is_chosen_for_one_ipu(scenario: Any, overrides: list[str]) -> None:
    loaded = load_scenario(
        {key: part for key, part in scenario.items() if key != "parallelism"} | {"parallelism": "auto"},
        overrides=overrides,
    )
    result = podsim.run(loaded)
    assert result.to_dict()["choice"]["candidates"]


@pytest.mark.parametrize(
    ("system", "message", "do"),
    [
        ({"base": "c600", "topology": "ladder"}, "one IPU alone is joined to none; topology is ladder", "null"),
        ({"base": "c600", "machine_count": 2}, "2 machines of one IPU each; nothing joins them", "`machine_count: 1`"),
        (
            {"base": "c600", "machine": {"ipu_count": 2}},
            "a machine of 2 IPUs has no ipu_link and no rung_link_count and no rail_link_count",
            "add it",
        ),
        ({"base": "ipu_pod4", "machine": {"ipu_link": None}}, "a machine of 4 IPUs has no ipu_link", "add it"),
        ({"base": "ipu_pod16", "topology": None}, "nothing says how 16 IPUs are joined", "`topology: ladder`"),
        (
            {"base": "ipu_pod128", "machine": {"gw_link": None}},
            "2 link domains, but the machines have no gw_link",
            "add it to `machine`",
        ),
        ({"base": "ipu_pod4", "machine": {"ipu_count": 3}}, "ipu_count 3 is odd; a rung holds two IPUs", "one IPU"),
    ],
)
def test_parts_that_a_pod_needs_or_cannot_have(system: Any, message: str, do: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario({"base": FORWARD, "system": system})
    (problem,) = caught.value.problems
    assert message in problem.message
    assert do in problem.do
