"""T5 of Hugging Face Transformers. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from podsim.importer.imported import MOST_LAYERS, MOST_ROWS, MOST_WIDTH, ConfigFamily, Imported, architectures
from podsim.importer.reader import Entry, Reader

_ACTIVATIONS = {"relu": False, "gated-gelu": True}
_LENGTHS = (
    Entry("source_length", 512, "as in pre-training [raffel2020]"),
    Entry("target_length", 114, "what is left out of them there, with its marks"),
)


def _t5(reader: Reader) -> Imported:
    """An encoder-decoder of the T5 family."""
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
    rate = reader.share("dropout", "dropout_rate", default=0.1)
    data = (*_LENGTHS, rate, Entry("attention_dropout", rate.value, rate.origin))
    reader.notes.append("the learned distances of attention and the last norm of the encoder are not simulated")
    return Imported(reader.config, reader.family, "t5", "pre-training", model, tuple(reader.notes), data)


def _refuse_encoder_alone(reader: Reader) -> None:
    what, do = "encoders without a decoder are not modelled", "import the whole model"
    if not reader.flag("both", "is_encoder_decoder", default=True).value:
        reader.complain("is_encoder_decoder", what, do)
    if any(name.startswith("T5Encoder") for name in architectures(reader.config)):
        reader.complain("architectures", what, do)


def _gated(reader: Reader) -> Entry:
    """Whether feed-forward blocks are gated; those that are have gelu, the others relu."""
    name = "feed_forward_proj"
    word = reader.word(name, "relu")
    gated = word.startswith("gated-")
    if word not in _ACTIVATIONS:
        reader.notes.append(f"{name} is `{word}`; {'gelu' if gated else 'relu'} is simulated")
    given = name in reader.config.data
    return Entry("gated", gated, name if given else f"{name} is not in the file: default of {reader.family}")


FAMILIES = {"t5": ConfigFamily("T5", _t5)}
