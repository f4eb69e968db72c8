"""The shipped pods, for a model that does not fit the one it was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.scenario.hardware import System
from podsim.scenario.library import shipped_names
from podsim.scenario.load import load_hardware


def larger_pods(system: System) -> Iterator[tuple[str, System]]:
    """Shipped pods by size, with their names: those alone that offer a model more than the ones before them."""
    pods = [(name, pod) for name in shipped_names()["systems"] for pod in [load_hardware(name, "pod")[0]]]
    chip, seen = system.machine.ipu.name, {_room(system)}
    checked = [(name, pod) for name, pod in pods if isinstance(pod, System)]
    for name, pod in sorted(checked, key=lambda each: (each[1].ipu_count, each[1].machine.ipu.name != chip, each[0])):
        if _room(pod) not in seen:
            seen.add(_room(pod))
            yield name, pod


def _room(pod: System) -> tuple[int, int, int]:
    """IPUs of one copy of a model, and the memories of each."""
    return pod.domain_ipu_count, pod.machine.ipu.memory_bytes, pod.machine.streaming_memory.capacity_per_ipu_bytes
