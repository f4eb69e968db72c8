"""Names of figures as readers know them."""

from __future__ import annotations

from typing import Final

from podsim.sweeps.table import unit_of

_ENDINGS: Final = {"s": "_s", "B": "_bytes", "W": "_w", "J": "_j"}


def label_of(figure: str) -> str:
    """A figure with its unit.

    >>> label_of("weight_update_s"), label_of("mfu"), label_of("throughput_samples_per_s")
    ('weight update [s]', 'mfu', 'throughput [samples/s]')
    """
    if figure.endswith("_per_s"):
        words, _, counted = figure.removesuffix("_per_s").rpartition("_")
        return f"{words.replace('_', ' ')} [{counted}/s]" if words else f"{counted}/s"
    unit = unit_of(figure)
    words = figure.removesuffix(_ENDINGS.get(unit or "", "")).replace("_", " ")
    return f"{words} [{unit}]" if unit else words


def words_of(figure: str) -> str:
    """A figure without its unit.

    >>> words_of("weight_update_s"), words_of("throughput_samples_per_s")
    ('weight update', 'throughput')
    """
    return label_of(figure).partition(" [")[0]


def in_title(words: str) -> str:
    """Words as they begin a line; only the first letter changes.

    >>> in_title("time to train of IPUs")
    'Time to train of IPUs'
    """
    return words[:1].upper() + words[1:]
