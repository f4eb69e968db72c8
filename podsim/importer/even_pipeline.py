"""Layers divided evenly: few IPUs first, then the largest micro-batch on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.importer.imported import Imported
from podsim.importer.other_pods import fits_elsewhere
from podsim.importer.reader import Entry
from podsim.importer.scenario_text import Section, as_mapping
from podsim.parallelism.factors import accumulation, divisors
from podsim.plan import make_plan
from podsim.plan.job import training_job
from podsim.specs import System, load_scenario
from podsim.specs.division import ParallelismSpec
from podsim.specs.training import TrainingLayoutSpec, TrainingScenario
from podsim.specs.wording import counted

_IPU_COUNTS = (1, 2, 4, 8)
_MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_MEMORY = Section(
    "memory",
    (
        Entry("optimizer_state.storage", "streaming_memory", "leaves the chip to weights and activations"),
        Entry("optimizer_state.replicated_tensor_sharding", True, "each replica keeps a shard"),
    ),
)


def pipeline_sections(
    model: Imported, sections: list[Section], batch: Entry, why: str
) -> tuple[TrainingScenario, list[Section]]:
    """The scenario divided over the fewest IPUs per replica that hold it, and the sections that say so.

    Args:
        model: The model.
        sections: The scenario so far.
        batch: Samples per weight update.
        why: Why the fastest division is not searched for.

    Raises:
        SpecError: The pod is not known.
        DoesNotFitError: No division fits.
    """
    spec = _undivided(sections)

    def fits(pod: System) -> bool:
        return _first_that_fits(spec.model_copy(update={"system": pod}), batch.whole, []) is not None

    def failure(pod: System) -> InfeasibleError:
        return _largest_failure(spec.model_copy(update={"system": pod}), batch.whole)

    tried: list[str] = []
    found = _first_that_fits(spec, batch.whole, tried)
    if found is None:
        divided = f"divided over up to {max(_IPU_COUNTS)} IPUs"
        raise fits_elsewhere(spec.system, divided, fits, failure).at(model.config.name)
    first = f"A batch of {batch.value} ({batch.origin}), tried in this order; the first that fits is taken ({why})."
    return found, [Section("parallelism", _entries(found.parallelism), (first, *tried)), _MEMORY]


def _undivided(sections: list[Section]) -> TrainingScenario:
    """The scenario on a single IPU, whether or not it fits."""
    model = sections[1].entries
    layers = sum(entry.whole for entry in model if entry.key in ("layer_count", "decoder_layer_count"))
    single = {"micro_batch_size": 1, "accumulation_factor": 1, "replication_factor": 1, "layers_per_ipu": [layers]}
    return load_scenario(as_mapping([*sections, _MEMORY]) | {"parallelism": single}).of(TrainingScenario)


def _entries(parallelism: TrainingLayoutSpec) -> tuple[Entry, ...]:
    assert isinstance(parallelism, ParallelismSpec)
    return (
        Entry("micro_batch_size", parallelism.micro_batch_size, "the largest power of two that fits"),
        Entry("accumulation_factor", parallelism.accumulation_factor, "the rest of the batch"),
        Entry("replication_factor", parallelism.replication_factor, "as many as pod and batch allow"),
        Entry("layers_per_ipu", tuple(parallelism.layers_per_ipu or ()), "evenly"),
    )


def _first_that_fits(spec: TrainingScenario, batch: int, tried: list[str]) -> TrainingScenario | None:
    for count in _ipu_counts(spec):
        found = None
        for divided in _divisions(spec, batch, count) if _weights_fit(spec, count) else ():
            if not _fits(divided):
                break
            found = divided
        words = f"{counted(count, 'IPU')} per replica"
        if found is not None:
            tried.append(f"{words}: fits")
            return found
        tried.append(f"{words}: too little memory for one sample at a time, or too few samples for a pipeline")
    return None


def _ipu_counts(spec: TrainingScenario) -> Iterator[int]:
    for count in _IPU_COUNTS:
        if not spec.system.domain_ipu_count % count and count <= spec.model.placed_layers:
            yield count


def _weights_fit(spec: TrainingScenario, count: int) -> bool:
    """Whether half-precision weights with their accumulated gradients do, evenly spread."""
    job = training_job(spec)
    return 4 * job.workload_of(1).parameter_count <= count * job.system.machine.ipu.memory_bytes


def _divisions(spec: TrainingScenario, batch: int, count: int) -> Iterator[TrainingScenario]:
    """As many replicas as batch and pod allow; one sample at a time first."""
    for replicas in reversed(divisors(batch, spec.system.ipu_count // count)):
        if _divided(spec, batch, count, replicas, 1) is not None:
            sizes = (_divided(spec, batch, count, replicas, size) for size in _MICRO_BATCHES)
            yield from (each for each in sizes if each is not None)
            return


def _divided(spec: TrainingScenario, batch: int, count: int, replicas: int, size: int) -> TrainingScenario | None:
    """None where it would not be legal."""
    share, more = divmod(spec.model.placed_layers, count)
    stages = count + (spec.model.shares_embedding and count > 1)
    factor = accumulation(batch, replicas, size, stage_count=stages)
    if factor is None:
        return None
    parallelism = ParallelismSpec(
        micro_batch_size=size,
        accumulation_factor=factor,
        replication_factor=replicas,
        # The first IPU has the embedding as well.
        layers_per_ipu=[share + (place >= count - more) for place in range(count)],
    )
    divided = spec.model_copy(update={"parallelism": parallelism})
    return None if any(divided.division_findings()) else divided


def _fits(divided: TrainingScenario) -> bool:
    try:
        make_plan(replace(training_job(divided), changes=()))
    except InfeasibleError:
        return False
    return True


def _largest_failure(spec: TrainingScenario, batch: int) -> InfeasibleError:
    """Why the pipeline over the most IPUs does not fit."""
    try:
        for divided in _divisions(spec, batch, max(_ipu_counts(spec))):
            make_plan(training_job(divided))
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the batch has too few samples for a pipeline", do="use a larger --batch-size")
