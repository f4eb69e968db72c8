"""Shipped pods that are larger or smaller than a given system."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.scenario.hardware import System
from podsim.scenario.library import shipped_names
from podsim.scenario.load import load_hardware


def larger_pods(system: System) -> Iterator[tuple[str, System]]:
    """Yield shipped pods by size, with their names; only those with more room for a model than the pods before."""
    chip, seen = system.machine.ipu.name, {_room(system)}
    for name, pod in sorted(
        _shipped(), key=lambda each: (each[1].ipu_count, each[1].machine.ipu.name != chip, each[0])
    ):
        if _room(pod) not in seen:
            seen.add(_room(pod))
            yield name, pod


def smaller_pods(system: System) -> list[tuple[str, System]]:
    """Return shipped pods of the same chip with fewer IPUs, smallest first, with their names."""
    chip, count = system.machine.ipu.name, system.ipu_count
    smaller = [(name, pod) for name, pod in _shipped() if pod.machine.ipu.name == chip and pod.ipu_count < count]
    return sorted(smaller, key=lambda named: (named[1].ipu_count, named[0]))


def _shipped() -> list[tuple[str, System]]:
    pods = [(name, load_hardware(name, "pod")[0]) for name in shipped_names()["systems"]]
    return [(name, pod) for name, pod in pods if isinstance(pod, System)]


def _room(pod: System) -> tuple[int, int, int]:
    """Return the IPUs available to one copy of a model, and the memories of each IPU."""
    return pod.domain_ipu_count, pod.machine.ipu.memory_bytes, pod.machine.streaming_memory.capacity_per_ipu_bytes
