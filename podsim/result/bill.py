"""Cost: what is fixed, a lease or what a purchase loses in value, apart from what is used, energy.

What is fixed is paid all the time, and work has to pay for the time without work too: at a duty cycle d, an hour of
work pays for 1/d hours, and for the energy that idle machines draw in 1/d - 1 hours.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from podsim.result.power import Energy, Meter, WorkDone
from podsim.scenario.costs import LIST, PARTITION, POD, CostSpec
from podsim.scenario.quantity import last_day

HOURS_PER_YEAR: Final = 12 * 730
"""Of twelve months of 730 hours."""
_SECONDS_PER_HOUR: Final = 3600
_W_PER_KW: Final = 1000
_MILLION: Final = 1_000_000
_COUNTED: Final = ("sample", "token", "request")
_OLD_DAYS: Final = 90
_TODAY: Final = "SOURCE_DATE_EPOCH"
_MOST_DIGITS: Final = 11  # of seconds, until the year 5138


@dataclass(frozen=True, slots=True)
class Cost:
    """What a result costs, in the currency of its prices: machines whose IPUs are in use, and what they draw."""

    prices: CostSpec
    meter: Meter
    work: WorkDone
    energy: Energy | None

    @property
    def currency(self) -> str:
        """Three letters."""
        return next(price.currency for price in self.prices.prices_on(self.meter.system).values())

    @property
    def price_per_ipu_hour(self) -> float | None:
        """What is fixed, for an IPU and an hour with or without work; None where energy alone has a price."""
        prices, system = self.prices, self.meter.system
        if prices.price_per_ipu_hour is not None:
            return float(prices.price_per_ipu_hour)
        if prices.purchase is None or prices.years is None:
            return None
        bought = float(prices.prices_on(system)["purchase"])
        whole = bought * (system.whole_machine_count if prices.purchase == LIST else 1)
        ipu_count = system.whole_machine_count * int(system.machine.ipu_count)
        return whole * (1 + float(prices.overhead)) / (prices.years * HOURS_PER_YEAR * ipu_count)

    @property
    def leased_ipu_count(self) -> int:
        """IPUs whose fixed price is paid: those of machines in use, of the partition, or of the whole pod."""
        system = self.meter.system
        counts = {PARTITION: int(system.machine_count), POD: system.whole_machine_count}
        return counts.get(self.prices.lease, self.meter.machine_count) * int(system.machine.ipu_count)

    @property
    def fixed_per_hour(self) -> float | None:
        """What is fixed, for an hour of work."""
        price = self.price_per_ipu_hour
        return None if price is None else price * self.leased_ipu_count / float(self.prices.duty_cycle)

    @property
    def energy_per_hour(self) -> float | None:
        """Energy of an hour of work, and of the time without work beside it."""
        return self._energy_for(1.0, self.energy.mean_power_w) if self.energy else None

    @property
    def per_hour(self) -> float | None:
        """An hour of work: all that has a price."""
        return _sum(self.fixed_per_hour, self.energy_per_hour)

    @property
    def run_hours(self) -> float | None:
        """Length of the run, if it has an end. [h]"""
        return self.work.run_s / _SECONDS_PER_HOUR if self.work.run_s else None

    @property
    def fixed_per_run(self) -> float | None:
        """What is fixed, for the run."""
        hours, fixed = self.run_hours, self.fixed_per_hour
        return None if hours is None or fixed is None else hours * fixed

    @property
    def energy_per_run(self) -> float | None:
        """Energy of the run, and of the time without work beside it."""
        hours = self.run_hours
        return self._energy_for(hours, self.energy.run_power_w) if hours and self.energy else None

    @property
    def per_run(self) -> float | None:
        """The run: all that has a price; None if it has no end."""
        return _sum(self.fixed_per_run, self.energy_per_run)

    @property
    def per_million(self) -> dict[str, float]:
        """A million of what is done, for example of a `sample`, while the work goes on."""
        per_hour, rates = self.per_hour, self.work.rates
        if per_hour is None:
            return {}
        counted = ((name, rates.get(name)) for name in _COUNTED)
        return {name: _MILLION * per_hour / (_SECONDS_PER_HOUR * rate) for name, rate in counted if rate}

    def _energy_for(self, hours: float, power_w: float) -> float | None:
        price = self.prices.energy_price
        if self.energy is None or price is None:
            return None
        idle_hours = hours * (1 / float(self.prices.duty_cycle) - 1)
        return (hours * power_w + idle_hours * self.energy.idle_power_w) / _W_PER_KW * float(price)

    def to_dict(self) -> dict[str, float | str | None]:
        """Plain values in a fixed order of keys."""
        return {
            "currency": self.currency,
            "price_per_ipu_hour": self.price_per_ipu_hour,
            "ipu_count": self.leased_ipu_count,
            "duty_cycle": float(self.prices.duty_cycle),
            "fixed_per_hour": self.fixed_per_hour,
            "energy_per_hour": self.energy_per_hour,
            "per_hour": self.per_hour,
            "run_ipu_hours": None if self.run_hours is None else self.run_hours * self.leased_ipu_count,
            "fixed_per_run": self.fixed_per_run,
            "energy_per_run": self.energy_per_run,
            "per_run": self.per_run,
            **{f"per_million_{name}s": cost for name, cost in self.per_million.items()},
        }


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def today() -> date:
    """Today's date; that of the variable `SOURCE_DATE_EPOCH`, seconds since 1970, where it is set."""
    fixed = os.environ.get(_TODAY, "")
    is_set = fixed.isdecimal() and len(fixed) <= _MOST_DIGITS
    return datetime.fromtimestamp(int(fixed), UTC).date() if is_set else date.today()


def price_warnings(prices: CostSpec | None, meter: Meter, on: date) -> Iterator[str]:
    """Prices that are old, and energy whose price is of no use."""
    for key, price in prices.prices_on(meter.system).items() if prices else ():
        written = price.provenance.date or (prices.date if prices else None)
        age_days = (on - last_day(written)).days if written else 0
        if age_days > _OLD_DAYS:
            what = f"cost.{key}: {price.provenance.text} is a price of {written}, {age_days:,} days old"
            yield f"{what}; give one of today, with its `date`"
    if prices and prices.energy_price is not None and meter.missing:
        yield f"cost.energy_price has no effect: {' and '.join(meter.missing)} is not given"
