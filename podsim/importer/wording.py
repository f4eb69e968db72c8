"""Words of imported scenarios."""

from __future__ import annotations


def megabytes(byte_count: int) -> str:
    """A size in decimal megabytes.

    >>> megabytes(940_572_672)
    '941 MB'
    """
    return f"{byte_count / 1e6:,.0f} MB"
