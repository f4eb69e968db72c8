"""Machines, host servers and pods."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import HardwareSpec
from podsim.scenario.ipu import Ipu
from podsim.scenario.power import HostPower, MachinePower, PodPower
from podsim.scenario.quantity import Count, Price, Priced, Quantity, Real, Whole
from podsim.scenario.rates import Bandwidth, Efficiency, Latency, Links


class HostNetwork(HardwareSpec):
    """Network cards of a host server, which all machines of the server share."""

    port_count: Links
    """Ports that are connected to machines."""
    raw_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_direction")
    """Raw bandwidth of one port in one direction."""
    efficiency: Efficiency
    """Share of the bandwidth that remains for data after protocol overhead."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Data bandwidth of all ports together, in one direction. [B/s]"""
        return self.port_count * self.raw_bytes_per_s * self.efficiency


class Host(HardwareSpec):
    """A host server."""

    kind: Literal["host"] = "host"
    """What the file describes."""
    name: str
    """Its name."""
    core_count: Annotated[Whole, Quantity("count", ("1", "100000"), usual=("4", "1024"))]
    """Cores that prepare data."""
    image_decode_time_s: Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("10 us", "100 ms"))]
    """Time in which one core decodes, crops and flips one image of ImageNet's size."""
    number_conversion_s: Annotated[Real, Quantity("s", ("0 s", "1 s"), usual=("0 s", "10 us"))] | None = Field(
        None, alias="number_conversion_time"
    )
    """Time in which a process converts an element of an array into a Python number; needed where results are
    converted."""
    numa_node_count: Annotated[Whole, Quantity("count", ("1", "1024"), usual=("1", "32"))] | None = None
    """NUMA nodes of the server. Each process has its own node while there are enough; without limit if left out."""
    crowded_share: Annotated[Real, Quantity("share", ("1 %", "100 %"), usual=("30 %", "100 %"))] | None = None
    """Remaining decoding rate when there are more processes than NUMA nodes, as a share; 100 % if left out."""
    network: HostNetwork | None = None
    """Network cards of the server; if left out, only the links of machines limit the bandwidth."""
    power: HostPower | None = None
    """Power of the server."""

    def decode_s_per_image(self, process_count: int) -> float:
        """Return the time per image with all cores at work for `process_count` processes. [s]"""
        is_crowded = self.numa_node_count is not None and process_count > self.numa_node_count
        return self.image_decode_time_s / self.core_count / ((self.crowded_share or 1.0) if is_crowded else 1.0)


_MOST_IPUS = 2**16
"""IPUs of an IPU-POD64K, the largest pod that Graphcore has announced."""


class IpuLink(HardwareSpec):
    """Single IPU-Link."""

    raw_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_direction")
    """Raw bandwidth of one link in one direction."""
    efficiency: Efficiency
    """Share of the bandwidth that remains for data after protocol overhead."""
    first_hop_latency_s: Latency
    """Time before the first byte arrives, over one hop."""
    hop_latency_s: Latency
    """Additional latency of each further hop."""
    rung_latency_s: Latency | None = None
    """Additional latency of a hop over a rung compared with a rail; 0 if left out."""
    message_time_s: Latency | None = None
    """Time between the starts of messages of many tiles; 0 if left out, so that only bytes count."""
    forwarded_message_time_s: Latency | None = None
    """Additional message time of each further hop."""
    io_tiles_weight: Annotated[Real, Quantity("ratio", ("0.01", "100"), usual=("0.25", "4"))] | None = None
    """Bandwidth of I/O tiles on a link over that of compute tiles that send at the same time; 1 if left out."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Data bandwidth of one link in one direction. [B/s]"""
        return self.raw_bytes_per_s * self.efficiency


class GatewayLink(HardwareSpec):
    """Link from an IPU to the gateway of its machine, for all traffic except that between IPUs of a link domain."""

    raw_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_direction")
    """Raw bandwidth in one direction."""
    efficiency: Efficiency
    """Share of the bandwidth that remains for data after protocol overhead."""
    latency_s: Latency
    """Time before the first byte arrives."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Data bandwidth of the link in one direction. [B/s]"""
        return self.raw_bytes_per_s * self.efficiency


class StreamingMemory(HardwareSpec):
    """Off-chip memory behind the gateways."""

    capacity_per_ipu_bytes: Annotated[Whole, Quantity("bytes", ("1 kB", "1000000 TB"), usual=("1 GB", "4 TB"))]
    """Capacity for each IPU."""
    read_bytes_per_s: Bandwidth = Field(alias="read_bandwidth_per_ipu")
    """Read bandwidth of one IPU."""
    write_bytes_per_s: Bandwidth = Field(alias="write_bandwidth_per_ipu")
    """Write bandwidth of one IPU."""
    machine_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_machine")
    """Bandwidth of all IPUs of a machine together."""
    latency_s: Latency
    """Time before the first byte arrives."""


class GwLink(HardwareSpec):
    """GW-Links between link domains."""

    port_count: Links
    """Ports of a machine."""
    raw_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_direction")
    """Raw bandwidth of one port in one direction."""
    efficiency: Efficiency
    """Share of the bandwidth that remains for data after protocol overhead."""
    latency_s: Latency
    """Time before the first byte arrives."""
    buffer_write_bytes_per_s: Bandwidth = Field(alias="buffer_write_bandwidth_per_ipu")
    """Bandwidth from an IPU into the gateway's buffer."""
    buffer_read_bytes_per_s: Bandwidth = Field(alias="buffer_read_bandwidth_per_ipu")
    """Bandwidth from the gateway's buffer to an IPU."""
    fragment_bytes: Annotated[Whole, Quantity("bytes", ("1 B", "1000000 TB"), usual=("1 kB", "1 GB"))] | None = Field(
        None, alias="fragment_size"
    )
    """Size of the fragments that a gateway forwards as soon as they are complete; a collective's whole step if left
    out."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Data bandwidth of all ports together, in one direction. [B/s]"""
        return self.port_count * self.raw_bytes_per_s * self.efficiency


class HostLink(HardwareSpec):
    """A machine's link to its host server."""

    raw_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_direction")
    """Raw bandwidth in one direction."""
    efficiency: Efficiency
    """Share of the bandwidth that remains for data after protocol overhead."""
    latency_s: Latency
    """Time before the first byte arrives."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Data bandwidth of the link in one direction. [B/s]"""
        return self.raw_bytes_per_s * self.efficiency


_Part = TypeVar("_Part")


def present(part: _Part | None) -> _Part:
    """Return a part without its None type; the caller knows that it is there."""
    assert part is not None
    return part


class Machine(HardwareSpec):
    """A machine: IPUs, links between them, gateway and streaming memory; a card has one IPU and no links."""

    kind: Literal["machine"] = "machine"
    """What the file describes."""
    name: str
    """Its name."""
    ipu: Ipu
    """Its chip."""
    ipu_count: Annotated[Whole, Quantity("count", ("1", "1024"), usual=("1", "16"))]
    """IPUs of the machine: pairs, each on a rung, or a single IPU."""
    rung_link_count: Links | None = None
    """IPU-Links between the two IPUs of a rung."""
    rail_link_count: Links | None = None
    """IPU-Links to the neighbouring rung, on each side of the ladder and in each direction."""
    ipu_link: IpuLink | None = None
    """One IPU-Link."""
    gateway_link: GatewayLink | None = None
    """Link between IPU and gateway."""
    streaming_memory: StreamingMemory
    """Off-chip memory."""
    gw_link: GwLink | None = None
    """Links between link domains."""
    host_link: HostLink
    """Link to the host."""
    power: MachinePower | None = None
    """Power of the machine without its IPUs."""
    list_price: Annotated[Price, Priced("32450 USD")] | None = None
    """List price of one machine, without hosts."""

    @property
    def rung_bytes_per_s(self) -> float:
        """Bandwidth of all IPU-Links between the two IPUs of a rung, in one direction; infinite without links. [B/s]"""
        return self._bandwidth(self.rung_link_count)

    @property
    def rail_bytes_per_s(self) -> float:
        """Bandwidth of all IPU-Links between neighbouring rungs on one side, in one direction. [B/s]"""
        return self._bandwidth(self.rail_link_count)

    def _bandwidth(self, links: int | None) -> float:
        return links * self.ipu_link.bandwidth_bytes_per_s if links and self.ipu_link else math.inf

    @model_validator(mode="after")
    def _ipus_are_joined_in_rungs(self) -> Machine:
        if self.ipu_count % 2 and self.ipu_count > 1:
            what = f"ipu_count {self.ipu_count.provenance.text} is odd; a rung holds two IPUs"
            raise BadValueError(what, "use an even number, or one IPU")
        missing = [key for key in ("ipu_link", "rung_link_count", "rail_link_count") if getattr(self, key) is None]
        if self.ipu_count > 1 and missing:
            what = f"a machine of {self.ipu_count} IPUs has no {' and no '.join(missing)}"
            raise BadValueError(what, "add it, or use a `base` that has it")
        return self


class System(HardwareSpec):
    """A pod."""

    kind: Literal["pod"] = "pod"
    """What the file describes."""
    name: str
    """Its name."""
    machine: Machine
    """Machines of the pod, all alike."""
    machine_count: Count
    """Number of machines."""
    link_domain_machine_count: Count
    """Machines of a link domain, whose IPUs reach each other by IPU-Links."""
    topology: Literal["ladder", "torus", "machine_ring"] | None = None
    """`torus` if the ends of the ladder are joined, `machine_ring` if machines are joined in a ring by one connection
    each; left out for a single IPU."""
    host_count: Annotated[int, Field(strict=True, ge=1, le=_MOST_IPUS)]
    """Host servers."""
    host: Host
    """Host servers, all alike."""
    power: PodPower | None = None
    """Power of the pod without machines and servers; 0 if left out."""
    pod_machine_count: Count | None = None
    """Machines of the whole pod, if this system is a partition of a pod. `host_count`, `power` and a purchase are then
    those of the pod, and the partition gets its share."""

    @model_validator(mode="after")
    def _adds_up(self) -> System:
        if self.machine_count > self.link_domain_machine_count and self.machine_count % self.link_domain_machine_count:
            raise BadValueError(
                f"machine_count {self.machine_count} is not a multiple of the "
                f"{self.link_domain_machine_count} machines of a link domain",
                "use a multiple, or change link_domain_machine_count",
            )
        if self.machine.ipu_count == 1 and self.machine_count > 1:
            what = f"{self.machine_count} machines of one IPU each; nothing joins them"
            raise BadValueError(what, "use `machine_count: 1`, or a machine with several IPUs")
        missing = [key for key in ("gateway_link", "gw_link") if getattr(self.machine, key) is None]
        if self.domain_count > 1 and missing:
            what = f"{self.domain_count} link domains, but the machines have no {' and no '.join(missing)}"
            raise BadValueError(what, "add it to `machine`, or use one link domain")
        if self.ipu_count > 1 and self.topology is None:
            what = f"nothing says how {self.ipu_count} IPUs are joined"
            raise BadValueError(what, "add `topology: ladder` or `topology: torus`")
        if self.ipu_count == 1 and self.topology is not None:
            what = f"one IPU alone is joined to none; topology is {self.topology}"
            raise BadValueError(what, "leave `topology` out, or write `topology: null`")
        if self.ipu_count > _MOST_IPUS:
            what = f"{self.ipu_count} IPUs are more than a pod can have"
            raise BadValueError(what, f"use at most {_MOST_IPUS} IPUs")
        machines, pod_machines = self.machine_count, self.pod_machine_count
        if pod_machines is None:
            return self
        if machines > pod_machines or machines & (machines - 1):
            what = f"{machines} machines are no partition of {pod_machines}: partitions are powers of two"
            raise BadValueError(what, f"use {1 << (min(machines, pod_machines).bit_length() - 1)} machines")
        if self.topology == "torus" and machines < min(pod_machines, self.link_domain_machine_count):
            what = f"the ends of a partition of {machines} machines are not joined"
            raise BadValueError(what, "use `topology: ladder`")
        return self

    @property
    def whole_machine_count(self) -> int:
        """Machines of the whole pod, even if this system is a partition."""
        return self.pod_machine_count or self.machine_count

    @property
    def own_host_count(self) -> int:
        """Host servers of a run: the partition's share of the pod's servers, at least one."""
        return max(1, self.host_count * self.machine_count // self.whole_machine_count)

    @property
    def ipu_count(self) -> int:
        """IPUs of the pod or partition."""
        return self.machine_count * self.machine.ipu_count

    @property
    def domain_ipu_count(self) -> int:
        """Number of IPUs of a link domain."""
        return min(self.machine_count, self.link_domain_machine_count) * self.machine.ipu_count

    @property
    def domain_count(self) -> int:
        """Number of link domains."""
        return -(-self.machine_count // self.link_domain_machine_count)

    def room_for(self, ipus_per_copy: int) -> int:
        """Return the number of copies of a model that fit the pod, each within one link domain."""
        return self.domain_ipu_count // ipus_per_copy * self.domain_count

    def first_ipu(self, copy: int, ipus_per_copy: int) -> int:
        """Return the number of the first IPU of a copy of a model.

        Each link domain begins with a copy; the IPUs at its end are left over if they are too few for another copy.
        """
        domain, place = divmod(copy, self.domain_ipu_count // ipus_per_copy)
        return domain * self.domain_ipu_count + place * ipus_per_copy

    def machines_of(self, copies: int, ipus_per_copy: int) -> int:
        """Return the number of machines that the first `copies` copies of a model occupy."""
        per_domain = self.domain_ipu_count // ipus_per_copy
        domains, rest = divmod(copies, per_domain)
        full, partial = (-(-count * ipus_per_copy // self.machine.ipu_count) for count in (per_domain, rest))
        return domains * full + partial
