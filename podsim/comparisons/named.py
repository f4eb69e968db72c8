"""What a word of the command line stands for: a scenario, a variant of one, a result in a file, or a revision."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podsim.comparisons.result_file import SUFFIX
from podsim.comparisons.revision import Revision, revision_of
from podsim.errors import PodsimError, SpecError
from podsim.specs import variant_names
from podsim.specs.library import data_root, find
from podsim.specs.wording import known_here

_AT: Final = re.compile(r"@(?!\{)")
"""Between parts of a name; `HEAD@{1}` is one part."""
_KIND: Final = "scenario"
_YAML: Final = ("", ".yaml", ".yml")
_MOST_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Named:
    """A word of the command line, and its meaning.

    Attributes:
        label: The word.
        taken: What it is taken for.
        path: A file, or the name of a shipped scenario.
        variant: One of its variants.
        revision: The revision at which it is meant; as it is now if left out.
        notes: What else it could have meant.
    """

    label: str
    taken: str
    path: str
    variant: str | None = None
    revision: Revision | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_result(self) -> bool:
        """True for a result in a file, rather than something to simulate."""
        return Path(self.path).suffix.lower() == SUFFIX


def named(word: str) -> Named:
    """The meaning of a word; nothing of it is simulated or read yet.

    A file of this name comes first, then a variant, then a revision.

    Raises:
        PodsimError: It stands for nothing.
    """
    parts = _AT.split(word)
    if len(parts) == 1 or _is_file(word):
        return Named(word, _scenario(word), word)
    if len(parts) > _MOST_PARTS or not all(parts):
        do = "write `NAME@VARIANT`, `NAME@REVISION` or `NAME@VARIANT@REVISION`"
        raise PodsimError("this is no name with a variant or a revision", where=word, do=do)
    if len(parts) == _MOST_PARTS:
        path, variant, name = parts
        revision = revision_of(_files(path), name)
        return Named(word, f"variant {variant} of {path} at {revision.text}", path, variant, revision)
    path, name = parts
    variants = _variants(path)
    if name in variants:
        return Named(word, f"variant {name} of {path}", path, name, notes=_also(path, name))
    try:
        revision = revision_of(_files(path), name)
    except PodsimError as error:
        raise _neither(path, name, variants, error) from None
    return Named(word, f"{path} at {revision.text}", path, revision=revision)


def _is_file(word: str) -> bool:
    return _found(word) is not None


def _found(word: str) -> Path | None:
    try:
        return find(word, _KIND, ())
    except SpecError:
        return None


def _scenario(word: str) -> str:
    found = _found(word)
    shipped = found is not None and found.resolve().is_relative_to(data_root().resolve())
    return "shipped scenario" if shipped else "scenario in a file"


def _variants(path: str) -> Sequence[str]:
    """The variants of a scenario; none of a result, or of a file that is gone."""
    return variant_names(path) if _is_file(path) and Path(path).suffix.lower() != SUFFIX else ()


def _files(path: str) -> list[Path]:
    """Files that a name may mean; they need not exist any more."""
    found = _found(path)
    return [found] if found is not None else [Path(f"{path}{suffix}") for suffix in _YAML]


def _also(path: str, name: str) -> tuple[str, ...]:
    """A note if the name of a variant is that of a revision too."""
    try:
        revision_of(_files(path), name)
    except PodsimError:
        return ()
    return (f"{name} is a variant of {path} and a revision of its repository; the variant is taken",)


def _neither(path: str, name: str, variants: Sequence[str], error: PodsimError) -> PodsimError:
    """The error of what is neither a variant nor a revision."""
    known = f"{path} has no variant `{name}`" if _is_file(path) else f"no scenario `{path}` was found"
    what = f"{known}; as a revision: {error.message}"
    do = known_here(name, variants, error.do or "name a revision") if variants else error.do
    return PodsimError(what, where=f"{path}@{name}", do=do)
