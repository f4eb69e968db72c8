"""Power and energy: what machines draw, from what their IPUs were doing in the trace.

An IPU draws its idle power always, and a share of its dynamic power for each kind of time: all of it in matrix
products, the shares that its file gives in other work on the tiles, on the exchange and in transfers, nothing while
it waits. Dynamic power goes with the clock, at one voltage. A machine adds what it draws without its IPUs; host
servers draw what they draw in a run, switches what they always draw. Source: [power_of_m2000] for the sum of a
machine in training; the division by kinds is an [estimate] with ranges.

Metered are the machines whose IPUs are in use, whole, with their part of the host servers and switches of the pod.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from podsim.result.kinds import COMPUTE, LINKS, OFF_CHIP, ON_CHIP, kind_of
from podsim.scenario.assumptions import CERTAIN, a_tenth
from podsim.scenario.base import HardwareSpec
from podsim.scenario.hardware import System
from podsim.scenario.quantity import Sourced, quantities

_CHIP, _MACHINE, _HOST, _POD = "machine.ipu.power", "machine.power", "host.power", "power"
_MATMUL: Final = "matmul"
_SHARE_OF_FAMILY: Final = {
    COMPUTE: f"{_CHIP}.vector_activity",
    ON_CHIP: f"{_CHIP}.exchange_activity",
    LINKS: f"{_CHIP}.transfer_activity",
    OFF_CHIP: f"{_CHIP}.transfer_activity",
}
_AT_WORK: Final = ("training", "evaluation")
"""Parts of a run in which IPUs work as in a weight update; in the others they wait."""
METRIC: Final = "mean_power_w"
_Watts = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What IPUs do, and what comes of it.

    Attributes:
        time_ps: Their time by kind, mean over those in use. [ps]
        rates: What is done in a second, by its name, for example `sample`. [1/s]
        density: How often the work of `time_ps` is done in that time: several batches in flight do more, idle
            copies less.
        run_parts: Mean time of each part of a training run. [s]
        run_s: Time of the run, if it has an end. [s]
    """

    time_ps: Mapping[str, int]
    rates: Mapping[str, float]
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
    """What is metered.

    Attributes:
        system: The pod.
        ipus_used: IPUs that the figures of a result stand for.
        ipus_per_copy: Those of each copy of the model; any number if they are in one row.
    """

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

    def drawn(self, watts: _Watts, activity: float, *, hosts_work: bool = True) -> PowerDraw:
        """What each part draws on average.

        Args:
            watts: Every number, by its key.
            activity: Mean share of their dynamic power that the IPUs in use draw.
            hosts_work: Whether a run is going on.
        """
        host = watts[f"{_HOST}.busy"] if hosts_work else watts[f"{_HOST}.idle"]
        ipu_clock_hz = float(self.system.machine.ipu.clock_hz)
        dynamic_w = watts[f"{_CHIP}.dynamic"] * ipu_clock_hz / watts.get(f"{_CHIP}.at_clock", ipu_clock_hz)
        switches = watts.get(f"{_POD}.switch_count", 0) * watts.get(f"{_POD}.switch", 0.0)
        return PowerDraw(
            self.ipu_count * watts[f"{_CHIP}.idle"] + self.ipus_used * activity * dynamic_w,
            self.machine_count * watts[f"{_MACHINE}.without_ipus"],
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
    def _shares(self) -> dict[str, float]:
        """Shares of time by what gives the activity; waiting is left out."""
        total, shares = sum(self.work.time_ps.values()) or 1, {_MATMUL: 0.0}
        for name, time_ps in self.work.time_ps.items():
            group = _activity_key(name)
            if group is not None:
                shares[group] = shares.get(group, 0.0) + time_ps / total * self.work.density
        return shares

    @cached_property
    def _watts(self) -> dict[str, float]:
        return {key: float(number) for key, (number, _) in self.meter.numbers.items()}

    def activity_in(self, kind: str) -> float:
        """Share of its dynamic power that an IPU draws in a kind of time, with what it does for other batches."""
        group = _activity_key(kind)
        return 0.0 if group is None else self._watts.get(group, 1.0) * self.work.density

    def power_w(self, activity: float) -> float:
        """Of all that is metered while the IPUs in use draw a share of their dynamic power, on average. [W]"""
        return self.meter.drawn(self._watts, activity).total_w

    def _activity(self, watts: _Watts) -> float:
        return sum(share * watts.get(group, 1.0) for group, share in self._shares.items())

    def _mean_w(self, watts: _Watts) -> float:
        return self.meter.drawn(watts, self._activity(watts)).total_w

    @property
    def activity(self) -> float:
        """Mean share of their dynamic power that the IPUs in use draw."""
        return self._activity(self._watts)

    @cached_property
    def drawn(self) -> PowerDraw:
        """What each part draws while the work goes on."""
        return self.meter.drawn(self._watts, self.activity)

    @property
    def mean_power_w(self) -> float:
        """Mean power while the work goes on. [W]"""
        return self.drawn.total_w

    @property
    def waiting_power_w(self) -> float:
        """Power while a run goes on and its IPUs wait, as in its set-up. [W]"""
        return self.meter.drawn(self._watts, 0.0).total_w

    @property
    def idle_power_w(self) -> float:
        """Power between runs. [W]"""
        return self.meter.drawn(self._watts, 0.0, hosts_work=False).total_w

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
                low, high = (self._mean_w(self._watts | {key: bound}) - self.mean_power_w for bound in bounds)
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


def _activity_key(kind: str) -> str | None:
    """What gives the activity in a kind of time; nothing of waiting."""
    return _MATMUL if kind == _MATMUL else _SHARE_OF_FAMILY.get(kind_of(kind).family)


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
