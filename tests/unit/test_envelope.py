"""What has been compared with published runs, and the notice outside of it."""

import json
from functools import cache

import pytest

from podsim import run, serve
from podsim.result.envelope import FILE, Envelope, envelope_of
from podsim.scenario import data_file, load_scenario
from tests.cases import every_case
from tools.make_envelope import compared_titles, covered

rows_cover = cache(covered)


def test_the_file_is_that_of_the_rows() -> None:
    """`tools/make_envelope.py` writes it."""
    assert json.loads(data_file(FILE).read_text(encoding="utf-8")) == rows_cover()


def test_its_ranges_are_those_of_the_rows() -> None:
    """ResNet-50 of MLPerf trained on 16 to 256 IPUs, GPT-J and LLaMa2 wrote on 4 and 16."""
    found = rows_cover()
    assert found["training"]["models"]["resnet"]["ipu_count"][1] == 256
    assert found["generation"]["models"]["decoder"]["ipu_count"] == [4, 16]
    assert "PaddlePaddle, SDK 2.3" in found["training"]["software"]


@every_case("title", compared_titles)
def test_what_was_compared_is_inside(title: str) -> None:
    name, _, variant = title.partition("@")
    assert envelope_of(load_scenario(name, variant or None).spec) == Envelope()


def outside_of(name: str, *overrides: str) -> tuple[str, ...]:
    return envelope_of(load_scenario(name, overrides=overrides).spec).outside


def test_each_thing_outside_is_named() -> None:
    """BERT was trained on 128 to 512 tokens, and nothing generated text on Bow, or with 48 layers."""
    assert outside_of("bert_large_phase1_pod16", "data.sequence_length=1024") == (
        "sequence length 1,024 (128–512 covered)",
    )
    found = outside_of("llama2_7b_pod16_streamed", "system=bow_pod16", "model.layer_count=48")
    assert found == ("clock 1.85 GHz (1.33 GHz covered)", "layers 48 (28–32 covered)")


BERT = "bert_v1.1_pod64_open"


@pytest.mark.parametrize(
    ("override", "outside"),
    [
        ("system.machine.ipu.clock=3 GHz", ("clock 3 GHz (1.33–1.85 GHz covered)",)),
        ("system.machine.ipu.clock=1.5 GHz", ()),
        (
            "system.machine.ipu_link.bandwidth_per_direction=64 GB/s",
            (
                "IPU-Links of a rung, per direction, 384 GB/s (96 GB/s covered)",
                "IPU-Links between rungs, per direction, 128 GB/s (32 GB/s covered)",
            ),
        ),
        (
            "system.machine.rail_link_count=4",
            ("IPU-Links between rungs, per direction, 64 GB/s (32 GB/s covered)",),
        ),
        ("system.machine.ipu.tile.count=2944", ("tiles 2,944 (1,472 covered)",)),
        ("system.machine.ipu.tile.memory=1248 KiB", ("memory of a tile 1.219 MiB (624 KiB covered)",)),
        ("system.machine.streaming_memory.bandwidth_per_machine=80 GB/s", ("bandwidth of the streaming memory",)),
        ("system.machine.ipu.name=Colossus", ()),
    ],
)
def test_hardware_is_known_by_its_numbers(override: str, outside: tuple[str, ...]) -> None:
    """A GC200 runs at 1.33 GHz with 1,472 tiles of 624 KiB; six links of 16 GB/s join a rung, two join rungs."""
    found = outside_of(BERT, override)
    assert len(found) == len(outside)
    assert all(each.startswith(wanted) for each, wanted in zip(found, outside, strict=True))


def test_gw_links_count_where_a_run_uses_them() -> None:
    """A POD64 is one link domain, a POD128 two."""
    override = "system.machine.gw_link.bandwidth_per_direction=50 GB/s"
    assert outside_of(BERT, override) == ()
    assert outside_of("bert_v1.1_pod128_open", override)[0].startswith("GW-Links of a machine, per direction, 100 GB/s")


def test_more_ipus_than_any_run_had() -> None:
    pod = ["system={base: ipu_pod256, machine_count: 256}", "parallelism.replication_factor=128"]
    assert "IPUs 1,024 (16–256 covered)" in outside_of(BERT, *pod)


def test_every_configuration_names_its_rows_and_lies_within_the_ranges() -> None:
    found = rows_cover()
    for part in found.values():
        names = [name for each in part["configurations"] for name in each["rows"]]
        assert all(names)
        for each in part["configurations"]:
            assert each["software"] in part["software"]
            for name, number in each["hardware"].items():
                assert part["hardware"][name][0] <= number <= part["hardware"][name][1]
            for name, (low, high) in part["models"][each["model"]].items():
                assert low <= each.get(name, low) <= high
    training = found["training"]["configurations"]
    (row,) = (each for each in training if "mlperf bert v1.1 64 open" in each["rows"])
    assert (row["framework"], row["ipu_count"], row["hardware"]["clock_hz"]) == ("PopART", 64, 1_330_000_000)


def test_distinct_configurations_are_listed_once() -> None:
    for part in rows_cover().values():
        apart = [json.dumps({**each, "rows": []}) for each in part["configurations"]]
        assert len(apart) == len(set(apart))


def test_other_software_and_other_kinds_are_outside() -> None:
    assert "SDK 9" in outside_of("bert_v1.1_pod16_closed", "software.name=SDK 9")[0]
    assert outside_of("resnet50_pod4", "system=bow_pod4")[0] == "clock 1.85 GHz (1.33–1.486 GHz covered)"


def test_products_in_a_narrow_format_were_never_compared() -> None:
    assert outside_of("bert_base_c600", "precision.products=fp8") == ("products in fp8 for forward passes",)
    assert outside_of("bert_base_c600", "precision.products=fp16") == ()


def test_serving_was_never_compared() -> None:
    overrides = ["serving.request_count=50", "serving.loads=[0.5]"]
    assert serve("serving_llama2_7b_pod64", overrides=overrides).envelope.outside[-1] == "serving under load"


def test_a_result_says_it_in_json_and_not_among_its_warnings() -> None:
    result = run("bert_v1.1_pod16_closed", overrides=["data.sequence_length=1024"], fit="warn")
    found = json.loads(result.to_json())
    assert found["envelope"] == {"inside": False, "outside": ["sequence length 1,024 (128–512 covered)"]}
    assert not [each for each in found["warnings"] if "compared" in each]
