"""What exists: chips, machines, pods and the routes between them."""

from podsim.system.build import build_ipu, build_machine, build_software, build_system
from podsim.system.machine import Amp, Ipu, Link, Machine, Software, StreamingMemory, System
from podsim.system.topology import Channel, Route, gw_route, route, streaming_channels

__all__ = [
    "Amp",
    "Channel",
    "Ipu",
    "Link",
    "Machine",
    "Route",
    "Software",
    "StreamingMemory",
    "System",
    "build_ipu",
    "build_machine",
    "build_software",
    "build_system",
    "gw_route",
    "route",
    "streaming_channels",
]
