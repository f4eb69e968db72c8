"""Predicted against published, calibration and hold-out apart."""

from podsim.validation.compare import validate
from podsim.validation.comparison import RowComparison

__all__ = ["RowComparison", "validate"]
