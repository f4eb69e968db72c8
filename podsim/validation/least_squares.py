"""Constants that act linearly, fitted by weighted least squares, with standard errors and correlations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Solution:
    """What fits best.

    Attributes:
        values: The constants.
        standard_errors: Of each; None where there are no more equations than constants.
        correlations: Between the constants, row by row; empty without standard errors. Near 1 or -1 the equations
            cannot tell two constants apart.
    """

    values: tuple[float, ...]
    standard_errors: tuple[float | None, ...]
    correlations: tuple[tuple[float, ...], ...]


def least_squares(slopes: Sequence[Sequence[float]], targets: Sequence[float], weights: Sequence[float]) -> Solution:
    """The x with the least sum of squares of weight · (slopes · x - target).

    The covariance is s²·(AᵀA)⁻¹ with the weighted slopes A and s² the sum of squares over its degrees of freedom.

    Args:
        slopes: A row of one slope per constant for each equation.
        targets: What each equation should come to.
        weights: Weight of each equation, for example one over what was measured.
    """
    weight = np.array(weights)
    matrix, right = np.array(slopes) * weight[:, None], np.array(targets) * weight
    values, *_ = np.linalg.lstsq(matrix, right)
    freedom = len(targets) - len(values)
    if freedom < 1:
        return Solution(tuple(map(float, values)), (None,) * len(values), ())
    misses = matrix @ values - right
    covariance = misses @ misses / freedom * np.linalg.inv(matrix.T @ matrix)
    errors = np.sqrt(np.diag(covariance))
    correlations = covariance / np.outer(errors, errors) if errors.all() else np.eye(len(values))
    return Solution(
        tuple(map(float, values)), tuple(map(float, errors)), tuple(tuple(map(float, row)) for row in correlations)
    )
