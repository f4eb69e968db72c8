"""What an operation costs, by kind of work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(frozen=True, slots=True)
class Account:
    """Tile cycles of an operation or a sequence of them, by kind."""

    matmul: float = 0.0  # the matrix unit and its weight loads [cycles]
    vector: float = 0.0  # elementwise work, pools, sorts, rows of tables and random numbers [cycles]
    reduction: float = 0.0  # sums of partial results [cycles]
    exchange: float = 0.0  # data on the on-chip exchange [cycles]
    rearrange: float = 0.0  # copies that change a layout, with their exchange [cycles]
    superstep: float = 0.0  # sync, exchange prologue and launch, once per superstep [cycles]
    all_reduce: float = 0.0  # small sums over neighbouring replicas [cycles]

    @property
    def cycles(self) -> float:
        """Cycles of all kinds together. [cycles]"""
        compute = self.matmul + self.vector + self.reduction
        return compute + self.exchange + self.rearrange + self.superstep + self.all_reduce

    def parts(self) -> tuple[tuple[str, float], ...]:
        """Every kind that is not zero, with its time. [cycles]"""
        return tuple([pair for pair in zip(_KINDS, _cycles_by_kind(self), strict=True) if pair[1]])

    def __add__(self, other: Account) -> Account:
        """Kind by kind."""
        return Account(
            self.matmul + other.matmul,
            self.vector + other.vector,
            self.reduction + other.reduction,
            self.exchange + other.exchange,
            self.rearrange + other.rearrange,
            self.superstep + other.superstep,
            self.all_reduce + other.all_reduce,
        )

    def times(self, factor: float) -> Account:
        """The same work `factor` times."""
        return Account(*[cycles * factor for cycles in _cycles_by_kind(self)])


_KINDS = tuple(field.name for field in fields(Account))
_cycles_by_kind = attrgetter(*_KINDS)


def total(accounts: Iterable[Account]) -> Account:
    """Sum of accounts."""
    result = Account()
    for account in accounts:
        result += account
    return result
