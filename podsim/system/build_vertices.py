"""From checked vertex specifications to plain ones."""

from __future__ import annotations

from podsim.specs.vertices import (
    AmpVertexSpec,
    ByFormat,
    ElementsByFormat,
    GatherVertexSpec,
    HmacVertexSpec,
    Nx1VertexSpec,
    OuterProductVertexSpec,
    Passes,
    PoolVertexSpec,
    ReductionVertexSpec,
    SlicVertexSpec,
    TransformVertexSpec,
    VerticesSpec,
    VmacVertexSpec,
    WorkerTable,
)
from podsim.system.vertices import (
    AmpVertex,
    ElementwiseVertex,
    GatherVertex,
    HmacVertex,
    Nx1Vertex,
    OuterProductVertex,
    PoolVertex,
    ReductionVertex,
    SliceVertex,
    SlicVertex,
    TransformVertex,
    Vertices,
    VmacVertex,
)


def build_vertices(spec: VerticesSpec) -> Vertices:
    """The vertices of one generation of tiles."""
    return Vertices(
        launch_cycles=spec.call.launch,
        copy_cycles=spec.call.copy_cycles,
        amp=_amp(spec.amp),
        nx1=_nx1(spec.nx1),
        slic=_slic(spec.slic),
        vmac=_vmac(spec.vmac),
        hmac=_hmac(spec.hmac),
        outer_product=_outer_product(spec.outer_product),
        pool=_pool(spec.pool),
        transform=_transform(spec.transform),
        reduction=_reduction(spec.reduction),
        slice=SliceVertex(spec.slice.fixed, spec.slice.worker_fixed, spec.slice.elements_per_cycle),
        gather=_gather(spec.gather),
        elementwise={
            name: ElementwiseVertex(vertex.half[0], vertex.half[1], vertex.single[0], vertex.single[1], vertex.fixed)
            for name, vertex in spec.elementwise.items()
        },
    )


def _nx1(spec: Nx1VertexSpec) -> Nx1Vertex:
    return Nx1Vertex(
        fixed=spec.fixed,
        worker_fixed=spec.worker_fixed,
        zero_call=spec.zero_call,
        zero_loop=spec.zero_loop,
        zero_end=spec.zero_end,
        zero_worker=spec.zero_worker,
        conv_group=spec.conv_group,
        in_group=spec.in_group,
        out_group=spec.out_group,
        kernel_row=spec.kernel_row,
        kernel_position=spec.kernel_position,
        filter_load=(spec.filter_load.one, spec.filter_load.two, spec.filter_load.four),
        per_pass=spec.pass_,
        worker=spec.worker,
        segment=spec.segment,
        segment_saving=spec.segment_saving,
        half_segment=tuple(spec.half_segment),
        single_segment=tuple(spec.single_segment),
        half_partials=spec.half_partials,
        tail=spec.tail,
    )


def _slic(spec: SlicVertexSpec) -> SlicVertex:
    return SlicVertex(
        fixed=spec.fixed,
        sub_kernel=spec.sub_kernel,
        kernel_width=spec.kernel_width,
        channels=spec.channels,
        weight_load=tuple(spec.weight_load),
        work_item=spec.work_item,
        row=spec.row,
        row_positions=(spec.row_positions.one, spec.row_positions.two),
        row_cycles_per_position=(spec.row_cycles_per_position.one, spec.row_cycles_per_position.two),
        passes=_formats(spec.passes),
    )


def _vmac(spec: VmacVertexSpec) -> VmacVertex:
    return VmacVertex(
        fixed=spec.fixed,
        group=spec.group,
        in_channel=spec.in_channel,
        worker=(spec.worker.half_width, spec.worker.full_width),
        half_width=spec.half_width,
        segment=spec.segment,
        tap=spec.tap,
        reduce=spec.reduce,
        reduce_cycles_per_output=spec.reduce_cycles_per_output,
    )


def _hmac(spec: HmacVertexSpec) -> HmacVertex:
    return HmacVertex(
        output=spec.output,
        half_products_per_cycle=spec.half_products_per_cycle,
        single_products_per_cycle=spec.single_products_per_cycle,
    )


def _outer_product(spec: OuterProductVertexSpec) -> OuterProductVertex:
    return OuterProductVertex(
        fixed=spec.fixed,
        group=spec.group,
        position=spec.position,
        position_channels=spec.position_channels,
        channels_per_cycle=spec.channels_per_cycle,
    )


def _pool(spec: PoolVertexSpec) -> PoolVertex:
    return PoolVertex(
        row=spec.row,
        forward_tap=spec.forward_tap,
        backward_tap=spec.backward_tap,
    )


def _transform(spec: TransformVertexSpec) -> TransformVertex:
    return TransformVertex(
        cycles=spec.cycles,
        elements=spec.elements,
    )


def _amp(spec: AmpVertexSpec) -> AmpVertex:
    return AmpVertex(
        fixed=spec.fixed,
        worker_fixed=spec.worker_fixed,
        worker_per_in_group=spec.worker_per_in_group,
        conv_group=spec.conv_group,
        conv_group_last=spec.conv_group_last,
        in_group=spec.in_group,
        out_group=_passes(spec.out_group),
        passes=_passes(spec.pass_),
        half_worker=_table(spec.half_worker),
        single_worker=_table(spec.single_worker),
        single_first_cycles_per_position=spec.single_first_cycles_per_position,
        retention_saving=spec.retention_saving,
        tail=spec.tail,
    )


def _reduction(spec: ReductionVertexSpec) -> ReductionVertex:
    return ReductionVertex(
        fixed=spec.fixed,
        worker_fixed=spec.worker_fixed,
        cycles_per_partial=spec.cycles_per_partial,
        output_overhead=_formats(spec.output_overhead),
        output_vector=_formats(spec.output_vector),
        two_stage_depth=spec.two_stage_depth,
        three_stage_depth=spec.three_stage_depth,
        general_fixed=spec.general_fixed,
    )


def _gather(spec: GatherVertexSpec) -> GatherVertex:
    return GatherVertex(
        worker_fixed=spec.worker_fixed,
        per_index=spec.per_index,
        cycles_per_pair=spec.cycles_per_pair,
        skip=spec.skip,
        update_worker_fixed=spec.update_worker_fixed,
        update_per_index=spec.update_per_index,
        update_cycles_per_atom=spec.update_cycles_per_atom,
        update_skip=spec.update_skip,
    )


def _passes(spec: Passes) -> tuple[int, int]:
    return spec.later, spec.first


def _table(spec: WorkerTable) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(spec.later), tuple(spec.first)


def _formats(spec: ByFormat | ElementsByFormat) -> tuple[int, int]:
    return spec.half, spec.single
