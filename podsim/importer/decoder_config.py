"""Decoders of Hugging Face Transformers: LLaMa and GPT-2 with their kin.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from podsim.scenario.wording import shown

_MISTRAL_WINDOW, _QWEN2_WINDOW = 4096, 4096


@dataclass(frozen=True, slots=True)
class _Defaults:
    """Values that the library takes for keys that a file leaves out."""

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


def _note_window(reader: Reader, default: int | None) -> None:
    """Note attention that does not reach all tokens."""
    window = reader.whole("window", ["sliding_window"], default or 0, null=0).whole
    if window:
        what = f"sliding window attention (sliding_window {window}): tokens attend to all before them"
        reader.notes.append(f"not modelled: {what}")


def _llama(reader: Reader) -> Imported:
    """A LLaMa."""
    return _like_llama(reader, _Defaults(inner=11008, positions=2048), _llama_bias(reader))


def _mistral(reader: Reader) -> Imported:
    """A Mistral, without its window."""
    _note_window(reader, _MISTRAL_WINDOW)
    bias = Entry("bias", False, f"{reader.family} has none")
    return _like_llama(reader, _Defaults(inner=14336, positions=131072, kv_heads=8), bias)


def _qwen2(reader: Reader) -> Imported:
    """A Qwen2 [yang2024]; it has a window only where the file switches it on."""
    if reader.flag("window", "use_sliding_window", default=False).value:
        _note_window(reader, _QWEN2_WINDOW)
    else:
        reader.given("sliding_window")  # which asks for nothing then
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
    _note_window(reader, None)
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


_WIDER = "use fewer, wider heads"


def _gpt2(reader: Reader) -> Imported:
    """A GPT-2."""
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
    """A GPT-J [wang2021]."""
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
    turned = reader.whole("rotary_size", ["rotary_dim"], 64, null=width, why="all of a head", most=MOST_WIDTH)
    if reader.sound and (turned.whole > width or turned.whole % 2):
        what = f"{turned.value} elements of heads that are {width} wide: pairs of them are turned"
        reader.complain("rotary_dim", what, f"write an even number up to {width}" if width > 1 else _WIDER)
    return turned


def _gpt_neox(reader: Reader) -> Imported:
    """A GPT-NeoX [black2022]."""
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
        _rotary_share(reader, hidden.whole // heads.whole),
        Entry("parallel_blocks", "two_norms" if parallel.value else "none", parallel.origin),
        attention if attention.value else Entry("bias", ("feed_forward",), attention.origin),
        reader.flag("tied_embedding", "tie_word_embeddings", default=False),
    )
    positions = reader.whole("positions", ["max_position_embeddings"], 2048)
    dropout = _dropout(reader, "hidden_dropout", "attention_dropout", 0.0)
    return decoder(reader, entries, positions, dropout, bind=False)


def _rotary_share(reader: Reader, width: int) -> Entry:
    """Elements of a head that are turned, given as a share."""
    share = reader.share("rotary_size", "rotary_pct", default=0.25, one=True)
    assert isinstance(share.value, float)
    turned = int(share.value * width)
    if reader.sound and (turned < 2 or turned % 2):
        what = f"{share.value} of heads that are {width} wide are {turned} elements: pairs of them are turned"
        do = f"write for example `{max(2, 2 * (width // 4)) / width}`" if width > 1 else _WIDER
        reader.complain("rotary_pct", what, do)
    return Entry("rotary_size", turned, f"of {width}: {share.origin}")


def _falcon(reader: Reader) -> Imported:
    """A Falcon [almazrouei2023]; the newer architecture has groups of heads and a norm for each block."""
    newer = reader.flag("newer", "new_decoder_architecture", default=False).value is True
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
    beside = reader.flag("parallel_blocks", "parallel_attn", default=True)
    if not newer:
        return Entry("parallel_blocks", "one_norm" if beside.value else "none", beside.origin)
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
    """Layers, width, inner width, heads, and those of keys and values."""
    count = reader.whole("layer_count", ["n_layer", "num_hidden_layers"], layers, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["n_embd", "hidden_size"], width, most=MOST_WIDTH)
    four = 4 * hidden.whole
    inner = reader.whole("feed_forward_size", ["n_inner"], four, null=four, why="4 x n_embd", most=MOST_WIDTH)
    query = reader.whole("head_count", ["n_head", "num_attention_heads"], heads, most=MOST_WIDTH)
    kv = Entry("kv_head_count", query.value, f"as many as query heads in {reader.family}")
    check_heads(reader, hidden, query, kv)
    return count, hidden, inner, query, kv


LONGEST = 1024
"""Tokens of a training sequence, unless there are fewer positions."""
_FUNCTIONS = {"silu": "swish", "swish": "swish", "relu": "relu"}


def activation(reader: Reader, name: str, usual: str, implied: str = "gelu") -> tuple[Entry, ...]:
    """The key of the function, unless it is implied; one that is not known is noted."""
    word = reader.word(name, usual)
    function = _function(word)
    if function is None:
        function = _function(usual) or implied
        reader.notes.append(f"not modelled: {name} {shown(word)}; {function} is simulated")
    origin = name if name in reader.config.data else reader.absent(name)
    return () if function == implied else (Entry("activation", function, origin),)


def _function(word: str) -> str | None:
    """The function of a name; all approximations of gelu cost the same."""
    return "gelu" if "gelu" in word else _FUNCTIONS.get(word)


def decoder(
    reader: Reader, entries: tuple[Entry, ...], positions: Entry, dropout: tuple[Entry, Entry], *, bind: bool
) -> Imported:
    """A decoder."""
    length = min(LONGEST, positions.whole)
    sequence = Entry("sequence_length", length, f"at most {LONGEST} of {positions.value} positions")
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
}
