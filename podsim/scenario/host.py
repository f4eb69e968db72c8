"""Host servers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from podsim.scenario.base import HardwareSpec
from podsim.scenario.power import HostPower
from podsim.scenario.quantity import Quantity, Real, Whole
from podsim.scenario.rates import Bandwidth, Efficiency, Links


class HostNetwork(HardwareSpec):
    """The network cards of a host server, which all machines that it feeds share."""

    port_count: Links
    """Ports that lead to machines."""
    raw_bytes_per_s: Bandwidth = Field(alias="bandwidth_per_direction")
    """Raw bandwidth of one port in one direction."""
    efficiency: Efficiency
    """Share left for data after the protocol."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """What all ports together have left for data. [B/s]"""
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
    """One core decodes, crops and flips one image of ImageNet's size."""
    network: HostNetwork | None = None
    """Its network cards; left out, only the links of machines set bounds."""
    power: HostPower | None = None
    """What it draws."""

    @property
    def decode_s_per_image(self) -> float:
        """Time per image with all cores at work. [s]"""
        return self.image_decode_time_s / self.core_count
