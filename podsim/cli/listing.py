"""`podsim list`: the catalogue, or the part of it that was asked for; no parser is imported."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.errors import PodsimError
from podsim.scenario.catalogue import LISTS, Catalogue, catalogue


def listed(words: Sequence[str]) -> Catalogue:
    """All that is shipped, or the entries that contain all words.

    Raises:
        PodsimError: Nothing has.
    """
    found = catalogue().matching(words)
    if not any(getattr(found, each) for each in LISTS):
        what = f"nothing that is shipped has {' and '.join(f'`{word}`' for word in words)} in its name or description"
        raise PodsimError(what, do="use fewer or shorter words; `podsim list` shows all")
    return found
