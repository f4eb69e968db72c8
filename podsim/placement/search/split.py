"""Contiguous splits of a chain of blocks: least maximum, then the most even of those."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Costs = NDArray[Any]
Places = NDArray[np.int_]
_SLACK = 1 + 1e-9
_MOST_WAYS = 4_000_000
_FEWEST_STARTS = 16


@dataclass(frozen=True, slots=True)
class Split:
    """Where a chain is cut.

    Attributes:
        cuts: Boundaries of the parts in between: part k holds blocks from cut k up to cut k + 1; what
            lies before the first cut and after the last one belongs to the ends.
        cost: What was minimised.
    """

    cuts: tuple[int, ...]
    cost: float


def least_maximum(parts: Sequence[Costs], ends: Costs) -> Split | None:
    """The split whose dearest part is cheapest, by dynamic programming over the cuts.

    Args:
        parts: For each part in order, the cost of holding blocks `i` up to `j` at `[i, j]`; infinite
            where that is not possible.
        ends: The cost of holding what lies before `i` and behind `j` at `[i, j]`.

    Returns:
        The split, or None if there is none of finite cost.

    >>> one = np.array([[np.inf, 3, 5], [np.inf, np.inf, 2], [np.inf, np.inf, np.inf]])
    >>> whole = np.array([[np.inf, np.inf, 0], [np.inf] * 3, [np.inf] * 3])
    >>> least_maximum([one, one], whole)
    Split(cuts=(0, 1, 2), cost=3.0)
    """
    return _best(parts, ends, np.maximum)


def most_even(parts: Sequence[Costs], ends: Costs) -> Split | None:
    """Of the splits with the least maximum, the one with the least sum of squares; its cost is the maximum.

    The pipeline fills and drains faster when the other stages are short too.
    """
    least = least_maximum(parts, ends)
    if least is None:
        return None
    limit = least.cost * _SLACK
    squares = [np.where(costs <= limit, costs**2, np.inf) for costs in (*parts, ends)]
    even = _best(squares[:-1], squares[-1], np.add)
    return Split(even.cuts, least.cost) if even else least


def _best(parts: Sequence[Costs], ends: Costs, join: Any) -> Split | None:
    starts = np.flatnonzero(np.isfinite(ends).any(axis=1))
    most = max(_FEWEST_STARTS, _MOST_WAYS // len(ends) ** 2)
    if len(starts) > most:
        # Time and memory grow with starts x cuts x cuts; so long a chain is cut well enough on a coarser grid.
        starts = starts[np.linspace(0, len(starts) - 1, most).astype(int)]
    size = len(ends)
    reached = np.where(np.arange(size)[None, :] == starts[:, None], 0.0, np.inf)
    comes_from = []
    for costs in parts:
        ways = join(reached[:, :, None], costs[None, :, :])
        comes_from.append(ways.argmin(axis=1))
        reached = ways.min(axis=1)
    whole = join(reached, ends[starts])
    if not np.isfinite(whole).any():
        return None
    row, cut = np.unravel_index(int(whole.argmin()), whole.shape)
    cuts = [int(cut)]
    for step in reversed(comes_from):
        cuts.append(int(step[row, cuts[-1]]))
    return Split(tuple(reversed(cuts)), float(whole.min()))
