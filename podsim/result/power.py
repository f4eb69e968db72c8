"""Power, energy and cost of a run, from the time by kind of its IPUs.

An IPU always consumes its idle power. In addition, every cycle of a working tile takes an energy (products, vectors and
exchange), and so does each operation of a product, by format. Transfers take a power, and waiting takes none. Energy
per cycle is constant, so power is proportional to the clock, at one voltage. A machine adds its power without IPUs, a
host server its power during runs, and a switch a constant power. Sources: [power_of_kernels] for a chip, idle and in
single kernels; [knowles2021] for FP16 operations. The power of a machine in training, [power_of_m2000], is a check.

Whole machines with IPUs in use count, with their share of the pod's host servers and switches. Fixed cost (lease or
depreciation) is paid all the time, so work has to pay for the time without work too. At a duty cycle d, an hour of work
pays for 1/d hours of fixed cost, and for the energy of idle machines in 1/d - 1 hours.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Final

from podsim.result.kinds import LINKS, OFF_CHIP, WAITING, kind_of
from podsim.scenario.assumptions import CERTAIN, default_bounds
from podsim.scenario.base import HardwareSpec
from podsim.scenario.costs import LIST, PARTITION, POD, CostSpec
from podsim.scenario.hardware import System
from podsim.scenario.quantity import Sourced, last_day, quantities

_CHIP, _MACHINE, _HOST, _POD = "machine.ipu.power", "machine.power", "host.power", "power"
_MATMUL: Final = "matmul"
_AT_WORK: Final = ("training", "evaluation")
"""Parts of a run in which IPUs work as in a weight update; in all other parts they wait."""
_HOURS_PER_YEAR: Final = 12 * 730  # twelve months of 730 hours
_SECONDS_PER_HOUR: Final = 3600
_W_PER_KW: Final = 1000
_MILLION: Final = 1_000_000
_COUNTED: Final = ("sample", "token", "request")
_OLD_DAYS: Final = 90
_MOST_DIGITS: Final = 11  # digits of the seconds since 1970, until the year 5138


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Work of the IPUs: time by kind, rates and parts of a run."""

    time_ps: Mapping[str, int]  # time by kind, mean over the IPUs in use
    rates: Mapping[str, float]  # rate by unit of work, for example `sample` [1/s]
    products: Mapping[str, float] = field(default_factory=dict)  # rate in products, by key of energy [FLOP/s]
    density: float = 1.0  # work done, relative to `time_ps`: more with several batches, less with idle copies
    run_parts: Mapping[str, float] = field(default_factory=dict)  # mean time of each part of a training run [s]
    run_s: float | None = None  # length of the run, if it has an end


@dataclass(frozen=True, slots=True)
class ComponentPower:
    """Power of each component. [W]"""

    ipus_w: float
    machines_w: float
    hosts_w: float
    switches_w: float

    @property
    def total_w(self) -> float:
        """Power of all components. [W]"""
        return self.ipus_w + self.machines_w + self.hosts_w + self.switches_w


@dataclass(frozen=True)
class Meter:
    """Machines whose power and price count: machines with IPUs in use, in copies of `ipus_per_copy` IPUs."""

    system: System
    ipus_used: int
    ipus_per_copy: int = 1

    @property
    def machine_count(self) -> int:
        """Number of machines with IPUs in use."""
        machines = self.system.machines_of(self.ipus_used // self.ipus_per_copy, self.ipus_per_copy)
        return min(machines, int(self.system.machine_count))

    @property
    def ipu_count(self) -> int:
        """Number of IPUs of these machines."""
        return self.machine_count * int(self.system.machine.ipu_count)

    @property
    def host_count(self) -> float:
        """Number of host servers, in proportion to these machines."""
        return self.share * self.system.host_count

    @property
    def share(self) -> float:
        """Share of the machines in the pod, and so of its host servers and switches."""
        return self.machine_count / self.system.whole_machine_count

    @cached_property
    def numbers(self) -> dict[str, tuple[Sourced, str]]:
        """Numbers that power depends on, with their dimensions, by key within the pod."""
        given = ((path, power) for path, power in self._powers.items() if power is not None)
        found = (number for path, power in given for number in quantities(power, path))
        return {key: (number, q.dimension) for key, number, declared in found if (q := declared.quantity)}

    @property
    def missing(self) -> list[str]:
        """Missing sections that the power depends on."""
        return [f"system.{path}" for path, power in self._powers.items() if power is None and path != _POD]

    @property
    def _powers(self) -> dict[str, HardwareSpec | None]:
        system, machine = self.system, self.system.machine
        return {_CHIP: machine.ipu.power, _MACHINE: machine.power, _HOST: system.host.power, _POD: system.power}


@dataclass(frozen=True)
class Energy:
    """Power and energy of a result, computed on first use."""

    meter: Meter
    work: WorkDone
    moved: Mapping[str, float] = field(default_factory=dict)  # replaced numbers of the meter, by key

    @cached_property
    def _numbers(self) -> dict[str, float]:
        return {key: float(number) for key, (number, _) in self.meter.numbers.items()} | dict(self.moved)

    def dynamic_in_w(self, kind: str) -> float:
        """Return the power of an IPU above idle in a kind of time, including work for other batches. [W]"""
        return self._in_w(kind) * self.work.density

    def _in_w(self, kind: str) -> float:
        numbers, ipu = self._numbers, self.meter.system.machine.ipu
        family = kind_of(kind).family
        if family == WAITING:
            return 0.0
        if family in (LINKS, OFF_CHIP):
            return numbers[f"{_CHIP}.transfer"]
        at_work_w = numbers[f"{_CHIP}.tile_cycle"] * ipu.tile.count * float(ipu.clock_hz)
        if kind != _MATMUL:
            return at_work_w
        energies, products = {f"{_CHIP}.fp8_flop": numbers[f"{_CHIP}.half_flop"] / 2, **numbers}, self.work.products
        return at_work_w + math.fsum(per_s * energies[f"{_CHIP}.{name}"] for name, per_s in products.items())

    def _component_power(self, dynamic_w: float, *, hosts_work: bool = True) -> ComponentPower:
        """Return the power of each component if an IPU in use consumes `dynamic_w` above idle power on average."""
        meter, numbers = self.meter, self._numbers
        switches = numbers.get(f"{_POD}.switch_count", 0) * numbers.get(f"{_POD}.switch", 0.0)
        return ComponentPower(
            meter.ipu_count * numbers[f"{_CHIP}.idle"] + meter.ipus_used * dynamic_w,
            meter.machine_count * numbers[f"{_MACHINE}.without_ipus"],
            meter.host_count * (numbers[f"{_HOST}.busy"] if hosts_work else numbers[f"{_HOST}.idle"]),
            meter.share * switches,
        )

    def power_w(self, dynamic_w: float) -> float:
        """Return total power if an IPU in use consumes `dynamic_w` above idle power on average. [W]"""
        return self._component_power(dynamic_w).total_w

    @cached_property
    def dynamic_w(self) -> float:
        """Mean power of an IPU in use above its idle power. [W]"""
        total_ps = sum(self.work.time_ps.values()) or 1
        done = sum(self._in_w(kind) * time_ps for kind, time_ps in self.work.time_ps.items())
        return done / total_ps * self.work.density

    @property
    def chip_w(self) -> float:
        """Mean power of an IPU in use. [W]"""
        return self._numbers[f"{_CHIP}.idle"] + self.dynamic_w

    @property
    def activity(self) -> float:
        """Mean power above idle of the IPUs in use, relative to their power in products."""
        in_products_w = self._in_w(_MATMUL)
        return self.dynamic_w / in_products_w if in_products_w else 0.0

    @cached_property
    def component_power(self) -> ComponentPower:
        """Power of each component during the run. [W]"""
        return self._component_power(self.dynamic_w)

    @property
    def mean_power_w(self) -> float:
        """Mean power during work. [W]"""
        return self.component_power.total_w

    @property
    def waiting_power_w(self) -> float:
        """Power in a run while its IPUs wait, as in its set-up. [W]"""
        return self.power_w(0.0)

    @property
    def idle_power_w(self) -> float:
        """Power between runs. [W]"""
        return self._component_power(0.0, hosts_work=False).total_w

    @cached_property
    def range_w(self) -> tuple[float, float]:
        """Range of the mean power: the changes by each input, combined as the root of the sum of squares. [W]"""
        ends = [(min(0.0, *moved_w), max(0.0, *moved_w)) for _, _, moved_w in self._moved]
        lows, highs = zip(*ends, strict=True) if ends else ((), ())
        return self.mean_power_w - math.hypot(*lows), self.mean_power_w + math.hypot(*highs)

    @cached_property
    def _moved(self) -> list[tuple[str, Sourced, tuple[float, float]]]:
        """Key, number, and change of the mean power at both ends of its range. [W]"""
        moved = []
        for key, (number, dimension) in self.meter.numbers.items():
            stands_on = number.provenance
            if stands_on.range is not None or stands_on.basis not in CERTAIN:
                ends = (
                    replace(self, moved={key: end})
                    for end in stands_on.range or default_bounds(float(number), dimension)
                )
                low_w, high_w = (end.mean_power_w - self.mean_power_w for end in ends)
                if low_w or high_w:
                    moved.append((key, number, (low_w, high_w)))
        return moved

    @property
    def assumptions(self) -> Sequence[Mapping[str, object]]:
        """Inputs that change the mean power and every energy, by influence, like a result's assumptions."""
        rows = []
        for key, number, moved_w in sorted(self._moved, key=lambda moved: -max(map(abs, moved[2]))):
            stands_on = number.provenance
            row: dict[str, object] = {"key": f"system.{key}", "value": stands_on.text}
            row |= {name: getattr(stands_on, name) for name in ("basis", "source", "note", "range")}
            low, high = (end_w / self.mean_power_w for end_w in moved_w)
            rows.append(row | {"influence": {"metric": "mean_power_w", "low": low, "high": high}})
        return rows

    @property
    def per_j(self) -> dict[str, float]:
        """Energy by unit of work, for example a `sample`, a `weight_update` and the `run`. [J]"""
        known = {name: self.mean_power_w / rate for name, rate in self.work.rates.items() if rate}
        return known | ({"run": self.run_power_w * self.work.run_s} if self.work.run_s else {})

    @property
    def run_power_w(self) -> float:
        """Mean power over all parts of a run; without parts, mean power during work. [W]"""
        parts = self.work.run_parts
        total_s = math.fsum(parts.values())
        if not total_s:
            return self.mean_power_w
        at_work = math.fsum(parts.get(part, 0.0) for part in _AT_WORK) / total_s
        return at_work * self.mean_power_w + (1 - at_work) * self.waiting_power_w

    def to_dict(self) -> dict[str, float]:
        """Return plain numbers in a fixed order of keys."""
        low_w, high_w = self.range_w
        return {
            "mean_power_w": self.mean_power_w,
            "mean_power_low_w": low_w,
            "mean_power_high_w": high_w,
            "idle_power_w": self.idle_power_w,
            **asdict(self.component_power),
            "activity": self.activity,
            "machine_count": self.meter.machine_count,
            "host_count": self.meter.host_count,
            **{f"per_{name}_j": energy_j for name, energy_j in self.per_j.items()},
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of a result, in the currency of its prices; None where there is no price."""

    currency: str
    price_per_ipu_hour: float | None  # fixed price, paid with or without work
    ipu_count: int  # paid IPUs: of the machines in use, the partition, or the whole pod
    duty_cycle: float
    fixed_per_hour: float | None  # per hour of work; like the energy, it includes the time without work
    energy_per_hour: float | None
    per_hour: float | None
    run_ipu_hours: float | None  # this and all other amounts of a run are None if it has no end
    fixed_per_run: float | None
    energy_per_run: float | None
    per_run: float | None
    per_million: Mapping[str, float]  # by unit of work, for example `sample`, during work

    def to_dict(self) -> dict[str, object]:
        """Return plain values in a fixed order of keys."""
        stored = asdict(self)
        return stored | {f"per_million_{name}s": cost for name, cost in stored.pop("per_million").items()}


def cost_of(prices: CostSpec, meter: Meter, work: WorkDone, energy: Energy | None) -> Cost:
    """Return the cost of work: the fixed price of the machines in use, and their energy."""
    system, duty_cycle = meter.system, float(prices.duty_cycle)
    machine_count, per_machine = system.whole_machine_count, int(system.machine.ipu_count)
    paid, price = prices.prices_on(system), None
    if prices.price_per_ipu_hour is not None:
        price = float(prices.price_per_ipu_hour)
    elif prices.purchase is not None and prices.years is not None:
        whole = float(paid["purchase"]) * (machine_count if prices.purchase == LIST else 1)
        whole *= 1 + float(prices.overhead)
        price = whole / (prices.years * _HOURS_PER_YEAR * (machine_count * per_machine))
    leased = {PARTITION: int(system.machine_count), POD: machine_count}.get(prices.lease, meter.machine_count)
    ipu_count, run_hours = leased * per_machine, work.run_s / _SECONDS_PER_HOUR if work.run_s else None

    def energy_for(hours: float | None, power_w: float) -> float | None:
        if energy is None or prices.energy_price is None or hours is None:
            return None
        idle_hours = hours * (1 / duty_cycle - 1)
        return (hours * power_w + idle_hours * energy.idle_power_w) / _W_PER_KW * float(prices.energy_price)

    fixed = None if price is None else price * ipu_count / duty_cycle
    used = energy_for(1.0, energy.mean_power_w) if energy else None
    fixed_per_run = None if run_hours is None or fixed is None else run_hours * fixed
    used_per_run = energy_for(run_hours, energy.run_power_w) if energy else None
    per_hour = _sum(fixed, used)
    rates = {name: work.rates.get(name) for name in _COUNTED if per_hour is not None}
    return Cost(
        next(each.currency for each in paid.values()),
        price,
        ipu_count,
        duty_cycle,
        fixed,
        used,
        per_hour,
        None if run_hours is None else run_hours * ipu_count,
        fixed_per_run,
        used_per_run,
        _sum(fixed_per_run, used_per_run),
        {name: _MILLION * (per_hour or 0.0) / (_SECONDS_PER_HOUR * rate) for name, rate in rates.items() if rate},
    )


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def today() -> date:
    """Return today's date, or the date of the variable `SOURCE_DATE_EPOCH`, seconds since 1970."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    is_set = fixed.isdecimal() and len(fixed) <= _MOST_DIGITS
    return datetime.fromtimestamp(int(fixed), UTC).date() if is_set else date.today()


def price_warnings(prices: CostSpec | None, meter: Meter, on: date) -> Iterator[str]:
    """Yield warnings about old prices and about an energy price that has no effect."""
    for key, price in prices.prices_on(meter.system).items() if prices else ():
        written = price.provenance.date or (prices.date if prices else None)
        age_days = (on - last_day(written)).days if written else 0
        if age_days > _OLD_DAYS:
            what = f"cost.{key}: {price.provenance.text} is a price of {written}, {age_days:,} days old"
            yield f"{what}; give one of today, with its `date`"
    if prices and prices.energy_price is not None and meter.missing:
        yield f"cost.energy_price has no effect: {' and '.join(meter.missing)} is not given"
