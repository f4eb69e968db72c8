"""Checks of the keys pinned next to `parallelism: auto`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podsim.scenario.hardware import System
    from podsim.scenario.scenario import Finding

PARALLELISM, BATCH = "parallelism", "batch_size"
_LARGEST_BATCH = 10**9


def batch_pins(batch_size: int | None) -> Iterator[Finding]:
    """Yield a problem if a batch is too large to be divided."""
    if batch_size is not None and batch_size > _LARGEST_BATCH:
        yield (BATCH,), f"`{batch_size}` is too large to be divided", f"write {_LARGEST_BATCH} or less"


def ipu_pins(system: System, key: str, count: int | None) -> Iterator[Finding]:
    """Yield a problem if a pinned number of IPUs exceeds a link domain."""
    domain = system.domain_ipu_count
    if count is not None and count > domain:
        what = f"{count} cannot be: a link domain of {system.name} has {domain} IPUs"
        yield (PARALLELISM, key), what, f"write {domain} or less, or leave it out" if domain > 1 else "leave it out"


def replica_pins(system: System, replicas: int, ipus: int) -> Iterator[Finding]:
    """Yield a problem if pinned replicas do not fit the pod."""
    most = system.room_for(ipus)
    if not most:
        return
    if replicas > most:
        each = f" of {ipus} IPUs" if ipus > 1 else ""
        yield (
            (PARALLELISM, "replication_factor"),
            f"{replicas} replicas{each} need {replicas * ipus} IPUs; {system.name} has {system.ipu_count}",
            f"write {most} or less" + (", or a smaller ipus_per_replica" if ipus > 1 else ", or leave it out"),
        )
