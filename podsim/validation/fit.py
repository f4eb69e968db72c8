"""A constant that has been fitted again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from podsim.validation.least_squares import Solution

_ALIKE = 0.95
"""Correlation beyond which rows do not tell two constants apart."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A refitted constant.

    Attributes:
        key: Its key path.
        committed: The value in the specification.
        fitted: The value that fits best.
        unit: Unit of both.
        rows: What it was fitted to.
        standard_error: Of the fitted value; None where there are as many constants as rows.
        correlations: Keys of the constants that were fitted to the same rows with it, and how far their errors go
            together: near 1 or -1, the rows tell what the two come to together, and not each.
    """

    key: str
    committed: float
    fitted: float
    unit: str
    rows: str
    standard_error: float | None = None
    correlations: tuple[tuple[str, float], ...] = ()


def correlated(fits: Sequence[Fit], solution: Solution) -> tuple[Fit, ...]:
    """Constants that were fitted together, each with its correlations to the others.

    Args:
        fits: The constants, in the order of the solution.
        solution: What fits best.
    """
    return tuple(
        replace(fit, correlations=tuple((other.key, r) for other, r in zip(fits, row, strict=True) if other is not fit))
        for fit, row in zip(fits, solution.correlations, strict=True)
    )


def alike(fits: Sequence[Fit]) -> Iterator[tuple[str, str, float]]:
    """Pairs of constants that the rows cannot tell apart, each once, with their correlation.

    Args:
        fits: All constants.
    """
    seen = set()
    for fit in fits:
        for other, correlation in fit.correlations:
            if abs(correlation) > _ALIKE and (other, fit.key) not in seen:
                seen.add((fit.key, other))
                yield fit.key, other, correlation
