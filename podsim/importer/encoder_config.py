"""Encoders of Hugging Face Transformers: BERT, RoBERTa, ViT, and T5 with its decoder.

Source: [hf_transformers] for names and defaults.
"""

from __future__ import annotations

import re

from podsim.importer.reader import Entry, Reader
from podsim.importer.request import (
    MOST_LAYERS,
    MOST_ROWS,
    MOST_WIDTH,
    ConfigFamily,
    Imported,
    always,
    architectures,
    check_heads,
    class_count,
    note_activation,
)

_PADDED_POSITIONS = 2
_ABSOLUTE = "absolute"
_HEAD = re.compile(r"(?:Bert|Roberta)(?:For|Model|LMHead|Encoder)(\w*)")
_TASKS = {"QuestionAnswering": "span", "SequenceClassification": "classes"}
_PURPOSES = {
    "pretraining": "pre-training",
    "span": "fine-tuning to answer questions",
    "classes": "fine-tuning to classify",
}
_LONGEST = {"pretraining": 512, "span": 384, "classes": 128}
_PRETRAINED = ("", "PreTraining", "MaskedLM", "Model", "HeadModel")
_MASKED_PERCENT = 15
_COLOURS = 3


def _bert(reader: Reader) -> Imported:
    return _bert_like(reader, rows=30522, paired=True, reserved=0)


def _roberta(reader: Reader) -> Imported:
    """Read a RoBERTa: no pairs of sentences, and positions reserved for padding."""
    return _bert_like(reader, rows=50265, paired=False, reserved=_PADDED_POSITIONS)


def _bert_like(reader: Reader, *, rows: int, paired: bool, reserved: int) -> Imported:
    dimensions = _dimensions(reader)
    positions = reader.whole("position_count", ["max_position_embeddings"], 512, most=MOST_ROWS)
    usable = positions.whole - reserved
    if reader.sound and usable < 1:
        what = f"{positions.value} positions leave none for tokens: {reserved} are for padding"
        reader.complain("max_position_embeddings", what, f"write {reserved + 1} or more")
    _check_bert(reader)
    task = _task(reader)
    model = (
        *dimensions,
        reader.whole("vocabulary_size", ["vocab_size"], rows, most=MOST_ROWS),
        positions,
        reader.whole("token_type_count", ["type_vocab_size"], 2, most=MOST_ROWS),
        Entry("attention_bias", True, always(reader)),
        *_head(reader, task, paired=paired),
    )
    data = (*_sequences(str(task.value), usable), *_dropout(reader, default=0.1))
    purpose = _PURPOSES[str(task.value)]
    return Imported(reader.config, reader.family, "bert", purpose, model, tuple(reader.notes), data)


def _dimensions(reader: Reader) -> tuple[Entry, ...]:
    layers = reader.whole("layer_count", ["num_hidden_layers"], 12, most=MOST_LAYERS)
    hidden = reader.whole("hidden_size", ["hidden_size"], 768, most=MOST_WIDTH)
    width = reader.whole("feed_forward_size", ["intermediate_size"], 3072, most=MOST_WIDTH)
    heads = reader.whole("head_count", ["num_attention_heads"], 12, most=MOST_WIDTH)
    check_heads(reader, hidden, heads, heads)
    note_activation(reader, "hidden_act", "gelu", "gelu")
    return layers, hidden, width, heads


def _dropout(reader: Reader, default: float) -> tuple[Entry, Entry]:
    return (
        reader.share("dropout", "hidden_dropout_prob", default=default),
        reader.share("attention_dropout", "attention_probs_dropout_prob", default=default),
    )


def _check_bert(reader: Reader) -> None:
    """Record features of a BERT that are not modelled."""
    if reader.word("position_embedding_type", _ABSOLUTE) != _ABSOLUTE:
        what = "relative positions are not modelled"
        reader.complain("position_embedding_type", what, f'write "{_ABSOLUTE}", or import another model')
    if reader.flag("tied", "tie_word_embeddings", default=True).value is False:
        what = "heads with weights of their own are not modelled in encoders"
        reader.complain("tie_word_embeddings", what, "write true, if the head may share the embedding's weights")


def _task(reader: Reader) -> Entry:
    """Return the task of the class that the file names first."""
    names = [match for match in map(_HEAD.match, architectures(reader.config)) if match]
    if not names:
        return Entry("task", "pretraining", "architectures names no class")
    name, head = names[0][0], names[0][1]
    if head in _TASKS:
        return Entry("task", _TASKS[head], name)
    if head not in _PRETRAINED:
        reader.notes.append(f"the head of {name} is not modelled; pre-training is simulated")
    return Entry("task", "pretraining", name)


def _head(reader: Reader, task: Entry, *, paired: bool) -> tuple[Entry, ...]:
    """Return the keys of the layers after the encoder, `task` first."""
    if task.value == "classes":
        return task, class_count(reader), Entry("pooler", True, "a dense layer in front of the classes")
    if task.value == "span":
        return task, Entry("pooler", False, f"{task.origin} has none")
    why = always(reader) if paired else f"{reader.family} is trained on masked tokens alone"
    return (
        task,
        Entry("pooler", paired, why),
        Entry("next_sentence", paired, why),
        Entry("mlm_transform", True, always(reader)),
    )


def _sequences(task: str, position_count: int) -> tuple[Entry, ...]:
    longest = _LONGEST[task]
    length = Entry("sequence_length", min(longest, position_count), f"at most {longest} of {position_count} positions")
    if task != "pretraining":
        return (length,)
    masked = max(1, length.whole * _MASKED_PERCENT // 100)
    return length, Entry("masked_token_count", masked, f"{_MASKED_PERCENT} % of them, as in [devlin2018]")


def _vit(reader: Reader) -> Imported:
    """Read a vision transformer that classifies."""
    dimensions = _dimensions(reader)
    image = reader.whole("image_size", ["image_size"], 224, most=MOST_WIDTH)
    patch = reader.whole("patch_size", ["patch_size"], 16, most=MOST_WIDTH)
    if reader.sound and image.whole % patch.whole:
        what = f"patches of {patch.value} pixels do not divide images of {image.value}"
        reader.complain(
            "patch_size" if "patch_size" in reader.config.data else "image_size", what, "correct one of the two"
        )
    channels = reader.whole("colours", ["num_channels"], _COLOURS).value
    if channels != _COLOURS:
        what = f"images of {channels} channels are not modelled"
        reader.complain("num_channels", what, f"write {_COLOURS}, or import the model as ONNX")
    if reader.flag("bias", "qkv_bias", default=True).value is False:
        what = "queries, keys and values without biases are not modelled in vision transformers"
        reader.complain("qkv_bias", what, "import the model as ONNX")
    other_classes = [name for name in architectures(reader.config) if name != "ViTForImageClassification"]
    if other_classes:
        reader.notes.append(f"the head of {other_classes[0]} is not modelled; classification is simulated")
    model = (*dimensions, image, patch, class_count(reader))
    data, notes = _dropout(reader, default=0.0), tuple(reader.notes)
    return Imported(reader.config, reader.family, "vit", "training to classify images", model, notes, data)


_ACTIVATIONS = {"relu": False, "gated-gelu": True}
_LENGTHS = (
    Entry("source_length", 512, "as in pre-training [raffel2020]"),
    Entry("target_length", 114, "the masked spans of the source, with their marks"),
)


def _t5(reader: Reader) -> Imported:
    """Read an encoder-decoder of the T5 family."""
    _refuse_encoder_alone(reader)
    layers = reader.whole("layer_count", ["num_layers", "num_hidden_layers"], 6, most=MOST_LAYERS)
    many, why = layers.whole, "as many as the encoder's"
    decoder = reader.whole("decoder_layer_count", ["num_decoder_layers"], many, null=many, why=why, most=MOST_LAYERS)
    model = (
        *(layers, decoder),
        reader.whole("hidden_size", ["d_model", "hidden_size"], 512, most=MOST_WIDTH),
        reader.whole("feed_forward_size", ["d_ff"], 2048, most=MOST_WIDTH),
        reader.whole("head_count", ["num_heads", "num_attention_heads"], 8, most=MOST_WIDTH),
        reader.whole("head_size", ["d_kv"], 64, most=MOST_WIDTH),
        reader.whole("vocabulary_size", ["vocab_size"], 32128, most=MOST_ROWS),
        _gated(reader),
        reader.flag("tied_embedding", "tie_word_embeddings", default=True),
    )
    dropout = reader.share("dropout", "dropout_rate", default=0.1)
    data = (*_LENGTHS, dropout, Entry("attention_dropout", dropout.value, dropout.origin))
    reader.notes.append("the learned distances of attention and the last norm of the encoder are not simulated")
    return Imported(reader.config, reader.family, "t5", "pre-training", model, tuple(reader.notes), data)


def _refuse_encoder_alone(reader: Reader) -> None:
    what, do = "encoders without a decoder are not modelled", "import the whole model"
    if not reader.flag("both", "is_encoder_decoder", default=True).value:
        reader.complain("is_encoder_decoder", what, do)
    if any(name.startswith("T5Encoder") for name in architectures(reader.config)):
        reader.complain("architectures", what, do)


def _gated(reader: Reader) -> Entry:
    """Return whether feed-forward blocks are gated; gated ones are simulated with gelu, the others with relu."""
    name = "feed_forward_proj"
    word = reader.word(name, "relu")
    gated = word.startswith("gated-")
    if word not in _ACTIVATIONS:
        reader.notes.append(f"{name} is `{word}`; {'gelu' if gated else 'relu'} is simulated")
    return Entry("gated", gated, name if name in reader.config.data else reader.absent(name))


FAMILIES = {
    "bert": ConfigFamily("Bert", _bert),
    "roberta": ConfigFamily("Roberta", _roberta),
    "vit": ConfigFamily("ViT", _vit),
    "t5": ConfigFamily("T5", _t5),
}
