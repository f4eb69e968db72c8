"""Words of imported scenarios."""

from __future__ import annotations

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """Words with commas and an `and`.

    >>> listed(["1", "2", "4"])
    '1, 2 and 4'
    """
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def megabytes(byte_count: int) -> str:
    """A size in decimal megabytes.

    >>> megabytes(940_572_672)
    '941 MB'
    """
    return f"{byte_count / 1e6:,.0f} MB"
