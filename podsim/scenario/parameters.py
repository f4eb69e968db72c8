"""Short names of hardware parameters, and the keys of a scenario that each name sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MACHINE: Final = "system.machine"
_IPU_LINKS: Final = f"{_MACHINE}.ipu_link.bandwidth_per_direction"
_GW_LINKS: Final = f"{_MACHINE}.gw_link.bandwidth_per_direction"

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "clock": (f"{_MACHINE}.ipu.clock",),
    "tiles": (f"{_MACHINE}.ipu.tile.count",),
    "memory": (f"{_MACHINE}.ipu.tile.memory",),
    "exchange": (f"{_MACHINE}.ipu.exchange.bytes_per_cycle",),
    "links": (_IPU_LINKS, _GW_LINKS),
    "ipu_links": (_IPU_LINKS,),
    "gw_links": (_GW_LINKS,),
    "host_links": (f"{_MACHINE}.host_link.bandwidth_per_direction",),
    "streaming": (
        f"{_MACHINE}.gateway_link.bandwidth_per_direction",
        f"{_MACHINE}.streaming_memory.read_bandwidth_per_ipu",
        f"{_MACHINE}.streaming_memory.write_bandwidth_per_ipu",
        f"{_MACHINE}.streaming_memory.bandwidth_per_machine",
    ),
}
"""`memory` is tile memory, `links` are all links between IPUs, `streaming` is the path to and from Streaming Memory."""
