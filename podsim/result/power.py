"""Power and energy: what machines draw, from what their IPUs were doing in the trace.

An IPU draws its idle power always. Beside that, every cycle of its tiles at work takes an energy, in products as in
vectors and on the exchange, and so does each operation of a product, by format; transfers draw a power, and waiting
nothing. All of it goes with the clock, at one voltage. A machine adds what it draws without its IPUs; host servers draw
what they draw in a run, switches what they always draw. Source: [power_of_kernels] for a chip, idle and in single
kernels; [knowles2021] for operations in half precision. What a machine draws in training, [power_of_m2000], is a check.

Metered are the machines whose IPUs are in use, whole, with their part of the host servers and switches of the pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from podsim.result.kinds import LINKS, OFF_CHIP, WAITING, kind_of
from podsim.scenario.assumptions import CERTAIN, a_tenth
from podsim.scenario.base import HardwareSpec
from podsim.scenario.hardware import System
from podsim.scenario.quantity import Sourced, quantities

_CHIP, _MACHINE, _HOST, _POD = "machine.ipu.power", "machine.power", "host.power", "power"
_MATMUL: Final = "matmul"
_AT_WORK: Final = ("training", "evaluation")
"""Parts of a run in which IPUs work as in a weight update; in the others they wait."""
METRIC: Final = "mean_power_w"
_Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What IPUs do, and what comes of it.

    Attributes:
        time_ps: Their time by kind, mean over those in use. [ps]
        rates: What is done in a second, by its name, for example `sample`. [1/s]
        products: Work of products in each second that they take, by what gives its energy. [FLOP/s]
        density: How often the work of `time_ps` is done in that time: several batches in flight do more, idle
            copies less.
        run_parts: Mean time of each part of a training run. [s]
        run_s: Time of the run, if it has an end. [s]
    """

    time_ps: Mapping[str, int]
    rates: Mapping[str, float]
    products: Mapping[str, float] = field(default_factory=dict)
    density: float = 1.0
    run_parts: Mapping[str, float] = field(default_factory=dict)
    run_s: float | None = None


@dataclass(frozen=True, slots=True)
class PowerDraw:
    """What each part draws. [W]"""

    ipus_w: float
    machines_w: float
    hosts_w: float
    switches_w: float

    @property
    def total_w(self) -> float:
        """All parts together. [W]"""
        return self.ipus_w + self.machines_w + self.hosts_w + self.switches_w


@dataclass(frozen=True)
class Meter:
    """What is metered: the machines of the IPUs that figures stand for, in copies of so many IPUs."""

    system: System
    ipus_used: int
    ipus_per_copy: int = 1

    @property
    def machine_count(self) -> int:
        """Machines whose IPUs are in use."""
        machines = self.system.machines_of(self.ipus_used // self.ipus_per_copy, self.ipus_per_copy)
        return min(machines, int(self.system.machine_count))

    @property
    def ipu_count(self) -> int:
        """IPUs of these machines."""
        return self.machine_count * int(self.system.machine.ipu_count)

    @property
    def share(self) -> float:
        """Their share of the pod's machines, and so of its host servers and switches."""
        return self.machine_count / self.system.whole_machine_count

    @cached_property
    def numbers(self) -> dict[str, tuple[Sourced, str]]:
        """Every number that power stands on, with its dimension, by its key within the pod."""
        given = ((path, power) for path, power in self._powers.items() if power is not None)
        found = (each for path, power in given for each in quantities(power, path))
        return {key: (number, q.dimension) for key, number, declared in found if (q := declared.quantity)}

    @property
    def missing(self) -> list[str]:
        """Sections without which no power is known."""
        return [f"system.{path}" for path, power in self._powers.items() if power is None and path != _POD]

    @property
    def _powers(self) -> dict[str, HardwareSpec | None]:
        system, machine = self.system, self.system.machine
        return {_CHIP: machine.ipu.power, _MACHINE: machine.power, _HOST: system.host.power, _POD: system.power}

    def dynamic_w(self, numbers: _Numbers, kind: str, products: Mapping[str, float]) -> float:
        """What an IPU draws beside idle power in a kind of time. [W]

        Args:
            numbers: Every number, by its key.
            kind: Of time.
            products: Work of products in each second that they take, by what gives its energy. [FLOP/s]
        """
        family = kind_of(kind).family
        if family == WAITING:
            return 0.0
        if family in (LINKS, OFF_CHIP):
            return numbers[f"{_CHIP}.transfer"]
        ipu = self.system.machine.ipu
        at_work_w = numbers[f"{_CHIP}.tile_cycle"] * ipu.tile.count * float(ipu.clock_hz)
        if kind != _MATMUL:
            return at_work_w
        energies = {f"{_CHIP}.fp8_flop": numbers[f"{_CHIP}.half_flop"] / 2, **numbers}
        return at_work_w + math.fsum(rate * energies[f"{_CHIP}.{name}"] for name, rate in products.items())

    def drawn(self, numbers: _Numbers, dynamic_w: float, *, hosts_work: bool = True) -> PowerDraw:
        """What each part draws on average.

        Args:
            numbers: Every number, by its key.
            dynamic_w: What each of the IPUs in use draws beside idle power, on average. [W]
            hosts_work: Whether a run is going on.
        """
        host = numbers[f"{_HOST}.busy"] if hosts_work else numbers[f"{_HOST}.idle"]
        switches = numbers.get(f"{_POD}.switch_count", 0) * numbers.get(f"{_POD}.switch", 0.0)
        return PowerDraw(
            self.ipu_count * numbers[f"{_CHIP}.idle"] + self.ipus_used * dynamic_w,
            self.machine_count * numbers[f"{_MACHINE}.without_ipus"],
            self.share * self.system.host_count * host,
            self.share * switches,
        )


@dataclass(frozen=True)
class Energy:
    """What a result needs in power and energy, made when it is first asked for.

    Attributes:
        meter: What is metered.
        work: What its IPUs do.
    """

    meter: Meter
    work: WorkDone

    @cached_property
    def _numbers(self) -> dict[str, float]:
        return {key: float(number) for key, (number, _) in self.meter.numbers.items()}

    def dynamic_in_w(self, kind: str) -> float:
        """What an IPU draws beside idle power in a kind of time, with what it does for other batches. [W]"""
        return self.meter.dynamic_w(self._numbers, kind, self.work.products) * self.work.density

    def power_w(self, dynamic_w: float) -> float:
        """Of all that is metered while each IPU in use draws so much beside idle power, on average. [W]"""
        return self.meter.drawn(self._numbers, dynamic_w).total_w

    def _dynamic_w(self, numbers: _Numbers) -> float:
        total, products = sum(self.work.time_ps.values()) or 1, self.work.products
        done = (self.meter.dynamic_w(numbers, kind, products) * time for kind, time in self.work.time_ps.items())
        return sum(done) / total * self.work.density

    def _mean_w(self, numbers: _Numbers) -> float:
        return self.meter.drawn(numbers, self._dynamic_w(numbers)).total_w

    @property
    def dynamic_w(self) -> float:
        """What each of the IPUs in use draws beside idle power, on average. [W]"""
        return self._dynamic_w(self._numbers)

    @property
    def chip_w(self) -> float:
        """What each of the IPUs in use draws on average. [W]"""
        return self._numbers[f"{_CHIP}.idle"] + self.dynamic_w

    @property
    def activity(self) -> float:
        """Mean share that the IPUs in use draw of what they draw in products beside idle power."""
        in_products_w = self.meter.dynamic_w(self._numbers, _MATMUL, self.work.products)
        return self.dynamic_w / in_products_w if in_products_w else 0.0

    @cached_property
    def drawn(self) -> PowerDraw:
        """What each part draws while the work goes on."""
        return self.meter.drawn(self._numbers, self.dynamic_w)

    @property
    def mean_power_w(self) -> float:
        """Mean power while the work goes on. [W]"""
        return self.drawn.total_w

    @property
    def waiting_power_w(self) -> float:
        """Power while a run goes on and its IPUs wait, as in its set-up. [W]"""
        return self.meter.drawn(self._numbers, 0.0).total_w

    @property
    def idle_power_w(self) -> float:
        """Power between runs. [W]"""
        return self.meter.drawn(self._numbers, 0.0, hosts_work=False).total_w

    @cached_property
    def range_w(self) -> tuple[float, float]:
        """Mean power with all inputs in their ranges: root of the sum of the squares of what each moves. [W]"""
        lows, highs = [], []
        for _, _, moved in self._moved():
            lows.append(min(0.0, *moved))
            highs.append(max(0.0, *moved))
        return self.mean_power_w - math.hypot(*lows), self.mean_power_w + math.hypot(*highs)

    def _moved(self) -> Iterator[tuple[str, Sourced, tuple[float, float]]]:
        """Key, number, and by how much the ends of its range move the mean power. [W]"""
        for key, (number, dimension) in self.meter.numbers.items():
            if (bounds := _bounds(number, dimension)) is not None:
                low, high = (self._mean_w(self._numbers | {key: bound}) - self.mean_power_w for bound in bounds)
                if low or high:
                    yield key, number, (low, high)

    @property
    def assumptions(self) -> Sequence[Mapping[str, object]]:
        """Inputs that move the mean power, and so every energy, by influence; as the assumptions of a result."""
        by_influence = sorted(self._moved(), key=lambda each: -max(map(abs, each[2])))
        return [_row(key, number, moved, self.mean_power_w) for key, number, moved in by_influence]

    @property
    def per_j(self) -> dict[str, float]:
        """Energy by what is done with it, for example of a `sample`, a `weight_update` and the `run`. [J]"""
        found = {name: self.mean_power_w / rate for name, rate in self.work.rates.items() if rate}
        return found | ({"run": self.run_power_w * self.work.run_s} if self.work.run_s else {})

    @property
    def run_power_w(self) -> float:
        """Mean power over all parts of a run; that of its work if it has none. [W]"""
        parts = self.work.run_parts
        total_s = math.fsum(parts.values())
        if not total_s:
            return self.mean_power_w
        at_work = math.fsum(parts.get(part, 0.0) for part in _AT_WORK) / total_s
        return at_work * self.mean_power_w + (1 - at_work) * self.waiting_power_w

    def to_dict(self) -> dict[str, float]:
        """Plain numbers in a fixed order of keys."""
        low_w, high_w = self.range_w
        return {
            "mean_power_w": self.mean_power_w,
            "mean_power_low_w": low_w,
            "mean_power_high_w": high_w,
            "idle_power_w": self.idle_power_w,
            "ipus_w": self.drawn.ipus_w,
            "machines_w": self.drawn.machines_w,
            "hosts_w": self.drawn.hosts_w,
            "switches_w": self.drawn.switches_w,
            "activity": self.activity,
            "machine_count": self.meter.machine_count,
            "host_count": self.meter.share * self.meter.system.host_count,
            **{f"per_{name}_j": energy_j for name, energy_j in self.per_j.items()},
        }


def _bounds(number: Sourced, dimension: str) -> tuple[float, float] | None:
    """The range of a number, or a tenth either way where it is neither published nor measured and has none."""
    stands_on = number.provenance
    if stands_on.range is not None:
        return stands_on.range
    return None if stands_on.basis in CERTAIN else a_tenth(float(number), dimension)


def _row(key: str, number: Sourced, moved: tuple[float, float], whole_w: float) -> dict[str, object]:
    """An input with its influence, as a row of the assumptions of a result."""
    stands_on = number.provenance
    low, high = (each_w / whole_w for each_w in moved)
    return {
        "key": f"system.{key}",
        "value": stands_on.text,
        "basis": stands_on.basis,
        "source": stands_on.source,
        "note": stands_on.note,
        "range": stands_on.range,
        "influence": {"metric": METRIC, "low": low, "high": high},
    }
