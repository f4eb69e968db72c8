"""One prediction beside one published figure, and errors of groups of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """A prediction and the figure it is held against.

    Attributes:
        group: What is compared, for example `BERT weight update`.
        name: The row, for example a scenario.
        predicted: The prediction.
        published: The published figure.
        unit: Unit of both.
        role: `calibration` or `hold-out`.
        source: Where the published figure comes from.
    """

    group: str
    name: str
    predicted: float
    published: float
    unit: str
    role: str
    source: str

    @property
    def error(self) -> float:
        """Predicted / published - 1."""
        return self.predicted / self.published - 1


@dataclass(frozen=True, slots=True)
class Summary:
    """Errors of a group.

    Attributes:
        group: What was compared.
        role: `calibration` or `hold-out`.
        count: Comparisons.
        bias: Mean of the signed errors.
        mean: Mean of the absolute errors.
        rms: Root of the mean square of the errors.
        worst: The largest absolute error, with its sign.
    """

    group: str
    role: str
    count: int
    bias: float
    mean: float
    rms: float
    worst: float


def summarize(comparisons: Sequence[Comparison]) -> tuple[Summary, ...]:
    """One summary per group and role, in order of first appearance."""
    groups: dict[tuple[str, str], list[float]] = {}
    for comparison in comparisons:
        groups.setdefault((comparison.group, comparison.role), []).append(comparison.error)
    return tuple(
        Summary(
            group,
            role,
            len(errors),
            math.fsum(errors) / len(errors),
            math.fsum(map(abs, errors)) / len(errors),
            math.sqrt(math.fsum(error**2 for error in errors) / len(errors)),
            max(errors, key=abs),
        )
        for (group, role), errors in groups.items()
    )
