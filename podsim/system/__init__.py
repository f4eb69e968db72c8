"""What follows from the parts of a pod: routes, and the channels that transfers share."""

from podsim.system.topologies import topology_of
from podsim.system.topology import Channel, Route, Routes, gw_route, route, streaming_channels

__all__ = ["Channel", "Route", "Routes", "gw_route", "route", "streaming_channels", "topology_of"]
