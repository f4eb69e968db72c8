"""What decoders of Hugging Face Transformers have in common. Source: [hf_transformers] for names and defaults."""

from __future__ import annotations

from podsim.importer.imported import Imported
from podsim.importer.reader import Entry, Reader
from podsim.specs.wording import shown

_LONGEST = 1024
_FUNCTIONS = {"silu": "swish", "swish": "swish", "relu": "relu"}


def activation(reader: Reader, name: str, usual: str, implied: str = "gelu") -> tuple[Entry, ...]:
    """The key of the function, unless it is implied; one that is not known is noted.

    Args:
        reader: Reads the file.
        name: Key of the file.
        usual: What the library takes if the file leaves it out.
        implied: What a scenario takes that leaves it out.
    """
    word = reader.word(name, usual)
    function = _function(word)
    if function is None:
        function = _function(usual) or implied
        reader.notes.append(f"not modelled: {name} {shown(word)}; {function} is simulated")
    origin = name if name in reader.config.data else reader.absent(name)
    return () if function == implied else (Entry("activation", function, origin),)


def _function(word: str) -> str | None:
    """The function of a name; all approximations of gelu cost the same."""
    return "gelu" if "gelu" in word else _FUNCTIONS.get(word)


def decoder(
    reader: Reader, entries: tuple[Entry, ...], positions: Entry, dropout: tuple[Entry, Entry], *, bind: bool
) -> Imported:
    """A decoder.

    Args:
        reader: What it was read with.
        entries: Keys under `model`.
        positions: Tokens that it has positions for.
        dropout: In training, of blocks and of attention.
        bind: Whether it can take no more tokens than it has positions for.
    """
    length = min(_LONGEST, positions.whole)
    sequence = Entry("sequence_length", length, f"at most {_LONGEST} of {positions.value} positions")
    return Imported(
        config=reader.config,
        family=reader.family,
        kind="decoder",
        purpose="pre-training",
        model=entries,
        notes=tuple(reader.notes),
        data=(sequence, *dropout),
        positions=positions,
        positions_bind=bind,
    )
