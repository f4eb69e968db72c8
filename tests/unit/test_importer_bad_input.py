"""Importing models: what is said about wrong configurations, and where scenarios are written."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from podsim.errors import PodsimError
from podsim.importer import Request, import_model
from podsim.importer.huggingface import known_families
from tests.unit.bad_input_cases import INFEASIBLE, Run, error_of
from tests.unit.importer_configs import BERT, MODELS, SMALL, TINY, Config

KNOWN = ", ".join(known_families())


# Wrong files

FILES = {
    "empty": (b"", "config.json: the file is empty\n  do: name the config.json of a Hugging Face model"),
    "binary": (
        b"\x89PNG\r\n\x00\x01",
        "config.json: the file is not text in UTF-8\n  do: name the config.json of a Hugging Face model",
    ),
    "truncated": (
        b'{"model_type": "llama",\n  "hidden_size": ',
        "config.json:2:18: not valid JSON: expecting value\n  do: the file ends too early; fetch it again",
    ),
    "no comma": (
        b'{"model_type": "llama"\n  "hidden_size": 4096}',
        "config.json:2:3: not valid JSON: expecting ',' delimiter\n  do: check quotes, commas and brackets",
    ),
    "not a number": (
        b'{"model_type": "llama",\n  "hidden_size": NaN}',
        "config.json:2:18: not valid JSON: `NaN` is not a number\n  do: write a number, or `null`",
    ),
    "infinite": (
        b'{"hidden_size": [-Infinity]}',
        "config.json:1:18: not valid JSON: `-Infinity` is not a number\n  do: write a number, or `null`",
    ),
    "a list": (
        b"[1, 2]",
        "config.json: the file must hold one JSON object\n  do: name the config.json of a Hugging Face model",
    ),
    "a key twice": (
        b'{"model_type": "bert",\n "hidden_size": 1,\n "hidden_size": 2}',
        "config.json:3:2: key `hidden_size` appears twice, first at config.json:2:2\n  do: keep one of the two",
    ),
    "too deep": (
        b'{"a": ' + b"[" * 10_000,
        "config.json:1:56: values are nested in more than 50 levels\n  do: remove brackets",
    ),
    "too many digits": (
        b'{"hidden_size": ' + b"9" * 5000 + b"}",
        "config.json: a number has too many digits\n  do: write a number of at most 12 digits",
    ),
    "too large": (
        b'{"a": "' + b"x" * 2_000_000 + b'"}',
        "config.json: the file has more than 1 MiB\n  do: name the config.json of a Hugging Face model",
    ),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_a_file_that_is_no_configuration(content: bytes, message: str, podsim: Run) -> None:
    Path("config.json").write_bytes(content)
    assert podsim("import", "config.json") == error_of(message)


def test_a_mark_of_the_byte_order_is_skipped(podsim: Run) -> None:
    Path("config.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(TINY).encode())
    code, told = podsim("import", "config.json", "--system", "ipu_pod16")
    assert (code, told.partition(":")[0]) == (0, "fits")


def test_paths_that_are_no_file(podsim: Run) -> None:
    Path("model").mkdir()
    os.mkfifo("pipe")
    cure = "name the config.json of a Hugging Face model"
    for path, message in {
        "model": "this is a folder, not a file\n  do: name the config.json in it",
        "pipe": f"this is not a file but a device or a pipe\n  do: {cure}",
        "none.json": "the file cannot be read: No such file or directory\n  do: check the path and its permissions",
    }.items():
        assert podsim("import", path) == error_of(f"{path}: {message}")


@pytest.mark.parametrize("content", ['"\\"' * 300_000, '{"a":' * 200_000, '{"a":1,' * 100_000, "[" + '"a",' * 200_000])
def test_a_file_that_is_built_to_be_slow_is_refused_at_once(content: str, podsim: Run) -> None:
    Path("config.json").write_text(content)
    code, message = podsim("import", "config.json")
    assert code == 2
    assert "\n  do: " in message


GRAPH = (
    "import it as ONNX, or export its shapes where PyTorch is (`podsim import --torch-script` prints what does that)"
    " and import those"
)
TURNED = {"rope_theta": 1e4, "hidden_act": "silu"}
SIZES = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "vocab_size": 100}
CONFIGS: dict[str, tuple[Config, str]] = {
    "unknown": (
        {"model_type": "mamba", "num_layers": 6},
        ":2:3 [model_type]: `mamba` models are not known, and the file has not the dimensions of a decoder"
        f"\n  do: {GRAPH}",
    ),
    "latent attention": (
        {"model_type": "llama", "kv_lora_rank": 512, "q_lora_rank": None},
        f":3:3 [kv_lora_rank]: latent keys and values are not modelled\n  do: {GRAPH}",
    ),
    "an untied head": (
        {"model_type": "bert", "tie_word_embeddings": False},
        ":3:3 [tie_word_embeddings]: heads with weights of their own are not modelled in encoders"
        "\n  do: write true, if the head may share the embedding's weights",
    ),
    "other channels": (
        {"model_type": "vit", "num_channels": 1},
        ":3:3 [num_channels]: images of 1 channels are not modelled\n  do: write 3, or import the model as ONNX",
    ),
    "no biases": (
        {"model_type": "vit", "qkv_bias": False},
        ":3:3 [qkv_bias]: queries, keys and values without biases are not modelled in vision transformers"
        "\n  do: import the model as ONNX",
    ),
    "norms of queries": (
        {"model_type": "new", "rms_norm_eps": 1e-6, "max_position_embeddings": 64, "qk_layernorm": True}
        | SIZES
        | TURNED,
        f":5:3 [qk_layernorm]: norms of queries and keys are not modelled\n  do: {GRAPH}",
    ),
    "no norm": (
        {"model_type": "new", "max_position_embeddings": 64} | SIZES | TURNED,
        ': no key says which norm this decoder has\n  do: add `"rms_norm_eps"` for RMS norms, or `"layer_norm_eps"` '
        "for layer norms",
    ),
    "no positions": (
        {"model_type": "new", "rms_norm_eps": 1e-6} | SIZES | TURNED,
        ": a decoder needs `max_position_embeddings`, or one of: n_positions, max_seq_len, seq_length"
        '\n  do: add `"max_position_embeddings"`',
    ),
    "layers without experts": (
        {"model_type": "new", "rms_norm_eps": 1e-6, "max_position_embeddings": 64}
        | {"num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0]}
        | SIZES
        | TURNED,
        ":7:3 [mlp_only_layers]: layers with experts among layers without are not modelled\n  do: import another model",
    ),
    "no type": (
        {"hidden_size": 6},
        f': nothing known says which model this is: `model_type` is missing\n  do: add `"model_type"`, one of: {KNOWN}',
    ),
    "another class": (
        {"architectures": ["MambaForCausalLM"]},
        ": nothing known says which model this is: `model_type` is missing, and architectures has "
        f'`MambaForCausalLM`\n  do: add `"model_type"`, one of: {KNOWN}',
    ),
    "type and class": (
        {"model_type": "llama", "architectures": ["GPT2LMHeadModel"]},
        ":2:3 [model_type]: model_type is `llama`, architectures has `GPT2LMHeadModel`\n  do: correct one of the two",
    ),
    "type that is no text": (
        {"model_type": ["llama"]},
        f":2:3 [model_type]: needs text, not a list\n  do: write one of: {KNOWN}",
    ),
    "negative and text": (
        {"model_type": "llama", "hidden_size": -1, "num_attention_heads": "32"},
        ":3:3 [hidden_size]: `-1` is too small\n  do: write 1 or more\n"
        "config.json:4:3 [num_attention_heads]: needs a whole number, not `32`\n  do: write for example `12`",
    ),
    "absurd": (
        {"model_type": "llama", "vocab_size": 10**300},
        ":3:3 [vocab_size]: `1e300` is too large\n  do: write 10000000 or less",
    ),
    "true": (
        {"model_type": "gpt2", "n_layer": True},
        ":3:3 [n_layer]: needs a whole number, not `true`\n  do: write for example `12`",
    ),
    "nothing": (
        {"model_type": "gpt2", "n_layer": None},
        ":3:3 [n_layer]: needs a whole number, not nothing\n  do: write for example `12`",
    ),
    "a flag in words": (
        {"model_type": "llama", "tie_word_embeddings": "no"},
        ":3:3 [tie_word_embeddings]: needs true or false, not `no`\n  do: write `true` or `false`",
    ),
    "a probability": (
        {"model_type": "bert", "hidden_dropout_prob": 1.0},
        ":3:3 [hidden_dropout_prob]: needs a number from 0 to below 1, not `1.0`\n  do: write for example `0.1`",
    ),
    "heads": (
        {"model_type": "bert", "num_attention_heads": 7},
        ":3:3 [num_attention_heads]: 7 heads do not divide a width of 768\n  do: correct one of the two",
    ),
    "grouped heads": (
        {"model_type": "llama", "num_key_value_heads": 5},
        ":3:3 [num_key_value_heads]: 5 key and value heads do not divide 32 query heads\n  do: correct one of the two",
    ),
    "heads without width": (
        {"model_type": "mistral", "hidden_size": 5120, "head_dim": 0},
        ":4:3 [head_dim]: `0` is too small\n  do: write 1 or more",
    ),
    "aliases": (
        {"model_type": "gpt2", "n_layer": 12, "num_hidden_layers": 24},
        ":4:3 [num_hidden_layers]: num_hidden_layers is `24`, n_layer is `12`, and both mean the same\n"
        "  do: keep one of the two",
    ),
    "cross-attention": (
        {"model_type": "gpt2", "add_cross_attention": True},
        ":3:3 [add_cross_attention]: decoders that read an encoder are not modelled\n  do: " + GRAPH,
    ),
    "relative positions": (
        {"model_type": "bert", "position_embedding_type": "relative_key"},
        ":3:3 [position_embedding_type]: relative positions are not modelled\n"
        '  do: write "absolute", or import another model',
    ),
    "patches": (
        {"model_type": "vit", "image_size": 224, "patch_size": 15},
        ":4:3 [patch_size]: patches of 15 pixels do not divide images of 224\n  do: correct one of the two",
    ),
    "an image that is no square": (
        {"model_type": "vit", "image_size": [224, 224]},
        ":3:3 [image_size]: needs a whole number, not a list\n  do: write for example `12`",
    ),
    "labels": (
        {"model_type": "vit", "id2label": ["a", "b"]},
        ":3:3 [id2label]: needs an object with a label for each class, not a list\n"
        '  do: write for example `{"0": "no", "1": "yes"}`',
    ),
    "labels and their number": (
        {"model_type": "vit", "id2label": {"0": "a"}, "num_labels": 3},
        ":6:3 [num_labels]: 3 classes, but id2label has 1\n  do: correct one of the two",
    ),
    "an encoder alone": (
        {"model_type": "t5", "is_encoder_decoder": False},
        ":3:3 [is_encoder_decoder]: encoders without a decoder are not modelled\n  do: import the whole model",
    ),
    "a class of encoders": (
        {"model_type": "t5", "architectures": ["T5EncoderModel"]},
        ":3:3 [architectures]: encoders without a decoder are not modelled\n  do: import the whole model",
    ),
    "a gate that is no text": (
        {"model_type": "t5", "feed_forward_proj": True, "d_kv": 0},
        ":4:3 [d_kv]: `0` is too small\n  do: write 1 or more\n"
        'config.json:3:3 [feed_forward_proj]: needs text, not `true`\n  do: write for example `"relu"`',
    ),
    "what is left out anyway": (
        {"model_type": "llama", "rope_scaling": 2.0, "final_logit_softcapping": "30"},
        ":3:3 [rope_scaling]: needs an object, or `null`, not `2.0`\n  do: write `null`\n"
        "config.json:4:3 [final_logit_softcapping]: needs a number above zero, or `null`, not `30`\n  do: write `null`",
    ),
    "a window in words": (
        {"model_type": "mistral", "sliding_window": "4096"},
        ":3:3 [sliding_window]: needs a whole number, not `4096`\n  do: write for example `12`",
    ),
    "more is turned than heads are wide": (
        {"model_type": "gptj", "rotary_dim": 512},
        ":3:3 [rotary_dim]: 512 elements of heads that are 256 wide: pairs of them are turned\n"
        "  do: write an even number up to 256",
    ),
    "heads that cannot be turned": (
        {"model_type": "gptj", "n_embd": 16, "rotary_dim": 2},
        ":4:3 [rotary_dim]: 2 elements of heads that are 1 wide: pairs of them are turned\n"
        "  do: use fewer, wider heads",
    ),
    "too little is turned": (
        {"model_type": "gpt_neox", "rotary_pct": 0.01},
        ":3:3 [rotary_pct]: 0.01 of heads that are 96 wide are 0 elements: pairs of them are turned\n"
        "  do: write for example `0.5`",
    ),
    "a share in words": (
        {"model_type": "gpt_neox", "rotary_pct": "0.25"},
        ":3:3 [rotary_pct]: needs a number from 0 to 1, not `0.25`\n  do: write for example `0.25`",
    ),
    "grouped heads of a falcon": (
        {"model_type": "falcon", "num_kv_heads": 8, "new_decoder_architecture": True},
        ":3:3 [num_kv_heads]: 8 key and value heads do not divide 71 query heads\n  do: correct one of the two",
    ),
    "too many norms": (
        {"model_type": "falcon", "num_ln_in_parallel_attn": 3, "new_decoder_architecture": True},
        ":3:3 [num_ln_in_parallel_attn]: `3` is too large\n  do: write 2 or less",
    ),
    "too few experts": (
        {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5},
        ":4:3 [num_experts_per_tok]: a token cannot go through 5 of 4 experts\n  do: correct one of the two",
    ),
    "padding alone": (
        {"model_type": "roberta", "max_position_embeddings": 2},
        ":3:3 [max_position_embeddings]: 2 positions leave none for tokens: 2 are for padding\n  do: write 3 or more",
    ),
}


@pytest.mark.parametrize(("config", "message"), CONFIGS.values(), ids=CONFIGS)
def test_a_wrong_configuration(config: Config, message: str, podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(config, indent=2))
    assert podsim("import", "config.json") == error_of(f"config.json{message}")


def test_options_that_do_not_go_with_the_model(podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(TINY, indent=2))
    assert podsim("import", "config.json", "--prompt-tokens", "60", "--output-tokens", "5") == error_of(
        "config.json:6:3: 60 + 5 tokens; the model has 64 positions\n  do: lower --prompt-tokens or --output-tokens"
    )
    Path("config.json").write_text(json.dumps(BERT))
    assert podsim("import", "config.json", "--prompt-tokens", "8") == error_of(
        "config.json: --prompt-tokens means nothing in training\n  do: leave it out"
    )


OPTIONS: dict[str, tuple[str, list[str], str]] = {
    "an encoder that writes": (
        "bert",
        ["--activity", "generate"],
        "--activity generate means nothing for a bert\n  do: use `--activity train` or `--activity forward`",
    ),
    "an encoder-decoder that writes": (
        "t5",
        ["--activity", "generate"],
        "--activity generate means nothing for a t5\n  do: use `--activity train` or `--activity forward`",
    ),
    "narrow weights in training": (
        "llama",
        ["--activity", "train", "--precision", "int4"],
        "--precision int4 is not modelled in training\n  do: use one of: fp16, fp32",
    ),
    "products in fp8 in training": (
        "llama",
        ["--activity", "train", "--precision", "fp8"],
        "--precision is of all numbers in training, of which only operands of products can be fp8\n"
        "  do: leave it out, and write `precision: {products: fp8}` for a c600",
    ),
    "narrow weights in forward passes": (
        "vit",
        ["--activity", "forward", "--precision", "fp8"],
        "--precision is of all numbers in forward passes, of which only operands of products can be fp8\n"
        "  do: leave it out, and write `precision: {products: fp8}` for a c600",
    ),
    "wide weights in text generation": (
        "llama",
        ["--precision", "fp32"],
        "--precision fp32 is not modelled in text generation\n  do: use one of: fp16, fp8, int4",
    ),
    "an output of forward passes": (
        "gpt2",
        ["--activity", "forward", "--output-tokens", "8"],
        "--output-tokens means nothing in forward passes\n  do: leave it out",
    ),
    "a prompt of training": (
        "gpt2",
        ["--activity", "train", "--prompt-tokens", "8"],
        "--prompt-tokens means nothing in training\n  do: leave it out",
    ),
}


@pytest.mark.parametrize(("family", "options", "message"), OPTIONS.values(), ids=OPTIONS)
def test_an_activity_that_makes_no_sense(family: str, options: list[str], message: str, podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(SMALL[family]))
    assert podsim("import", "config.json", *options) == error_of(f"config.json: {message}")


def test_an_activity_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(TINY))
    with pytest.raises(PodsimError, match="`serve` is not an activity") as caught:
        import_model("config.json", Request(activity="serve"))
    assert caught.value.do == "use `--activity train` or `--activity forward` or `--activity generate`"


def test_a_batch_that_is_too_small_for_a_pipeline_is_divided_otherwise(podsim: Run) -> None:
    """With one sample a pipeline of 48 layers has none to fill it; IPUs can share layers instead."""
    Path("config.json").write_text(json.dumps(BERT | {"num_hidden_layers": 48, "hidden_size": 1536}))
    code, message = podsim("import", "config.json", "--batch-size", "1")
    assert code == 0
    assert re.search(
        r"fits: IPU-POD16, 8 of 16 IPUs in use, .*\ndivided: .*tensor_parallel: 8, layers_per_ipu: \[48\]", message
    )


def test_a_pod_that_is_not_there(podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(TINY))
    code, message = podsim("import", "config.json", "--system", "ipu_pod17")
    assert (code, message.splitlines()[0]) == (2, "error: [system]: no pod `ipu_pod17` was found")


def test_a_model_that_fits_a_larger_pod(podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(MODELS["llama2_70b"]))
    code, message = podsim("import", "config.json", "--system", "bow_pod4", "--prompt-tokens", "4096")
    assert code == INFEASIBLE
    assert re.fullmatch(
        r"error: config.json: no division of the model fits Bow Pod4; the nearest, over 4 x 1 IPUs: IPU 0 of each "
        r"replica needs [\d.]+ GiB of In-Processor-Memory; it has 897 MiB \(largest: .*weights 408 MiB, .+\)\n"
        r"  do: use `--system bow_pod16`, the smallest shipped pod on which it fits, or a smaller --batch-size\n",
        message,
    )


def test_a_model_that_fits_no_pod(podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(BERT | {"num_hidden_layers": 500}))
    code, message = podsim("import", "config.json")
    assert code == INFEASIBLE
    assert re.fullmatch(
        r"error: config.json: the model fits no shipped pod, divided over up to 8 IPUs; on IPU-POD64, IPU \d of each "
        r"replica needs [\d,.]+ [MG]iB of In-Processor-Memory; it has 897 MiB \(largest: weights .+\)\n"
        r"  do: import a smaller model, or ask for fewer tokens or a smaller batch; in a scenario of your own, any of "
        r"these makes it fit: parallelism.execution: phased, in place of stages on IPUs of their own\n",
        message,
    )


# The command line


def test_the_command_writes_what_it_would_print(podsim: Run, capsys: pytest.CaptureFixture[str]) -> None:
    Path("config.json").write_text(json.dumps(TINY))
    code, told = podsim("import", "config.json", "--output", "tiny.yaml")
    first, second, taken, wrote, *_ = told.splitlines()
    assert code == 0 and wrote.startswith("wrote tiny.yaml: ")
    # A model that one IPU holds is no faster on more of them, so that the smaller pod gives more for each.
    assert first.startswith("ipu_pod16: ") and second == first.replace("ipu_pod16", "ipu_pod64")
    assert taken == "taken: ipu_pod16, which gives most for each IPU; `--system NAME` takes another"
    assert Path("tiny.yaml").read_text() == import_model("config.json")
    assert podsim("run", "tiny.yaml") == (0, "")


def test_a_file_is_replaced_by_force_only(podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(TINY))
    Path("tiny.yaml").write_text("mine")
    assert podsim("import", "config.json", "--output", "tiny.yaml") == error_of(
        "tiny.yaml: the file exists\n  do: give another name, or --force to replace it"
    )
    assert Path("tiny.yaml").read_text() == "mine"
    assert podsim("import", "config.json", "--output", "tiny.yaml", "--force")[0] == 0
    assert Path("tiny.yaml").read_text() == import_model("config.json")


def test_the_configuration_is_never_replaced(podsim: Run) -> None:
    Path("config.json").write_text(json.dumps(TINY))
    assert podsim("import", "config.json", "--output", "./config.json", "--force") == error_of(
        "config.json: this is both the input and the output\n  do: give two different paths"
    )


def test_a_wrong_configuration_leaves_no_file(podsim: Run) -> None:
    Path("config.json").write_text("{")
    assert podsim("import", "config.json", "--output", "tiny.yaml")[0] == 2
    assert not Path("tiny.yaml").exists()
