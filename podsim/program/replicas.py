"""Which replicas a program holds, and the names of its lanes.

The folded program keeps the first, as many as it takes until replicas and machines start together again; transfers
between replicas stay on their links, so the load on the fullest link is kept as well. All are kept where machines hold,
or servers decode for, unequal numbers of them, where they lie among one another, or begin inside machines that they do
not fill.
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
    """The replicas of a program."""

    system: System
    layout: Layout  # replication and sharding
    explicit: bool
    decodes: bool = False  # whether host servers decode, and so are shared by their replicas

    @cached_property
    def routes(self) -> Routes:
        """Routes over the IPU-Links of the pod."""
        return Routes(self.system)

    @cached_property
    def kept(self) -> range:
        """Replicas that the program holds."""
        count = self.layout.replication_factor
        return range(min(count, self._period) if self.alike and not self.explicit else count)

    @property
    def alike(self) -> bool:
        """Whether machines hold all replicas alike, and servers feed them alike."""
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
        """Replicas after which replicas and machines start together again."""
        return max(1, self.system.machine.ipu_count // self.layout.ipus_per_replica)

    @property
    def per_host(self) -> int:
        """Replicas that a server feeds."""
        return -(-self.layout.replication_factor // self.system.own_host_count)

    def ipu(self, replica: int, local: int) -> int:
        """Number of an IPU in the pod."""
        place = replica % self.layout.replicas_per_domain
        first = self.system.first_ipu(replica - place, self.layout.ipus_per_replica)
        return first + self._strides["replicas"] * place + self._places[local]

    @cached_property
    def _places(self) -> list[int]:
        """How far the IPUs of a replica lie behind its first."""
        places = (divmod(local, self.layout.tensor_parallel) for local in range(self.layout.ipus_per_replica))
        return [self._strides["shards"] * shard + self._strides["stages"] * group for group, shard in places]

    @cached_property
    def _strides(self) -> Mapping[str, int]:
        """How far apart the next shard, stage and replica of a link domain lie. [IPUs]"""
        stride, strides = 1, dict[str, int]()
        for name in self.layout.nearest:
            strides[name] = stride
            stride *= self._counts[name]
        return strides

    @cached_property
    def _counts(self) -> dict[str, int]:
        """Shards of a layer, stages of a replica, and replicas of a link domain."""
        layout = self.layout
        groups = layout.ipus_per_replica // layout.tensor_parallel
        return {"shards": layout.tensor_parallel, "stages": groups, "replicas": layout.shard_count}

    def _order(self, nearest: tuple[str, ...]) -> list[str]:
        """What there are several of, in an order of neighbours: nothing else moves an IPU."""
        return [name for name in nearest if self._counts[name] > 1]

    def host(self, replica: int) -> tuple[int, int]:
        """The server that feeds a replica, and how many of its replicas each kept one stands for."""
        return replica // self.per_host, max(1, self.per_host // len(self.kept))

    def lane(self, replica: int, local: int) -> str:
        """Name of an IPU's lane."""
        return f"ipu{self.ipu(replica, local)}"

    def lanes(self, replica: int) -> list[str]:
        """Names of the lanes of all IPUs of a replica."""
        return [self.lane(replica, local) for local in range(self.layout.ipus_per_replica)]

    def domain(self, replica: int) -> int:
        """Link domain of a replica."""
        return replica // self.layout.replicas_per_domain

    def ring(self, replica: int, local: int) -> tuple[int, ...]:
        """IPUs that reduce with this one inside its link domain, in ring order.

        Neighbours form a ring as the topology has it; what lies apart, as IPUs of the same place in replicas of
        several do, form one straight along the ladder. Source: [gcl_topologies].
        """
        first = self.domain(replica) * self.layout.replicas_per_domain
        last = min(first + self.layout.replicas_per_domain, self.layout.replication_factor)
        members = tuple(self.ipu(number, local) for number in range(first, last))
        return ring_of(self.system, members)

    def peers_in_domains(self, replica: int) -> range:
        """The corresponding replica of every link domain that takes part."""
        per_domain = self.layout.replicas_per_domain
        return range(replica % per_domain, self.layout.replication_factor, per_domain)
