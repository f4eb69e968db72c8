"""Constants that act linearly, fitted by weighted least squares, with standard errors and correlations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Solution:
    """What fits best.

    Attributes:
        values: The constants.
        standard_errors: Of each; None where there are no more equations than constants and no sizes of errors.
        correlations: Between the constants, row by row. Near 1 or -1 the equations cannot tell two constants apart.
    """

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
    """The x with the least sum of squares of weight · (slopes · x - target).

    The covariance is s²·(AᵀA)⁻¹ with the weighted slopes A and s² the sum of squares over its degrees of freedom; s² is
    1 where the weights say how large errors are.

    Args:
        slopes: A row of one slope per constant for each equation.
        targets: What each equation should come to.
        weights: Weight of each equation, for example one over what was measured.
        weights_are_errors: Whether each is one over the standard error of its equation.
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
