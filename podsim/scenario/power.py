"""Power of chips, machines, host servers and switches, idle and busy."""

from __future__ import annotations

from typing import Annotated

from podsim.scenario.base import HardwareSpec
from podsim.scenario.quantity import APART, Quantity, Real, Whole

_Chip = Annotated[Real, Quantity("w", ("0 W", "100 kW"), usual=("1 W", "2 kW")), APART]
_Box = Annotated[Real, Quantity("w", ("0 W", "1 MW"), usual=("1 W", "20 kW")), APART]
_Operation = Annotated[Real, Quantity("j", ("0 pJ", "1 uJ"), usual=("0.1 pJ", "100 pJ")), APART]


class ChipPower(HardwareSpec):
    """Power of a chip: idle power, plus the energy of operations at one voltage."""

    idle_w: _Chip
    """Power of an idle chip."""
    tile_cycle_j: _Operation
    """Energy of a cycle of a working tile, for any work: vectors, loads and stores, the exchange."""
    half_flop_j: _Operation
    """Additional energy of an operation of a product, half inputs and partials."""
    half_partials_float_flop_j: _Operation
    """Additional energy of an operation of a product, half inputs and single partials."""
    single_flop_j: _Operation
    """Additional energy of an operation of a product, single inputs and partials."""
    fp8_flop_j: _Operation | None = None
    """Additional energy of an operation of a product, FP8 inputs and half partials; half of that of half inputs if left
    out."""
    transfer_w: _Chip
    """Additional power during transfers over links, to and from hosts, and to and from streaming memory."""


class MachinePower(HardwareSpec):
    """Power of a machine."""

    without_ipus_w: _Box
    """Power of gateway, streaming memory, network cards, fans and losses of the supply, without IPUs."""


class HostPower(HardwareSpec):
    """Power of a host server."""

    idle_w: _Box
    """Power between runs."""
    busy_w: _Box
    """Power during a run."""


class PodPower(HardwareSpec):
    """Power of a pod without its machines and host servers."""

    switch_w: _Box
    """Power of one switch."""
    switch_count: Annotated[Whole, Quantity("count", ("0", "1024"), usual=("0", "64")), APART]
    """Number of switches between machines and host servers."""
