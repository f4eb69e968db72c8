"""Decoders of Hugging Face Transformers. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from podsim.importer.config_file import printable
from podsim.importer.imported import (
    MOST_LAYERS,
    MOST_ROWS,
    MOST_WIDTH,
    Imported,
    always,
    check_heads,
    note_activation,
)
from podsim.importer.reader import Entry, Reader
from podsim.specs.wording import shown

_MISTRAL_WINDOW = 4096


def llama(reader: Reader) -> Imported:
    """A LLaMa."""
    return _llama_like(reader, inner=11008, kv_heads=None, positions=2048)


def mistral(reader: Reader) -> Imported:
    """A Mistral, without its window."""
    window = reader.config.data.get("sliding_window", _MISTRAL_WINDOW)
    if window:
        what = printable(shown(window))
        reader.notes.append(f"sliding_window {what} is not simulated: tokens attend to all before them")
    return _llama_like(reader, inner=14336, kv_heads=8, positions=131072)


def _llama_like(reader: Reader, *, inner: int, kv_heads: int | None, positions: int) -> Imported:
    layers = reader.whole("layer_count", ["num_hidden_layers"], 32, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], 4096, most=MOST_WIDTH)
    width = reader.whole("feed_forward_size", ["intermediate_size"], inner, most=MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], 32, most=MOST_WIDTH)
    as_many = heads.whole
    kv = reader.whole(
        "kv_head_count",
        ["num_key_value_heads"],
        as_many if kv_heads is None else kv_heads,
        null=as_many,
        why="" if kv_heads and "num_key_value_heads" not in reader.config.data else "as many as query heads",
        most=MOST_WIDTH,
    )
    rows = reader.whole("vocabulary_size", ["vocab_size"], 32000, most=MOST_ROWS)
    check_heads(reader, hidden, heads, kv)
    _check_head_size(reader, hidden, heads)
    note_activation(reader, "hidden_act", "silu", "swish")
    entries = (
        *(layers, hidden, width, heads, kv, rows),
        Entry("gated", True, always(reader)),
        Entry("norm", "rms", always(reader)),
        Entry("rotary", True, always(reader)),
        _llama_bias(reader),
        reader.flag("tied_embedding", "tie_word_embeddings", default=False),
    )
    limit = reader.whole("positions", ["max_position_embeddings"], positions)
    return _decoder(reader, entries, limit, bind=False)


def _llama_bias(reader: Reader) -> Entry:
    if reader.family != "llama":
        return Entry("bias", False, f"{reader.family} has none")
    attention = reader.flag("bias", "attention_bias", default=False)
    inner = reader.flag("bias", "mlp_bias", default=False)
    if attention.value == inner.value:
        return attention
    reader.notes.append("attention_bias and mlp_bias differ: all dense layers are given a bias")
    return Entry("bias", True, "attention_bias or mlp_bias")


def gpt2(reader: Reader) -> Imported:
    """A GPT-2."""
    return _gpt_like(reader, rows=50257, width=768, layers=12, heads=12, positions=1024, tied=True)


def gptj(reader: Reader) -> Imported:
    """A GPT-J, with all biases and norms of a GPT-2."""
    reader.notes.append("gptj has biases in the feed-forward block and the head only, and one norm per layer")
    reader.notes.append("gptj turns rotary_dim elements of a head; here all of them are turned")
    return _gpt_like(reader, rows=50400, width=4096, layers=28, heads=16, positions=2048, tied=False)


def _gpt_like(
    reader: Reader, *, rows: int, width: int, layers: int, heads: int, positions: int, tied: bool
) -> Imported:
    rotary = reader.family == "gptj"
    count = reader.whole("layer_count", ["n_layer", "num_hidden_layers"], layers, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["n_embd", "hidden_size"], width, most=MOST_WIDTH)
    four = 4 * hidden.whole
    inner = reader.whole("feed_forward_size", ["n_inner"], four, null=four, why="4 x n_embd", most=MOST_WIDTH)
    query = reader.whole("head_count", ["n_head", "num_attention_heads"], heads, most=MOST_WIDTH)
    kv = Entry("kv_head_count", query.value, f"as many as query heads in {reader.family}")
    limit = reader.whole("position_count", ["n_positions", "max_position_embeddings"], positions, most=MOST_ROWS)
    check_heads(reader, hidden, query, kv)
    note_activation(reader, "activation_function", "gelu_new", "gelu")
    entries = (
        *(count, hidden, inner, query, kv),
        reader.whole("vocabulary_size", ["vocab_size"], rows, most=MOST_ROWS),
        Entry("position_count", 0, "rotary positions have no rows") if rotary else limit,
        Entry("gated", False, always(reader)),
        Entry("norm", "layer", always(reader)),
        Entry("rotary", rotary, always(reader)),
        Entry("bias", True, always(reader)),
        reader.flag("tied_embedding", "tie_word_embeddings", default=tied),
    )
    return _decoder(reader, entries, limit, bind=not rotary)


def _decoder(reader: Reader, entries: tuple[Entry, ...], limit: Entry, *, bind: bool) -> Imported:
    if reader.config.data.get("quantization_config"):
        reader.notes.append("quantization_config is not read; `precision: {weights: int4}` simulates narrow weights")
    notes = tuple(reader.notes)
    return Imported(reader.config, reader.family, "decoder", "text generation", entries, notes, (), limit, bind)


def _check_head_size(reader: Reader, hidden: Entry, heads: Entry) -> None:
    size = reader.config.data.get("head_dim")
    if reader.sound and size and size != hidden.whole // heads.whole:
        what = f"{heads.value} heads of {printable(shown(size))} are not as wide as hidden_size {hidden.value}"
        reader.complain("head_dim", what, "import another model: such heads are not modelled")
