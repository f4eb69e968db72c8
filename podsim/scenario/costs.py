"""Costs of a run: rent or purchase, energy, and the share of time in which the machines have work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import Spec
from podsim.scenario.quantity import APART, Day, Price, Priced, Quantity, Real

if TYPE_CHECKING:
    from podsim.scenario.hardware import System
    from podsim.scenario.scenario import Finding

LIST: Final = "list"
MACHINES: Final = "machines"
PARTITION: Final = "partition"
POD: Final = "pod"
_RENT, _BUY, _ENERGY = "price_per_ipu_hour", "purchase", "energy_price"
_NO_OVERHEAD: Any = "0 %"
_ALWAYS: Any = "100 %"
_Share = Annotated[Real, Quantity("share", ("0.1 %", "100 %")), APART]
_Overhead = Annotated[Real, Quantity("ratio", ("0 %", "10000 %"), usual=("0 %", "300 %")), APART]


class CostSpec(Spec):
    """Prices; parts without a price are left out of the cost."""

    price_per_ipu_hour: Annotated[Price | Any, Priced("1.5 USD", (("", 1.0), ("h", 1.0)))] | None = None
    """Price of renting one IPU for an hour."""
    purchase: Annotated[Price | Any, Priced("259600 USD", words=(LIST,))] | None = None
    """Purchase price of the whole pod, servers and switches included; `list` for the list price of its machines."""
    years: Annotated[float, Field(ge=0.1, le=100, allow_inf_nan=False)] | None = None
    """Years over which the purchase is written off."""
    overhead: _Overhead = _NO_OVERHEAD
    """Costs in addition to the purchase over these years, as a share of the price: room, cooling, people."""
    energy_price: Annotated[Price | Any, Priced("0.12 USD/kWh", (("kWh", 1.0), ("MWh", 1000.0)))] | None = None
    """Price of energy; left out where the rent includes it."""
    duty_cycle: _Share = _ALWAYS
    """Share of the time in which the machines have work; fixed costs are paid all the time."""
    lease: Literal["machines", "partition", "pod"] = MACHINES
    """Fixed price to pay: for the machines in use, for the whole partition, or for the whole pod."""
    date: Day | None = None
    """Date of the prices that have no date of their own."""

    @property
    def prices(self) -> dict[str, Price]:
        """Prices that the scenario gives, by key."""
        given = {key: getattr(self, key) for key in (_RENT, _BUY, _ENERGY)}
        return {key: price for key, price in given.items() if isinstance(price, Price)}

    def prices_on(self, system: System) -> dict[str, Price]:
        """Return all prices by key, including a list price."""
        listed = system.machine.list_price
        return self.prices | ({_BUY: listed} if self.purchase == LIST and listed is not None else {})

    @model_validator(mode="after")
    def _prices_go_together(self) -> CostSpec:
        if self.price_per_ipu_hour is not None and self.purchase is not None:
            raise BadValueError(f"`{_RENT}` and `{_BUY}` are both given", "keep one: machines are rented or bought")
        if self.price_per_ipu_hour is None and self.purchase is None and self.energy_price is None:
            raise BadValueError("no price is given", f"add `{_RENT}`, `{_BUY}` or `{_ENERGY}`, or leave `cost` out")
        if self.purchase is not None and self.years is None:
            raise BadValueError(f"`{_BUY}` is given without `years`", "add over how many it is written off, `years: 4`")
        for key in ("years", "overhead"):
            if self.purchase is None and key in self.model_fields_set and getattr(self, key):
                raise BadValueError(f"`{key}` is given, and nothing is bought", f"add `{_BUY}`, or leave `{key}` out")
        _one_currency(self.prices)
        return self

    def findings(self, system: System) -> Iterator[Finding]:
        """Yield a problem if a list price is not known, or is in another currency."""
        if self.purchase == LIST and system.machine.list_price is None:
            what, do = f"{system.machine.name} has no list price", f"write what it cost, `{_BUY}: 259600 USD`"
            yield ("cost", _BUY), what, do
        try:
            _one_currency(self.prices_on(system))
        except BadValueError as error:
            yield ("cost",), str(error), error.do or ""


def _one_currency(prices: dict[str, Price]) -> None:
    """Refuse prices in several currencies, since no rate of exchange is known."""
    currencies = {price.currency: f"{key} in {price.currency}" for key, price in prices.items()}
    if len(currencies) > 1:
        raise BadValueError(
            f"prices in several currencies: {', '.join(currencies.values())}", "give all prices in one currency"
        )
