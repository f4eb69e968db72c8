"""Published models by their `config.json`: parameters as published, every key used, harmless or refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import PodsimError, SpecError
from podsim.importer import Request, import_model
from podsim.importer.huggingface import imported
from podsim.importer.pods import Offer, best_offer, comparison
from podsim.importer.reader import Entry, read_config
from podsim.importer.request import Imported
from podsim.importer.scenario_text import ScenarioSection, as_mapping
from podsim.scenario import load_scenario
from podsim.scenario.families.decoder import DecoderSpec

Config = dict[str, Any]


def config_file(folder: Path, config: Config) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config, indent=1))
    return path


def read(folder: Path, config: Config) -> tuple[Imported, DecoderSpec]:
    model = imported(read_config(config_file(folder, config)))
    data = as_mapping([ScenarioSection("model", (Entry("kind", model.kind), *model.model))])
    return model, DecoderSpec.model_validate(data["model"])


def refused(folder: Path, config: Config) -> str:
    with pytest.raises(SpecError) as caught:
        imported(read_config(config_file(folder, config)))
    return str(caught.value)


PUBLISHED: dict[str, tuple[int, Config]] = {
    "minitron4b": (
        4_190_509_056,
        {
            "model_type": "nemotron",
            "architectures": ["NemotronForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "head_dim": 128,
            "hidden_act": "relu2",
            "hidden_dropout": 0.0,
            "hidden_size": 3072,
            "initializer_range": 0.0134,
            "intermediate_size": 9216,
            "max_position_embeddings": 4096,
            "mlp_bias": False,
            "norm_eps": 1e-05,
            "num_attention_heads": 24,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "partial_rotary_factor": 0.5,
            "rope_theta": 10000,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "use_cache": True,
            "vocab_size": 256000,
        },
    ),
    "opt125m": (
        125_239_296,
        {
            "model_type": "opt",
            "architectures": ["OPTForCausalLM"],
            "activation_dropout": 0.0,
            "activation_function": "relu",
            "attention_dropout": 0.0,
            "bos_token_id": 2,
            "do_layer_norm_before": True,
            "dropout": 0.1,
            "eos_token_id": 2,
            "ffn_dim": 3072,
            "hidden_size": 768,
            "init_std": 0.02,
            "layerdrop": 0.0,
            "max_position_embeddings": 2048,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "pad_token_id": 1,
            "prefix": "</s>",
            "torch_dtype": "float16",
            "use_cache": True,
            "vocab_size": 50272,
            "word_embed_proj_dim": 768,
        },
    ),
    "phi2": (
        2_779_683_840,
        {
            "model_type": "phi",
            "architectures": ["PhiForCausalLM"],
            "attention_dropout": 0.0,
            "embd_pdrop": 0.0,
            "hidden_act": "gelu_new",
            "hidden_size": 2560,
            "initializer_range": 0.02,
            "intermediate_size": 10240,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 2048,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 32,
            "partial_rotary_factor": 0.4,
            "qk_layernorm": False,
            "resid_pdrop": 0.1,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "use_cache": True,
            "vocab_size": 51200,
        },
    ),
    "phi3mini": (
        3_821_079_552,
        {
            "model_type": "phi3",
            "architectures": ["Phi3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "embd_pdrop": 0.0,
            "hidden_act": "silu",
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "max_position_embeddings": 4096,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 32,
            "original_max_position_embeddings": 4096,
            "pad_token_id": 32000,
            "resid_pdrop": 0.0,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "sliding_window": 2047,
            "tie_word_embeddings": False,
            "vocab_size": 32064,
        },
    ),
    "stablelm3b": (
        2_795_443_200,
        {
            "model_type": "stablelm",
            "architectures": ["StableLmForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 2560,
            "intermediate_size": 6912,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 4096,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 32,
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000,
            "tie_word_embeddings": False,
            "use_cache": True,
            "use_qkv_bias": False,
            "vocab_size": 50304,
        },
    ),
    "starcoder2-3b": (
        3_030_371_328,
        {
            "model_type": "starcoder2",
            "architectures": ["Starcoder2ForCausalLM"],
            "attention_dropout": 0.1,
            "attention_softmax_in_fp32": True,
            "embedding_dropout": 0.1,
            "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": 3072,
            "intermediate_size": 12288,
            "layer_norm_epsilon": 1e-05,
            "max_position_embeddings": 16384,
            "mlp_type": "default",
            "norm_epsilon": 1e-05,
            "norm_type": "layer_norm",
            "num_attention_heads": 24,
            "num_hidden_layers": 30,
            "num_key_value_heads": 2,
            "residual_dropout": 0.1,
            "rope_theta": 999999.4,
            "scale_attention_softmax_in_fp32": True,
            "scale_attn_weights": True,
            "sliding_window": 4096,
            "use_bias": True,
            "vocab_size": 49152,
        },
    ),
    "starcoderbase1b": (
        1_137_207_296,
        {
            "model_type": "gpt_bigcode",
            "architectures": ["GPTBigCodeForCausalLM"],
            "activation_function": "gelu_pytorch_tanh",
            "attention_softmax_in_fp32": True,
            "multi_query": True,
            "attn_pdrop": 0.1,
            "embd_pdrop": 0.1,
            "inference_runner": 0,
            "layer_norm_epsilon": 1e-05,
            "n_embd": 2048,
            "n_head": 16,
            "n_inner": 8192,
            "n_layer": 24,
            "n_positions": 8192,
            "resid_pdrop": 0.1,
            "scale_attention_softmax_in_fp32": True,
            "scale_attn_weights": True,
            "summary_type": "cls_index",
            "summary_use_proj": True,
            "use_cache": True,
            "vocab_size": 49152,
            "pad_key_length": True,
            "max_batch_size": None,
            "max_sequence_length": None,
            "pre_allocate_kv_cache": False,
            "validate_runner_input": True,
        },
    ),
    "command-r": (
        34_981_167_104,
        {
            "model_type": "cohere",
            "architectures": ["CohereForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "hidden_act": "silu",
            "hidden_size": 8192,
            "intermediate_size": 22528,
            "layer_norm_eps": 1e-05,
            "logit_scale": 0.0625,
            "max_position_embeddings": 8192,
            "model_max_length": 131072,
            "num_attention_heads": 64,
            "num_hidden_layers": 40,
            "num_key_value_heads": 64,
            "rope_theta": 8000000.0,
            "use_cache": True,
            "use_qk_norm": False,
            "vocab_size": 256000,
        },
    ),
    "granite2b": (
        2_533_531_648,
        {
            "model_type": "granite",
            "architectures": ["GraniteForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.1,
            "attention_multiplier": 0.015625,
            "embedding_multiplier": 12.0,
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "logits_scaling": 8.0,
            "max_position_embeddings": 4096,
            "mlp_bias": False,
            "num_attention_heads": 32,
            "num_hidden_layers": 40,
            "num_key_value_heads": 8,
            "residual_multiplier": 0.22,
            "rms_norm_eps": 1e-05,
            "rope_scaling": None,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "vocab_size": 49155,
        },
    ),
    "internlm2-7b": (
        7_737_708_544,
        {
            "model_type": "internlm2",
            "architectures": ["InternLM2ForCausalLM"],
            "attn_implementation": "eager",
            "auto_map": {"AutoConfig": "x"},
            "bias": False,
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "max_position_embeddings": 32768,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-05,
            "rope_scaling": {"type": "dynamic", "factor": 2.0},
            "rope_theta": 1000000,
            "tie_word_embeddings": False,
            "vocab_size": 92544,
        },
    ),
    "qwen3-8b": (
        8_190_726_144,
        {
            "architectures": ["Qwen3ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": 151643,
            "eos_token_id": 151645,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 4096,
            "initializer_range": 0.02,
            "intermediate_size": 12288,
            "max_position_embeddings": 40960,
            "max_window_layers": 36,
            "model_type": "qwen3",
            "num_attention_heads": 32,
            "num_hidden_layers": 36,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 1000000,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "transformers_version": "4.51.0",
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
    ),
    "qwen3moe": (
        30_532_110_336,
        {
            "model_type": "qwen3_moe",
            "architectures": ["Qwen3MoeForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "decoder_sparse_step": 1,
            "head_dim": 128,
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "max_position_embeddings": 40960,
            "max_window_layers": 48,
            "mlp_only_layers": [],
            "moe_intermediate_size": 768,
            "norm_topk_prob": True,
            "num_attention_heads": 32,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 48,
            "num_key_value_heads": 4,
            "output_router_logits": False,
            "rms_norm_eps": 1e-06,
            "rope_scaling": None,
            "rope_theta": 1000000.0,
            "router_aux_loss_coef": 0.001,
            "sliding_window": None,
            "tie_word_embeddings": False,
            "use_cache": True,
            "use_sliding_window": False,
            "vocab_size": 151936,
        },
    ),
}
"""Parameters as published, and the file.

Nemotron is published as 4.19 billion. Cohere's 41 norms have no shifts of 8,192: 335,872 less are published.
"""
REFUSED: dict[str, tuple[str, Config]] = {
    "opt350m": (
        "norms behind blocks are not modelled",
        {
            "model_type": "opt",
            "do_layer_norm_before": False,
            "ffn_dim": 4096,
            "hidden_size": 1024,
            "max_position_embeddings": 2048,
            "num_attention_heads": 16,
            "num_hidden_layers": 24,
            "vocab_size": 50272,
            "word_embed_proj_dim": 512,
        },
    ),
    "olmo2": (
        "norms behind blocks",
        {
            "model_type": "olmo2",
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "vocab_size": 100352,
            "rms_norm_eps": 1e-06,
            "rope_theta": 500000,
            "max_position_embeddings": 4096,
        },
    ),
    "olmo": (
        "no key says which norm",
        {
            "model_type": "olmo",
            "architectures": ["OlmoForCausalLM"],
            "clip_qkv": None,
            "hidden_act": "silu",
            "hidden_size": 4096,
            "intermediate_size": 11008,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "vocab_size": 50304,
            "rope_theta": 10000.0,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
        },
    ),
    "gemma2": (
        "windows in some layers",
        {
            "model_type": "gemma2",
            "hidden_size": 2304,
            "num_attention_heads": 8,
            "num_hidden_layers": 26,
            "vocab_size": 256000,
            "hidden_activation": "gelu_pytorch_tanh",
            "rms_norm_eps": 1e-06,
            "sliding_window": 4096,
            "attn_logit_softcapping": 50.0,
        },
    ),
    "bloom": (
        "ALiBi",
        {
            "model_type": "bloom",
            "n_layer": 30,
            "n_head": 32,
            "hidden_size": 4096,
            "vocab_size": 250880,
            "seq_length": 2048,
            "layer_norm_epsilon": 1e-05,
        },
    ),
    "mpt": (
        "ALiBi",
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_heads": 32,
            "n_layers": 32,
            "vocab_size": 50432,
            "max_seq_len": 2048,
            "expansion_ratio": 4,
            "no_bias": True,
            "attn_config": {"alibi": True},
        },
    ),
    "qwen2moe": (
        "experts that all tokens share",
        {
            "model_type": "qwen2_moe",
            "architectures": ["Qwen2MoeForCausalLM"],
            "hidden_act": "silu",
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "moe_intermediate_size": 1408,
            "shared_expert_intermediate_size": 5632,
            "num_attention_heads": 16,
            "num_hidden_layers": 24,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "rms_norm_eps": 1e-06,
            "rope_theta": 1000000.0,
            "vocab_size": 151936,
            "max_position_embeddings": 8192,
        },
    ),
    "deepseekv3": (
        "latent keys and values",
        {
            "model_type": "deepseek_v3",
            "hidden_act": "silu",
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "kv_lora_rank": 512,
            "q_lora_rank": 1536,
            "num_attention_heads": 128,
            "num_hidden_layers": 61,
            "n_routed_experts": 256,
            "num_experts_per_tok": 8,
            "rms_norm_eps": 1e-06,
            "rope_theta": 10000,
            "vocab_size": 129280,
            "max_position_embeddings": 163840,
        },
    ),
    "mamba": (
        "has not the dimensions of a decoder",
        {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280, "state_size": 16},
    ),
    "albert": (
        "has not the dimensions of a decoder",
        {
            "model_type": "albert",
            "embedding_size": 128,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "num_hidden_groups": 1,
            "vocab_size": 30000,
            "layer_norm_eps": 1e-12,
            "hidden_act": "gelu_new",
            "max_position_embeddings": 512,
        },
    ),
    "mpnet": (
        "has not the dimensions of a decoder",
        {
            "model_type": "mpnet",
            "attention_probs_dropout_prob": 0.1,
            "hidden_act": "gelu",
            "hidden_size": 768,
            "intermediate_size": 3072,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 514,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
            "relative_attention_num_buckets": 32,
            "vocab_size": 30527,
        },
    ),
    "gptneo": (
        "layers of several kinds",
        {
            "model_type": "gpt_neo",
            "architectures": ["GPTNeoForCausalLM"],
            "activation_function": "gelu_new",
            "attention_types": [[["global", "local"], 12]],
            "hidden_size": 2048,
            "num_heads": 16,
            "num_layers": 24,
            "num_attention_heads": 16,
            "vocab_size": 50257,
            "layer_norm_epsilon": 1e-05,
            "max_position_embeddings": 2048,
            "window_size": 256,
        },
    ),
    "arcee": (
        "whether feed-forward blocks with relu2 are gated",
        {
            "model_type": "arcee",
            "architectures": ["ArceeForCausalLM"],
            "hidden_act": "relu2",
            "hidden_size": 2560,
            "intermediate_size": 18432,
            "num_attention_heads": 20,
            "num_hidden_layers": 36,
            "num_key_value_heads": 4,
            "rms_norm_eps": 1e-05,
            "rope_theta": 10000.0,
            "vocab_size": 128004,
            "max_position_embeddings": 4096,
        },
    ),
    "persimmon": (
        "norms of queries and keys are not modelled",
        {
            "model_type": "persimmon",
            "architectures": ["PersimmonForCausalLM"],
            "hidden_act": "relu2",
            "hidden_size": 4096,
            "intermediate_size": 16384,
            "layer_norm_eps": 1e-05,
            "max_position_embeddings": 16384,
            "num_attention_heads": 64,
            "num_hidden_layers": 36,
            "partial_rotary_factor": 0.5,
            "qk_layernorm": True,
            "rope_theta": 25000.0,
            "vocab_size": 262144,
        },
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_its_parameters(name: str, tmp_path: Path) -> None:
    count, config = PUBLISHED[name]
    assert read(tmp_path, config)[1].shape.parameter_count == count


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_refused(name: str, tmp_path: Path) -> None:
    words, config = REFUSED[name]
    message = refused(tmp_path, config)
    assert words in message and "\n  do: " in message


NEMOTRON = PUBLISHED["minitron4b"][1]
LLAMA: Config = {"model_type": "llama"}
NEW: Config = {
    "model_type": "new",
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e4,
    "vocab_size": 100,
}


def test_nemotron_has_no_gate_layer_norms_and_half_of_each_head_turned(tmp_path: Path) -> None:
    """Embedding and head of 256,000 x 3,072 each; in each of 32 layers 2·3,072² + 2·3,072·1,024 of attention,
    2·3,072·9,216 without a gate, and two layer norms of 2·3,072; the last norm."""
    layer = 2 * 3072**2 + 2 * 3072 * 1024 + 2 * 3072 * 9216 + 4 * 3072
    _, spec = read(tmp_path, NEMOTRON)
    assert spec.shape.parameter_count == 2 * 256_000 * 3072 + 32 * layer + 2 * 3072
    assert (spec.gated, spec.norm, spec.activation, spec.rotary_size) == (False, "layer", "relu_squared", 64)
    nested = {key: value for key, value in NEMOTRON.items() if key != "partial_rotary_factor"}
    nested |= {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}
    assert read(tmp_path, nested)[1].rotary_size == 32


@pytest.mark.parametrize(
    "key, value",
    [("frobnicate", 3), ("num_experts_x", 4), ("norm_kind", "x"), ("extra", {"a": 1}), ("kinds", [1]), ("deep", True)],
)
def test_an_unknown_key_is_refused_where_it_stands(key: str, value: object, tmp_path: Path) -> None:
    for config in (LLAMA, NEMOTRON, NEW, {"model_type": "bert"}, {"model_type": "vit"}, {"model_type": "t5"}):
        message = refused(tmp_path, config | {key: value})
        assert re.search(rf"config\.json:\d+:2 \[{key}\]: key `{key}` is not known", message)
        assert "do: remove it if it changes neither" in message


def test_an_unknown_switch_that_is_off_and_names_are_no_problem(tmp_path: Path) -> None:
    more = {"deep": False, "kinds": [], "extra": None, "_name_or_path": "x", "torch_dtype": "float16", "top_k": 50}
    assert read(tmp_path, LLAMA | more)[1] == read(tmp_path, LLAMA)[1]


def test_guesses_are_named(tmp_path: Path) -> None:
    model, _ = read(tmp_path, NEW)
    note = next(note for note in model.notes if note.startswith("guesses, which no key states: "))
    for words in ("RMS norms", "gated feed-forward blocks (after silu)", "the head shares the embedding's weights"):
        assert words in note


@pytest.mark.parametrize(
    "change, words",
    [
        ({"rms_norm_eps": None, "norm_eps": 1e-5}, "`norm_eps` does not say which norm"),
        ({"hidden_act": "relu2"}, "no key says whether feed-forward blocks with relu2 are gated"),
        ({"hidden_act": "gelu"}, "no key says whether feed-forward blocks with gelu are gated"),
        ({"hidden_act": "xielu", "gated_mlp": False}, "`xielu` is not modelled"),
        ({"rope_theta": None}, "no key says how positions enter"),
        ({"layer_types": ["full_attention", "mamba"]}, "layers of other kinds"),
    ],
)
def test_what_no_key_says_is_not_guessed(change: Config, words: str, tmp_path: Path) -> None:
    assert words in refused(tmp_path, NEW | change)


def test_scaled_positions_are_noted_under_both_keys(tmp_path: Path) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        model, _ = read(tmp_path, LLAMA | {key: {"rope_type": "yarn", "factor": 4.0}})
        assert f"not modelled: rope scaling ({key})" in model.notes
        model, _ = read(tmp_path, LLAMA | {key: {"rope_type": "default", "rope_theta": 1e4}})
        assert not model.notes


# Windows

MISTRAL: Config = {
    "model_type": "mistral",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "vocab_size": 100,
}


def test_a_window_is_kept_and_longer_sequences_are_refused(tmp_path: Path) -> None:
    path = config_file(tmp_path, MISTRAL)
    text = import_model(path, Request(system="ipu_pod4"))
    assert "attention_window: 4096" in text
    with pytest.raises(
        PodsimError, match=r"8000 \+ 1 tokens; the model has 4096 tokens in its attention window"
    ) as caught:
        import_model(path, Request(system="ipu_pod4", prompt_tokens=8000))
    assert f"{path}:9:2" in str(caught.value) and "lower --prompt-tokens" in str(caught.value)
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    for length, fits in ((3584, True), (3585, False)):  # with 512 tokens of output, 4,096 or one more
        overrides = [f"generation.prompt_tokens={length}"]
        if fits:
            load_scenario(mine, overrides=overrides)
        else:
            with pytest.raises(SpecError, match="4097 tokens are more than the attention window of 4096"):
                load_scenario(mine, overrides=overrides)


def test_training_beyond_a_window_is_refused(tmp_path: Path) -> None:
    short = MISTRAL | {"sliding_window": 512}
    text = import_model(config_file(tmp_path, short), Request(system="ipu_pod4", activity="forward"))
    assert "sequence_length: 512 " in text
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    with pytest.raises(
        SpecError, match="513 tokens are more than the attention window of 512, and windows are not sim"
    ):
        load_scenario(mine, overrides=["data.sequence_length=513"])


@pytest.mark.parametrize(
    "change, window",
    [
        ({}, 4096),
        ({"sliding_window": None}, None),
        ({"use_sliding_window": False}, None),
        ({"layer_types": ["full_attention"] * 2}, None),
        ({"layer_types": ["sliding_attention", "full_attention"]}, 4096),
        ({"attention_chunk_size": 2048}, 2048),
    ],
)
def test_which_files_have_a_window(change: Config, window: int | None, tmp_path: Path) -> None:
    assert read(tmp_path, MISTRAL | change)[1].attention_window == window


# Pods


def test_pods_are_compared_by_what_each_ipu_gives() -> None:
    """4.4 tokens/s of 16 IPUs are 0.275 for each, 241 of 64 are 3.77; of equal ones the smaller is taken."""
    small = Offer("ipu_pod16", "a", (), 4.4, 16, "4.4 tokens/s, weights streamed")
    large = Offer("ipu_pod64", "b", (), 241.0, 64, "241 tokens/s, weights resident")
    assert best_offer([small, large]) == large
    assert best_offer([small, Offer("ipu_pod64", "b", (), 17.6, 64)]) == small
    assert best_offer([Offer("ipu_pod16", words="does not fit"), large]) == large
    assert [*comparison([small, large])] == [
        "ipu_pod16: 4.4 tokens/s, weights streamed",
        "ipu_pod64: 241 tokens/s, weights resident",
        "taken: ipu_pod64, which gives most for each IPU; `--system NAME` takes another",
    ]
