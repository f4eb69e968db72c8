"""What several jobs give together: one after another on the same system, or side by side on partitions of it.

One after another, times add up; side by side, the longest counts. Cost and energy add up in both. Where the whole pod
is leased, its fixed price is paid for the time that the jobs take together. Power is the largest that is drawn at a
time; side by side, in a rack that holds as many as it can of the machines that draw most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from podsim.metrics import COST, ENERGY, POWER, RACK_POWER, TIME
from podsim.scenario import System
from podsim.study.plan.option import Part

_SECONDS_PER_HOUR: Final = 3600


def totals(parts: Sequence[Part], system: System, *, together: bool) -> dict[str, Any]:
    """Figures of all jobs on a pod, side by side or not; those that one of them does not have are None."""

    def joined(figure: str, join: Callable[[Any], Any]) -> float | None:
        values = [part.figures.get(figure) for part in parts]
        return None if None in values else float(join(values))

    time_s = joined(TIME, max if together else sum)
    found: dict[str, Any] = {
        TIME: time_s,
        ENERGY: joined(ENERGY, sum),
        POWER: joined(POWER, sum if together else max),
        RACK_POWER: _rack_power_w(parts, system) if together else joined(RACK_POWER, max),
    }
    if any(part.bill for part in parts):
        cost = joined(COST, sum)
        if cost is not None and together and all(part.bill.get("lease") == "pod" for part in parts):
            hourly = parts[0].bill["fixed_per_hour"] or 0.0  # of the whole pod, the same for all of them
            energy = sum(part.bill["energy_per_run"] or 0.0 for part in parts)
            cost = energy + hourly * (time_s or 0.0) / _SECONDS_PER_HOUR
        found[COST] = cost
    notes = (f"{part.name}: {part.figures['warnings']}" for part in parts if part.figures.get("warnings"))
    return {**found, "warnings": "; ".join(notes) or None}


def _rack_power_w(parts: Sequence[Part], system: System) -> float | None:
    """Machines are taken into one rack until it is full, those first that draw most. [W]"""
    room, total_w, per_machine = int(system.link_domain_machine_count), 0.0, list[tuple[float, int]]()
    for part in parts:
        machines, power_w = -(-part.used // int(system.machine.ipu_count)), part.figures.get(POWER)
        if power_w is None:
            return None
        per_machine.append((power_w / machines, machines))
    for each_w, machines in sorted(per_machine, reverse=True):
        taken = min(room, machines)
        total_w, room = total_w + taken * each_w, room - taken
    return total_w
