"""How far predictions are off though their inputs are right: the scatter of the model itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podsim.specs.scenario import Scenario

_WITHOUT: Final = 0.05
"""Of a software stack that gives none."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """What the model itself gets wrong.

    Attributes:
        sigma: One standard deviation of the logarithm of predicted over measured time.
        reasons: Sentences that say what widens it.
    """

    sigma: float
    reasons: tuple[str, ...] = ()


def scatter_of(spec: Scenario) -> Scatter:
    """The scatter of a scenario.

    Args:
        spec: The scenario, its division chosen.
    """
    return Scatter(float(spec.software.model_scatter or _WITHOUT))
