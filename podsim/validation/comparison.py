"""One prediction beside one published figure, figures without a prediction, and errors of groups."""

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
        blind: What the first version predicted before the figure was known, if it did; never computed again.
        scenarios: What is simulated for it; empty for a vertex or a product.
    """

    group: str
    name: str
    predicted: float
    published: float
    unit: str
    role: str
    source: str
    blind: float | None = None
    scenarios: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """Predicted / published - 1."""
        return self.predicted / self.published - 1


@dataclass(frozen=True, slots=True)
class NotRun:
    """A published figure that nothing is held against.

    Attributes:
        group: What would be compared.
        name: The row.
        published: The published figure.
        unit: Its unit.
        role: `calibration` or `hold-out`.
        source: Where it comes from.
        reason: Why there is no prediction.
        blind: What the first version predicted, if it did.
        scenarios: What would be simulated for it.
    """

    group: str
    name: str
    published: float
    unit: str
    role: str
    source: str
    reason: str
    blind: float | None = None
    scenarios: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """Every published figure at hand.

    Attributes:
        comparisons: Those with a prediction beside them.
        not_run: The others.
    """

    comparisons: tuple[Comparison, ...]
    not_run: tuple[NotRun, ...]

    @property
    def rows(self) -> tuple[Comparison | NotRun, ...]:
        """All of them."""
        return (*self.comparisons, *self.not_run)

    def only(self, role: str | None = None, groups: Sequence[str] = ()) -> Validation:
        """Rows of one role, and of groups whose name holds one of these texts; all if left out."""
        texts = [text.casefold() for text in groups]

        def asked(row: Comparison | NotRun) -> bool:
            of_group = not texts or any(text in row.group.casefold() for text in texts)
            return of_group and (role is None or row.role == role)

        return Validation(tuple(filter(asked, self.comparisons)), tuple(filter(asked, self.not_run)))


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
