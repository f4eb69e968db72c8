"""Decoders of any architecture, from keys of `config.json` that most architectures share.

Norm, positions and gating are derived from keys that only such models have; a note lists these guesses. Properties that
no key gives are refused. Code of an architecture beyond its keys, such as norms of queries and keys, is not simulated.
Times are therefore lower bounds, which a note says.

Source: [hf_transformers] for the keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsim.importer.decoder_config import activation, attention_window, decoder, rotary_width
from podsim.importer.reader import Entry, Reader
from podsim.importer.request import MOST_LAYERS, MOST_ROWS, MOST_WIDTH, Imported, check_heads
from podsim.scenario.wording import quoted

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
_ROTARY = ("rope_theta", "rope_scaling", "rope_parameters", "rotary_emb_base", "rotary_pct", "partial_rotary_factor")
_GATE_KEYS = ("is_gated_act", "gated_mlp", "use_glu")
_PLAIN_FUNCTIONS = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu")
_GATES = ("silu", "swish", "swiglu", "geglu")
_EXPERTS = ("num_local_experts", "num_experts", "n_experts")


def has_dimensions(config: object) -> bool:
    """Return True if a file has layers, width, heads and a vocabulary, as every decoder has."""
    return isinstance(config, dict) and all(
        any(name in config for name in names) for names in (_LAYERS, _WIDTH, _HEADS, _ROWS)
    )


def any_decoder(reader: Reader) -> Imported:
    """Read a decoder from its dimensions; a note lists all guesses."""
    layers = _required(reader, "layer_count", _LAYERS, MOST_LAYERS)
    hidden = _required(reader, "hidden_size", _WIDTH, MOST_WIDTH)
    heads = _required(reader, "head_count", _HEADS, MOST_WIDTH)
    rows = _required(reader, "vocabulary_size", _ROWS, MOST_ROWS)
    why = "as many as query heads"
    kv_heads = reader.whole("kv_head_count", _KV_HEADS, heads.whole, null=heads.whole, why=why, most=MOST_WIDTH)
    head_size: tuple[Entry, ...] = ()
    if reader.config.data.get("head_dim") is not None:
        head_size = (reader.whole("head_size", ["head_dim"], 1, most=MOST_WIDTH),)
    check_heads(reader, hidden, heads, kv_heads, own_size=bool(head_size))
    inner, experts = _feed_forward(reader, hidden.whole)
    guesses: list[str] = []
    norm = _norm(reader, guesses)
    positions = _required(reader, "position_count", _POSITIONS, MOST_ROWS)
    head_width = head_size[0].whole if head_size else hidden.whole // max(1, heads.whole)
    rotation = _rotation(reader, head_width, norm, guesses)
    rotary = Entry("rotary", bool(rotation), rotation[0].origin if rotation else f"none of {', '.join(_ROTARY[:2])}, …")
    activation_key = reader.used_name(*_ACTIVATION) or ""
    if not activation_key:
        what = "no key says which function the feed-forward blocks have"
        reader.complain("", what, f'add `"{_ACTIVATION[0]}"`, for example "silu"')
    activation_name = reader.word(activation_key or _ACTIVATION[0], "gelu")
    gated = _gated(reader, activation_key, activation_name, norm, guesses)
    implied = "swish" if gated.value else "gelu"
    simulated = activation(reader, activation_key or _ACTIVATION[0], activation_name, implied, is_strict=True)
    entries = (
        *(layers, hidden, inner, heads, kv_heads, *head_size, rows),
        *(() if rotary.value else (positions,)),
        gated,
        *simulated,
        *(norm, rotary, *rotation[1:]),
        _bias(reader, guesses),
        *_parallel(reader, guesses),
        *experts,
        *attention_window(reader),
        reader.flag("tied_embedding", "tie_word_embeddings", default=True),
    )
    if "tie_word_embeddings" not in reader.config.data:
        guesses.append("the head shares the embedding's weights")
    dropout = (
        _dropout(reader, "dropout", ("hidden_dropout", "resid_pdrop", "dropout", "residual_dropout")),
        _dropout(reader, "attention_dropout", ("attention_dropout", "attn_pdrop")),
    )
    written = quoted(reader.config.data.get("model_type", "no type"))
    reader.notes.append(
        f"model_type {written} is read by its dimensions: what its code does beyond the keys of the file, such as norms"
        " of queries and keys, is not simulated, so that times are lower bounds"
    )
    reader.notes.append(f"guesses, which no key states: {'; '.join(guesses)}")
    return decoder(reader, entries, positions, dropout, bind=not rotary.value)


def _required(reader: Reader, key: str, names: Sequence[str], most: int) -> Entry:
    """Return a whole number under the first of `names` in the file, or record that it is missing."""
    if reader.used_name(*names) is None:
        others = f", or one of: {', '.join(names[1:])}" if names[1:] else ""
        what = f"a decoder needs `{names[0]}`{others}"
        reader.complain(names[0], what, f'add `"{names[0]}"`')
        return Entry(key, 1)
    return reader.whole(key, names, 1, most=most)


def _feed_forward(reader: Reader, hidden: int) -> tuple[Entry, tuple[Entry, ...]]:
    """Return the key of the inner width (of each expert, if there are any), and the keys of experts."""
    default = 4 * hidden
    inner = reader.whole("feed_forward_size", _INNER, default, null=default, why="4 x width", most=MOST_WIDTH)
    name = reader.used_name(*_EXPERTS)
    if name is None or reader.config.data[name] in (None, 0, 1):
        return inner, ()
    count = reader.whole("experts.count", [name], 1, most=MOST_WIDTH)
    per_token = _required(reader, "experts.per_token", ("num_experts_per_tok", "moe_topk", "moe_top_k"), MOST_WIDTH)
    if reader.sound and per_token.whole > count.whole:
        what = f"a token cannot go through {per_token.value} of {count.value} experts"
        reader.complain("num_experts_per_tok", what, "correct one of the two")
    step, dense = reader.config.data.get("decoder_sparse_step", 1), reader.config.data.get("mlp_only_layers")
    if step != 1 or dense:
        key = "mlp_only_layers" if dense else "decoder_sparse_step"
        reader.complain(key, "layers with experts among layers without are not modelled", "import another model")
    if reader.config.data.get("moe_intermediate_size") is not None:
        inner = reader.whole("feed_forward_size", ["moe_intermediate_size"], default, most=MOST_WIDTH)
    return inner, (count, per_token)


def _norm(reader: Reader, guesses: list[str]) -> Entry:
    """Return the kind of norm, guessed from the name of the key with its epsilon."""
    for kind, names in (("rms", _RMS), ("layer", _LAYER_NORM)):
        for name in names:
            if reader.config.data.get(name) is not None:
                guesses.append(f"{'RMS' if kind == 'rms' else kind} norms, two in each layer (after {name})")
                return Entry("norm", kind, f"guessed from {name}")
    key = "norm_eps" if "norm_eps" in reader.config.data else ""
    what = f"{'`norm_eps` does not say' if key else 'no key says'} which norm this decoder has"
    cure = 'add `"rms_norm_eps"` for RMS norms, or `"layer_norm_eps"` for layer norms'
    reader.complain(key, what, cure)
    return Entry("norm", "layer")


def _rotation(reader: Reader, width: int, norm: Entry, guesses: list[str]) -> tuple[Entry, ...]:
    """Return the keys of rotary positions: `rotary`, and `rotary_size` for a part of each head; none if learned."""
    name = next((name for name in _ROTARY if reader.config.data.get(name) is not None), None)
    if name is not None:
        return (Entry("rotary", True, name), *rotary_width(reader, width, 1.0))
    if norm.value == "rms":
        do = 'add `"rope_theta"` if positions are rotated; import another model if they are not'
        reader.complain("", "no key says how positions enter this decoder", do)
    guesses.append("learned positions (no key of rotary ones)")
    return ()


def _gated(reader: Reader, key: str, activation_name: str, norm: Entry, guesses: list[str]) -> Entry:
    """Return whether feed-forward blocks are gated, from a key of gates or else from their activation."""
    for name in _GATE_KEYS:
        if name in reader.config.data:
            return reader.flag("gated", name, default=False)
    if activation_name in _GATES:
        guesses.append(f"gated feed-forward blocks (after {activation_name})")
        return Entry("gated", True, f"guessed from {key} {activation_name}")
    if norm.value == "layer" and activation_name in _PLAIN_FUNCTIONS:
        guesses.append(f"feed-forward blocks without gates (after {activation_name} with layer norms)")
        return Entry("gated", False, f"guessed from {key} {activation_name}")
    if key:
        what = f"no key says whether feed-forward blocks with {activation_name} are gated"
        reader.complain(key, what, f'add `"{_GATE_KEYS[1]}": true` for three matrices, or `false` for two')
    return Entry("gated", False)


def _bias(reader: Reader, guesses: list[str]) -> Entry:
    """Return the dense layers that have biases: all, none, or some by name."""
    for name in ("use_bias", "bias", "add_bias_linear"):
        if isinstance(reader.config.data.get(name), bool):
            if reader.config.data[name]:
                guesses.append(f"biases of all dense layers but the head (after {name})")
            return reader.flag("bias", name, default=False)
    attention = reader.used_name("attention_bias", "qkv_bias", "attention_qkv_bias", "use_qkv_bias")
    layers: list[str] = []
    if attention and reader.flag("bias", attention, default=False).value:
        layers += ["qkv", "projection"] if attention == "attention_bias" else ["qkv"]
    if "mlp_bias" in reader.config.data and reader.flag("bias", "mlp_bias", default=False).value:
        layers.append("feed_forward")
    if layers:
        guesses.append(f"biases of {', '.join(layers)}")
    return Entry("bias", tuple(layers) or False, attention or "no key asks for biases")


def _parallel(reader: Reader, guesses: list[str]) -> tuple[Entry, ...]:
    name = reader.used_name("use_parallel_residual", "parallel_attn")
    if name is None or not reader.flag("parallel_blocks", name, default=False).value:
        return ()
    kind = "one_norm" if name == "parallel_attn" else "two_norms"
    guesses.append(f"blocks side by side with {kind.replace('_', ' ')} (after {name})")
    return (Entry("parallel_blocks", kind, name),)


def _dropout(reader: Reader, key: str, names: Sequence[str]) -> Entry:
    name = next((name for name in names if reader.config.data.get(name) is not None), None)
    return Entry(key, 0.0, "no key has it") if name is None else reader.share(key, name, default=0.0)
