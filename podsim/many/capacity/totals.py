"""What several jobs give together: one after another on the same system, or side by side on partitions of it.

One after another, times add up; side by side, the longest counts. Cost and energy add up in both. Where the whole pod
is leased, its fixed price is paid for the time that the jobs take together. Power is the largest that is drawn at a
time; side by side, in a rack that holds as many as it can of the machines that draw most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from podsim.many.capacity.option import Part
from podsim.metrics import COST, ENERGY, POWER, RACK_POWER, TIME
from podsim.scenario import System

_SECONDS_PER_HOUR: Final = 3600


def totals(parts: Sequence[Part], system: System, *, together: bool) -> dict[str, Any]:
    """Figures of all jobs; those that one of them does not have are None.

    Args:
        parts: The jobs.
        system: The pod.
        together: Whether they run side by side.
    """
    times = [part.figures.get(TIME) for part in parts]
    powers = [part.figures.get(POWER) for part in parts]
    time_s = _joined(times, max if together else sum)
    found = {
        TIME: time_s,
        ENERGY: _joined([part.figures.get(ENERGY) for part in parts], sum),
        POWER: _joined(powers, sum if together else max),
        RACK_POWER: _rack_power(parts, system) if together else _joined(_each(parts, RACK_POWER), max),
    }
    if any(part.bill for part in parts):
        found[COST] = _cost(parts, time_s, together=together)
    notes = (f"{part.name}: {part.figures['warnings']}" for part in parts if part.figures.get("warnings"))
    return {**found, "warnings": "; ".join(notes) or None}


def _each(parts: Sequence[Part], figure: str) -> list[Any]:
    return [part.figures.get(figure) for part in parts]


def _joined(values: Sequence[Any], join: Any) -> float | None:
    return None if any(value is None for value in values) else float(join(values))


def _cost(parts: Sequence[Part], time_s: float | None, *, together: bool) -> float | None:
    costs = _joined(_each(parts, COST), sum)
    if costs is None or not together or not all(_leases_pod(part) for part in parts):
        return costs
    energy = sum(part.bill["energy_per_run"] or 0.0 for part in parts)
    hourly = parts[0].bill["fixed_per_hour"] or 0.0  # of the whole pod, the same for all of them
    return energy + hourly * (time_s or 0.0) / _SECONDS_PER_HOUR


def _leases_pod(part: Part) -> bool:
    return part.bill.get("lease") == "pod"


def _rack_power(parts: Sequence[Part], system: System) -> float | None:
    """Machines are taken into one rack until it is full, those first that draw most."""
    room, total_w = int(system.link_domain_machine_count), 0.0
    for per_machine_w, machines in sorted((_per_machine(part, system) for part in parts), reverse=True):
        if per_machine_w is None:
            return None
        taken = min(room, machines)
        total_w, room = total_w + taken * per_machine_w, room - taken
    return total_w


def _per_machine(part: Part, system: System) -> tuple[Any, int]:
    machines = -(-part.used // int(system.machine.ipu_count))
    power_w = part.figures.get(POWER)
    return (None if power_w is None else power_w / machines), machines
