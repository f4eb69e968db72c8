"""GPT-2 and its kin. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

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
from podsim.importer.reader import Entry, Reader

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


FAMILIES = {
    "gpt2": ConfigFamily("GPT2", _gpt2),
    "gptj": ConfigFamily("GPTJ", _gptj),
    "gpt_neox": ConfigFamily("GPTNeoX", _gpt_neox),
    "falcon": ConfigFamily("Falcon", _falcon),
}
