"""Published sizes of decoders, as presets of model keys."""

from __future__ import annotations

from typing import Any, Literal

Size = Literal[
    "llama2_7b",
    "llama2_13b",
    "llama2_70b",
    "gpt2_small",
    "gpt2_medium",
    "gpt2_large",
    "gpt2_xl",
    "gpt3_1_3b",
    "gpt3_2_7b",
    "gpt3_6_7b",
    "gpt3_13b",
    "gpt3_175b",
    "gptj_6b",
    "qwen2_0_5b",
    "qwen2_1_5b",
    "qwen2_7b",
    "gemma_2b",
    "gemma_7b",
    "gpt_neox_20b",
    "falcon_7b",
    "falcon_40b",
    "mixtral_8x7b",
]
_LLAMA: dict[str, Any] = {"vocabulary_size": 32000, "gated": True, "norm": "rms", "rotary": True, "bias": False}
_QWEN2: dict[str, Any] = {"vocabulary_size": 151936, "bias": ["qkv"], "tied_embedding": True}
_GEMMA: dict[str, Any] = {
    "vocabulary_size": 256000,
    "head_size": 256,
    "activation": "gelu",
    "norm": "rms_plus_one",
    "scaled_embedding": True,
    "tied_embedding": True,
}
_GPT2: dict[str, Any] = {
    "vocabulary_size": 50257,
    "position_count": 1024,
    "gated": False,
    "norm": "layer",
    "rotary": False,
    "bias": True,
    "tied_embedding": True,
}
_GPTJ: dict[str, Any] = {
    "vocabulary_size": 50400,
    "gated": False,
    "norm": "layer",
    "rotary": True,
    "rotary_size": 64,
    "parallel_blocks": "one_norm",
    "bias": ["feed_forward", "head"],
}
_GPT_NEOX: dict[str, Any] = {
    "vocabulary_size": 50432,
    "gated": False,
    "norm": "layer",
    "rotary": True,
    "rotary_size": 24,
    "parallel_blocks": "two_norms",
    "bias": True,
}
_FALCON: dict[str, Any] = {
    "vocabulary_size": 65024,
    "gated": False,
    "norm": "layer",
    "rotary": True,
    "bias": False,
    "tied_embedding": True,
}
_GPT3 = _GPT2 | {"position_count": 2048}


def _sizes(layers: int, hidden: int, inner: int, heads: int, kv_heads: int) -> dict[str, int]:
    return {
        "layer_count": layers,
        "hidden_size": hidden,
        "feed_forward_size": inner,
        "head_count": heads,
        "kv_head_count": kv_heads,
    }


PRESETS: dict[Size, dict[str, Any]] = {
    "llama2_7b": _LLAMA | _sizes(32, 4096, 11008, 32, 32),
    "llama2_13b": _LLAMA | _sizes(40, 5120, 13824, 40, 40),
    "llama2_70b": _LLAMA | _sizes(80, 8192, 28672, 64, 8),
    "gpt2_small": _GPT2 | _sizes(12, 768, 3072, 12, 12),
    "gpt2_medium": _GPT2 | _sizes(24, 1024, 4096, 16, 16),
    "gpt2_large": _GPT2 | _sizes(36, 1280, 5120, 20, 20),
    "gpt2_xl": _GPT2 | _sizes(48, 1600, 6400, 25, 25),
    "gpt3_1_3b": _GPT3 | _sizes(24, 2048, 8192, 16, 16),
    "gpt3_2_7b": _GPT3 | _sizes(32, 2560, 10240, 32, 32),
    "gpt3_6_7b": _GPT3 | _sizes(32, 4096, 16384, 32, 32),
    "gpt3_13b": _GPT3 | _sizes(40, 5120, 20480, 40, 40),
    "gpt3_175b": _GPT3 | _sizes(96, 12288, 49152, 96, 96),
    "gptj_6b": _GPTJ | _sizes(28, 4096, 16384, 16, 16),
    "gpt_neox_20b": _GPT_NEOX | _sizes(44, 6144, 24576, 64, 64),
    "falcon_7b": _FALCON | {"parallel_blocks": "one_norm"} | _sizes(32, 4544, 18176, 71, 1),
    "falcon_40b": _FALCON | {"parallel_blocks": "two_norms"} | _sizes(60, 8192, 32768, 128, 8),
    "mixtral_8x7b": _LLAMA | {"experts": {"count": 8, "per_token": 2}} | _sizes(32, 4096, 14336, 32, 8),
    "qwen2_0_5b": _QWEN2 | _sizes(24, 896, 4864, 14, 2),
    "qwen2_1_5b": _QWEN2 | _sizes(28, 1536, 8960, 12, 2),
    "qwen2_7b": _QWEN2 | {"vocabulary_size": 152064, "tied_embedding": False} | _sizes(28, 3584, 18944, 28, 4),
    "gemma_2b": _GEMMA | _sizes(18, 2048, 16384, 8, 1),
    "gemma_7b": _GEMMA | _sizes(28, 3072, 24576, 16, 16),
}

NAMES: dict[Size, str] = {
    "llama2_7b": "LLaMa2-7B",
    "llama2_13b": "LLaMa2-13B",
    "llama2_70b": "LLaMa2-70B",
    "gpt2_small": "GPT2-Small",
    "gpt2_medium": "GPT2-Medium",
    "gpt2_large": "GPT2-Large",
    "gpt2_xl": "GPT2-XL",
    "gpt3_1_3b": "GPT3-1.3B",
    "gpt3_2_7b": "GPT3-2.7B",
    "gpt3_6_7b": "GPT3-6.7B",
    "gpt3_13b": "GPT3-13B",
    "gpt3_175b": "GPT3-175B",
    "gptj_6b": "GPT-J",
    "qwen2_0_5b": "Qwen2-0.5B",
    "qwen2_1_5b": "Qwen2-1.5B",
    "qwen2_7b": "Qwen2-7B",
    "gemma_2b": "Gemma-2B",
    "gemma_7b": "Gemma-7B",
    "gpt_neox_20b": "GPT-NeoX-20B",
    "falcon_7b": "Falcon-7B",
    "falcon_40b": "Falcon-40B",
    "mixtral_8x7b": "Mixtral-8x7B",
}
"""Published names, as titles show them."""
