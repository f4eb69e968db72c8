"""Architectures of Hugging Face Transformers: what their keys mean, and what is taken for those left out.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from podsim.errors import Problem, SpecError
from podsim.importer.config_file import ConfigFile, printable
from podsim.importer.reader import Entry, Reader
from podsim.specs.wording import shown

_MOST_LAYERS, _MOST_WIDTH, _MOST_ROWS = 10_000, 1_000_000, 10_000_000
_CLASS = re.compile(r"(Llama|Mistral|GPT2|GPTJ|Bert|Roberta)(?:For|Model|LMHead|DoubleHeads)")
_PADDED_POSITIONS = 2
_MISTRAL_WINDOW = 4096
_ABSOLUTE = "absolute"


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a scenario describes it.

    Attributes:
        config: The file it was read from.
        family: Architecture, as `model_type` names it.
        kind: Family of models that the scenario belongs to.
        model: Keys under `model`.
        data: Keys under `data`, of a training scenario.
        positions: Tokens that the model has positions for.
        positions_bind: Whether it can take no more than those.
        notes: What the file says and the scenario cannot.
    """

    config: ConfigFile
    family: str
    kind: Literal["decoder", "bert"]
    model: tuple[Entry, ...]
    data: tuple[Entry, ...]
    positions: Entry
    positions_bind: bool
    notes: tuple[str, ...]


def imported(config: ConfigFile) -> Imported:
    """The model that a file describes.

    Raises:
        SpecError: The architecture is not known, or dimensions are wrong or contradict one another.
    """
    family = family_of(config)
    reader = Reader(config, family)
    _refuse_encoder_decoder(reader)
    result = _FAMILIES[family](reader)
    reader.check()
    return result


def known_families() -> tuple[str, ...]:
    """Architectures that can be imported."""
    return tuple(sorted(_FAMILIES))


def family_of(config: ConfigFile) -> str:
    """The architecture, from `model_type` and from `architectures`.

    Raises:
        SpecError: There is none, it is not known, or the two contradict one another.
    """
    written = config.data.get("model_type")
    names = config.data.get("architectures")
    names = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    classes = {match[1].lower() for match in map(_CLASS.match, names) if match}
    if written is None and len(classes) == 1:
        return classes.pop()
    known = ", ".join(known_families())
    if written is None:
        what = f"nothing known says which model this is: {_or_nothing(names)}"
        raise SpecError([Problem(config.name, "", what, f'add `"model_type"`, one of: {known}')])
    where = config.where("model_type")
    if not isinstance(written, str):
        what = f"needs text, not {shown(written)}"
        raise SpecError([Problem(where, "model_type", what, f"write one of: {known}")])
    if written not in known_families():
        do = f"import one of these: {known}; or start from `scenarios/template.yaml`"
        raise SpecError([Problem(where, "model_type", f"{printable(shown(written))} models are not known", do)])
    if classes and written not in classes:
        what = f"model_type is `{written}`, architectures has `{printable(names[0])}`"
        raise SpecError([Problem(where, "model_type", what, "correct one of the two")])
    return written


def _or_nothing(names: list[str]) -> str:
    if not names:
        return "`model_type` is missing"
    return f"`model_type` is missing, and architectures has {printable(shown(names[0]))}"


def _refuse_encoder_decoder(reader: Reader) -> None:
    for name in ("is_encoder_decoder", "add_cross_attention"):
        if reader.config.data.get(name) is True:
            reader.complain(name, "decoders that read an encoder are not modelled", "import another model")


def _always(reader: Reader) -> str:
    return f"in every {reader.family} model"


def _llama(reader: Reader) -> Imported:
    return _llama_like(reader, inner=11008, kv_heads=None, positions=2048)


def _mistral(reader: Reader) -> Imported:
    window = reader.config.data.get("sliding_window", _MISTRAL_WINDOW)
    if window:
        what = printable(shown(window))
        reader.notes.append(f"sliding_window {what} is not simulated: tokens attend to all before them")
    return _llama_like(reader, inner=14336, kv_heads=8, positions=131072)


def _llama_like(reader: Reader, *, inner: int, kv_heads: int | None, positions: int) -> Imported:
    layers = reader.whole("layer_count", ["num_hidden_layers"], 32, most=_MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], 4096, most=_MOST_WIDTH)
    width = reader.whole("feed_forward_size", ["intermediate_size"], inner, most=_MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], 32, most=_MOST_WIDTH)
    as_many = heads.whole
    kv = reader.whole(
        "kv_head_count",
        ["num_key_value_heads"],
        as_many if kv_heads is None else kv_heads,
        null=as_many,
        why="" if kv_heads and "num_key_value_heads" not in reader.config.data else "as many as query heads",
        most=_MOST_WIDTH,
    )
    rows = reader.whole("vocabulary_size", ["vocab_size"], 32000, most=_MOST_ROWS)
    _check_heads(reader, hidden, heads, kv)
    _check_head_size(reader, hidden, heads)
    _note_activation(reader, "hidden_act", "silu", "swish")
    entries = (
        *(layers, hidden, width, heads, kv, rows),
        Entry("gated", True, _always(reader)),
        Entry("norm", "rms", _always(reader)),
        Entry("rotary", True, _always(reader)),
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


def _gpt2(reader: Reader) -> Imported:
    return _gpt_like(reader, rows=50257, width=768, layers=12, heads=12, positions=1024, tied=True)


def _gptj(reader: Reader) -> Imported:
    reader.notes.append("gptj has biases in the feed-forward block and the head only, and one norm per layer")
    reader.notes.append("gptj turns rotary_dim elements of a head; here all of them are turned")
    return _gpt_like(reader, rows=50400, width=4096, layers=28, heads=16, positions=2048, tied=False)


def _gpt_like(
    reader: Reader, *, rows: int, width: int, layers: int, heads: int, positions: int, tied: bool
) -> Imported:
    rotary = reader.family == "gptj"
    count = reader.whole("layer_count", ["n_layer", "num_hidden_layers"], layers, most=_MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["n_embd", "hidden_size"], width, most=_MOST_WIDTH)
    four = 4 * hidden.whole
    inner = reader.whole("feed_forward_size", ["n_inner"], four, null=four, why="4 x n_embd", most=_MOST_WIDTH)
    query = reader.whole("head_count", ["n_head", "num_attention_heads"], heads, most=_MOST_WIDTH)
    kv = Entry("kv_head_count", query.value, f"as many as query heads in {reader.family}")
    limit = reader.whole("position_count", ["n_positions", "max_position_embeddings"], positions, most=_MOST_ROWS)
    _check_heads(reader, hidden, query, kv)
    _note_activation(reader, "activation_function", "gelu_new", "gelu")
    entries = (
        *(count, hidden, inner, query, kv),
        reader.whole("vocabulary_size", ["vocab_size"], rows, most=_MOST_ROWS),
        Entry("position_count", 0, "rotary positions have no rows") if rotary else limit,
        Entry("gated", False, _always(reader)),
        Entry("norm", "layer", _always(reader)),
        Entry("rotary", rotary, _always(reader)),
        Entry("bias", True, _always(reader)),
        reader.flag("tied_embedding", "tie_word_embeddings", default=tied),
    )
    return _decoder(reader, entries, limit, bind=not rotary)


def _decoder(reader: Reader, entries: tuple[Entry, ...], limit: Entry, *, bind: bool) -> Imported:
    if reader.config.data.get("quantization_config"):
        reader.notes.append("quantization_config is not read; `precision: {weights: int4}` simulates narrow weights")
    return Imported(reader.config, reader.family, "decoder", entries, (), limit, bind, tuple(reader.notes))


def _bert(reader: Reader) -> Imported:
    return _bert_like(reader, rows=30522, pooler=Entry("pooler", True, _always(reader)), reserved=0)


def _roberta(reader: Reader) -> Imported:
    reader.notes.append("roberta is not trained on pairs of sentences; the small next-sentence head is simulated")
    pooler = Entry("pooler", False, "roberta is trained on masked tokens alone")
    return _bert_like(reader, rows=50265, pooler=pooler, reserved=_PADDED_POSITIONS)


def _bert_like(reader: Reader, *, rows: int, pooler: Entry, reserved: int) -> Imported:
    layers = reader.whole("layer_count", ["num_hidden_layers"], 12, most=_MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], 768, most=_MOST_WIDTH)
    width = reader.whole("feed_forward_size", ["intermediate_size"], 3072, most=_MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], 12, most=_MOST_WIDTH)
    positions = reader.whole("position_count", ["max_position_embeddings"], 512, most=_MOST_ROWS)
    usable = positions.whole - reserved
    _check_heads(reader, hidden, heads, heads)
    if reader.sound and usable < 1:
        what = f"{positions.value} positions leave none for tokens: {reserved} are for padding"
        reader.complain("max_position_embeddings", what, f"write {reserved + 1} or more")
    _note_activation(reader, "hidden_act", "gelu", "gelu")
    _note_bert(reader)
    entries = (
        *(layers, hidden, width, heads),
        reader.whole("vocabulary_size", ["vocab_size"], rows, most=_MOST_ROWS),
        positions,
        Entry("attention_bias", True, _always(reader)),
        pooler,
        Entry("mlm_transform", True, _always(reader)),
    )
    data = (
        reader.share("dropout", "hidden_dropout_prob", default=0.1),
        reader.share("attention_dropout", "attention_probs_dropout_prob", default=0.1),
    )
    limit = Entry("sequence_length", usable, positions.origin)
    return Imported(reader.config, reader.family, "bert", entries, data, limit, True, tuple(reader.notes))


def _note_bert(reader: Reader) -> None:
    if reader.word("position_embedding_type", _ABSOLUTE) != _ABSOLUTE:
        what = "relative positions are not modelled"
        reader.complain("position_embedding_type", what, f'write "{_ABSOLUTE}", or import another model')
    if reader.flag("tied", "tie_word_embeddings", default=True).value is False:
        reader.notes.append("tie_word_embeddings is false; the head shares the embedding's weights all the same")


def _check_heads(reader: Reader, hidden: Entry, heads: Entry, kv: Entry) -> None:
    if not reader.sound:
        return
    width, count, kv_count = (entry.whole for entry in (hidden, heads, kv))
    where = reader.given("num_attention_heads", "n_head") or ""
    if width % count:
        reader.complain(where, f"{count} heads do not divide a width of {width}", "correct one of the two")
    elif count % kv_count:
        what = f"{kv_count} key and value heads do not divide {count} query heads"
        reader.complain("num_key_value_heads", what, "correct one of the two")


def _check_head_size(reader: Reader, hidden: Entry, heads: Entry) -> None:
    size = reader.config.data.get("head_dim")
    if reader.sound and size and size != hidden.whole // heads.whole:
        what = f"{heads.value} heads of {printable(shown(size))} are not as wide as hidden_size {hidden.value}"
        reader.complain("head_dim", what, "import another model: such heads are not modelled")


def _note_activation(reader: Reader, name: str, usual: str, simulated: str) -> None:
    word = reader.word(name, usual)
    if simulated not in word.replace("silu", "swish"):
        reader.notes.append(f"{name} is {printable(shown(word))}; {simulated} is simulated")


_FAMILIES: dict[str, Callable[[Reader], Imported]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "gptj": _gptj,
    "llama": _llama,
    "mistral": _mistral,
    "roberta": _roberta,
}
