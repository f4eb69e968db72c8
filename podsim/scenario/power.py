"""What chips, machines, host servers and switches draw, idle and busy."""

from __future__ import annotations

from typing import Annotated

from podsim.scenario.base import HardwareSpec
from podsim.scenario.quantity import APART, Quantity, Real, Whole

_Chip = Annotated[Real, Quantity("w", ("0 W", "100 kW"), usual=("1 W", "2 kW")), APART]
_Box = Annotated[Real, Quantity("w", ("0 W", "1 MW"), usual=("1 W", "20 kW")), APART]
_Operation = Annotated[Real, Quantity("j", ("0 pJ", "1 uJ"), usual=("0.1 pJ", "100 pJ")), APART]


class ChipPower(HardwareSpec):
    """What a chip draws: idle power always, and the energy of what it does, at one voltage."""

    idle_w: _Chip
    """While it waits."""
    tile_cycle_j: _Operation
    """A cycle of a tile at work, whatever it does: vectors, loads and stores, the exchange."""
    half_flop_j: _Operation
    """An operation of a product beside that, half inputs and partials."""
    half_partials_float_flop_j: _Operation
    """The same, half inputs and single partials."""
    single_flop_j: _Operation
    """The same, single inputs and partials."""
    fp8_flop_j: _Operation | None = None
    """The same, FP8 inputs and half partials; half of that of half inputs if left out."""
    transfer_w: _Chip
    """What transfers over links draw beside idle power, and those to and from hosts and streaming memory."""


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
