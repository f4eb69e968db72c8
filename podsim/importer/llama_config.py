"""LLaMa and its kin, in the library's names for them. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.importer.decoder_config import activation, decoder
from podsim.importer.imported import (
    MOST_LAYERS,
    MOST_ROWS,
    MOST_WIDTH,
    ConfigFamily,
    Imported,
    always,
    check_heads,
)
from podsim.importer.left_out import note_window
from podsim.importer.reader import Entry, Reader

_MISTRAL_WINDOW, _QWEN2_WINDOW = 4096, 4096


@dataclass(frozen=True, slots=True)
class _Defaults:
    """What the library takes for keys that a file leaves out."""

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


def _llama(reader: Reader) -> Imported:
    """A LLaMa."""
    return _like_llama(reader, _Defaults(inner=11008, positions=2048), _llama_bias(reader))


def _mistral(reader: Reader) -> Imported:
    """A Mistral, without its window."""
    note_window(reader, _MISTRAL_WINDOW)
    bias = Entry("bias", False, f"{reader.family} has none")
    return _like_llama(reader, _Defaults(inner=14336, positions=131072, kv_heads=8), bias)


def _qwen2(reader: Reader) -> Imported:
    """A Qwen2 [yang2024]; it has a window only where the file switches it on."""
    if reader.flag("window", "use_sliding_window", default=False).value:
        note_window(reader, _QWEN2_WINDOW)
    bias = Entry("bias", ("qkv",), always(reader))
    return _like_llama(reader, _Defaults(inner=22016, positions=32768, rows=151936, kv_heads=32), bias)


def _gemma(reader: Reader) -> Imported:
    """A Gemma [mesnard2024]; the library takes `hidden_activation` first."""
    defaults = _Defaults(
        *(24576, 8192),
        kv_heads=16,
        layers=28,
        hidden=3072,
        heads=16,
        head_size=256,
        rows=256000,
        tied=True,
        norm="rms_plus_one",
        activation="hidden_activation" if _given(reader, "hidden_activation") else "hidden_act",
        function="gelu_pytorch_tanh",
    )
    attention = reader.flag("bias", "attention_bias", default=False)
    bias = Entry("bias", ("qkv", "projection"), "attention_bias") if attention.value else attention
    return _like_llama(reader, defaults, bias, Entry("scaled_embedding", True, always(reader)))


def _mixtral(reader: Reader) -> Imported:
    """A Mixtral [jiang2024]."""
    note_window(reader, None)
    count = reader.whole("experts.count", ["num_local_experts"], 8, most=MOST_WIDTH)
    per_token = reader.whole("experts.per_token", ["num_experts_per_tok"], 2, most=MOST_WIDTH)
    if reader.sound and per_token.whole > count.whole:
        what = f"a token cannot go through {per_token.value} of {count.value} experts"
        key = "num_experts_per_tok" if _given(reader, "num_experts_per_tok") else "num_local_experts"
        reader.complain(key, what, "correct one of the two")
    bias = Entry("bias", False, f"{reader.family} has none")
    defaults = _Defaults(inner=14336, positions=131072, kv_heads=8)
    return _like_llama(reader, defaults, bias, count, per_token)


def _like_llama(reader: Reader, defaults: _Defaults, bias: Entry, *more: Entry) -> Imported:
    """A decoder with rotary positions, RMS norms and gated feed-forward blocks."""
    layers = reader.whole("layer_count", ["num_hidden_layers"], defaults.layers, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], defaults.hidden, most=MOST_WIDTH)
    width = reader.whole("feed_forward_size", ["intermediate_size"], defaults.inner, most=MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], defaults.heads, most=MOST_WIDTH)
    kv = _kv_heads(reader, defaults.kv_heads, heads.whole)
    rows = reader.whole("vocabulary_size", ["vocab_size"], defaults.rows, most=MOST_ROWS)
    wide = _head_size(reader, defaults.head_size)
    check_heads(reader, hidden, heads, kv, own_size=bool(wide))
    entries = (
        *(layers, hidden, width, heads, kv, *wide, rows),
        Entry("gated", True, always(reader)),
        *activation(reader, defaults.activation, defaults.function, "swish"),
        Entry("norm", defaults.norm, always(reader)),
        Entry("rotary", True, always(reader)),
        *(bias, *more),
        reader.flag("tied_embedding", "tie_word_embeddings", default=defaults.tied),
    )
    limit = reader.whole("positions", ["max_position_embeddings"], defaults.positions)
    none = Entry("dropout", 0.0, f"{reader.family} has none")
    dropout = (none, reader.share("attention_dropout", "attention_dropout", default=0.0))
    return decoder(reader, entries, limit, dropout, bind=False)


def _kv_heads(reader: Reader, default: int | None, as_many: int) -> Entry:
    name = "num_key_value_heads"
    why = "" if default and name not in reader.config.data else "as many as query heads"
    default = as_many if default is None else default
    return reader.whole("kv_head_count", [name], default, null=as_many, why=why, most=MOST_WIDTH)


def _head_size(reader: Reader, default: int | None) -> tuple[Entry, ...]:
    """Where the file gives it, or the family."""
    if default is None and not _given(reader, "head_dim"):
        return ()
    return (reader.whole("head_size", ["head_dim"], default or 1, most=MOST_WIDTH),)


def _given(reader: Reader, name: str) -> bool:
    return reader.config.data.get(name) is not None


def _llama_bias(reader: Reader) -> Entry:
    attention = reader.flag("bias", "attention_bias", default=False)
    inner = reader.flag("bias", "mlp_bias", default=False)
    if attention.value == inner.value:
        return attention
    if attention.value:
        return Entry("bias", ("qkv", "projection"), "attention_bias")
    return Entry("bias", ("feed_forward",), "mlp_bias")


FAMILIES = {
    "llama": ConfigFamily("Llama", _llama),
    "mistral": ConfigFamily("Mistral", _mistral),
    "mixtral": ConfigFamily("Mixtral", _mixtral),
    "qwen2": ConfigFamily("Qwen2", _qwen2),
    "gemma": ConfigFamily("Gemma", _gemma),
}
