"""From checked vertex specifications to plain ones."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from pydantic import BaseModel

from podsim.specs.vertices import VerticesSpec
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

_Vertex = TypeVar("_Vertex")


def build_vertices(spec: VerticesSpec) -> Vertices:
    """The vertices of one generation of tiles."""
    return Vertices(
        launch_cycles=spec.call.launch,
        copy_cycles=spec.call.copy_cycles,
        amp=_same(AmpVertex, spec.amp),
        nx1=_same(Nx1Vertex, spec.nx1),
        slic=_same(SlicVertex, spec.slic),
        vmac=_same(VmacVertex, spec.vmac),
        hmac=_same(HmacVertex, spec.hmac),
        outer_product=_same(OuterProductVertex, spec.outer_product),
        pool=_same(PoolVertex, spec.pool),
        transform=_same(TransformVertex, spec.transform),
        reduction=_same(ReductionVertex, spec.reduction),
        slice=_same(SliceVertex, spec.slice),
        gather=_same(GatherVertex, spec.gather),
        elementwise={
            name: ElementwiseVertex(vertex.half[0], vertex.half[1], vertex.single[0], vertex.single[1], vertex.fixed)
            for name, vertex in spec.elementwise.items()
        },
    )


def _same(kind: type[_Vertex], spec: BaseModel) -> _Vertex:
    """The plain vertex whose fields have the names of the specification's."""
    names = (field.name for field in fields(kind))  # type: ignore[arg-type]
    return kind(**{name: _plain(getattr(spec, name)) for name in names})


def _plain(value: Any) -> Any:
    """Numbers as they are; mappings and lists as tuples, in the order of their entries."""
    if isinstance(value, BaseModel):
        return tuple(_plain(getattr(value, name)) for name in type(value).model_fields)
    return tuple(value) if isinstance(value, (list, tuple)) else value
