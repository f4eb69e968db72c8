"""What chips, machines, host servers and switches draw, idle and busy."""

from __future__ import annotations

from typing import Annotated

from podsim.scenario.base import HardwareSpec
from podsim.scenario.quantity import APART, Quantity, Real, Whole

_Chip = Annotated[Real, Quantity("w", ("0 W", "100 kW"), usual=("1 W", "2 kW")), APART]
_Box = Annotated[Real, Quantity("w", ("0 W", "1 MW"), usual=("1 W", "20 kW")), APART]
_Clock = Annotated[Real, Quantity("hz", ("1 MHz", "100 GHz"), usual=("500 MHz", "5 GHz")), APART]
_Activity = Annotated[Real, Quantity("share", ("0 %", "100 %"), usual=("0 %", "100 %")), APART]


class ChipPower(HardwareSpec):
    """What a chip draws: idle power always, and a share of its dynamic power that depends on what it does."""

    idle_w: _Chip
    """While it waits."""
    dynamic_w: _Chip
    """What matrix products draw beside it."""
    at_clock_hz: _Clock | None = None
    """The clock at which they draw it; at another, in proportion. Left out, it is the same at every clock."""
    vector_activity: _Activity
    """Share of the dynamic power that other work on the tiles draws: vectors, sums, the optimizer."""
    exchange_activity: _Activity
    """Share that the exchange on the chip draws, with syncs and layout changes."""
    transfer_activity: _Activity
    """Share that transfers over links draw, and those to and from hosts and streaming memory."""


class MachinePower(HardwareSpec):
    """What a machine draws."""

    without_ipus_w: _Box
    """All but its IPUs: gateway, streaming memory, network cards, fans, losses of the supply."""


class HostPower(HardwareSpec):
    """What a host server draws."""

    idle_w: _Box
    """Between runs."""
    busy_w: _Box
    """During a run."""


class PodPower(HardwareSpec):
    """What a pod draws beside its machines and host servers."""

    switch_w: _Box
    """One switch."""
    switch_count: Annotated[Whole, Quantity("count", ("0", "1024"), usual=("0", "64")), APART]
    """Switches between machines and host servers."""
