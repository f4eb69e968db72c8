"""Hardware specifications: chips, machines, pods."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.specs.base import Spec
from podsim.specs.quantity import Count, Info, Quantity, Sourced
from podsim.specs.vertices import VerticesSpec

_MOST_IPUS = 2**16
"""As many as an IPU-POD64K, the largest pod that Graphcore has named."""

_Bandwidth = Annotated[Sourced, Quantity("bytes_per_s", ("1 kB/s", "1000000 TB/s"), usual=("1 GB/s", "10 TB/s"))]
_Efficiency = Annotated[Sourced, Quantity("share", ("1 %", "100 %"), usual=("50 %", "100 %"))]
_Latency = Annotated[Sourced, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "100 us"))]
_Channels = Annotated[Sourced, Quantity("count", ("1", "4096"), usual=("4", "128"))]
_Cycles = Annotated[Sourced, Quantity("cycles", ("0", "1e9"), usual=("0", "20000"))]
_Links = Annotated[Sourced, Quantity("count", ("1", "1024"), usual=("1", "32"))]


class TileSpec(Spec):
    """A tile: a core with its own memory."""

    count: Annotated[Sourced, Quantity("count", ("1", "1000000"), usual=("100", "20000"))]
    """Tiles of the chip."""
    memory: Annotated[Sourced, Quantity("bytes", ("1 KiB", "1 GiB"), usual=("32 KiB", "8 MiB"))]
    """Memory of one tile."""
    worker_count: Annotated[Sourced, Quantity("count", ("1", "1024"), usual=("1", "64"))]
    """Hardware contexts that take turns."""
    vector_width: Annotated[Sourced, Quantity("bytes", ("4 B", "1 KiB"), usual=("4 B", "64 B"), step="4 B")]
    """Data path: bytes loaded and stored per cycle."""


class AmpSpec(Spec):
    """The matrix unit of a tile."""

    half_conv_units: _Channels
    """Output channels at once, half inputs and half partials."""
    half_partials_float_conv_units: _Channels
    """Output channels at once, half inputs and single partials."""
    single_conv_units: _Channels
    """Output channels at once, single inputs."""
    half_in_channels: _Channels
    """Input channels of one group, half."""
    single_in_channels: _Channels
    """Input channels of one group, single."""
    weight_load_width: Annotated[Sourced, Quantity("bytes", ("1 B", "1 KiB"), usual=("4 B", "64 B"), step="1 B")]
    """Bytes of weights that enter the unit per cycle."""
    half_cycles_per_position: Annotated[Sourced, Quantity("count", ("1", "1000000"), usual=("1", "64"))]
    """Cycles per output position and block of weights, half."""
    single_cycles_per_position: Annotated[Sourced, Quantity("count", ("1", "1000000"), usual=("1", "64"))]
    """Cycles per output position and block of weights, single."""


class ExchangeSpec(Spec):
    """The on-chip exchange."""

    bytes_per_cycle: Annotated[Sourced, Quantity("bytes", ("1 B", "1 KiB"), usual=("2 B", "64 B"), step="1 B")]
    """What a tile receives, and sends, per cycle."""
    tiles_per_bus: Annotated[Sourced, Quantity("count", ("1", "1024"), usual=("1", "64"))]
    """Neighbouring tiles that share an incoming bus."""


class SuperstepSpec(Spec):
    """One round of compute, sync and exchange."""

    overhead: _Cycles
    """Sync, exchange prologue and launch of one superstep."""


class IpuSpec(Spec):
    """A chip."""

    kind: Literal["ipu"] = "ipu"
    """What the file describes."""
    name: str
    """Its name."""
    clock: Annotated[Sourced, Quantity("hz", ("1 MHz", "100 GHz"), usual=("500 MHz", "5 GHz"))]
    """Clock of all tiles."""
    tile: TileSpec
    """The tiles."""
    amp: AmpSpec
    """The matrix unit."""
    exchange: ExchangeSpec
    """The on-chip exchange."""
    superstep: SuperstepSpec
    """Fixed costs of a superstep."""
    multi_ipu_sync: _Cycles
    """Sync of several IPUs."""
    vertices: VerticesSpec
    """Cycle estimates of tile programs."""


class IpuLinkSpec(Spec):
    """One IPU-Link."""

    bandwidth_per_direction: _Bandwidth
    """Raw bandwidth of one link in one direction."""
    efficiency: _Efficiency
    """Share left for data after the protocol."""
    first_hop_latency: _Latency
    """Before the first byte arrives, one hop."""
    hop_latency: _Latency
    """What each further hop adds."""


_BEHIND_GATEWAY = Info("the bandwidths behind the gateway are those of an IPU, its link included")


class GatewayLinkSpec(Spec):
    """An IPU's link to the gateway of its machine."""

    bandwidth_per_direction: Annotated[_Bandwidth, _BEHIND_GATEWAY]
    """Raw bandwidth in one direction."""
    efficiency: Annotated[_Efficiency, _BEHIND_GATEWAY]
    """Share left for data after the protocol."""
    latency: _Latency
    """Before the first byte arrives."""


class StreamingMemorySpec(Spec):
    """Off-chip memory behind the gateways."""

    capacity_per_ipu: Annotated[Sourced, Quantity("bytes", ("1 kB", "1000000 TB"), usual=("1 GB", "4 TB"))]
    """Share of one IPU."""
    read_bandwidth_per_ipu: _Bandwidth
    """To one IPU."""
    write_bandwidth_per_ipu: _Bandwidth
    """From one IPU."""
    bandwidth_per_machine: _Bandwidth
    """Of all IPUs of a machine together."""
    latency: _Latency
    """Before the first byte arrives."""


class GwLinkSpec(Spec):
    """GW-Links between link domains."""

    port_count: _Links
    """Ports of a machine."""
    bandwidth_per_direction: _Bandwidth
    """Raw bandwidth of one port in one direction."""
    efficiency: _Efficiency
    """Share left for data after the protocol."""
    latency: _Latency
    """Before the first byte arrives."""
    buffer_write_bandwidth_per_ipu: _Bandwidth
    """From an IPU into the gateway's buffer."""
    buffer_read_bandwidth_per_ipu: _Bandwidth
    """From the gateway's buffer to an IPU."""


class HostLinkSpec(Spec):
    """A machine's link to its host server."""

    bandwidth_per_direction: _Bandwidth
    """Raw bandwidth in one direction."""
    efficiency: _Efficiency
    """Share left for data after the protocol."""
    latency: _Latency
    """Before the first byte arrives."""


class MachineSpec(Spec):
    """A machine: IPUs, links between them, gateway and streaming memory."""

    kind: Literal["machine"] = "machine"
    """What the file describes."""
    name: str
    """Its name."""
    ipu: IpuSpec
    """Its chip."""
    ipu_count: Annotated[Sourced, Quantity("count", ("2", "1024"), usual=("2", "16"))]
    """IPUs; two per rung."""
    rung_link_count: _Links
    """IPU-Links between the partners of a rung."""
    rail_link_count: _Links
    """IPU-Links to the neighbouring rung, per side and direction."""
    ipu_link: IpuLinkSpec
    """One IPU-Link."""
    gateway_link: GatewayLinkSpec
    """Between IPU and gateway."""
    streaming_memory: StreamingMemorySpec
    """Off-chip memory."""
    gw_link: GwLinkSpec
    """Between link domains."""
    host_link: HostLinkSpec
    """To the host."""

    @model_validator(mode="after")
    def _rungs_are_whole(self) -> MachineSpec:
        if int(self.ipu_count) % 2:
            what = f"ipu_count {self.ipu_count.text} is odd; a rung holds two IPUs"
            raise BadValueError(what, "use an even number")
        return self


class HostSpec(Spec):
    """A host server."""

    kind: Literal["host"] = "host"
    """What the file describes."""
    name: str
    """Its name."""
    core_count: Annotated[Sourced, Quantity("count", ("1", "100000"), usual=("4", "1024"))]
    """Cores that prepare data."""
    image_decode_time: Annotated[Sourced, Quantity("s", ("0 s", "1000 s"), usual=("10 us", "100 ms"))]
    """One core decodes, crops and flips one image of ImageNet's size."""


class PodSpec(Spec):
    """A pod."""

    kind: Literal["pod"] = "pod"
    """What the file describes."""
    name: str
    """Its name."""
    machine: MachineSpec
    """Its machines, all alike."""
    machine_count: Count
    """How many."""
    link_domain_machine_count: Count
    """Machines whose IPUs reach each other by IPU-Links."""
    topology: Literal["ladder", "torus"]
    """`torus` when the ends of the ladder are joined."""
    host_count: Annotated[int, Field(strict=True, ge=1, le=_MOST_IPUS)]
    """Host servers."""
    host: HostSpec
    """The servers, all alike."""

    @model_validator(mode="after")
    def _domains_are_whole(self) -> PodSpec:
        if self.machine_count > self.link_domain_machine_count and self.machine_count % self.link_domain_machine_count:
            raise BadValueError(
                f"machine_count {self.machine_count} is not a multiple of the "
                f"{self.link_domain_machine_count} machines of a link domain",
                "use a multiple, or change link_domain_machine_count",
            )
        return self

    @model_validator(mode="after")
    def _size_is_possible(self) -> PodSpec:
        if self.ipu_count > _MOST_IPUS:
            what = f"{self.ipu_count} IPUs are more than a pod can have"
            raise BadValueError(what, f"use at most {_MOST_IPUS} IPUs")
        return self

    @property
    def ipu_count(self) -> int:
        """IPUs of the pod."""
        return self.machine_count * int(self.machine.ipu_count)

    @property
    def domain_ipu_count(self) -> int:
        """IPUs of a link domain."""
        return min(self.machine_count, self.link_domain_machine_count) * int(self.machine.ipu_count)
