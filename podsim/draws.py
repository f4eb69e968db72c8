"""How often uncertain inputs of a run are drawn from their ranges, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from podsim.errors import PodsimError

MOST_DRAWS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Draws:
    """How often inputs are drawn.

    Attributes:
        count: Draws, from 1 to 1,000,000.
        seed: Seed of the draws, not negative.
    """

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn.

        Raises:
            PodsimError: There are too few or too many draws, or the seed is negative.
        """
        if not 1 <= self.count <= MOST_DRAWS:
            what = f"{self.count:,} draws of the uncertain inputs are not possible"
            raise PodsimError(what, do=f"draw from 1 to {MOST_DRAWS:,} times, for example 200")
        if self.seed < 0:
            raise PodsimError(f"the seed {self.seed} is negative", do="use 0 or a positive whole number")


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What came of the draws.

    Attributes:
        draws: How many there were.
        seed: Seed of the draws.
        impossible: Draws whose run is impossible, such as those in which the model does not fit.
        drawn: Keys of the inputs that were drawn.
        held: Keys of those that kept their values, since every product would have to be planned anew.
        metrics: `p10`, `p50` and `p90` of each metric: the value that this share of draws does not exceed.
        model_scatter: Standard deviation of the factor common to all times of a draw, which stands for what the model
            itself gets wrong; None where the software stack gives none.
    """

    draws: int
    seed: int
    impossible: int
    drawn: tuple[str, ...]
    held: tuple[str, ...]
    metrics: Mapping[str, Mapping[str, float]]
    model_scatter: float | None = None
