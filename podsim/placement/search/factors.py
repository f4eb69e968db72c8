"""Which numbers of replicas and micro-batches a batch allows."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from podsim.placement.cuts import stash_depth


def divisors(number: int, most: int) -> list[int]:
    """Divisors of a number up to `most`, smallest first.

    >>> divisors(12, 6)
    [1, 2, 3, 4, 6]
    """
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


def powers_of_two(most: int) -> Iterator[int]:
    """1, 2, 4, … up to `most`."""
    yield from (1 << exponent for exponent in range(most.bit_length()))


def accumulation(batch_size: int, *factors: int, stage_count: int) -> int | None:
    """Micro-batches per weight update, or None where they are not whole, or too few to fill the pipeline.

    >>> accumulation(1536, 2, 8, stage_count=9), accumulation(64, 2, 8, stage_count=9)
    (96, None)
    """
    whole, rest = divmod(batch_size, prod(factors))
    # As many as the first stage keeps in flight.
    return None if rest or whole < stash_depth(0, stage_count) else whole
