"""Pins beside `parallelism: auto` that no division can have, whatever is chosen for the rest."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.assumptions import AnyScenario
from podsim.specs.auto import BATCH, PARALLELISM, AutoInferenceSpec, AutoSpec, AutoTrainingSpec
from podsim.specs.checks import division_findings
from podsim.specs.hardware import System
from podsim.specs.inference import InferenceParallelismSpec, InferenceScenarioSpec
from podsim.specs.model_checks import Finding

_LARGEST_BATCH = 10**9


def pin_findings(spec: AnyScenario, auto: AutoSpec) -> Iterator[Finding]:
    """(key, what is wrong, what to do) for every pin that cannot be."""
    if isinstance(auto, AutoTrainingSpec):
        yield from _batch(getattr(spec, BATCH, None))
        yield from _ipus(spec.system, "ipus_per_replica", auto.ipus_per_replica)
        yield from _replicas(spec.system, auto)
    elif isinstance(spec, InferenceScenarioSpec):
        wrong = [
            *_ipus(spec.system, "tensor_parallel", auto.tensor_parallel),
            *_ipus(spec.system, "pipeline_stages", auto.pipeline_stages),
        ]
        yield from wrong or _decoder(spec, auto)


def _batch(batch_size: int | None) -> Iterator[Finding]:
    if batch_size is not None and batch_size > _LARGEST_BATCH:
        yield (BATCH,), f"`{batch_size}` is too large to be divided", f"write {_LARGEST_BATCH} or less"


def _ipus(system: System, key: str, count: int | None) -> Iterator[Finding]:
    """The search tries powers of two within a link domain."""
    domain = system.domain_ipu_count
    sizes = [1 << exponent for exponent in range(domain.bit_length())]
    if count is not None and count not in sizes:
        yield (
            (PARALLELISM, key),
            f"{count} cannot be: a link domain of {system.name} has {domain} IPUs, and is divided by powers of two",
            f"write {', '.join(map(str, sizes[:-1]))} or {sizes[-1]}, or leave it out" if sizes[1:] else "leave it out",
        )


def _replicas(system: System, auto: AutoTrainingSpec) -> Iterator[Finding]:
    replicas, ipus = auto.replication_factor or 1, auto.ipus_per_replica or 1
    most = system.ipu_count // ipus
    if not most:
        return
    if replicas > most:
        each = f" of {ipus} IPUs" if ipus > 1 else ""
        yield (
            (PARALLELISM, "replication_factor"),
            f"{replicas} replicas{each} need {replicas * ipus} IPUs; {system.name} has {system.ipu_count}",
            f"write {most} or less" + (", or a smaller ipus_per_replica" if ipus > 1 else ", or leave it out"),
        )


def _decoder(spec: InferenceScenarioSpec, auto: AutoInferenceSpec) -> Iterator[Finding]:
    shards, stages, batches = auto.tensor_parallel or 1, auto.pipeline_stages or 1, auto.batches_in_flight
    pinned = InferenceParallelismSpec(tensor_parallel=shards, pipeline_stages=stages)
    divided = spec.model_copy(update={PARALLELISM: pinned})
    yield from (each for each in division_findings(divided) if each[0][0] == PARALLELISM)
    most = auto.pipeline_stages or spec.system.domain_ipu_count // shards
    if batches > most:
        what = f"{batches} batches in flight are more than the {most} pipeline stages there can be"
        yield (PARALLELISM, "batches_in_flight"), what, f"write {most} or less"
