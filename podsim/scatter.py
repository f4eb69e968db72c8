"""What the model itself gets wrong: the scatter of all times of a run, beside its uncertain inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podsim.specs.scenario import Scenario

_UNKNOWN: Final = 0.05


@dataclass(frozen=True, slots=True)
class Scatter:
    """How far all times of a run may be off together.

    Attributes:
        sigma: Standard deviation of the logarithm of the common factor.
        reasons: Why it is as wide as it is.
    """

    sigma: float
    reasons: tuple[str, ...] = ()


def scatter_of(spec: Scenario) -> Scatter:
    """The scatter of a run of a scenario.

    Args:
        spec: The scenario, its division chosen.
    """
    return Scatter(float(spec.software.model_scatter or _UNKNOWN))
