"""Comparison of predictions with published figures, separately for calibration and hold-out rows."""

from podsim.validation.compare import validate
from podsim.validation.comparison import RowComparison

__all__ = ["RowComparison", "validate"]
