"""Names of the blocks of transformers, as used in layouts."""

from typing import Final

EMBEDDING: Final = "embedding"
HEAD: Final = "head"
ENCODER: Final = ("attention", "feed_forward")
"""Names of the blocks of a layer; in an encoder-decoder, of an encoder layer."""
DECODER: Final = ("decoder_layer",)
"""Name of the only block of a decoder layer after an encoder, since pipeline stages hold whole layers."""
