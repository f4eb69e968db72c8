"""Limits on errors, for pipelines that fail when predictions get worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from podsim.validation.comparison import Comparison


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """A limit, and the error that it is held against.

    Attributes:
        what: `mean error` or `worst error`.
        value: The error: the mean of the sizes, or the largest with its sign.
        limit: What its size may be at most.
        rows: What it is an error of.
    """

    what: str
    value: float
    limit: float
    rows: str

    @property
    def is_kept(self) -> bool:
        """True if the error is within the limit."""
        return abs(self.value) <= self.limit

    def __str__(self) -> str:
        """One line for a reader."""
        value = f"{self.value:+.1%}" if self.what == "worst error" else f"{self.value:.1%}"
        verdict = "within" if self.is_kept else "beyond"
        return f"{self.what} {value} ({self.rows}): {verdict} {100 * self.limit:g}%"


def verdicts_on(rows: Sequence[Comparison], mean: float | None, worst: float | None) -> tuple[LimitVerdict, ...]:
    """Limits on the errors of all rows together.

    Args:
        rows: What is looked at, one row or more.
        mean: What the mean of the sizes of the errors may be; None for no limit.
        worst: What the size of the largest error may be; None for no limit.
    """
    found = []
    if mean is not None:
        average = math.fsum(abs(row.error) for row in rows) / len(rows)
        found.append(LimitVerdict("mean error", average, mean, f"{len(rows)} rows"))
    if worst is not None:
        largest = max(rows, key=lambda row: abs(row.error))
        found.append(LimitVerdict("worst error", largest.error, worst, f"{largest.group}, {largest.name}"))
    return tuple(found)
