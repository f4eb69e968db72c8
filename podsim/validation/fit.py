"""Weighted least-squares fits of constants that act linearly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, slots=True)
class Solution:
    """The constants that fit best."""

    values: tuple[float, ...]
    standard_errors: tuple[float | None, ...]
    correlations: tuple[tuple[float, ...], ...]


def least_squares(
    slopes: Sequence[Sequence[float]],
    targets: Sequence[float],
    weights: Sequence[float],
    *,
    weights_are_errors: bool = False,
) -> Solution:
    """Solve for the x with the least sum of squares of weight · (slopes · x - target).

    The covariance is s²·(AᵀA)⁻¹ with the weighted slopes A and s² the sum of squares over its degrees of freedom; s² is
    1 if `weights_are_errors`.
    """
    weight = np.array(weights)
    matrix, right = np.array(slopes) * weight[:, None], np.array(targets) * weight
    values, *_ = np.linalg.lstsq(matrix, right)
    inverse = np.linalg.pinv(matrix.T @ matrix)
    spread = np.sqrt(np.diag(inverse))
    products = np.outer(spread, spread)
    correlations = np.divide(inverse, products, out=np.eye(len(values)), where=products > 0)
    freedom = len(targets) - len(values)
    misses = matrix @ values - right
    errors: tuple[float | None, ...] = (None,) * len(values)
    if weights_are_errors or freedom > 0:
        scale = 1.0 if weights_are_errors else math.sqrt(misses @ misses / freedom)
        errors = tuple(map(float, scale * spread))
    return Solution(tuple(map(float, values)), errors, tuple(tuple(map(float, row)) for row in correlations))


_ALIKE = 0.95
"""Correlation beyond which two constants cannot be distinguished."""
PER_CONSTANT = 2
"""Independent configurations per constant from which on a fit is identified."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A refitted constant."""

    key: str
    committed: float  # value in the specification
    fitted: float  # best fit
    unit: str
    rows: str  # rows that it was fitted to
    standard_error: float | None = None  # of the fitted value; None with as many constants as rows
    correlations: tuple[tuple[str, float], ...] = ()
    configurations: int = 1  # independent configurations, or products, among the rows
    constants: int = 1  # constants that are fitted to these rows together, with this one

    @property
    def is_identified(self) -> bool:
        """True if there are configurations enough for all of these constants."""
        return self.configurations >= PER_CONSTANT * self.constants


def correlated(fits: Sequence[Fit], solution: Solution) -> tuple[Fit, ...]:
    """Return constants that were fitted together, each with its correlations to the others."""
    return tuple(
        replace(
            fit,
            correlations=tuple((other.key, r) for other, r in zip(fits, row, strict=True) if other is not fit),
            constants=len(fits),
        )
        for fit, row in zip(fits, solution.correlations, strict=True)
    )


def correlated_pairs(fits: Sequence[Fit]) -> Iterator[tuple[str, str, float]]:
    """Yield pairs of constants that the rows cannot distinguish, with their correlation."""
    seen = set()
    for fit in fits:
        for other, correlation in fit.correlations:
            if abs(correlation) > _ALIKE and (other, fit.key) not in seen:
                seen.add((fit.key, other))
                yield fit.key, other, correlation
