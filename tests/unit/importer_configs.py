"""Public models as their `config.json` describes them, and what is known of them."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

LLAMA: Config = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "vocab_size": 32000,
}
QWEN2: Config = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "sliding_window": 131072,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
GEMMA: Config = {
    "architectures": ["GemmaForCausalLM"],
    "model_type": "gemma",
    "attention_bias": False,
    "head_dim": 256,
    "hidden_act": "gelu",
    "hidden_activation": None,
    "max_position_embeddings": 8192,
    "vocab_size": 256000,
}
FALCON: Config = {
    "architectures": ["FalconForCausalLM"],
    "model_type": "falcon",
    "alibi": False,
    "bias": False,
    "multi_query": True,
    "parallel_attn": True,
    "vocab_size": 65024,
}
BERT: Config = {
    "architectures": ["BertForMaskedLM"],
    "model_type": "bert",
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
GPT2: Config = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_positions": 1024,
    "vocab_size": 50257,
}

TINY: Config = {
    "model_type": "gpt2",
    "n_layer": 2,
    "n_embd": 32,
    "n_head": 2,
    "n_positions": 64,
    "vocab_size": 100,
}


def _sizes(layers: int, hidden: int, inner: int, heads: int) -> Config:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_attention_heads": heads,
    }


MODELS: dict[str, Config] = {
    "llama2_7b": LLAMA | _sizes(32, 4096, 11008, 32) | {"num_key_value_heads": 32},
    "llama2_13b": LLAMA | _sizes(40, 5120, 13824, 40) | {"num_key_value_heads": 40},
    "llama2_70b": LLAMA | _sizes(80, 8192, 28672, 64) | {"num_key_value_heads": 8},
    "mistral_7b": _sizes(32, 4096, 14336, 32)
    | {
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "num_key_value_heads": 8,
        "sliding_window": 4096,
        "tie_word_embeddings": False,
        "vocab_size": 32000,
    },
    "qwen2_0_5b": QWEN2 | _sizes(24, 896, 4864, 14) | {"num_key_value_heads": 2, "tie_word_embeddings": True},
    "qwen2_7b": QWEN2 | _sizes(28, 3584, 18944, 28) | {"num_key_value_heads": 4, "vocab_size": 152064},
    "gemma_2b": GEMMA | _sizes(18, 2048, 16384, 8) | {"num_key_value_heads": 1},
    "gemma_7b": GEMMA | _sizes(28, 3072, 24576, 16) | {"num_key_value_heads": 16},
    "gpt2_small": GPT2 | {"n_layer": 12, "n_embd": 768, "n_head": 12},
    "gpt2_xl": GPT2 | {"n_layer": 48, "n_embd": 1600, "n_head": 25},
    "gptj_6b": {
        "activation_function": "gelu_new",
        "architectures": ["GPTJForCausalLM"],
        "model_type": "gptj",
        "n_embd": 4096,
        "n_head": 16,
        "n_inner": None,
        "n_layer": 28,
        "n_positions": 2048,
        "rotary_dim": 64,
        "tie_word_embeddings": False,
        "vocab_size": 50400,
    },
    "gpt_neox_20b": _sizes(44, 6144, 24576, 64)
    | {
        "architectures": ["GPTNeoXForCausalLM"],
        "model_type": "gpt_neox",
        "hidden_act": "gelu_fast",
        "max_position_embeddings": 2048,
        "rotary_emb_base": 10000,
        "rotary_pct": 0.25,
        "tie_word_embeddings": False,
        "vocab_size": 50432,
    },
    "falcon_7b": FALCON
    | {"hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32, "new_decoder_architecture": False},
    "falcon_40b": FALCON
    | {"hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60, "new_decoder_architecture": True}
    | {"num_kv_heads": 8},
    "mixtral_8x7b": _sizes(32, 4096, 14336, 32)
    | {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "hidden_act": "silu",
        "max_position_embeddings": 32768,
        "num_experts_per_tok": 2,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "vocab_size": 32000,
    },
    "bert_base": BERT | _sizes(12, 768, 3072, 12),
    "bert_large": BERT | _sizes(24, 1024, 4096, 16),
    "roberta_base": BERT
    | _sizes(12, 768, 3072, 12)
    | {
        "architectures": ["RobertaForMaskedLM"],
        "model_type": "roberta",
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "vocab_size": 50265,
    },
}
MODELS["mistral_nemo"] = (
    MODELS["mistral_7b"]
    | _sizes(40, 5120, 14336, 32)
    | {"head_dim": 128, "max_position_embeddings": 131072, "sliding_window": None, "vocab_size": 131072}
)
_OTHER: Config = {"hidden_act": "silu", "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "tie_word_embeddings": False}
MODELS |= {  # read by their dimensions alone
    "qwen3_8b": _OTHER
    | _sizes(36, 4096, 12288, 32)
    | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128, "num_key_value_heads": 8}
    | {"attention_bias": False, "max_position_embeddings": 40960, "sliding_window": None, "vocab_size": 151936},
    "phi3_mini": _OTHER
    | _sizes(32, 3072, 8192, 32)
    | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "num_key_value_heads": 32, "resid_pdrop": 0.0}
    | {"max_position_embeddings": 4096, "sliding_window": 2047, "vocab_size": 32064},
}
MODELS |= {
    "bert_base_squad": MODELS["bert_base"] | {"architectures": ["BertForQuestionAnswering"]},
    "roberta_base_mnli": MODELS["roberta_base"]
    | {
        "architectures": ["RobertaForSequenceClassification"],
        "id2label": {"0": "contradiction", "1": "neutral", "2": "entailment"},
    },
    "vit_base": _sizes(12, 768, 3072, 12)
    | {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "attention_probs_dropout_prob": 0.0,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "id2label": {str(number): f"class {number}" for number in range(1000)},
        "image_size": 224,
        "num_channels": 3,
        "patch_size": 16,
        "qkv_bias": True,
    },
    "t5_small": {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_ff": 2048,
        "d_kv": 64,
        "d_model": 512,
        "dropout_rate": 0.1,
        "feed_forward_proj": "relu",
        "is_encoder_decoder": True,
        "num_decoder_layers": 6,
        "num_heads": 8,
        "num_layers": 6,
        "tie_word_embeddings": True,
        "vocab_size": 32128,
    },
}
PARAMETERS: dict[str, tuple[int, int]] = {
    "llama2_7b": (6_738_415_616, 0),
    "llama2_13b": (13_015_864_320, 0),
    "llama2_70b": (68_976_648_192, 0),
    "mistral_7b": (7_241_732_096, 0),
    "mistral_nemo": (12_247_782_400, 0),
    "qwen2_0_5b": (494_032_768, 0),
    "qwen2_7b": (7_615_616_512, 0),
    "gemma_2b": (2_506_172_416, 0),
    "gemma_7b": (8_537_680_896, 0),
    "gpt_neox_20b": (20_554_567_680, 0),
    "falcon_7b": (6_921_720_704, 0),
    # The checkpoint of 41.8 billion holds the table of words twice.
    "falcon_40b": (41_303_293_952, 0),
    "mixtral_8x7b": (46_702_792_704, 0),
    "qwen3_8b": (8_190_735_360, -36 * 2 * 128),  # norms of queries and keys are no key of the file
    "phi3_mini": (3_821_079_552, 0),
    "gpt2_small": (124_439_808, 0),
    "gpt2_xl": (1_557_611_200, 0),
    "gptj_6b": (6_050_882_784, 0),
    # Pre-training, without the bias of the decoder.
    "bert_base": (110_106_428, -30_522),
    "bert_large": (336_226_108, -30_522),
    # No bias of the decoder.
    "roberta_base": (124_697_433, -50_265),
    # Fine-tuned: the published encoder (without and with its pooler) and a dense layer to 2 and 3 outputs.
    "bert_base_squad": (108_891_648 + 768 * 2 + 2, 0),
    "roberta_base_mnli": (124_055_040 + 768 * 768 + 768 + 768 * 3 + 3, 0),
    "vit_base": (86_567_656, 0),
    # Relative distances of attention in encoder and decoder, and the last norm of the encoder, are not modelled.
    "t5_small": (60_506_624, -2 * 32 * 8 - 512),
}
"""Published total, and by how much the scenario differs from it."""

_SMALL = _sizes(2, 64, 128, 2) | {"vocab_size": 100, "max_position_embeddings": 64}
SMALL: dict[str, Config] = {
    family: {"model_type": family} | _SMALL
    for family in (
        *("bert", "cohere", "gpt_neox", "granite", "internlm2", "llama", "mistral", "mixtral", "nemotron", "phi"),
        *("phi3", "qwen2", "roberta", "stablelm", "starcoder2"),
    )
}
_NARROW = {key: value for key, value in _SMALL.items() if key != "intermediate_size"}
SMALL["falcon"] = _NARROW | {"model_type": "falcon", "ffn_hidden_size": 128}
SMALL["opt"] = _NARROW | {"model_type": "opt", "ffn_dim": 128}
SMALL["gpt_bigcode"] = TINY | {"model_type": "gpt_bigcode", "n_inner": 128}
SMALL["stablelm"] |= {"num_key_value_heads": 2}
SMALL["starcoder2"] |= {"num_key_value_heads": 1}
SMALL["gemma"] = {"model_type": "gemma", "head_dim": 16, "num_key_value_heads": 1} | _SMALL
SMALL["gpt2"] = TINY
SMALL["gptj"] = TINY | {"model_type": "gptj", "rotary_dim": 8}
SMALL["mistral"] |= {"num_key_value_heads": 1, "sliding_window": None}
SMALL["mixtral"] |= {"num_key_value_heads": 1}
SMALL["qwen2"] |= {"num_key_value_heads": 1}
SMALL["t5"] = {"model_type": "t5", "num_layers": 2, "d_model": 64, "d_ff": 128, "num_heads": 2, "vocab_size": 100}
SMALL["vit"] = _sizes(2, 64, 128, 2) | {"model_type": "vit", "image_size": 32}
"""A small model of every architecture."""
