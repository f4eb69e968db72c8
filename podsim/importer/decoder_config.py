"""Decoders of Hugging Face Transformers: LLaMa, GPT-2 and related models.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from podsim.importer.reader import Entry, Reader
from podsim.importer.request import (
    MOST_LAYERS,
    MOST_ROWS,
    MOST_WIDTH,
    ConfigFamily,
    Imported,
    always,
    check_heads,
)
from podsim.scenario.wording import quoted

_MISTRAL_WINDOW, _QWEN2_WINDOW = 4096, 4096


@dataclass(frozen=True, slots=True)
class _Defaults:
    """Defaults of the library for keys that a file leaves out."""

    inner: int
    positions: int
    kv_heads: int | None = None
    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    head_size: int | None = None
    rows: int = 32000
    tied: bool = False
    norm: str = "rms"
    activation: str = "hidden_act"
    function: str = "silu"
    window: int | None = 0  # tokens; None if a window of the file is switched off


def attention_window(reader: Reader, default: int = 0) -> tuple[Entry, ...]:
    """Return the entry `attention_window`, or nothing if each token attends to all tokens before it.

    With layers of several kinds the narrowest window counts. Sequences longer than the window are refused.
    """
    entries = []
    switch = reader.flag("window", "use_sliding_window", default=True).value
    kinds = reader.config.data.get("layer_types")
    if kinds is not None and not (isinstance(kinds, list) and all(kind in _LAYER_KINDS for kind in kinds)):
        names = " and ".join(f'"{kind}"' for kind in _LAYER_KINDS)
        reader.complain("layer_types", f"layers of other kinds than {names} are not modelled", "import another model")
    is_everywhere_full = isinstance(kinds, list) and "sliding_attention" not in kinds
    reader.ignore("max_window_layers")
    for name, default_tokens in (("sliding_window", default), ("attention_chunk_size", 0)):
        if name not in reader.config.data and not default_tokens:
            continue
        entry = reader.whole("attention_window", [name], default_tokens or 1, null=0)
        if entry.whole and switch and not (name == "sliding_window" and is_everywhere_full):
            entries.append(entry)
    return (min(entries, key=lambda entry: entry.whole),) if entries and reader.sound else ()


def _llama(reader: Reader) -> Imported:
    return _like_llama(reader, _Defaults(inner=11008, positions=2048), _llama_bias(reader))


def _mistral(reader: Reader) -> Imported:
    """Read a Mistral, whose attention has a window by default."""
    bias = Entry("bias", False, f"{reader.family} has none")
    defaults = _Defaults(inner=14336, positions=131072, kv_heads=8, window=_MISTRAL_WINDOW)
    return _like_llama(reader, defaults, bias)


def _qwen2(reader: Reader) -> Imported:
    """Read a Qwen2 [yang2024], which has a window only if the file switches it on."""
    is_windowed = reader.flag("window", "use_sliding_window", default=False).value is True
    bias = Entry("bias", ("qkv",), always(reader))
    defaults = _Defaults(inner=22016, positions=32768, rows=151936, kv_heads=32)
    return _like_llama(reader, replace(defaults, window=_QWEN2_WINDOW if is_windowed else None), bias)


def _phi3(reader: Reader) -> Imported:
    """Read a Phi-3, whose queries, keys and values have one matrix."""
    bias = Entry("bias", False, f"{reader.family} has none")
    return _like_llama(reader, _Defaults(inner=8192, positions=4096, hidden=3072, rows=32064), bias)


def _granite(reader: Reader) -> Imported:
    """Read a Granite, whose factors of scores, sums and logits are part of other operations."""
    reader.ignore("attention_multiplier", "residual_multiplier", "logits_scaling")
    scaled = Entry("scaled_embedding", True, "embedding_multiplier")
    entries = (scaled,) if reader.config.data.get("embedding_multiplier") not in (None, 1, 1.0) else ()
    return _like_llama(reader, _Defaults(inner=11008, positions=2048), _llama_bias(reader), *entries)


def _internlm2(reader: Reader) -> Imported:
    """Read an InternLM2, whose queries, keys and values have one matrix."""
    on = reader.flag("bias", "bias", default=False)
    bias = Entry("bias", ("qkv", "projection"), on.origin) if on.value else on
    return _like_llama(reader, _Defaults(inner=11008, positions=2048, rows=103168), bias)


def _gemma(reader: Reader) -> Imported:
    """Read a Gemma [mesnard2024]; the library prefers `hidden_activation` over `hidden_act`."""
    defaults = _Defaults(
        inner=24576,
        positions=8192,
        kv_heads=16,
        layers=28,
        hidden=3072,
        heads=16,
        head_size=256,
        rows=256000,
        tied=True,
        norm="rms_plus_one",
        activation="hidden_activation" if _has_value(reader, "hidden_activation") else "hidden_act",
        function="gelu_pytorch_tanh",
    )
    attention = reader.flag("bias", "attention_bias", default=False)
    bias = Entry("bias", ("qkv", "projection"), "attention_bias") if attention.value else attention
    return _like_llama(reader, defaults, bias, Entry("scaled_embedding", True, always(reader)))


def _mixtral(reader: Reader) -> Imported:
    """Read a Mixtral [jiang2024]."""
    count = reader.whole("experts.count", ["num_local_experts"], 8, most=MOST_WIDTH)
    per_token = reader.whole("experts.per_token", ["num_experts_per_tok"], 2, most=MOST_WIDTH)
    if reader.sound and per_token.whole > count.whole:
        what = f"a token cannot go through {per_token.value} of {count.value} experts"
        key = "num_experts_per_tok" if _has_value(reader, "num_experts_per_tok") else "num_local_experts"
        reader.complain(key, what, "correct one of the two")
    bias = Entry("bias", False, f"{reader.family} has none")
    defaults = _Defaults(inner=14336, positions=131072, kv_heads=8)
    return _like_llama(reader, defaults, bias, count, per_token)


def _like_llama(reader: Reader, defaults: _Defaults, bias: Entry, *further: Entry) -> Imported:
    """Return a decoder with rotary positions, RMS norms and gated feed-forward blocks."""
    layers = reader.whole("layer_count", ["num_hidden_layers"], defaults.layers, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], defaults.hidden, most=MOST_WIDTH)
    inner = reader.whole("feed_forward_size", ["intermediate_size"], defaults.inner, most=MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], defaults.heads, most=MOST_WIDTH)
    kv_heads = _kv_heads(reader, defaults.kv_heads, heads.whole)
    rows = reader.whole("vocabulary_size", ["vocab_size"], defaults.rows, most=MOST_ROWS)
    head_size = _head_size(reader, defaults.head_size)
    check_heads(reader, hidden, heads, kv_heads, own_size=bool(head_size))
    windows = () if defaults.window is None else attention_window(reader, defaults.window)
    if defaults.window is None:
        reader.ignore("sliding_window", "max_window_layers", "layer_types")
    entries = (
        *(layers, hidden, inner, heads, kv_heads, *head_size, rows),
        Entry("gated", True, always(reader)),
        *activation(reader, defaults.activation, defaults.function, "swish"),
        Entry("norm", defaults.norm, always(reader)),
        Entry("rotary", True, always(reader)),
        *rotary_width(reader, head_size[0].whole if head_size else hidden.whole // max(1, heads.whole), 1.0),
        *(bias, *further, *windows),
        reader.flag("tied_embedding", "tie_word_embeddings", default=defaults.tied),
    )
    positions = reader.whole("positions", ["max_position_embeddings"], defaults.positions)
    none = Entry("dropout", 0.0, f"{reader.family} has none")
    dropout = (none, reader.share("attention_dropout", "attention_dropout", default=0.0))
    return decoder(reader, entries, positions, dropout, bind=False)


def _kv_heads(reader: Reader, default: int | None, query_heads: int) -> Entry:
    name = "num_key_value_heads"
    why = "" if default and name not in reader.config.data else "as many as query heads"
    default = query_heads if default is None else default
    return reader.whole("kv_head_count", [name], default, null=query_heads, why=why, most=MOST_WIDTH)


def _head_size(reader: Reader, default: int | None) -> tuple[Entry, ...]:
    """Return the size of a head if the file or the family gives it."""
    if default is None and not _has_value(reader, "head_dim"):
        return ()
    return (reader.whole("head_size", ["head_dim"], default or 1, most=MOST_WIDTH),)


def _has_value(reader: Reader, name: str) -> bool:
    return reader.config.data.get(name) is not None


def _llama_bias(reader: Reader) -> Entry:
    attention = reader.flag("bias", "attention_bias", default=False)
    inner = reader.flag("bias", "mlp_bias", default=False)
    if attention.value == inner.value:
        return attention
    if attention.value:
        return Entry("bias", ("qkv", "projection"), "attention_bias")
    return Entry("bias", ("feed_forward",), "mlp_bias")


_WIDER_HEADS = "use fewer, wider heads"


def _gpt2(reader: Reader) -> Imported:
    dimensions = _dimensions(reader, width=768, layers=12, heads=12)
    rows = reader.whole("vocabulary_size", ["vocab_size"], 50257, most=MOST_ROWS)
    positions = _positions(reader, 1024)
    entries = (
        *(*dimensions, rows, positions),
        Entry("gated", False, always(reader)),
        *activation(reader, "activation_function", "gelu_new"),
        Entry("norm", "layer", always(reader)),
        Entry("rotary", False, always(reader)),
        Entry("bias", True, always(reader)),
        reader.flag("tied_embedding", "tie_word_embeddings", default=True),
    )
    return decoder(reader, entries, positions, _dropout(reader, "resid_pdrop", "attn_pdrop", 0.1), bind=True)


def _gptj(reader: Reader) -> Imported:
    """Read a GPT-J [wang2021]."""
    dimensions = _dimensions(reader, width=4096, layers=28, heads=16)
    _, hidden, _, heads, _ = dimensions
    entries = (
        *dimensions,
        reader.whole("vocabulary_size", ["vocab_size"], 50400, most=MOST_ROWS),
        Entry("gated", False, always(reader)),
        *activation(reader, "activation_function", "gelu_new"),
        Entry("norm", "layer", always(reader)),
        Entry("rotary", True, always(reader)),
        _rotary_size(reader, hidden.whole // heads.whole),
        Entry("parallel_blocks", "one_norm", always(reader)),
        Entry("bias", ("feed_forward", "head"), always(reader)),
        reader.flag("tied_embedding", "tie_word_embeddings", default=False),
    )
    dropout = _dropout(reader, "resid_pdrop", "attn_pdrop", 0.0)
    return decoder(reader, entries, _positions(reader, 2048), dropout, bind=False)


def _rotary_size(reader: Reader, width: int) -> Entry:
    rotated = reader.whole("rotary_size", ["rotary_dim"], 64, null=width, why="all of a head", most=MOST_WIDTH)
    if reader.sound and (rotated.whole > width or rotated.whole % 2):
        what = f"{rotated.value} elements of heads that are {width} wide: pairs of them are turned"
        reader.complain("rotary_dim", what, f"write an even number up to {width}" if width > 1 else _WIDER_HEADS)
    return rotated


def _gpt_neox(reader: Reader) -> Imported:
    """Read a GPT-NeoX [black2022]."""
    layers = reader.whole("layer_count", ["num_hidden_layers"], 44, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], 6144, most=MOST_WIDTH)
    inner = reader.whole("feed_forward_size", ["intermediate_size"], 24576, most=MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], 64, most=MOST_WIDTH)
    kv = Entry("kv_head_count", heads.value, f"as many as query heads in {reader.family}")
    check_heads(reader, hidden, heads, kv)
    parallel = reader.flag("parallel_blocks", "use_parallel_residual", default=True)
    attention = reader.flag("bias", "attention_bias", default=True)
    entries = (
        *(layers, hidden, inner, heads, kv),
        reader.whole("vocabulary_size", ["vocab_size"], 50432, most=MOST_ROWS),
        Entry("gated", False, always(reader)),
        *activation(reader, "hidden_act", "gelu"),
        Entry("norm", "layer", always(reader)),
        Entry("rotary", True, always(reader)),
        rotary_part(reader, hidden.whole // heads.whole, ("rotary_pct",), default=0.25),
        Entry("parallel_blocks", "two_norms" if parallel.value else "none", parallel.origin),
        attention if attention.value else Entry("bias", ("feed_forward",), attention.origin),
        reader.flag("tied_embedding", "tie_word_embeddings", default=False),
    )
    positions = reader.whole("positions", ["max_position_embeddings"], 2048)
    dropout = _dropout(reader, "hidden_dropout", "attention_dropout", 0.0)
    return decoder(reader, entries, positions, dropout, bind=False)


_SHARE_KEYS = ("partial_rotary_factor", "rotary_pct", "rope_percent")


def _rotated_share(reader: Reader, default: float) -> tuple[str, float]:
    """Return the key with the rotated share of each head, and the share."""
    factor = rope_parameters(reader).get(_SHARE_KEYS[0])
    name = reader.used_name(*_SHARE_KEYS)
    if name is None and isinstance(factor, (int, float)) and not isinstance(factor, bool):
        factor = float(factor)
        if not 0 <= factor <= 1:
            what = f"its partial_rotary_factor {factor} is no share from 0 to 1"
            reader.complain("rope_parameters", what, "write for example `0.5`")
            factor = default
        return "partial_rotary_factor in rope_parameters", factor
    if name is None:
        return reader.absent(_SHARE_KEYS[0]), default
    share = reader.share("rotary_size", name, default=default, one=True).value
    assert isinstance(share, float)
    return name, share


def rope_parameters(reader: Reader) -> dict[str, Any]:
    """Return the object under `rope_parameters`, or an empty one."""
    nested = reader.config.data.get("rope_parameters")
    return nested if isinstance(nested, dict) else {}


def rotary_part(reader: Reader, width: int, names: Sequence[str] = _SHARE_KEYS, default: float = 1.0) -> Entry:
    """Return the number of rotated elements of a head of `width` elements, from the share in the file."""
    origin, share = _rotated_share(reader, default)
    rotated, name = int(share * width), reader.used_name(*_SHARE_KEYS) or names[0]
    if reader.sound and (rotated < 2 or rotated % 2):
        what = f"{share} of heads that are {width} wide are {rotated} elements: pairs of them are turned"
        do = f"write for example `{max(2, 2 * (width // 4)) / width}`" if width > 1 else _WIDER_HEADS
        reader.complain(name, what, do)
    return Entry("rotary_size", rotated, f"of {width}: {origin}")


def rotary_width(reader: Reader, width: int, default: float) -> tuple[Entry, ...]:
    """Return the entry `rotary_size`, or nothing if the whole head is rotated; `default` is a share of the head."""
    rotated = rotary_part(reader, width, default=default)
    return () if rotated.value == width else (rotated,)


@dataclass(frozen=True, slots=True)
class _Traits:
    """Properties that all decoders of an architecture share, and the names of its keys."""

    norm: str = "layer"
    gated: bool = False
    parallel: str = "none"
    share: float | None = 1.0  # rotated share of each head; None with learned positions
    function: str = "gelu"
    functions: tuple[str, ...] = ("hidden_act",)  # keys of the activation
    bias: bool | tuple[str, ...] = False
    tied: bool = False
    inner: tuple[str, ...] = ("intermediate_size",)
    extra_positions: int = 0  # rows of learned positions that no token uses
    dropout: str = "hidden_dropout"
    kv_heads: tuple[str, ...] = ("num_key_value_heads",)
    needs_kv_heads: bool = False


_LAYERS, _WIDTH, _HEADS = ("num_hidden_layers", "n_layer"), ("hidden_size", "n_embd"), ("num_attention_heads", "n_head")
_POSITIONS = ("max_position_embeddings", "n_positions")


def _from_traits(reader: Reader, traits: _Traits, *more: Entry, single_kv: bool | None = None) -> Imported:
    """Read a decoder whose file has all dimensions; `single_kv`: True if all query heads share one key head."""
    needed = [_LAYERS, _WIDTH, _HEADS, ("vocab_size",), _POSITIONS, traits.inner]
    needed += [traits.kv_heads] if traits.needs_kv_heads else []
    for names in needed:
        if reader.used_name(*names) is None:
            reader.complain(names[0], f"a {reader.family} needs `{names[0]}`", f'add `"{names[0]}"`')
    layers = reader.whole("layer_count", _LAYERS, 1, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", _WIDTH, 1, most=MOST_WIDTH)
    default = 4 * hidden.whole
    inner = reader.whole("feed_forward_size", traits.inner, default, null=default, why="4 x width", most=MOST_WIDTH)
    heads = reader.whole("head_count", _HEADS, 1, most=MOST_WIDTH)
    if single_kv is None:
        names, why = traits.kv_heads, "as many as query heads"
        kv_heads = reader.whole("kv_head_count", names, heads.whole, null=heads.whole, why=why, most=MOST_WIDTH)
    else:
        kv_heads = Entry("kv_head_count", 1 if single_kv else heads.value, "multi_query")
    head_size = _head_size(reader, None)
    check_heads(reader, hidden, heads, kv_heads, own_size=bool(head_size))
    width = head_size[0].whole if head_size else hidden.whole // max(1, heads.whole)
    name = reader.used_name(*traits.functions) or traits.functions[0]
    positions = reader.whole("position_count", _POSITIONS, 1, most=MOST_ROWS)
    learned = traits.share is None
    table = replace(positions, value=positions.whole + traits.extra_positions)
    entries = (
        *(layers, hidden, inner, heads, kv_heads, *head_size),
        reader.whole("vocabulary_size", ["vocab_size"], 1, most=MOST_ROWS),
        *((table,) if learned else ()),
        Entry("gated", traits.gated, always(reader)),
        *activation(reader, name, traits.function, "swish" if traits.gated else "gelu"),
        Entry("norm", traits.norm, always(reader)),
        Entry("rotary", not learned, always(reader)),
        *(() if traits.share is None else rotary_width(reader, width, traits.share)),
        *((Entry("parallel_blocks", traits.parallel, always(reader)),) if traits.parallel != "none" else ()),
        *(more or (Entry("bias", traits.bias, always(reader)),)),
        *attention_window(reader),
        reader.flag("tied_embedding", "tie_word_embeddings", default=traits.tied),
    )
    dropout = _dropout(reader, traits.dropout, reader.used_name("attn_pdrop") or "attention_dropout", 0.0)
    return decoder(
        reader, entries, replace(positions, key="positions") if not learned else positions, dropout, bind=learned
    )


def _nemotron(reader: Reader) -> Imported:
    """Read a Nemotron: squared ReLU without gates, and norms that scale by their weights plus 1."""
    reader.notes.append("norms that scale by one more than their weights (LayerNorm1p) are simulated as layer norms")
    bias = _llama_bias(reader)
    return _from_traits(reader, _Traits(share=0.5, function="relu2"), bias)


def _opt(reader: Reader) -> Imported:
    """Read an OPT: learned positions, two rows of which no token uses, and ReLU."""
    hidden = reader.config.data.get("hidden_size", 768)
    if reader.config.data.get("word_embed_proj_dim", hidden) != hidden:
        reader.complain(
            "word_embed_proj_dim", "words of another width than the layers are not modelled", "import another"
        )
    for name, usual in (("do_layer_norm_before", True), ("_remove_final_layer_norm", False)):
        if reader.flag("norm", name, default=usual).value is not usual:
            reader.complain(name, "norms behind blocks are not modelled in decoders", "import another model")
    reader.ignore("layer_norm_elementwise_affine")
    bias = reader.flag("bias", "enable_bias", default=True)
    traits = _Traits(share=None, function="relu", functions=("activation_function",), tied=True)
    return _from_traits(reader, replace(traits, inner=("ffn_dim",), extra_positions=2, dropout="dropout"), bias)


def _phi(reader: Reader) -> Imported:
    """Read a Phi: attention and feed-forward block after one norm, biases everywhere."""
    if reader.flag("norms", "qk_layernorm", default=False).value:
        reader.complain("qk_layernorm", "norms of queries and keys are not modelled", "import another model")
    bias = Entry("bias", ("qkv", "projection", "feed_forward", "head"), always(reader))
    traits = _Traits(parallel="one_norm", share=0.5, function="gelu_new", dropout="resid_pdrop")
    return _from_traits(reader, traits, bias)


def _stablelm(reader: Reader) -> Imported:
    """Read a StableLM: layer norms and gated blocks."""
    if reader.flag("norms", "qk_layernorm", default=False).value:
        reader.complain("qk_layernorm", "norms of queries and keys are not modelled", "import another model")
    is_parallel = reader.flag("parallel_blocks", "use_parallel_residual", default=False)
    qkv_bias = reader.flag("bias", "use_qkv_bias", default=False)
    bias = Entry("bias", ("qkv",), qkv_bias.origin) if qkv_bias.value else qkv_bias
    parallel = "one_norm" if is_parallel.value else "none"
    traits = _Traits(gated=True, share=0.25, function="silu", parallel=parallel, needs_kv_heads=True)
    return _from_traits(reader, traits, bias)


def _starcoder2(reader: Reader) -> Imported:
    """Read a StarCoder2."""
    for name, usual in (("mlp_type", "default"), ("norm_type", "layer_norm")):
        if reader.word(name, usual) != usual:
            reader.complain(name, f'other models than with "{usual}" are not modelled', "import another model")
    traits = _Traits(function="gelu_pytorch_tanh", tied=True, dropout="residual_dropout", needs_kv_heads=True)
    return _from_traits(reader, traits, reader.flag("bias", "use_bias", default=True))


def _gpt_bigcode(reader: Reader) -> Imported:
    """Read a GPT-BigCode: GPT-2 whose heads share keys and values."""
    shared = reader.flag("kv_head_count", "multi_query", default=True).value is True
    traits = _Traits(share=None, function="gelu_pytorch_tanh", functions=("activation_function",), bias=True, tied=True)
    return _from_traits(reader, replace(traits, inner=("n_inner",), dropout="resid_pdrop"), single_kv=shared)


def _cohere(reader: Reader) -> Imported:
    """Read a Cohere: gated blocks parallel to the attention, after one norm without shifts."""
    if reader.flag("norms", "use_qk_norm", default=False).value:
        reader.complain("use_qk_norm", "norms of queries and keys are not modelled", "import another model")
    reader.ignore("logit_scale")
    reader.notes.append("its norms have no shifts; those of layer norms are simulated")
    attention = reader.flag("bias", "attention_bias", default=False)
    bias = Entry("bias", ("qkv", "projection"), "attention_bias") if attention.value else attention
    return _from_traits(reader, _Traits(gated=True, function="silu", parallel="one_norm", tied=True), bias)


def _falcon(reader: Reader) -> Imported:
    """Read a Falcon [almazrouei2023]; its newer architecture has groups of heads and a norm for each block."""
    newer = reader.flag("newer", "new_decoder_architecture", default=False).value is True
    reader.ignore("num_kv_heads", "multi_query", "num_ln_in_parallel_attn", "parallel_attn")
    layers = reader.whole("layer_count", ["num_hidden_layers"], 32, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size", "n_embed"], 4544, most=MOST_WIDTH)
    four = 4 * hidden.whole
    inner = reader.whole("feed_forward_size", ["ffn_hidden_size"], four, null=four, why="4 x hidden", most=MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], 71, most=MOST_WIDTH)
    kv = _falcon_kv_heads(reader, heads.whole, newer=newer)
    check_heads(reader, hidden, heads, kv, key="num_kv_heads")
    if reader.flag("alibi", "alibi", default=False).value:
        reader.notes.append("not modelled: ALiBi positions (alibi); rotary ones are simulated")
    entries = (
        *(layers, hidden, inner, heads, kv),
        reader.whole("vocabulary_size", ["vocab_size"], 65024, most=MOST_ROWS),
        Entry("gated", False, always(reader)),
        *activation(reader, "activation", "gelu"),
        Entry("norm", "layer", always(reader)),
        Entry("rotary", True, always(reader)),
        _falcon_blocks(reader, newer=newer),
        reader.flag("bias", "bias", default=False),
        reader.flag("tied_embedding", "tie_word_embeddings", default=True),
    )
    positions = reader.whole("positions", ["max_position_embeddings"], 2048)
    dropout = _dropout(reader, "hidden_dropout", "attention_dropout", 0.0)
    return decoder(reader, entries, positions, dropout, bind=False)


def _falcon_kv_heads(reader: Reader, heads: int, *, newer: bool) -> Entry:
    if newer:
        why = "as many as query heads"
        return reader.whole("kv_head_count", ["num_kv_heads"], heads, null=heads, why=why, most=MOST_WIDTH)
    shared = reader.flag("kv_head_count", "multi_query", default=True)
    return Entry("kv_head_count", 1 if shared.value else heads, shared.origin)


def _falcon_blocks(reader: Reader, *, newer: bool) -> Entry:
    parallel = reader.flag("parallel_blocks", "parallel_attn", default=True)
    if not newer:
        return Entry("parallel_blocks", "one_norm" if parallel.value else "none", parallel.origin)
    norms = reader.whole("parallel_blocks", ["num_ln_in_parallel_attn"], 2, null=2, why="one for each block", most=2)
    return Entry("parallel_blocks", "one_norm" if norms.value == 1 else "two_norms", norms.origin)


def _dropout(reader: Reader, blocks: str, attention: str, default: float) -> tuple[Entry, Entry]:
    return (
        reader.share("dropout", blocks, default=default),
        reader.share("attention_dropout", attention, default=default),
    )


def _positions(reader: Reader, default: int) -> Entry:
    return reader.whole("position_count", ["n_positions", "max_position_embeddings"], default, most=MOST_ROWS)


def _dimensions(reader: Reader, *, width: int, layers: int, heads: int) -> tuple[Entry, Entry, Entry, Entry, Entry]:
    """Return layers, width, inner width, heads, and heads of keys and values."""
    count = reader.whole("layer_count", ["n_layer", "num_hidden_layers"], layers, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["n_embd", "hidden_size"], width, most=MOST_WIDTH)
    four = 4 * hidden.whole
    inner = reader.whole("feed_forward_size", ["n_inner"], four, null=four, why="4 x n_embd", most=MOST_WIDTH)
    query = reader.whole("head_count", ["n_head", "num_attention_heads"], heads, most=MOST_WIDTH)
    kv = Entry("kv_head_count", query.value, f"as many as query heads in {reader.family}")
    check_heads(reader, hidden, query, kv)
    return count, hidden, inner, query, kv


LONGEST = 1024
"""Tokens of a training sequence, unless the model has fewer positions."""
_FUNCTIONS = {"silu": "swish", "swish": "swish", "relu": "relu", "relu2": "relu_squared"}
_LAYER_KINDS = ("full_attention", "sliding_attention")


def activation(
    reader: Reader, name: str, usual: str, implied: str = "gelu", *, is_strict: bool = False
) -> tuple[Entry, ...]:
    """Return the entry `activation`, or nothing if the feed-forward block has its default function, `implied`.

    For an unknown function, `usual` is simulated with a note, or refused if `is_strict`.
    """
    function_name = reader.word(name, usual)
    function = _simulated_function(function_name)
    if function is None and is_strict:
        names = ", ".join(("gelu", *_FUNCTIONS))
        reader.complain(name, f"{quoted(function_name)} is not modelled", f"import another model; known here: {names}")
    if function is None:
        function = _simulated_function(usual) or implied
        reader.notes.append(f"not modelled: {name} {quoted(function_name)}; {function} is simulated")
    origin = name if name in reader.config.data else reader.absent(name)
    return () if function == implied else (Entry("activation", function, origin),)


def _simulated_function(name: str) -> str | None:
    """Return the name in scenarios of a function, or None; all approximations of gelu cost the same."""
    return "gelu" if "gelu" in name else _FUNCTIONS.get(name)


def decoder(
    reader: Reader, entries: tuple[Entry, ...], positions: Entry, dropout: tuple[Entry, Entry], *, bind: bool
) -> Imported:
    """Return a decoder for pre-training on sequences of up to `LONGEST` tokens.

    `bind`: True if sequences cannot have more tokens than `positions`.
    """
    window = next((entry for entry in entries if entry.key == "attention_window"), None)
    length = min(LONGEST, positions.whole, window.whole if window else LONGEST)
    where = f"at most {LONGEST} of {positions.value} positions"
    sequence = Entry("sequence_length", length, where if length != (window and window.value) else "all of a window")
    return Imported(
        config=reader.config,
        family=reader.family,
        kind="decoder",
        purpose="pre-training",
        model=entries,
        notes=tuple(reader.notes),
        data=(sequence, *dropout),
        positions=positions,
        positions_bind=bind,
        window=window,
    )


FAMILIES = {
    "llama": ConfigFamily("Llama", _llama),
    "mistral": ConfigFamily("Mistral", _mistral),
    "mixtral": ConfigFamily("Mixtral", _mixtral),
    "qwen2": ConfigFamily("Qwen2", _qwen2),
    "gemma": ConfigFamily("Gemma", _gemma),
    "gpt2": ConfigFamily("GPT2", _gpt2),
    "gptj": ConfigFamily("GPTJ", _gptj),
    "gpt_neox": ConfigFamily("GPTNeoX", _gpt_neox),
    "falcon": ConfigFamily("Falcon", _falcon),
    "nemotron": ConfigFamily("Nemotron", _nemotron),
    "opt": ConfigFamily("OPT", _opt),
    "phi": ConfigFamily("Phi", _phi),
    "phi3": ConfigFamily("Phi3", _phi3),
    "stablelm": ConfigFamily("StableLm", _stablelm),
    "starcoder2": ConfigFamily("Starcoder2", _starcoder2),
    "gpt_bigcode": ConfigFamily("GPTBigCode", _gpt_bigcode),
    "cohere": ConfigFamily("Cohere", _cohere),
    "granite": ConfigFamily("Granite", _granite),
    "internlm2": ConfigFamily("InternLM2", _internlm2),
}
