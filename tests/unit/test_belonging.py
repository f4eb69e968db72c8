"""What was written for one model says nothing of another: samples to converge, logged epochs, descriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.transformer_training import LoggedConvergence, RunSpec

BERT, RESNET = "bert_v1.1_pod16_closed", "resnet50_v2.0_pod16"
BASE_SHAPE: dict[str, Any] = {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12}
SMALLER = {"base": "template", "model": BASE_SHAPE, "parallelism": {"layers_per_ipu": [3, 3, 3, 3]}}
NO_TIME = "no time to train: "


def notice(loaded: LoadedScenario, of: str = NO_TIME) -> str:
    (found,) = (each for each in loaded.notices if of in each)
    return found


def time_key(result: podsim.RunResult) -> tuple[object, object]:
    return result.time_to_train_s, result.time_to_train_percentiles


def test_another_model_over_the_template_has_neither_its_time_nor_its_title() -> None:
    """Twelve layers of width 768 are BERT-Base; MLPerf's reference runs are of BERT-Large."""
    result = podsim.simulate(SMALLER)
    assert result.title == "BERT-Base on IPU-POD16"
    assert time_key(result) == (None, None)
    told = json.loads(result.to_json())
    assert told["simulated"]["model"] == "BERT-Base"
    (warning,) = told["warnings"]
    assert warning.startswith(NO_TIME)
    assert "give run.samples_to_converge, run.samples, run.tokens or run.epochs" in warning


def test_what_is_given_for_the_other_model_counts() -> None:
    result = podsim.simulate(SMALLER | {"run": {"samples_to_converge": 1_000_000}})
    assert result.time_to_train_s
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("overrides", "differing"),
    [
        (["model.vocabulary_size=30400"], "model.vocabulary_size 30912 → 30400"),
        (["model.next_sentence=false"], "model.next_sentence true → false"),
        (["data.sequence_length=384"], "data.sequence_length 512 → 384"),
        (["data.packing=null"], "data.packing"),
        (["data.dropout=0.0"], "data.dropout 0.1 → 0.0"),
        (["optimizer.kind=adamw"], "optimizer.kind lamb → adamw"),
        (["model.task=span", "data.masked_token_count=null", "data.packing=null"], "model.task pretraining → span"),
    ],
)
def test_logged_samples_belong_to_model_data_and_objective(overrides: list[str], differing: str) -> None:
    loaded = load_scenario(BERT, overrides=overrides)
    assert loaded.spec.run == RunSpec()
    assert differing in notice(loaded)
    assert "scenarios/mlperf/bert_v1.1_pod16_closed.yaml:31:3" in notice(loaded)


@pytest.mark.parametrize(
    "override",
    [
        *("system=bow_pod16", "system.machine.ipu.clock=3 GHz", "model.split_qkv=false", "model.size=large"),
        *("model.layer_count=24", "precision.stash=fp8", "optimizer.second_moment=fp16", "run.evaluation.samples=5000"),
    ],
)
def test_what_changes_speed_alone_keeps_them(override: str) -> None:
    loaded = load_scenario(BERT, overrides=[override])
    assert isinstance(loaded.spec.run.samples_to_converge, LoggedConvergence)  # type: ignore[attr-defined]
    assert not any("train" in each for each in loaded.notices)


def test_the_order_of_overrides_does_not_matter() -> None:
    asked = ["run.samples_to_converge=9e5", "model.vocabulary_size=30400"]
    for overrides in (asked, asked[::-1]):
        assert load_scenario(BERT, overrides=overrides).spec.run.samples_to_converge == 9e5  # type: ignore[attr-defined]


def test_a_variant_is_another_model_until_it_says_how_long_it_trains(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    given = "model: {vocabulary_size: 30400}"
    path.write_text(
        f"base: {BERT}\ndescription: mine\nvariants:\n  other: {{{given}}}\n"
        f"  known: {{{given}, run: {{samples_to_converge: 2e6}}}}\n",
        encoding="utf-8",
    )
    assert notice(load_scenario(path, "other"))
    assert load_scenario(path, "known").spec.run.samples_to_converge == 2e6  # type: ignore[attr-defined]
    assert notice(load_scenario(path, "known", ["model.vocabulary_size=30528"]))


@pytest.mark.parametrize(
    "override",
    ["model.depth=101", "model.width_per_group=32", "data.samples_per_epoch=100000", "model.norm.kind=group"],
)
def test_logged_epochs_belong_to_their_network_too(override: str) -> None:
    """Without them the speed is the same as before: session calls stay."""
    more = ["model.norm.replicas=1"] if "norm" in override else []
    loaded = load_scenario(RESNET, overrides=[override, *more])
    run = loaded.spec.run  # type: ignore[attr-defined]
    assert (run.epochs, run.checkpoint, run.session_calls_per_epoch) == (None, None, 5)
    assert override.partition("=")[0] in notice(loaded)


def test_an_image_run_without_epochs_has_a_speed_alone() -> None:
    ended = podsim.simulate(RESNET)
    result = podsim.simulate(RESNET, overrides=["optimizer.kind=sgd"])
    assert time_key(result) == (None, None)
    assert result.throughput_samples_per_s == pytest.approx(ended.throughput_samples_per_s, rel=0.05)


@pytest.mark.parametrize(
    ("override", "benchmark"),
    [("system=bow_pod64", "resnet"), ("model.width_per_group=32", None), ("data.samples_per_epoch=1000", None)],
)
def test_a_benchmark_is_its_network_and_its_data(override: str, benchmark: str | None) -> None:
    spec = load_scenario(RESNET, overrides=[override]).spec
    assert spec.benchmark == benchmark  # type: ignore[attr-defined]


def test_short_sequences_are_no_benchmark() -> None:
    """The first phase of pre-training reads 128 tokens; MLPerf's benchmark reads 512."""
    spec = load_scenario("bert_large_phase1_pod16").spec
    assert spec.model.title == "BERT-Large"
    assert spec.benchmark is None  # type: ignore[attr-defined]


def test_a_fixed_length_stays_and_says_for_what_it_was_given() -> None:
    loaded = load_scenario("gpt2_small_wikitext_pod16", overrides=["data.sequence_length=512"])
    assert loaded.spec.run.epochs == 10  # type: ignore[attr-defined]
    assert "data.sequence_length 1024 → 512" in notice(loaded, "nothing says that it reaches the goal")


def test_a_number_of_samples_is_told_to_be_taken_for_another_batch() -> None:
    """2 x 192 x 4 = 1,536 packs before, 2 x 384 x 4 = 3,072 after."""
    source = {"base": "template", "run": {"samples_to_converge": 2_500_000}}
    assert load_scenario(source).notices == ()
    told = notice(load_scenario(source, overrides=["parallelism.accumulation_factor=384"]), "batch of 1,536")
    assert "taken for one of 3,072" in told


def test_titles_name_what_is_simulated() -> None:
    def title(source: Any, variant: str | None = None, *overrides: str) -> str:
        return podsim.simulate(source, variant=variant, overrides=overrides).title

    assert title({"base": "template", "system": "bow_pod16"}).startswith("Changed from: BERT-Large on an IPU-POD16")
    assert title("template", None, "model.vocabulary_size=30400") == "BERT-Large on IPU-POD16"
    assert title({"base": "template", "description": "ours", "model": {"vocabulary_size": 30400}}) == "ours"
    feed_forward = {"base": "template", "model": {"feed_forward_size": 2048}}
    assert title(feed_forward) == "BERT, 24 layers, width 1024 on IPU-POD16"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt2_medium_pod16", "GPT2-Medium"),
        ("llama2_7b_pods", "LLaMa2-7B"),
        ("t5_small_xsum_pod16", "T5-Small"),
        ("vit_base_pod16", "ViT-Base"),
        ("resnext101_pod16", "ResNeXt-101 32x4d"),
        ("mixtral_8x7b_pod16", "Mixtral-8x7B"),
    ],
)
def test_models_are_called_by_their_published_names(name: str, model: str) -> None:
    assert load_scenario(name).spec.model.title == model


def test_a_base_without_a_whole_model_gives_its_run_to_the_first_whole_one(tmp_path: Path) -> None:
    """What several scenarios share belongs to the model that each of them brings."""
    (tmp_path / "shared.yaml").write_text("run: {samples_to_converge: 3000000}\n", encoding="utf-8")
    whole = load_scenario(BERT).written.document.data
    path = tmp_path / "whole.yaml"
    path.write_text(json.dumps(whole | {"base": "shared.yaml", "run": {"seed": 0}}), encoding="utf-8")
    assert load_scenario(path).spec.run.samples_to_converge == 3e6  # type: ignore[attr-defined]
