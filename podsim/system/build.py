"""From checked specifications to plain systems."""

from __future__ import annotations

from podsim.specs.hardware import IpuSpec, MachineSpec, PodSpec
from podsim.specs.software import SoftwareSpec
from podsim.system.machine import Amp, Host, Ipu, Link, Machine, Software, StreamingMemory, System


def build_system(spec: PodSpec) -> System:
    """The pod that a specification describes."""
    return System(
        name=spec.name,
        machine=build_machine(spec.machine),
        machine_count=spec.machine_count,
        domain_machine_count=min(spec.link_domain_machine_count, spec.machine_count),
        topology=spec.topology,
        host_count=spec.host_count,
        host=Host(spec.host.name, spec.host.image_decode_time.value / int(spec.host.core_count)),
    )


def build_machine(spec: MachineSpec) -> Machine:
    """A machine; links become usable bandwidth: links x raw bandwidth x efficiency."""
    link, gateway, gw, host = spec.ipu_link, spec.gateway_link, spec.gw_link, spec.host_link
    usable = link.bandwidth_per_direction.value * link.efficiency.value
    streaming = spec.streaming_memory
    return Machine(
        name=spec.name,
        ipu=build_ipu(spec.ipu),
        ipu_count=int(spec.ipu_count),
        rung=Link(int(spec.rung_link_count) * usable, link.first_hop_latency.value),
        rail=Link(int(spec.rail_link_count) * usable, link.hop_latency.value),
        gateway=Link(gateway.bandwidth_per_direction.value * gateway.efficiency.value, gateway.latency.value),
        streaming=StreamingMemory(
            capacity_per_ipu_bytes=int(streaming.capacity_per_ipu),
            read_bytes_per_s=streaming.read_bandwidth_per_ipu.value,
            write_bytes_per_s=streaming.write_bandwidth_per_ipu.value,
            machine_bytes_per_s=streaming.bandwidth_per_machine.value,
            latency_s=streaming.latency.value,
        ),
        gw_link=Link(int(gw.port_count) * gw.bandwidth_per_direction.value * gw.efficiency.value, gw.latency.value),
        gw_buffer_write_bytes_per_s=gw.buffer_write_bandwidth_per_ipu.value,
        gw_buffer_read_bytes_per_s=gw.buffer_read_bandwidth_per_ipu.value,
        host_link=Link(host.bandwidth_per_direction.value * host.efficiency.value, host.latency.value),
    )


def build_ipu(spec: IpuSpec) -> Ipu:
    """A chip."""
    amp = spec.amp
    return Ipu(
        name=spec.name,
        tile_count=int(spec.tile.count),
        tile_memory_bytes=int(spec.tile.memory),
        worker_count=int(spec.tile.worker_count),
        vector_width_bytes=int(spec.tile.vector_width),
        clock_hz=spec.clock.value,
        amp=Amp(
            half_conv_units=int(amp.half_conv_units),
            half_partials_float_conv_units=int(amp.half_partials_float_conv_units),
            single_conv_units=int(amp.single_conv_units),
            half_in_channels=int(amp.half_in_channels),
            single_in_channels=int(amp.single_in_channels),
            weight_load_bytes_per_cycle=int(amp.weight_load_width),
            half_cycles_per_position=int(amp.half_cycles_per_position),
            single_cycles_per_position=int(amp.single_cycles_per_position),
        ),
        exchange_bytes_per_cycle=int(spec.exchange.bytes_per_cycle),
        tiles_per_exchange_bus=int(spec.exchange.tiles_per_bus),
        superstep_overhead_cycles=spec.superstep.overhead.value,
        multi_ipu_sync_cycles=spec.multi_ipu_sync.value,
        vertices=spec.vertices,
    )


def build_software(spec: SoftwareSpec) -> Software:
    """A software stack."""
    return Software(
        name=spec.name,
        framework=spec.framework,
        layout_change_cycles_per_byte=spec.layout_change_cycles_per_byte.value,
        code_bytes_per_tile=int(spec.code_memory_per_tile),
        inference_code_bytes_per_tile=int(spec.inference_code_memory_per_tile),
        collective_step_latency_s=spec.collective_step_latency.value,
        host_call_s=spec.host_call.value,
        setup_s=spec.setup.value,
        sharding_threshold=int(spec.sharding_threshold),
        update_first_ipu_apart=spec.update_first_ipu_apart,
        collective_both_ways=spec.collective_both_ways,
        token_call_s=spec.token_call.value if spec.token_call else None,
        forward_call_s=spec.forward_call.value if spec.forward_call else None,
        checkpoint_s=spec.checkpoint.value if spec.checkpoint else None,
        validation_setup_s=spec.validation_setup.value if spec.validation_setup else None,
        schedule=spec.schedule,
        recompute_last_segment=spec.recompute_last_segment,
        reduction_merge_bytes=int(spec.reduction_merge_size or 0),
    )
