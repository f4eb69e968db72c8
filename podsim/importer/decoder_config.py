"""What decoders of Hugging Face Transformers have in common. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from podsim.importer.imported import Imported
from podsim.importer.reader import Entry, Reader


def decoder(reader: Reader, entries: tuple[Entry, ...], positions: Entry, *, bind: bool) -> Imported:
    """A decoder.

    Args:
        reader: What it was read with.
        entries: Keys under `model`.
        positions: Tokens that it has positions for.
        bind: Whether it can take no more than those.
    """
    notes = tuple(reader.notes)
    return Imported(reader.config, reader.family, "decoder", "text generation", entries, notes, (), positions, bind)
