"""Decoders of any architecture, by what their `config.json` says in words that most of them share.

Which norm, which positions and whether blocks are gated follows from keys that only such models have. What the code
of an architecture does beyond its keys, such as norms of queries and keys, is not simulated, and a note says so.

Source: [hf_transformers] for the words.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsim.importer.decoder_config import activation, decoder
from podsim.importer.reader import Entry, Reader
from podsim.importer.request import MOST_LAYERS, MOST_ROWS, MOST_WIDTH, Imported, check_heads
from podsim.scenario.wording import shown

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model")
_INNER = ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner", "d_ff")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads")
_ROWS = ("vocab_size",)
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_ACTIVATION = ("hidden_act", "activation_function", "hidden_activation", "activation")
_RMS = ("rms_norm_eps", "rms_norm_epsilon")
_LAYER_NORM = ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "layer_norm_elementwise_affine")
_NORM_OF_EITHER = ("norm_eps",)
_ROTARY = ("rope_theta", "rope_scaling", "rope_parameters", "rotary_emb_base", "rotary_pct", "partial_rotary_factor")
_GATES = ("silu", "swish", "swiglu", "geglu")
_EXPERTS = ("num_local_experts", "num_experts", "n_experts")
_TIED = True
"""What the library takes for `tie_word_embeddings` where neither file nor architecture says otherwise."""


def has_dimensions(config: object) -> bool:
    """Whether keys of a file have layers, width, heads and a vocabulary, as those of every decoder."""
    return isinstance(config, dict) and all(
        any(name in config for name in names) for names in (_LAYERS, _WIDTH, _HEADS, _ROWS)
    )


def any_decoder(reader: Reader) -> Imported:
    """A decoder by its dimensions."""
    layers = _needed(reader, "layer_count", _LAYERS, MOST_LAYERS)
    hidden = _needed(reader, "hidden_size", _WIDTH, MOST_WIDTH)
    heads = _needed(reader, "head_count", _HEADS, MOST_WIDTH)
    rows = _needed(reader, "vocabulary_size", _ROWS, MOST_ROWS)
    as_many = "as many as query heads"
    kv = reader.whole("kv_head_count", _KV_HEADS, heads.whole, null=heads.whole, why=as_many, most=MOST_WIDTH)
    wide: tuple[Entry, ...] = ()
    if reader.config.data.get("head_dim") is not None:
        wide = (reader.whole("head_size", ["head_dim"], 1, most=MOST_WIDTH),)
    check_heads(reader, hidden, heads, kv, own_size=bool(wide))
    inner, experts = _feed_forward(reader, hidden.whole)
    norm = _norm(reader)
    positions = _needed(reader, "position_count", _POSITIONS, MOST_ROWS)
    turned = _rotation(reader, wide[0].whole if wide else hidden.whole // max(1, heads.whole))
    rotary = Entry("rotary", bool(turned), turned[0].origin if turned else f"none of {', '.join(_ROTARY[:2])}, …")
    function = reader.given(*_ACTIVATION) or _ACTIVATION[0]
    word = reader.word(function, "silu" if norm.value == "rms" else "gelu")
    gated = _gated(reader, function, word, norm)
    entries = (
        *(layers, hidden, inner, heads, kv, *wide, rows),
        *(() if rotary.value else (positions,)),
        gated,
        *activation(reader, function, word, "swish" if gated.value else "gelu"),
        *(norm, rotary, *turned[1:]),
        _bias(reader),
        *_parallel(reader),
        *experts,
        reader.flag("tied_embedding", "tie_word_embeddings", default=_TIED),
    )
    dropout = (
        _share(reader, "dropout", ("hidden_dropout", "resid_pdrop", "dropout", "residual_dropout")),
        _share(reader, "attention_dropout", ("attention_dropout", "attn_pdrop")),
    )
    written = shown(reader.config.data.get("model_type", "no type"))
    reader.notes.append(
        f"model_type {written} is read by its dimensions: what its code does beyond the keys of the file, such as norms"
        " of queries and keys, is not simulated"
    )
    return decoder(reader, entries, positions, dropout, bind=not rotary.value)


def _needed(reader: Reader, key: str, names: Sequence[str], most: int) -> Entry:
    if reader.given(*names) is None:
        others = f", or one of: {', '.join(names[1:])}" if names[1:] else ""
        what = f"a decoder needs `{names[0]}`{others}"
        reader.complain(names[0], what, f'add `"{names[0]}"`')
        return Entry(key, 1)
    return reader.whole(key, names, 1, most=most)


def _feed_forward(reader: Reader, hidden: int) -> tuple[Entry, tuple[Entry, ...]]:
    """The inner width, of each expert if there are several, and how many there are."""
    four = 4 * hidden
    inner = reader.whole("feed_forward_size", _INNER, four, null=four, why="4 x width", most=MOST_WIDTH)
    name = reader.given(*_EXPERTS)
    if name is None or reader.config.data[name] in (None, 0, 1):
        return inner, ()
    count = reader.whole("experts.count", [name], 1, most=MOST_WIDTH)
    per_token = _needed(reader, "experts.per_token", ("num_experts_per_tok", "moe_topk", "top_k"), MOST_WIDTH)
    if reader.sound and per_token.whole > count.whole:
        what = f"a token cannot go through {per_token.value} of {count.value} experts"
        reader.complain("num_experts_per_tok", what, "correct one of the two")
    step, dense = reader.config.data.get("decoder_sparse_step", 1), reader.config.data.get("mlp_only_layers")
    if step != 1 or dense:
        key = "mlp_only_layers" if dense else "decoder_sparse_step"
        reader.complain(key, "layers with experts among layers without are not modelled", "import another model")
    if reader.config.data.get("moe_intermediate_size") is not None:
        inner = reader.whole("feed_forward_size", ["moe_intermediate_size"], four, most=MOST_WIDTH)
    return inner, (count, per_token)


def _norm(reader: Reader) -> Entry:
    for kind, names in (("rms", _RMS), ("layer", _LAYER_NORM), ("rms", _NORM_OF_EITHER)):
        for name in names:
            if reader.config.data.get(name) is not None:
                return Entry("norm", kind, name)
    what = "no key says which norm this decoder has"
    cure = 'add `"rms_norm_eps"` for RMS norms, or `"layer_norm_eps"` for layer norms'
    reader.complain("", what, cure)
    return Entry("norm", "layer")


def _rotation(reader: Reader, width: int) -> tuple[Entry, ...]:
    """Whether positions are rotated, and how much of each head where that is not all."""
    name = next((name for name in _ROTARY if name in reader.config.data), None)
    if name is None:
        return ()
    part = reader.given("partial_rotary_factor", "rotary_pct")
    share = reader.share("rotary_size", part, default=1.0, one=True).value if part else 1.0
    assert isinstance(share, float)
    turned = int(share * width)
    if turned == width:
        return (Entry("rotary", True, name),)
    if reader.sound and (turned < 2 or turned % 2):
        what = f"{share} of heads that are {width} wide are {turned} elements: pairs of them are turned"
        reader.complain(part or name, what, "write a share that makes an even number")
    return Entry("rotary", True, name), Entry("rotary_size", turned, f"of {width}: {part}")


def _gated(reader: Reader, name: str, word: str, norm: Entry) -> Entry:
    for key in ("is_gated_act", "gated_mlp", "use_glu"):
        if key in reader.config.data:
            return reader.flag("gated", key, default=False)
    if word in _GATES:
        return Entry("gated", True, f"{name} {word}, which gates")
    return Entry("gated", norm.value == "rms", f"as in published decoders with {norm.value} norms")


def _bias(reader: Reader) -> Entry:
    """Dense layers with biases."""
    for name in ("use_bias", "bias", "add_bias_linear"):
        if isinstance(reader.config.data.get(name), bool):
            return reader.flag("bias", name, default=False)
    attention = reader.given("attention_bias", "qkv_bias", "attention_qkv_bias", "use_qkv_bias")
    parts: list[str] = []
    if attention and reader.flag("bias", attention, default=False).value:
        parts += ["qkv", "projection"] if attention == "attention_bias" else ["qkv"]
    if "mlp_bias" in reader.config.data and reader.flag("bias", "mlp_bias", default=False).value:
        parts.append("feed_forward")
    return Entry("bias", tuple(parts) or False, attention or "no key asks for biases")


def _parallel(reader: Reader) -> tuple[Entry, ...]:
    name = reader.given("use_parallel_residual", "parallel_attn")
    if name is None or not reader.flag("parallel_blocks", name, default=False).value:
        return ()
    return (Entry("parallel_blocks", "one_norm" if name == "parallel_attn" else "two_norms", name),)


def _share(reader: Reader, key: str, names: Sequence[str]) -> Entry:
    name = next((name for name in names if reader.config.data.get(name) is not None), None)
    return Entry(key, 0.0, "no key has it") if name is None else reader.share(key, name, default=0.0)
