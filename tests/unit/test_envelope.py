"""What has been compared with published runs, and the notice outside of it."""

import json

import pytest

from podsim import run, serve
from podsim.report.envelope import FILE, Envelope, envelope_of
from podsim.specs import data_file, load_scenario
from podsim.validation.envelope import compared_titles, covered


def test_the_file_is_that_of_the_rows() -> None:
    """`tools/make_envelope.py` writes it."""
    assert json.loads(data_file(FILE).read_text(encoding="utf-8")) == covered()


def test_its_ranges_are_those_of_the_rows() -> None:
    """ResNet-50 of MLPerf trained on 16 to 256 IPUs, GPT-J and LLaMa2 wrote on 4 and 16."""
    found = covered()
    assert found["training"]["models"]["resnet"]["ipu_count"][1] == 256
    assert found["generation"]["models"]["decoder"]["ipu_count"] == [4, 16]
    assert "PaddlePaddle, SDK 2.3" in found["training"]["software"]


@pytest.mark.parametrize("title", compared_titles())
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
    assert found == ("Bow for text generation", "layers 48 (28–32 covered)")


def test_other_software_and_other_kinds_are_outside() -> None:
    assert "SDK 9" in outside_of("bert_v1.1_pod16_closed", "software.name=SDK 9")[0]
    assert outside_of("resnet50_pod4", "system=bow_pod4")[0] == "Bow for forward passes"


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
