"""Importing models: public configurations against their published sizes, divisions, any object."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import podsim as package
from podsim.cli.app import main
from podsim.errors import DoesNotFitError, PodsimError
from podsim.importer import Request, import_model
from podsim.importer.divisions import _ipu_counts
from podsim.importer.huggingface import known_families
from podsim.importer.scenarios import ACTIVITIES
from podsim.placement.generation import generation_job
from podsim.placement.job import training_job
from podsim.scenario import Activity, load_scenario
from podsim.scenario.families.decoder import DecoderSpec
from podsim.scenario.families.decoder_sizes import PRESETS
from podsim.scenario.families.registry import family
from podsim.scenario.training import TrainingScenario
from podsim.scenario.transformer_training import ParallelismSpec
from tests.cases import every_case
from tests.unit.importer_configs import BERT, LLAMA, MODELS, PARAMETERS, SMALL, TINY, Config

T5_XXL: Config = MODELS["t5_small"] | {
    "d_model": 4096,
    "d_ff": 10240,
    "num_heads": 64,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "feed_forward_proj": "gated-gelu",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def unsearched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide encoders and decoders as deep models are, by what fits first: a search takes two seconds."""
    monkeypatch.setattr("podsim.importer.scenarios._MOST_SEARCHED_LAYERS", 0)


def text_of(config: Config, warn: Callable[[str], None] = lambda warning: None, **request: Any) -> str:
    Path("config.json").write_text(json.dumps(config, indent=2))
    return import_model("config.json", Request(**request), warn)


def spec_of(text: str) -> Any:
    spec: Any = load_scenario(spec_file(text)).spec
    return spec


def spec_file(text: str) -> str:
    Path("imported.yaml").write_text(text)
    return "imported.yaml"


def line_of(text: str, key: str) -> str:
    (line,) = re.findall(rf"^ *{key}: .*$", text, re.MULTILINE)
    return " ".join(line.split())


def parameters_of(spec: Any) -> int:
    if spec.activity is Activity.GENERATION:
        return generation_job(spec).shape.parameter_count
    return training_job(spec).workload_of(1).parameter_count


# Public models


@pytest.mark.usefixtures("unsearched")
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_public_model_has_its_published_size_and_runs(name: str, folder: Path) -> None:
    text = text_of(MODELS[name], system="ipu_pod64" if name == "falcon_40b" else "ipu_pod16")
    spec = spec_of(text)
    published, differs = PARAMETERS[name]
    assert parameters_of(spec) == published + differs
    assert abs(differs) < published / 1000
    assert f"# {published + differs:,} parameters." in text
    assert package.run("imported.yaml").event_count > 0


@pytest.mark.parametrize("name", [name for name, config in MODELS.items() if name in PRESETS])
def test_a_decoder_is_the_preset_of_its_name(name: str, folder: Path) -> None:
    preset = DecoderSpec.model_validate({"kind": "decoder", "size": name})
    assert spec_of(text_of(MODELS[name])).model == preset.model_copy(update={"size": None})


def test_the_same_file_gives_the_same_bytes(folder: Path) -> None:
    assert text_of(MODELS["mistral_7b"]) == text_of(MODELS["mistral_7b"])


def test_values_name_the_keys_they_come_from(folder: Path) -> None:
    text = text_of(LLAMA | {"num_attention_heads": 32, "num_key_value_heads": None}, batch_size=2)
    assert line_of(text, "head_count") == "head_count: 32 # num_attention_heads"
    assert line_of(text, "kv_head_count") == "kv_head_count: 32 # num_key_value_heads is null: as many as query heads"
    assert line_of(text, "layer_count") == "layer_count: 32 # num_hidden_layers is not in the file: default of llama"
    assert line_of(text, "batch_size") == "batch_size: 2 # --batch-size"
    assert line_of(text, "prompt_tokens") == "prompt_tokens: 512 # --prompt-tokens was not given"


@pytest.mark.usefixtures("unsearched")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "named"),
    [
        ("llama", "llama2_7b"),
        ("gpt2", "gpt2_small"),
        ("gptj", "gptj_6b"),
        ("gemma", "gemma_7b"),
        ("bert", "bert_base"),
        ("t5", "t5_small"),
    ],
)
def test_an_empty_file_is_the_library_s_default_model(family: str, named: str, folder: Path) -> None:
    assert spec_of(text_of({"model_type": family})).model == spec_of(text_of(MODELS[named])).model


@pytest.mark.usefixtures("unsearched")
@pytest.mark.slow
def test_defaults_that_differ_from_the_public_models(folder: Path) -> None:
    """Mistral's v0.1 is its default; RoBERTa's default has no room for padding."""
    assert spec_of(text_of({"model_type": "mistral"})).model == spec_of(text_of(MODELS["mistral_7b"])).model
    roberta = spec_of(text_of({"model_type": "roberta"}))
    assert (roberta.model.position_count, roberta.data.sequence_length) == (512, 510)


def test_the_architecture_can_stand_in_for_the_type(folder: Path) -> None:
    config = {key: value for key, value in MODELS["gpt2_small"].items() if key != "model_type"}
    assert spec_of(text_of(config)).model == spec_of(text_of(MODELS["gpt2_small"])).model


def test_names_of_gpt2_have_aliases(folder: Path) -> None:
    config = {"model_type": "gpt2", "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16}
    text = text_of(config)
    assert line_of(text, "layer_count") == "layer_count: 24 # num_hidden_layers"
    assert line_of(text, "feed_forward_size") == "feed_forward_size: 4096 # n_inner is not in the file: 4 x n_embd"


@pytest.mark.parametrize(
    ("given", "line", "per_layer"),
    [
        ({"attention_bias": True, "mlp_bias": True}, "true # attention_bias", 4 * 4096 + 2 * 11008 + 4096),
        ({"attention_bias": True}, '["qkv", "projection"] # attention_bias', 4 * 4096),
        ({"mlp_bias": True}, '["feed_forward"] # mlp_bias', 2 * 11008 + 4096),
    ],
)
def test_biases_of_llama(given: Config, line: str, per_layer: int, folder: Path) -> None:
    """Queries, keys, values and projection of 4,096; up and gate of 11,008, and down of 4,096."""
    text = text_of({"model_type": "llama"} | given)
    assert line_of(text, "bias") == f"bias: {line}"
    assert parameters_of(spec_of(text)) == 6_738_415_616 + 32 * per_layer


def test_rotation_of_gptj(folder: Path) -> None:
    assert line_of(text_of(MODELS["gptj_6b"]), "rotary_size") == "rotary_size: 64 # rotary_dim"
    whole = text_of(MODELS["gptj_6b"] | {"rotary_dim": None})
    assert line_of(whole, "rotary_size") == "rotary_size: 256 # rotary_dim is null: all of a head"


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"model_type": "gpt2", "activation_function": "relu"}, "activation: relu # activation_function"),
        ({"model_type": "llama", "hidden_act": "gelu_pytorch_tanh"}, "activation: gelu # hidden_act"),
        ({"model_type": "gemma"}, "activation: gelu # hidden_act is not in the file: default of gemma"),
        ({"model_type": "gemma", "hidden_activation": "gelu"}, "activation: gelu # hidden_activation"),
    ],
)
def test_an_activation_that_is_not_the_usual_one(config: Config, line: str, folder: Path) -> None:
    assert line_of(text_of(config), "activation") == line


@pytest.mark.parametrize("config", [{"model_type": "gpt2", "activation_function": "gelu"}, {"model_type": "llama"}])
def test_the_usual_activation_is_not_written(config: Config, folder: Path) -> None:
    assert "activation:" not in text_of(config)


def test_gemma_scales_words_and_has_biases_in_attention_where_it_says_so(folder: Path) -> None:
    text = text_of({"model_type": "gemma", "attention_bias": True})
    assert line_of(text, "scaled_embedding") == "scaled_embedding: true # in every gemma model"
    assert line_of(text, "bias") == 'bias: ["qkv", "projection"] # attention_bias'


def test_gpt_neox_says_whether_blocks_are_parallel_and_what_is_turned(folder: Path) -> None:
    """A quarter of 96."""
    text = text_of(MODELS["gpt_neox_20b"], system="ipu_pod64")
    assert line_of(text, "rotary_size") == "rotary_size: 24 # of 96: rotary_pct"
    assert line_of(text, "parallel_blocks").startswith("parallel_blocks: two_norms # use_parallel_residual is not in")
    small = {"model_type": "gpt_neox", **SMALL_SIZES, "rotary_pct": 1, "attention_bias": False}
    text = text_of(small | {"use_parallel_residual": False})
    assert line_of(text, "rotary_size") == "rotary_size: 32 # of 32: rotary_pct"
    assert line_of(text, "parallel_blocks") == "parallel_blocks: none # use_parallel_residual"
    assert line_of(text, "bias") == 'bias: ["feed_forward"] # attention_bias'
    assert "bias: true # attention_bias is not in" in " ".join(text_of({"model_type": "gpt_neox"}).split())


@pytest.mark.parametrize(
    ("given", "kv_heads", "blocks", "bias"),
    [
        ({}, 1, "one_norm", False),
        ({"multi_query": False, "parallel_attn": False, "bias": True}, 2, "none", True),
        # multi_query says nothing of the newer architecture.
        ({"new_decoder_architecture": True, "multi_query": True}, 2, "two_norms", False),
        ({"new_decoder_architecture": True, "num_kv_heads": 1, "num_ln_in_parallel_attn": 1}, 1, "one_norm", False),
    ],
)
def test_two_architectures_of_falcon(given: Config, kv_heads: int, blocks: str, bias: bool, folder: Path) -> None:
    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_hidden_size": 128}
    model = spec_of(text_of({"model_type": "falcon"} | small | given)).model
    assert (model.kv_head_count, model.parallel_blocks, model.bias) == (kv_heads, blocks, bias)
    assert (model.feed_forward_size, model.tied_embedding) == (128, True)


def test_experts_of_mixtral(folder: Path) -> None:
    text = text_of({"model_type": "mixtral", **SMALL_SIZES, "num_key_value_heads": 1, "num_local_experts": 4})
    assert re.search(
        r"  experts:\n    count: 4 +# num_local_experts\n    per_token: 2 +# num_experts_per_tok is n", text
    )
    experts = spec_of(text).model.experts
    assert (experts.count, experts.per_token) == (4, 2)


SMALL_SIZES = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2}
ANY = SMALL_SIZES | {"model_type": "new", "vocab_size": 100, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6}
ANY |= {"rope_theta": 1e4, "hidden_act": "silu"}
NOTES = {
    "another activation": (
        {"model_type": "gpt2", "activation_function": "laplace"},
        "not modelled: activation_function `laplace`; gelu is simulated",
    ),
    "quantized": ({"model_type": "llama", "quantization_config": {"bits": 4}}, "not modelled: narrow weights as in"),
    "no rotation": ({"model_type": "falcon", "alibi": True}, "not modelled: ALiBi positions (alibi)"),
    "scaled positions": (
        {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}},
        "not modelled: rope scaling (rope_scaling)",
    ),
    "a class without a head": ({"model_type": "vit", "architectures": ["ViTModel"]}, "the head of ViTModel is not mod"),
    "distances": ({"model_type": "t5"}, "the learned distances of attention"),
    "another gate": (
        {"model_type": "t5", "feed_forward_proj": "gated-silu"},
        "feed_forward_proj is `gated-silu`; gelu is",
    ),
    "a decoder nobody listed": (ANY, "model_type `new` is read by its dimensions: what its code does"),
    "a short context": ({"model_type": "llama", "max_position_embeddings": 1000}, "1024 tokens are more than the 1000"),
}


@pytest.mark.usefixtures("unsearched")
@pytest.mark.parametrize(("config", "note"), NOTES.values(), ids=NOTES)
def test_what_a_scenario_cannot_say_is_noted_and_told(config: Config, note: str, folder: Path) -> None:
    told: list[str] = []
    text = text_of(config, told.append)
    assert f"# Note: {note}" in text
    assert [each for each in told if each.startswith(note)]
    assert text.count("# Note: ") == len(told)


@pytest.mark.usefixtures("unsearched")
@pytest.mark.parametrize(
    "more",
    [
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_scaling": None},
        {"model_type": "mistral", "sliding_window": None},
        {"model_type": "qwen2", "sliding_window": 4096},
        {"attn_logit_softcapping": None, "quantization_config": None},
    ],
)
def test_what_asks_for_nothing_is_not_noted(more: Config, folder: Path) -> None:
    assert "# Note: " not in text_of({"model_type": "llama"} | more)


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, ["gated: true", "norm: rms", "rotary: true", "tied_embedding: true"]),
        (
            {"rope_theta": None, "rms_norm_eps": None, "layer_norm_eps": 1e-5},
            ["norm: layer", "rotary: false", "position_count: 2048"],
        ),
        ({"partial_rotary_factor": 0.5}, ["rotary: true", "rotary_size: 16"]),  # of heads of 32
        ({"rms_norm_eps": None, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}, ["gated: false", "norm: layer"]),
        (
            {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
            ["feed_forward_size: 32", "count: 4"],
        ),
        ({"qkv_bias": True}, ['bias: ["qkv"]']),
        ({"attention_bias": True, "mlp_bias": True}, ['bias: ["qkv", "projection", "feed_forward"]']),
        ({"use_parallel_residual": True, "num_kv_heads": 1}, ["parallel_blocks: two_norms", "kv_head_count: 1"]),
    ],
)
def test_a_decoder_nobody_listed_is_what_its_keys_say(more: Config, lines: list[str], folder: Path) -> None:
    text = text_of(ANY | more)
    for line in lines:
        assert re.search(rf"^ +{re.escape(line)}( |$)", text, re.MULTILINE), line


def test_learned_positions_shorten_prompt_and_output(folder: Path) -> None:
    assert "prompt_tokens: 32 " in text_of(TINY)
    assert "output_tokens: 14 " in text_of(TINY, prompt_tokens=50)


# Divisions


def test_a_decoder_takes_the_division_with_the_shortest_time_per_token(folder: Path) -> None:
    """Sixteen IPUs load the weights from four machines at once."""
    text = text_of(MODELS["llama2_7b"])
    assert line_of(text, "tensor_parallel") == "tensor_parallel: 16"
    assert line_of(text, "weights") == "weights: streamed"
    spec_of(text)
    chosen = package.generate("imported.yaml", overrides=["parallelism=auto"])
    assert chosen.time_per_output_token_s == package.generate("imported.yaml").time_per_output_token_s
    assert f"({chosen.time_per_output_token_s * 1000:.3g} ms)" in text


def test_heads_may_be_shared_unequally(folder: Path) -> None:
    """The 25 heads of GPT-2 XL: 13 on one shard of each stage and 12 on the other."""
    spec = spec_of(text_of(MODELS["gpt2_xl"]))
    assert spec.model.head_count == 25
    shared = package.generate("imported.yaml", overrides=["parallelism={tensor_parallel: 2, pipeline_stages: 4}"])
    assert shared.scenario["parallelism"]["tensor_parallel"] == 2


def test_resident_weights_fit_a_larger_pod(folder: Path) -> None:
    text = text_of(MODELS["llama2_7b"], system="bow_pod64", prompt_tokens=128, output_tokens=64)
    assert line_of(text, "weights") == "weights: resident"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layers"), [("bert_large", 4), ("vit_base", 12)])
def test_a_training_run_has_the_division_that_auto_chooses(name: str, layers: int, folder: Path) -> None:
    spec = spec_of(text_of(MODELS[name] | {"num_hidden_layers": layers}, batch_size=512))
    chosen = package.simulate("imported.yaml", overrides=["parallelism=auto", "batch_size=512"]).scenario
    assert spec.model_dump(mode="json", exclude_none=True)["parallelism"] == chosen["parallelism"]
    parallelism = spec.parallelism
    assert isinstance(parallelism, ParallelismSpec)
    assert parallelism.micro_batch_size * parallelism.accumulation_factor * parallelism.replication_factor == 512


def test_the_comment_has_the_chosen_division_and_the_next(folder: Path) -> None:
    text = text_of(MODELS["bert_base"])
    rate = package.simulate(spec_file(text)).throughput_samples_per_s
    words = " ".join(text.replace("\n#  ", "").split())
    assert (
        f"The fastest division of 1024 sequences (--batch-size was not given) that fits: {rate:,.0f} sequences/s"
        in words
    )
    assert len(re.findall(r"IPUs? per replica, micro-batch \d+, with\w* recomputation: [\d.]+ % slower", words)) == 2


def test_t5_is_divided_evenly_over_the_fewest_ipus(folder: Path) -> None:
    """Layers of encoder and decoder: 12 on one IPU; with 8 times the rows, the embedding leaves room on none."""
    small = spec_of(text_of(MODELS["t5_small"], batch_size=64))
    wide = text_of(MODELS["t5_small"] | {"d_model": 1024, "d_ff": 4096, "num_heads": 16}, batch_size=64)
    assert small.parallelism.layers_per_ipu == [12]
    divided = spec_of(wide)
    layers = divided.parallelism.layers_per_ipu
    assert layers is not None
    assert (sum(layers), max(layers) - min(layers)) == (12, 0)
    assert "# 1 IPU per replica: too little memory" in wide


TASKS = {
    "nothing said": ("bert", None, ("pretraining", True, True)),
    "masked tokens": ("bert", "BertForMaskedLM", ("pretraining", True, True)),
    "another head": ("bert", "BertForTokenClassification", ("pretraining", True, True)),
    "roberta": ("roberta", "RobertaForMaskedLM", ("pretraining", False, False)),
    "an answer": ("roberta", "RobertaForQuestionAnswering", ("span", False, True)),
    "classes": ("bert", "BertForSequenceClassification", ("classes", True, True)),
}


@pytest.mark.usefixtures("unsearched")
@pytest.mark.parametrize(("family", "name", "expected"), TASKS.values(), ids=TASKS)
def test_the_class_decides_the_task(
    family: str, name: str | None, expected: tuple[str, bool, bool], folder: Path
) -> None:
    text = text_of({"model_type": family} | ({"architectures": [name]} if name else {}))
    spec = spec_of(text)
    assert (spec.model.task, spec.model.pooler, spec.model.next_sentence) == expected
    assert (spec.data.masked_token_count is None) == (spec.model.task != "pretraining")
    assert ("the head of BertForTokenClassification is not modelled" in text) == (name == "BertForTokenClassification")


@pytest.mark.usefixtures("unsearched")
@pytest.mark.slow
def test_classes_are_counted(folder: Path) -> None:
    fine_tuned = {"model_type": "bert", "architectures": ["BertForSequenceClassification"]}
    labels = {"0": "a", "1": "b", "2": "c"}
    for more, line in (
        ({}, "class_count: 2 # num_labels is not in the file: default of bert"),
        ({"num_labels": 7}, "class_count: 7 # num_labels"),
        ({"id2label": labels, "num_labels": 3}, "class_count: 3 # entries of id2label"),
    ):
        assert line_of(text_of(fine_tuned | more), "class_count") == line


def test_a_deep_model_is_divided_evenly(folder: Path) -> None:
    """The 60 layers of 4 million weights in training, 4 bytes each, need 1 GB: more than one IPU has."""
    deep = {"num_hidden_layers": 60, "hidden_size": 576, "intermediate_size": 2304, "num_attention_heads": 9}
    text = text_of(BERT | deep)
    spec = spec_of(text)
    layers = spec.parallelism.layers_per_ipu
    assert layers is not None
    assert (sum(layers), max(layers) - min(layers)) == (60, 0)
    assert "`--set parallelism=auto` finds the fastest" in " ".join(text.replace("\n#  ", "").split())


def test_gated_blocks_and_a_decoder_of_its_own_length(folder: Path) -> None:
    config = MODELS["t5_small"] | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    text = text_of(config | {"num_decoder_layers": None, "num_layers": 8, "d_ff": 1024})
    spec = spec_of(text)
    assert (spec.model.gated, spec.model.tied_embedding, spec.model.placed_decoder_layers) == (True, False, 8)
    assert "num_decoder_layers is null: as many as the encoder's" in text


@pytest.mark.usefixtures("unsearched")
def test_dropout_is_imported(folder: Path) -> None:
    spec = spec_of(text_of(BERT | {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0.25}))
    assert (spec.data.dropout, spec.data.attention_dropout) == (0.0, 0.25)


def test_a_pod_of_one_s_own_is_written_so_that_it_is_found(folder: Path) -> None:
    Path("my pod: large.yaml").write_text("kind: pod\nbase: ipu_pod64\nname: mine\n")
    text = text_of(TINY, system="my pod: large.yaml")
    assert '"my pod: large.yaml"' in text
    assert spec_of(text).system.name == "mine"


# Activities


def activities() -> list[tuple[str, str]]:
    """Every architecture with all that makes sense for it."""
    kinds = {"bert": "bert", "roberta": "bert", "vit": "vit", "t5": "t5"}
    return [
        (name, word)
        for name in known_families()
        for word, activity in ACTIVITIES.items()
        if activity in family(kinds.get(name, "decoder")).sections
    ]


def test_every_architecture_has_a_small_model() -> None:
    assert set(SMALL) == set(known_families())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "word"), activities())
def test_every_architecture_does_what_makes_sense(name: str, word: str, unsearched: None, folder: Path) -> None:
    """The division of a family's training is searched for in other tests."""
    wide = "int4" if word == "generate" else "fp32"
    for precision in (None, "fp16", wide):
        spec = spec_of(text_of(SMALL[name], system="ipu_pod4", activity=word, precision=precision))
        assert spec.activity is ACTIVITIES[word]
        assert spec.precision.weights == (precision or "fp16")
        assert package.run("imported.yaml").event_count > 0


_LAYER_AFTER_LAYER = "no pipeline that was tried fits {}: all layers run on the same {} IPUs, one after the other "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "pod", "ipus"),
    [
        # Weights and gradients of a layer: 202 million of each at 2 B, 386 MiB on each of 2 IPUs. Activations fit if
        # the two divide the tokens between products.
        pytest.param(MODELS["llama2_7b"], "ipu_pod16", 2, marks=pytest.mark.ci),
        (MODELS["llama2_7b"], "ipu_pod4", 2),
        # 201 million, and as much again for hidden states of twice the inner width.
        (MODELS["gptj_6b"], "ipu_pod4", 4),
    ],
    ids=["llama2_7b", "llama2_7b_pod4", "gptj_6b"],
)
def test_a_model_that_fits_no_pipeline_is_divided_in_phases(config: Config, pod: str, ipus: int, folder: Path) -> None:
    text = text_of(config, system=pod, activity="train")
    layout = spec_of(text).parallelism
    assert (layout.execution, layout.tensor_parallel, layout.batch_size) == ("phased", ipus, 1024)
    assert layout.ipus_per_replica * layout.replication_factor == spec_of(text).system.ipu_count
    assert config is not MODELS["llama2_7b"] or "6,738,415,616 parameters" in text
    assert package.run("imported.yaml").event_count > 0
    count = spec_of(text).system.ipu_count
    alone = {
        "tensor_parallel": 1,
        "micro_batch_size": 1,
        "replication_factor": count,
        "accumulation_factor": 1024 // count,
        **({"sequence_parallel": False} if config is MODELS["llama2_7b"] else {}),
    }
    with pytest.raises(DoesNotFitError, match="In-Processor-Memory"):
        package.run("imported.yaml", overrides={f"parallelism.{key}": value for key, value in alone.items()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "pod", "ipus", "smallest"),
    # A layer of the decoder has 260 million weights: with their gradients 496 MiB on each of 2 IPUs, of 892 MiB less
    # code and I/O tiles. Its temporaries, 210 MiB for one sample, and optimizer state lack 1 MiB there.
    [(T5_XXL, "ipu_pod64", 4, "the smallest shipped pod that would do is ipu_pod16")],
    ids=["t5_xxl"],
)
def test_what_no_pipeline_holds_is_trained_one_layer_at_a_time(
    config: Config, pod: str, ipus: int, smallest: str, folder: Path
) -> None:
    told: list[str] = []
    text = text_of(config, told.append, system=pod, activity="train")
    layout = spec_of(text).parallelism
    assert (layout.execution, layout.tensor_parallel, layout.batch_size) == ("phased", ipus, 1024)
    assert layout.ipus_per_replica * layout.replication_factor == spec_of(text).system.ipu_count
    name = spec_of(text).system.name
    assert told[-1] == _LAYER_AFTER_LAYER.format(name, ipus) + f"(phased execution); {smallest}"
    assert told[-1] in re.sub(r"\n# +", " ", text)
    assert package.run("imported.yaml").event_count > 0
    half = {
        "tensor_parallel": ipus // 2,
        "micro_batch_size": 1,
        "replication_factor": 2 * layout.replication_factor,
        "accumulation_factor": 512 // layout.replication_factor,
    }
    fewer = package.run("imported.yaml", overrides={f"parallelism.{key}": value for key, value in half.items()})
    assert fewer.memory.fit == "cannot tell"


def test_a_decoder_whose_layers_need_a_larger_pod_in_training(folder: Path) -> None:
    with pytest.raises(DoesNotFitError) as caught:
        text_of(MODELS["llama2_70b"], activity="train", system="ipu_pod4")
    assert caught.value.message == "the model does not fit IPU-POD4, one layer at a time"
    assert caught.value.do == "use `--system ipu_pod64`, the smallest shipped pod on which it fits"


@pytest.mark.usefixtures("unsearched")
def test_all_number_formats_of_a_run_are_set_together(folder: Path) -> None:
    spec = spec_of(text_of(TINY, activity="train", precision="fp32"))
    assert set(spec.precision.model_dump().values()) == {"fp32", None}, "a stash in the format of activations"
    spec = spec_of(text_of(TINY, activity="generate", precision="fp8"))
    formats = {"weights": "fp8", "activations": "fp16", "matmul_partials": "fp16"}
    assert spec.precision.model_dump(exclude_none=True) == formats, "only int4 has groups unless they are given"


@pytest.mark.usefixtures("unsearched")
def test_what_is_asked_is_noted_beside_the_value(folder: Path) -> None:
    text = text_of(TINY | {"resid_pdrop": 0.2}, activity="train", precision="fp32")
    assert line_of(text, "weights") == "weights: fp32 # --precision"
    assert line_of(text, "sequence_length") == "sequence_length: 64 # at most 1024 of 64 positions"
    assert line_of(text, "dropout") == "dropout: 0.2 # resid_pdrop"
    assert "gpt2, 2 layers of width 32, pre-training" in text
    assert "gpt2, 2 layers of width 32, forward passes" in text_of(TINY, activity="forward")


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit"])
def test_forward_passes_leave_dropout_out(name: str, folder: Path) -> None:
    text = text_of(SMALL[name], activity="forward", batch_size=8)
    assert "dropout:" not in text
    assert line_of(text, "batch_size") == "batch_size: 8 # --batch-size"
    assert line_of(text, "replication_factor") == "replication_factor: 16 # as many as the pod holds"


def test_forward_passes_that_do_not_fit_name_a_pod(folder: Path) -> None:
    """3.1 GB of weights with their temporaries do not fit the 0.94 GB of each of 4 IPUs."""
    with pytest.raises(PodsimError) as caught:
        text_of(MODELS["gpt2_xl"], system="ipu_pod4", activity="forward")
    assert caught.value.do == "use `--system ipu_pod16`, the smallest shipped pod on which it fits"


# Any object

READ_BESIDE = {
    *("attention_bias", "attention_chunk_size", "attention_dropout", "attn_logit_softcapping", "attn_pdrop"),
    *("ffn_hidden_size", "final_logit_softcapping", "head_dim", "hidden_activation", "hidden_dropout", "mlp_bias"),
    *("n_embed", "num_kv_heads", "num_ln_in_parallel_attn", "quantization_config", "resid_pdrop", "rope_scaling"),
    *("use_parallel_residual", "use_sliding_window"),
}
KEYS = sorted({key for config in (*MODELS.values(), *SMALL.values()) for key in config} | READ_BESIDE)
COUNTS = [key for key in KEYS if any(type(config.get(key)) is int for config in MODELS.values())]
SIZES = st.sampled_from([1, 2, 3, 4, 8, 12, 64, 768])
FAMILIES = st.sampled_from(known_families())
VALUES = st.one_of(
    SIZES,
    st.sampled_from([-1, 0, 128, 768, 4096, 10**9, 10**300, 1e308, 0.0, -0.5, float("nan"), float("-inf"), "12", ""]),
    st.integers(),
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.text(max_size=4), st.integers(), st.lists(st.none(), max_size=2)), max_size=2),
    st.dictionaries(st.text(max_size=3), st.one_of(st.integers(), st.just({"type": "linear"})), max_size=2),
)
OBJECTS = st.one_of(
    st.dictionaries(st.text(max_size=8), VALUES, max_size=5),
    st.builds(
        lambda family, rest: {"model_type": family} | rest, FAMILIES, st.dictionaries(st.sampled_from(KEYS), VALUES)
    ),
    st.builds(
        lambda family, sizes: sizes | {"model_type": family},
        FAMILIES,
        st.dictionaries(st.sampled_from(COUNTS), SIZES, min_size=4),
    ),
    st.builds(
        lambda family, rest: SMALL[family] | rest, FAMILIES, st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2)
    ),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "activity": st.sampled_from([*ACTIVITIES, "serve"]),
        "precision": st.sampled_from(["fp16", "fp32", "fp8", "int4", "fp4"]),
    },
)


@pytest.mark.usefixtures("unsearched")
@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(config=OBJECTS, options=OPTIONS)
def test_any_object_becomes_a_scenario_that_loads_or_an_error(config: Config, options: Any, folder: Path) -> None:
    try:
        text = text_of(config, **options)
    except PodsimError as error:
        assert "config.json" in str(error)
        assert error.do or "\n  do: " in str(error)
        return
    spec_of(text)


@every_case("name, value", lambda: product(known_families(), ["12", -1, True, None, 1e308, [[1]], {"a": {"b": 1}}]))
def test_every_key_of_every_architecture_is_checked_where_it_stands(name: str, value: Any, folder: Path) -> None:
    """A width that is no number, beside keys that are right."""
    key = next(key for key in ("n_embd", "d_model", "hidden_size") if key in SMALL[name])
    with pytest.raises(PodsimError) as caught:
        text_of(SMALL[name] | {key: value})
    assert re.match(rf"config\.json:\d+:3 \[{key}\]: (needs a whole number, not|`-1` is too small)", str(caught.value))
    assert "\n  do: write " in str(caught.value)


def test_a_replica_may_have_as_many_ipus_as_there_are_layers() -> None:
    """Of the 16 of a pod: 1, 2 and 4 for a model of 4 layers, and no 8, some of which would hold nothing."""
    layers = ["model.layer_count=4", "parallelism.layers_per_ipu=[1, 1, 1, 1]"]
    spec = load_scenario("gpt2_small_wikitext_pod16", overrides=layers).require(TrainingScenario)
    assert list(_ipu_counts(spec)) == [1, 2, 4]


def test_a_terminal_is_told_what_fits_how_it_is_divided_and_the_smallest_pod(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1.3 x 10⁹ weights of 2 bytes are 2.5 GiB; an IPU has 897 MiB, so that three hold them and a POD4 does."""
    config = LLAMA | {"num_hidden_layers": 22, "hidden_size": 2048, "intermediate_size": 5632}
    config |= {"num_attention_heads": 32, "num_key_value_heads": 32}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys, "argv", ["podsim", "import", "config.json", "--system", "ipu_pod16", "--output", "mine.yaml"]
        )
        with pytest.raises(SystemExit) as end:
            main()
    told = capsys.readouterr().err.splitlines()
    assert end.value.code in (0, None)
    wrote, fits, divided, *verdict, predicted, ranges, smallest = told
    assert wrote.startswith("wrote mine.yaml")
    loaded = load_scenario("mine.yaml")
    result = package.generate(loaded)
    used_bytes = result.memory.used_bytes(result.memory.fullest_ipu() or 0)
    assert fits.startswith(f"fits: IPU-POD16, {result.simulated.ipus_used} of 16 IPUs in use")
    assert f"holds {used_bytes / 2**20:.0f} MiB of 897 MiB ({100 * used_bytes / (897 * 2**20):.0f} %)" in fits
    parallelism = loaded.document.value_at(("parallelism",))
    assert f"tensor_parallel: {parallelism['tensor_parallel']}" in divided
    assert verdict == [f"verdict: {each}" for each in result.verdict]
    assert "never compared with a published run" in verdict[0]
    known = result.ranges["tokens_per_s"]
    low, high = re.match(r"80 % ranges: ([\d.]+) to ([\d.,]+) tokens/s; ", ranges).groups()  # type: ignore[union-attr]
    assert (float(low), float(high)) == pytest.approx((known.low, known.high), rel=0.01)
    assert "tokens/s" in predicted
    assert smallest == "smallest pod: ipu_pod4"
