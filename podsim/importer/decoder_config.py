"""What decoders of Hugging Face Transformers have in common. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from podsim.importer.imported import Imported
from podsim.importer.reader import Entry, Reader
from podsim.specs.wording import shown

_FUNCTIONS = {"silu": "swish", "swish": "swish", "relu": "relu"}


def activation(reader: Reader, name: str, usual: str) -> tuple[Entry, ...]:
    """The key of a function other than the usual one; one that is not known is noted."""
    word = reader.word(name, usual)
    function = _function(word)
    if function is None:
        reader.notes.append(f"not modelled: {name} {shown(word)}; {_function(usual)} is simulated")
    return () if function in (None, _function(usual)) else (Entry("activation", function, name),)


def _function(word: str) -> str | None:
    """The function of a name; all approximations of gelu cost the same."""
    return "gelu" if "gelu" in word else _FUNCTIONS.get(word)


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
