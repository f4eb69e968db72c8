"""The chip, its tiles and its matrix unit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from podsim.errors import MissingDataError
from podsim.scenario.base import HardwareSpec
from podsim.scenario.power import ChipPower
from podsim.scenario.quantity import Quantity, Real, Whole
from podsim.scenario.vertices import Vertices

_FLOP_PER_MULTIPLY_ADD = 2
_LINES = 2
_BYTES = {"fp8": 1, "fp16": 2, "fp32": 4}
_Channels = Annotated[Whole, Quantity("count", ("1", "4096"), usual=("4", "128"))]
_Cycles = Annotated[Real, Quantity("cycles", ("0", "1e9"), usual=("0", "20000"))]
_PerPosition = Annotated[Whole, Quantity("count", ("1", "1000000"), usual=("1", "64"))]


class TileSpec(HardwareSpec):
    """A tile: a core with its own memory."""

    count: Annotated[Whole, Quantity("count", ("1", "1000000"), usual=("100", "20000"))]
    """Tiles of the chip."""
    memory_bytes: Annotated[Whole, Quantity("bytes", ("1 KiB", "1 GiB"), usual=("32 KiB", "8 MiB"))]
    """Memory of one tile."""
    worker_count: Annotated[Whole, Quantity("count", ("1", "1024"), usual=("1", "64"))]
    """Hardware contexts that share the tile's cycles."""
    vector_width_bytes: Annotated[Whole, Quantity("bytes", ("4 B", "1 KiB"), usual=("4 B", "64 B"), step="4 B")]
    """Width of the data path: bytes loaded and stored per cycle."""


class Fp8Amp(HardwareSpec):
    """Sizes of the matrix unit for FP8 inputs; half inputs have as many output channels and bytes of weights."""

    in_channels: _Channels
    """Input channels of one group, FP8."""
    cycles_per_position: _PerPosition
    """Cycles per output position and block of weights, FP8."""


class Amp(HardwareSpec):
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
    weight_load_width_bytes: Annotated[Whole, Quantity("bytes", ("1 B", "1 KiB"), usual=("4 B", "64 B"), step="1 B")]
    """Bytes of weights that enter the unit per cycle."""
    half_cycles_per_position: _PerPosition
    """Cycles per output position and block of weights, half."""
    single_cycles_per_position: _PerPosition
    """Cycles per output position and block of weights, single."""
    half_partials_float_cycles_per_position: _PerPosition | None = None
    """Cycles per output position and block of weights, half inputs and single partials; those of half if left out."""
    fp8: Fp8Amp | None = None
    """FP8 inputs, whose partials are half; left out for units without FP8."""

    def in_channels(self, dtype: str) -> int:
        """Return the input channels of one group, by format of the inputs."""
        if dtype == "fp8":
            return self._fp8.in_channels
        return self.half_in_channels if dtype == "fp16" else self.single_in_channels

    def cycles_per_position(self, dtype: str, partials: str = "") -> int:
        """Return the cycles per output position and block of weights, by format of inputs and partials. [cycles]"""
        if dtype == "fp8":
            return self._fp8.cycles_per_position
        if dtype == "fp16" and partials == "fp32" and self.half_partials_float_cycles_per_position:
            return self.half_partials_float_cycles_per_position
        return self.half_cycles_per_position if dtype == "fp16" else self.single_cycles_per_position

    def conv_units(self, dtype: str, partials: str) -> int:
        """Return the output channels at once, by format of inputs and partials."""
        if dtype == "fp32":
            return self.single_conv_units
        return self.half_partials_float_conv_units if partials == "fp32" else self.half_conv_units

    def channel_bytes(self, dtype: str) -> int:
        """Return the size of the weights of one output channel in one group of input channels. [B]"""
        return self.in_channels(dtype) * _BYTES[dtype]

    @property
    def _fp8(self) -> Fp8Amp:
        if self.fp8 is None:
            raise MissingDataError("the matrix unit takes no FP8", do="use fp16, or a chip with `amp.fp8`")
        return self.fp8


class ExchangeSpec(HardwareSpec):
    """The on-chip exchange."""

    bytes_per_cycle: Annotated[Whole, Quantity("bytes", ("1 B", "1 KiB"), usual=("2 B", "64 B"), step="1 B")]
    """Bytes that a tile receives, and sends, per cycle."""
    tiles_per_bus: Annotated[Whole, Quantity("count", ("1", "1024"), usual=("1", "64"))]
    """Neighbouring tiles that share an incoming bus."""
    latency_cycles: _Cycles | None = None
    """Latency of a word from one tile to another, sync included; the overhead of a superstep if left out."""
    loaded_latency_cycles: _Cycles | None = None
    """Latency of a word while all tiles send one; as `latency` if left out."""


class Superstep(HardwareSpec):
    """Fixed costs of one round of compute, sync and exchange."""

    overhead_cycles: _Cycles
    """Sync, exchange prologue and launch of one superstep."""


class Ipu(HardwareSpec):
    """IPU chip."""

    kind: Literal["ipu"] = "ipu"
    """What the file describes."""
    name: str
    """Its name."""
    clock_hz: Annotated[Real, Quantity("hz", ("1 MHz", "100 GHz"), usual=("500 MHz", "5 GHz"))]
    """Clock of all tiles."""
    tile: TileSpec
    """The tiles."""
    amp: Amp
    """The matrix unit."""
    exchange: ExchangeSpec
    """The on-chip exchange."""
    superstep: Superstep
    """Fixed costs of a superstep."""
    multi_ipu_sync_cycles: _Cycles
    """Sync of several IPUs."""
    vertices: Vertices
    """Cycle estimates of tile programs."""
    power: ChipPower | None = Field(
        default=None, repr=False
    )  # `repr` identifies cached plans, which power does not change
    """Power of the chip."""

    @property
    def memory_bytes(self) -> int:
        """Size of the chip's In-Processor-Memory. [B]"""
        return self.tile.count * self.tile.memory_bytes

    def products_per_cycle(self, dtype: str) -> float:
        """Return the peak multiply-adds per tile and cycle: channels·units/cycles of the matrix unit, or one vector."""
        amp = self.amp
        in_unit = amp.in_channels(dtype) * amp.conv_units(dtype, dtype) / amp.cycles_per_position(dtype)
        # Only the matrix unit computes in FP8.
        return in_unit if dtype == "fp8" else max(in_unit, self.tile.vector_width_bytes / _BYTES[dtype])

    def peak_flop_per_s(self, dtype: str) -> float:
        """Return the peak of all tiles: 2·multiply-adds per tile and cycle. [FLOP/s]"""
        return _FLOP_PER_MULTIPLY_ADD * self.products_per_cycle(dtype) * self.tile.count * self.clock_hz

    @property
    def multi_ipu_sync_s(self) -> float:
        """Time of a sync of several IPUs. [s]"""
        return self.multi_ipu_sync_cycles / self.clock_hz

    def exchange_bytes_per_s(self, tile_count: int) -> float:
        """Return the rate at which `tile_count` tiles together receive, or send. [B/s]"""
        return tile_count * self.exchange.bytes_per_cycle * self.clock_hz

    def with_tiles(self, count: int) -> Ipu:
        """Return the chip with another number of tiles."""
        if count == self.tile.count:
            return self
        return self.model_copy(update={"tile": self.tile.model_copy(update={"count": count})})

    @property
    def with_wide_weight_loads(self) -> Ipu:
        """Chip with weights in interleaved memory, from which the matrix unit loads two lines per cycle."""
        width = _LINES * self.amp.weight_load_width_bytes
        return self.model_copy(update={"amp": self.amp.model_copy(update={"weight_load_width_bytes": width})})
