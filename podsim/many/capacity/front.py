"""What no other option beats in two figures at once, and what twice the IPUs give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from podsim.many.capacity.option import Option
from podsim.metrics import COST, ENERGY, TIME, metric_of


def value(option: Option, figure: str) -> float | None:
    """A figure of an option; None if it has none."""
    found: Any = (option.figures or {}).get(figure)
    return float(found) if isinstance(found, (int, float)) else None


def pareto_front(options: Sequence[Option], first: str, second: str) -> list[Option]:
    """Options that no other beats in one figure without losing in the other, by the first figure.

    Args:
        options: Those to choose from.
        first: A figure.
        second: Another.
    """
    placed = [
        (metric_of(first).rank(a), metric_of(second).rank(b), place)
        for place, each in enumerate(options)
        if (a := value(each, first)) is not None and (b := value(each, second)) is not None
    ]
    front: list[Option] = []
    best = float("inf")
    for _, other, place in sorted(placed):
        if other < best:
            front.append(options[place])
            best = other
    return front


@dataclass(frozen=True, slots=True)
class Doubling:
    """What twice the IPUs give.

    Attributes:
        small: The option with fewer IPUs.
        large: The one with twice as many.
        ratios: Figures of the large one ÷ those of the small one.
    """

    small: Option
    large: Option
    ratios: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {"from": self.small.label, "to": self.large.label, "ratios": self.ratios}


def doublings(options: Sequence[Option], objective: str) -> Iterator[Doubling]:
    """Pairs of options alike but for the number of their IPUs, of which one has twice as many.

    Args:
        options: Those with figures.
        objective: The figure that counts.
    """
    for small in options:
        for large in options:
            doubled = large.ipu_count == 2 * small.ipu_count and _used(large) > _used(small)
            if doubled and _kind(large) == _kind(small):
                names = dict.fromkeys((objective, TIME, COST, ENERGY))
                ratios = {
                    name: b / a for name in names if (a := value(small, name)) and (b := value(large, name)) is not None
                }
                yield Doubling(small, large, ratios)


def _used(option: Option) -> int:
    return sum(part.used for part in option.parts)


def _kind(option: Option) -> tuple[Any, ...]:
    """All but the size: chip and machine by the name of the pod without its number, division, values."""
    family = "".join(letter for letter in option.title if not letter.isdigit())
    return family, option.division, tuple(option.values.items())
