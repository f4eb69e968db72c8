"""Names of the blocks of transformers that divisions over IPUs speak of."""

from typing import Final

EMBEDDING: Final = "embedding"
HEAD: Final = "head"
ENCODER: Final = ("attention", "feed_forward")
"""The blocks of a layer; those of an encoder, where there is a decoder, too."""
DECODER: Final = ("decoder_layer",)
"""The block of a layer of a decoder behind an encoder: one, since pipeline stages hold whole ones."""
