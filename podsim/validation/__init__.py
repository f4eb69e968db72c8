"""Predicted against published, calibration and hold-out apart."""

from podsim.validation.compare import validate
from podsim.validation.comparison import Comparison

__all__ = ["Comparison", "validate"]
