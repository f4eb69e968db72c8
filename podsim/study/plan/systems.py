"""Pods and partitions of them: `ipu_pod64`, and `32 of ipu_pod64`.

A partition has a power of two of IPUs in whole machines. Within a link domain its ladder is open, whether or not that
of the pod is closed. It has its part of the pod's host servers and switches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from podsim.errors import NoPlanError
from podsim.scenario import System, load_hardware, shipped_names

_PARTITION: Final = re.compile(r"\s*(\d{1,6})\s+of\s+(\S.*?)\s*")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job runs: a pod by path or name, or so many IPUs of it."""

    pod: str
    ipus: int | None = None

    @property
    def system(self) -> System:
        """The pod as its file has it, which is refused if it is wrong or not there."""
        pod, _ = load_hardware(self.pod, "pod")
        assert isinstance(pod, System)
        return pod

    @property
    def text(self) -> str:
        """As it is written."""
        return self.pod if self.ipus is None else f"{self.ipus} of {self.pod}"

    @property
    def size(self) -> int:
        """IPUs."""
        return self.ipus or self.system.ipu_count

    def overrides(self) -> tuple[str, ...]:
        """The place as `--set` takes it.

        Raises:
            NoPlanError: It is no partition.
        """
        named = f"system={self.pod}"
        system = self.system
        if self.ipus is None or self.ipus == system.ipu_count:
            return (named,)
        _check_partition(self.ipus, system)
        machines = self.ipus // int(system.machine.ipu_count)
        whole = int(system.whole_machine_count)
        opened = system.topology == "torus" and machines < min(whole, system.link_domain_machine_count)
        return (
            named,
            f"system.machine_count={machines}",
            f"system.pod_machine_count={whole}",
            f"system.name={self.ipus} of {system.name}",
            *(("system.topology=ladder",) if opened else ()),
        )


def place_named(text: str) -> Place:
    """The place that a text stands for.

    >>> place_named("32 of ipu_pod64"), place_named("ipu_pod16")
    (Place(pod='ipu_pod64', ipus=32), Place(pod='ipu_pod16', ipus=None))
    """
    match = _PARTITION.fullmatch(text)
    return Place(match[2], int(match[1])) if match else Place(text)


@cache
def shipped_places() -> tuple[str, ...]:
    """All shipped pods, and partitions of the smallest of them for sizes that no pod of such machines has."""
    names = shipped_names()["systems"]
    pods = sorted(((name, Place(name).system) for name in names), key=lambda each: int(each[1].ipu_count))
    of_machine: dict[str, set[int]] = {}
    for _, pod in pods:
        of_machine.setdefault(pod.machine.name, set()).add(int(pod.ipu_count))
    parts = []
    for name, pod in pods:
        sizes, size = of_machine[pod.machine.name], int(pod.machine.ipu_count)
        while size < int(pod.ipu_count):
            if size not in sizes:
                sizes.add(size)
                parts.append(f"{size} of {name}")
            size *= 2
    return (*names, *parts)


def _check_partition(ipus: int, system: System) -> None:
    """Refuse a number of IPUs that is no partition of a pod, and say what is one."""
    smallest, largest = int(system.machine.ipu_count), int(system.ipu_count)
    if ipus > largest:
        raise NoPlanError(f"{ipus} IPUs are more than the {largest} of {system.name}", do=f"use {largest} or fewer")
    if ipus < smallest:
        what = f"{ipus} IPUs are less than a machine of {system.name}, which has {smallest}"
        raise NoPlanError(what, do=f"use {smallest} IPUs or more")
    if ipus & (ipus - 1):
        below = 1 << (ipus.bit_length() - 1)
        parts = " + ".join(str(1 << bit) for bit in reversed(range(ipus.bit_length())) if ipus >> bit & 1)
        above = f" and {2 * below}" if 2 * below <= largest else ""
        what = f"{ipus} IPUs are no partition: one has a power of two, {below}{above} here"
        raise NoPlanError(f"{what}; jobs side by side may have {parts}", do=f"use {below} of them")
