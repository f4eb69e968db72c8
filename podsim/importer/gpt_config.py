"""GPT-2 and its kin. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from podsim.importer.decoder_config import decoder
from podsim.importer.imported import (
    MOST_LAYERS,
    MOST_ROWS,
    MOST_WIDTH,
    ConfigFamily,
    Imported,
    always,
    check_heads,
    note_activation,
)
from podsim.importer.reader import Entry, Reader


def _gpt2(reader: Reader) -> Imported:
    """A GPT-2."""
    return _like_gpt2(reader, rows=50257, width=768, layers=12, heads=12, positions=1024, tied=True)


def _gptj(reader: Reader) -> Imported:
    """A GPT-J, with all biases and norms of a GPT-2."""
    reader.notes.append("gptj has biases in the feed-forward block and the head only, and one norm per layer")
    reader.notes.append("gptj turns rotary_dim elements of a head; here all of them are turned")
    return _like_gpt2(reader, rows=50400, width=4096, layers=28, heads=16, positions=2048, tied=False)


def _like_gpt2(
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
    return decoder(reader, entries, limit, bind=not rotary)


FAMILIES = {
    "gpt2": ConfigFamily("GPT2", _gpt2),
    "gptj": ConfigFamily("GPTJ", _gptj),
}
