"""How far predictions are off though their inputs are right: the errors of whole runs that constants are fitted to.

What a fit leaves over is due to the model, and to measuring. Rows that are met exactly, since as many constants are
fitted to them as there are rows, tell nothing; neither do hold-out rows, which no constant may depend on.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from podsim.validation.comparison import Comparison
from podsim.validation.reference_data import CALIBRATION

_CONSTANTS = {"ResNet-50 weight update": 1, "published throughput": 2, "published text generation": 2}
"""Groups of whole runs with more calibration rows than constants that are fitted to them, and how many those are."""
_NORMAL = statistics.NormalDist().inv_cdf(0.75)
"""Median size of a normal error, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """What fits leave over.

    Attributes:
        rows: How many rows.
        constants: How many constants are fitted to them.
        scatter: Their robust standard deviation; None if no row is left beside the constants.
    """

    rows: int
    constants: int
    scatter: float | None


def residuals(comparisons: Sequence[Comparison]) -> Residuals:
    """The median size of the errors as a standard deviation, widened by what the fit takes out of them.

    Args:
        comparisons: All rows; those of other roles are left out.
    """
    groups = {row.group for row in comparisons if row.role == CALIBRATION} & set(_CONSTANTS)
    chosen = [row for row in comparisons if row.role == CALIBRATION and row.group in groups]
    count, constants = len(chosen), sum(_CONSTANTS[group] for group in groups)
    if count <= constants:
        return Residuals(count, constants, None)
    middle = statistics.median(abs(math.log(row.predicted / row.published)) for row in chosen)
    return Residuals(count, constants, middle / _NORMAL * math.sqrt(count / (count - constants)))
