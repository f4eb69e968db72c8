"""Sections that several activities share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import BeforeValidator, Field, WithJsonSchema

from podsim.errors import BadValueError
from podsim.scenario.pins import PARALLELISM
from podsim.scenario.wording import counted, quoted

if TYPE_CHECKING:
    from podsim.scenario.hardware import System
    from podsim.scenario.ipu import Ipu
    from podsim.scenario.scenario import Finding


class Replicated(Protocol):
    """Division into replicas."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one copy of the model."""

    @property
    def replication_factor(self) -> int:
        """Copies of the model."""


def replica_findings(system: System, layout: Replicated) -> Iterator[Finding]:
    """Yield problems of replicas that do not fit the pod."""
    per_replica, replicas = layout.ipus_per_replica, layout.replication_factor
    available, domain = system.ipu_count, system.domain_ipu_count
    per_domain, room, where = domain // per_replica, system.room_for(per_replica), (PARALLELISM, "replication_factor")
    if not per_domain:
        what = f"a link domain of {domain} IPUs has no room for a replica of {per_replica} IPUs"
        yield (PARALLELISM,), what, "use fewer IPUs per replica, or another pod"
    elif replicas * per_replica > available:
        need = f"{replicas} replicas of {per_replica} IPUs need {replicas * per_replica} IPUs"
        yield where, f"{need}; {system.name} has {available}", f"use at most {room}"
    elif replicas > room:
        domains = f"{counted(system.domain_count, 'link domain')} of {domain} IPUs, with room for {per_domain} in each"
        what = f"{replicas} replicas of {per_replica} IPUs are wanted; {system.name} has {domains}"
        yield where, what, f"use at most {room}"
    elif replicas > per_domain and replicas % per_domain:
        what = f"{replicas} replicas of {per_replica} IPUs cannot be divided among link domains of {domain} IPUs"
        yield where, what, f"use a multiple of {per_domain}"


def shard_findings(model: Any, shards: int) -> Iterator[Finding]:
    """Yield a problem if there are more shards of a transformer than heads or elements of the feed-forward width."""
    if shards == 1:
        return
    for key in ("head_count", "feed_forward_size"):
        if (count := getattr(model, key)) < shards:
            what = f"{shards} shards are more than {key} {count}; some would hold nothing"
            yield (PARALLELISM, "tensor_parallel"), what, f"use at most {count}"


class Narrowing(Protocol):
    """Number formats, including that of products."""

    @property
    def activations(self) -> str:
        """Format of activations."""

    @property
    def matmul_partials(self) -> str:
        """Format of partial results."""

    @property
    def products(self) -> str | None:
        """Format of operands of products, if it differs from that of activations."""


def check_products(formats: Narrowing) -> None:
    """Raise an error if operands of products cannot have their format with these activations and partial results."""
    if formats.products == "fp8":
        if wide := [key for key in ("activations", "matmul_partials") if getattr(formats, key) != "fp16"]:
            what = f"products in fp8 with {wide[0]} in {getattr(formats, wide[0])}; results of FP8 are half precision"
            raise BadValueError(what, f"write `{wide[0]}: fp16`, or leave `products` out")
    elif formats.products not in (None, formats.activations):
        what = f"products in {formats.products} with activations in {formats.activations} are not modelled"
        raise BadValueError(what, "leave `products` out")


def product_findings(ipu: Ipu, formats: Narrowing) -> Iterator[Finding]:
    """Yield a problem if products are in FP8 on a chip without it."""
    if formats.products == "fp8" and ipu.amp.fp8 is None:
        yield (
            ("precision", "products"),
            f"the matrix unit of {ipu.name} takes no FP8",
            "leave it out, or use a chip that does: `--set system=c600`",
        )


def one_share(available_memory_proportion: Any) -> Iterator[Finding]:
    """Yield a problem if `available_memory_proportion` is a list in a scenario whose IPUs all have the same share."""
    if isinstance(available_memory_proportion, tuple):
        yield ("memory", "available_memory_proportion"), "is a list; all IPUs are alike here", "give one number"


def _proportion(raw: Any) -> Any:
    values = raw if isinstance(raw, (list, tuple)) else [raw]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = f"needs a number, or a list with one per IPU, not {quoted(value)}"
            raise BadValueError(what, "write for example `0.2`")
        if not 0 < value <= 1:
            raise BadValueError(f"{quoted(value)} is not above 0 and at most 1", "write for example `0.2`")
    return tuple(float(value) for value in values) if isinstance(raw, (list, tuple)) else float(raw)


def io_tile_findings(io_tiles: int, tile_count: int) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield a problem if I/O tiles leave no tiles for computation."""
    if io_tiles >= tile_count:
        what = f"{io_tiles} I/O tiles leave none of {tile_count} tiles to compute"
        yield ("memory", "io_tiles"), what, "use 32 or 64"


Reserve = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


_PROPORTION_SCHEMA = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
AvailableMemory = Annotated[
    Any,
    BeforeValidator(_proportion),
    WithJsonSchema({"anyOf": [_PROPORTION_SCHEMA, {"type": "array", "items": _PROPORTION_SCHEMA}]}),
]
