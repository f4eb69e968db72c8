"""Machines and pods: what exists, in SI units, without provenance."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.system.vertices import Vertices

_FLOP_PER_MULTIPLY_ADD = 2
_HALF_BYTES, _SINGLE_BYTES = 2, 4


@dataclass(frozen=True, slots=True)
class Amp:
    """The matrix unit of a tile.

    Attributes:
        half_conv_units: Output channels at once with half partials; also the grain of output channels.
        half_partials_float_conv_units: The same for half inputs with single partials.
        single_conv_units: The same for single inputs.
        half_in_channels: Input channels of one group, half.
        single_in_channels: Input channels of one group, single.
        weight_load_bytes_per_cycle: Rate at which weights enter the unit. [B/cycle]
        half_cycles_per_position: Cycles per output position and block, half.
        single_cycles_per_position: The same for single.
    """

    half_conv_units: int
    half_partials_float_conv_units: int
    single_conv_units: int
    half_in_channels: int
    single_in_channels: int
    weight_load_bytes_per_cycle: int
    half_cycles_per_position: int
    single_cycles_per_position: int


@dataclass(frozen=True, slots=True)
class Ipu:
    """One chip.

    Attributes:
        name: Its name.
        tile_count: Tiles.
        tile_memory_bytes: Memory of a tile. [B]
        worker_count: Worker contexts of a tile.
        vector_width_bytes: Data path of a tile. [B]
        clock_hz: Clock of all tiles. [Hz]
        amp: The matrix unit.
        exchange_bytes_per_cycle: Port of a tile on the exchange, each direction. [B/cycle]
        tiles_per_exchange_bus: Neighbours that receive equal data at a multiple of the rate.
        superstep_overhead_cycles: Sync, exchange prologue and launch of one superstep. [cycles]
        multi_ipu_sync_cycles: Sync of several IPUs. [cycles]
        vertices: Cycle estimates of tile programs.
    """

    name: str
    tile_count: int
    tile_memory_bytes: int
    worker_count: int
    vector_width_bytes: int
    clock_hz: float
    amp: Amp
    exchange_bytes_per_cycle: int
    tiles_per_exchange_bus: int
    superstep_overhead_cycles: float
    multi_ipu_sync_cycles: float
    vertices: Vertices

    @property
    def memory_bytes(self) -> int:
        """In-Processor-Memory of the chip. [B]"""
        return self.tile_count * self.tile_memory_bytes

    def products_per_cycle(self, dtype: str) -> float:
        """Most multiply-adds of a tile: channels·units/cycles in the matrix unit, a whole vector beside it."""
        amp = self.amp
        if dtype == "fp16":
            in_unit = amp.half_in_channels * amp.half_conv_units / amp.half_cycles_per_position
            return max(in_unit, self.vector_width_bytes / _HALF_BYTES)
        in_unit = amp.single_in_channels * amp.single_conv_units / amp.single_cycles_per_position
        return max(in_unit, self.vector_width_bytes / _SINGLE_BYTES)

    def peak_flop_per_s(self, dtype: str) -> float:
        """Peak of all tiles: 2·multiply-adds per tile and cycle. [FLOP/s]"""
        return _FLOP_PER_MULTIPLY_ADD * self.products_per_cycle(dtype) * self.tile_count * self.clock_hz

    def exchange_bytes_per_s(self, tile_count: int) -> float:
        """What so many tiles receive, or send, together. [B/s]"""
        return tile_count * self.exchange_bytes_per_cycle * self.clock_hz


@dataclass(frozen=True, slots=True)
class Link:
    """A connection between two ends.

    Attributes:
        bandwidth_bytes_per_s: What it carries in one direction, after protocol. [B/s]
        latency_s: Time before the first byte arrives. [s]
    """

    bandwidth_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class StreamingMemory:
    """Off-chip memory behind the gateways.

    Attributes:
        capacity_per_ipu_bytes: Share of one IPU. [B]
        read_bytes_per_s: To one IPU. [B/s]
        write_bytes_per_s: From one IPU. [B/s]
        machine_bytes_per_s: Of all IPUs of a machine together. [B/s]
        latency_s: Before the first byte. [s]
    """

    capacity_per_ipu_bytes: int
    read_bytes_per_s: float
    write_bytes_per_s: float
    machine_bytes_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: IPUs, their links, gateway and streaming memory.

    Attributes:
        name: Its name.
        ipu: Its chip.
        ipu_count: IPUs.
        rung: All IPU-Links between two partners on a rung.
        rail: All IPU-Links between neighbouring rungs on one side; its latency is that of a further hop.
        gateway: An IPU's link to the gateway.
        streaming: Streaming memory.
        gw_link: All GW-Link ports of the machine together.
        gw_buffer_write_bytes_per_s: From an IPU into the gateway's buffer. [B/s]
        gw_buffer_read_bytes_per_s: From the gateway's buffer to an IPU. [B/s]
        host_link: To the host.
    """

    name: str
    ipu: Ipu
    ipu_count: int
    rung: Link
    rail: Link
    gateway: Link
    streaming: StreamingMemory
    gw_link: Link
    gw_buffer_write_bytes_per_s: float
    gw_buffer_read_bytes_per_s: float
    host_link: Link


@dataclass(frozen=True, slots=True)
class Host:
    """A host server.

    Attributes:
        name: Its name.
        decode_s_per_image: Time per image with all cores at work. [s]
    """

    name: str
    decode_s_per_image: float


@dataclass(frozen=True, slots=True)
class System:
    """A pod.

    Attributes:
        name: Its name.
        machine: Its machines are all alike.
        machine_count: Machines.
        domain_machine_count: Machines of one link domain.
        topology: `ladder`, or `torus` when the ends of the ladder are joined.
        host_count: Host servers.
        host: The servers are all alike.
    """

    name: str
    machine: Machine
    machine_count: int
    domain_machine_count: int
    topology: str
    host_count: int
    host: Host

    @property
    def ipu_count(self) -> int:
        """IPUs of the pod."""
        return self.machine_count * self.machine.ipu_count

    @property
    def domain_ipu_count(self) -> int:
        """IPUs of one link domain."""
        return min(self.machine_count, self.domain_machine_count) * self.machine.ipu_count

    @property
    def domain_count(self) -> int:
        """Link domains."""
        return -(-self.machine_count // self.domain_machine_count)


@dataclass(frozen=True, slots=True)
class Software:
    """A software stack.

    Attributes:
        name: Its name.
        framework: For example `PopART`.
        layout_change_cycles_per_byte: Copies on a tile when a tensor changes its layout. [cycles/B]
        code_bytes_per_tile: Vertex, control and exchange code with vertex state, training. [B]
        inference_code_bytes_per_tile: The same for inference. [B]
        collective_step_latency_s: Least time of one step of a collective. [s]
        host_call_s: A session call for one weight update, device work apart. [s]
        setup_s: From the start of a run to its first weight update. [s]
        sharding_threshold: Tensors with fewer elements are not sharded.
        update_first_ipu_apart: Whether IPU 0 updates its weights after the others.
        collective_both_ways: Whether rings use both directions of their links.
        token_call_s: A call for one generated token, with sampling on the host, if known. [s]
        forward_call_s: A session call for forward passes, device work and transfers apart, if known. [s]
        checkpoint_s: What writing a checkpoint adds to the training, data transfer apart, if known. [s]
        validation_setup_s: Building and loading the program that validates checkpoints, if known. [s]
        schedule: `lock_step`, or `grouped`: all forward passes, then all backward passes.
        recompute_last_segment: Whether the segment whose backward pass follows its forward pass is redone too.
        reduction_merge_bytes: Gradients are reduced together up to this size; 0 for each tensor alone. [B]
    """

    name: str
    framework: str
    layout_change_cycles_per_byte: float
    code_bytes_per_tile: int
    inference_code_bytes_per_tile: int
    collective_step_latency_s: float
    host_call_s: float
    setup_s: float
    sharding_threshold: int
    update_first_ipu_apart: bool
    collective_both_ways: bool = False
    token_call_s: float | None = None
    forward_call_s: float | None = None
    checkpoint_s: float | None = None
    validation_setup_s: float | None = None
    schedule: str = "lock_step"
    recompute_last_segment: bool = True
    reduction_merge_bytes: int = 0
