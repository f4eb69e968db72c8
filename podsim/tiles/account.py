"""Tile cycles of operations, by kind of work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(frozen=True, slots=True)
class Account:
    """Tile cycles of an operation or a sequence of them, by kind."""

    matmul: float = 0.0  # matrix unit and its weight loads [cycles]
    vector: float = 0.0  # elementwise work, pools, sorts, table look-ups and random numbers [cycles]
    reduction: float = 0.0  # sums of partial results [cycles]
    exchange: float = 0.0  # data transfers on the on-chip exchange [cycles]
    rearrange: float = 0.0  # copies that change a layout, with their exchange [cycles]
    superstep: float = 0.0  # sync, exchange prologue and launch of all supersteps [cycles]
    all_reduce: float = 0.0  # small sums over neighbouring replicas [cycles]

    @property
    def cycles(self) -> float:
        """Total cycles of all kinds. [cycles]"""
        compute = self.matmul + self.vector + self.reduction
        return compute + self.exchange + self.rearrange + self.superstep + self.all_reduce

    def parts(self) -> tuple[tuple[str, float], ...]:
        """Return the name and cycles of every kind that is not zero. [cycles]"""
        return tuple([pair for pair in zip(_KINDS, cycles_by_kind(self), strict=True) if pair[1]])

    def __add__(self, other: Account) -> Account:
        """Return the sum of two accounts, kind by kind."""
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
        """Return the account of the same work done `factor` times."""
        return Account(*[cycles * factor for cycles in cycles_by_kind(self)])


_KINDS = tuple(field.name for field in fields(Account))
cycles_by_kind = attrgetter(*_KINDS)
"""Reader of the cycles of an account, in the order of its kinds. [cycles]"""


def total(accounts: Iterable[Account]) -> Account:
    """Return the sum of accounts."""
    result = Account()
    for account in accounts:
        result += account
    return result
