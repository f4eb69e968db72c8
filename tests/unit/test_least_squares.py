"""Weighted least squares against a line whose fit is known by hand."""

from __future__ import annotations

import math

import pytest

from podsim.validation.fit import least_squares


def test_a_line_through_three_points_by_hand() -> None:
    """Through (0, 0), (1, 1), (2, 1): slope 1/2, intercept 1/6; squares add up to 1/6, with one degree of freedom.

    (AᵀA)⁻¹ = ((5/6, -1/2), (-1/2, 1/2)), so the variances are 5/36 and 1/12, the correlation -√(3/5).
    """
    found = least_squares([[1, 0], [1, 1], [1, 2]], [0, 1, 1], [1, 1, 1])
    assert found.values == pytest.approx((1 / 6, 1 / 2))
    assert found.standard_errors == pytest.approx((math.sqrt(5) / 6, math.sqrt(1 / 12)))
    assert found.correlations[0][1] == pytest.approx(-math.sqrt(3 / 5))


def test_a_mean_of_unequal_weights_by_hand() -> None:
    """Weight 2 counts four times: (4·1 + 6)/5 = 2."""
    assert least_squares([[1], [1]], [1, 6], [2, 1]).values == pytest.approx((2,))


def test_as_many_constants_as_equations_have_no_error() -> None:
    found = least_squares([[1, 0], [1, 1]], [3, 5], [1, 1])
    assert found.values == pytest.approx((3, 2))
    assert found.standard_errors == (None, None)
