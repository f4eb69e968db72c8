"""Checks that several activities share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from podsim.scenario.pins import PARALLELISM

if TYPE_CHECKING:
    from podsim.scenario.hardware import System
    from podsim.scenario.scenario import Finding


class Replicated(Protocol):
    """A division into replicas."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one copy of the model."""

    @property
    def replication_factor(self) -> int:
        """Copies of the model."""


def replica_findings(system: System, layout: Replicated) -> Iterator[Finding]:
    """Replicas that a pod has no room for."""
    per_replica, replicas = layout.ipus_per_replica, layout.replication_factor
    available, domain = system.ipu_count, system.domain_ipu_count
    if domain % per_replica:
        yield (
            (PARALLELISM,),
            f"a link domain of {domain} IPUs cannot be divided into replicas of {per_replica} IPUs",
            "use fewer IPUs per replica, or another pod",
        )
    elif replicas * per_replica > available:
        yield (
            (PARALLELISM, "replication_factor"),
            f"{replicas} replicas of {per_replica} IPUs need {replicas * per_replica} IPUs; "
            f"{system.name} has {available}",
            f"use at most {available // per_replica}",
        )
    elif replicas * per_replica > domain and (replicas * per_replica) % domain:
        yield (
            (PARALLELISM, "replication_factor"),
            f"{replicas} replicas of {per_replica} IPUs cannot be divided among link domains of {domain} IPUs",
            f"use a multiple of {domain // per_replica}",
        )


def one_share(available_memory_proportion: Any) -> Iterator[Finding]:
    """A list of shares where there can be one only."""
    if isinstance(available_memory_proportion, tuple):
        yield ("memory", "available_memory_proportion"), "is a list; all IPUs are alike here", "give one number"
