"""Replicas that a program simulates, and the names of its lanes.

The folded program has the first replicas only: as many as start within the first machine, or one. Transfers between
replicas remain on their links, so the load on the fullest link is unchanged. All replicas are simulated if machines
have unequal numbers of replicas, if hosts decode for unequal numbers of replicas, if replicas interleave, or if
replicas start inside machines that they do not fill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from podsim.placement.layout import NEAREST, Layout
from podsim.placement.rings import ring_of
from podsim.placement.topology import Routes
from podsim.scenario.hardware import System


@dataclass(frozen=True)
class Replicas:
    """Replicas of a program."""

    system: System
    layout: Layout  # replication and sharding
    explicit: bool
    decodes: bool = False  # True if hosts decode samples, so that replicas share them

    @cached_property
    def routes(self) -> Routes:
        """Routes over the IPU-Links of the pod."""
        return Routes(self.system)

    @cached_property
    def simulated(self) -> range:
        """Replicas that the program simulates."""
        count = self.layout.replication_factor
        return range(min(count, self._period) if self.alike and not self.explicit else count)

    @property
    def alike(self) -> bool:
        """True if all machines hold equal sets of replicas, and hosts feed all replicas equally."""
        count, size, machine = (
            self.layout.replication_factor,
            self.layout.ipus_per_replica,
            self.system.machine.ipu_count,
        )
        if self._order(self.layout.nearest) != self._order(NEAREST) or (machine % size and size % machine):
            return False
        if count > self._period and count % self._period:
            return False
        even = count % self.system.own_host_count == 0 and self.per_host % self._period == 0
        return even or not self.decodes

    @property
    def _period(self) -> int:
        """Number of replicas after which a replica starts at the first IPU of a machine again."""
        return max(1, self.system.machine.ipu_count // self.layout.ipus_per_replica)

    @property
    def per_host(self) -> int:
        """Number of replicas that a host feeds."""
        return -(-self.layout.replication_factor // self.system.own_host_count)

    def ipu(self, replica: int, local: int) -> int:
        """Return the number of an IPU in the pod."""
        place = replica % self.layout.replicas_per_domain
        first = self.system.first_ipu(replica - place, self.layout.ipus_per_replica)
        return first + self._strides["replicas"] * place + self._places[local]

    @cached_property
    def _places(self) -> list[int]:
        """Offset of each IPU of a replica from the replica's first IPU. [IPUs]"""
        places = (divmod(local, self.layout.tensor_parallel) for local in range(self.layout.ipus_per_replica))
        return [self._strides["shards"] * shard + self._strides["stages"] * group for group, shard in places]

    @cached_property
    def _strides(self) -> Mapping[str, int]:
        """Distance between neighbouring shards, stages and replicas of a link domain. [IPUs]"""
        stride, strides = 1, dict[str, int]()
        for name in self.layout.nearest:
            strides[name] = stride
            stride *= self._counts[name]
        return strides

    @cached_property
    def _counts(self) -> dict[str, int]:
        """Numbers of shards of a layer, stages of a replica, and replicas of a link domain."""
        layout = self.layout
        groups = layout.ipus_per_replica // layout.tensor_parallel
        return {"shards": layout.tensor_parallel, "stages": groups, "replicas": layout.shard_count}

    def _order(self, nearest: tuple[str, ...]) -> list[str]:
        """Return the dimensions with more than one member, nearest first; only these affect placement."""
        return [name for name in nearest if self._counts[name] > 1]

    def host(self, replica: int) -> tuple[int, int]:
        """Return the host that feeds a replica, and the number of its replicas per simulated replica."""
        return replica // self.per_host, max(1, self.per_host // len(self.simulated))

    def lane(self, replica: int, local: int) -> str:
        """Return the name of an IPU's lane."""
        return f"ipu{self.ipu(replica, local)}"

    def lanes(self, replica: int) -> list[str]:
        """Return the names of the lanes of all IPUs of a replica."""
        return [self.lane(replica, local) for local in range(self.layout.ipus_per_replica)]

    def domain(self, replica: int) -> int:
        """Return the number of a replica's link domain."""
        return replica // self.layout.replicas_per_domain

    def ring(self, replica: int, local: int) -> tuple[int, ...]:
        """Return the IPUs that reduce with an IPU inside its link domain, in ring order.

        Adjacent IPUs form the ring of the topology. IPUs that are not adjacent, as in replicas of several IPUs, form a
        ring in ascending order. Source: [gcl_topologies].
        """
        first = self.domain(replica) * self.layout.replicas_per_domain
        last = min(first + self.layout.replicas_per_domain, self.layout.replication_factor)
        members = tuple(self.ipu(number, local) for number in range(first, last))
        return ring_of(self.system, members)

    def peers_in_domains(self, replica: int) -> range:
        """Return the corresponding replica of every link domain."""
        per_domain = self.layout.replicas_per_domain
        return range(replica % per_domain, self.layout.replication_factor, per_domain)
