"""Layouts of imported models: the fastest that the search finds, or the first that fits, and pods on which others fit.

In training, layers are divided evenly over stages or, from streaming memory, each over all IPUs of a replica. The
fewest IPUs are tried first, then the largest micro-batch on them. For forward passes, the fewest pipeline stages are
tried first, with as many replicas as fit the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podsim.errors import DoesNotFitError, InfeasibleError, MissingMethodError
from podsim.importer.reader import Entry
from podsim.importer.request import Imported
from podsim.importer.scenario_text import ScenarioSection, as_mapping, comment_lines
from podsim.models import Workload
from podsim.placement import PlanInput, make_plan
from podsim.placement.fit import HELPS, misfit_text
from podsim.placement.forward_job import forward_job
from podsim.placement.job import training_job
from podsim.placement.layout import with_stages
from podsim.placement.memory import IpuMemory, fit_verdict
from podsim.placement.plan import cost_model, job_memory
from podsim.result.division import choice_yaml, division_text
from podsim.scenario import ForwardScenario, LoadedScenario, System, load_scenario
from podsim.scenario.pods import larger_pods
from podsim.scenario.sections import shard_findings
from podsim.scenario.training import TrainingLayoutSpec, TrainingScenario
from podsim.scenario.transformer_training import ParallelismSpec
from podsim.scenario.wording import counted
from podsim.search.auto import choose
from podsim.search.choice import Choice
from podsim.search.dimensions import divisors
from podsim.search.space import accumulation
from podsim.units import format_bytes
from podsim.watch import Watch

_RUNNERS_UP = 2


def chosen_division(
    model: Imported, sections: Sequence[ScenarioSection], batch: dict[str, int], watch: Watch, **pins: str
) -> tuple[LoadedScenario, Choice]:
    """Return the scenario with the fastest layout that fits, and the search's candidates; `pins` are fixed keys.

    Raises:
        InfeasibleError: No layout fits; the cure names command-line options.
    """
    loaded = load_scenario(as_mapping(sections) | {"parallelism": {"auto": True, **pins}} | batch)
    try:
        return choose(loaded, watch)
    except InfeasibleError as error:
        raise type(error)(error.message, do=_with_options(error.do)).with_place(model.config.name) from None


def _with_options(cure: str | None) -> str | None:
    """Return a cure with command-line options in place of keys of a scenario."""
    cure = cure and cure.replace("`system: ", "`--system ").replace("`batch_size: ", "`--batch-size ")
    return cure and cure.replace("batch_size", "--batch-size")


def division_lines(choice: Choice, first: str) -> Iterator[str]:
    """Yield the keys of the chosen layout, after a comment with the alternatives."""
    yield ""
    yield from comment_lines(first)
    others = [candidate for candidate in choice.candidates[1:] if candidate.fits][:_RUNNERS_UP]
    if others:
        words = "; ".join(f"{division_text(other)}: {other.verdict}" for other in others)
        yield from comment_lines(f"Next: {words}.")
    misfit = next((candidate for candidate in choice.candidates if not candidate.fits), None)
    if misfit is not None:
        yield from comment_lines(f"Too large: {division_text(misfit)}: {misfit.verdict}.")
    yield choice_yaml(choice.chosen)


_IPU_COUNTS = (1, 2, 4, 8)
_SHARD_COUNTS = (1, 2, 4, 8, 16, 32, 64)
_MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_MEMORY = ScenarioSection(
    "memory",
    (
        Entry("optimizer_state.storage", "streaming_memory", "leaves the chip to weights and activations"),
        Entry("optimizer_state.replicated_tensor_sharding", True, "each replica keeps a shard"),
    ),
)
_PHASED_MEMORY = ScenarioSection("memory", (Entry("io_tiles", 64, "load and store while the others compute"),))


def pipeline_sections(
    model: Imported, sections: list[ScenarioSection], batch: Entry, why: str
) -> tuple[TrainingScenario, list[ScenarioSection]]:
    """Return the scenario on the fewest IPUs per replica that hold the model, and the sections of its layout."""
    layers = sum(entry.whole for entry in sections[1].entries if entry.key in ("layer_count", "decoder_layer_count"))
    spec = _undivided(sections, _MEMORY, {"layers_per_ipu": [layers]})
    attempt = f"divided over up to {max(_IPU_COUNTS)} IPUs"
    return _first_sections(model, spec, batch, why, attempt, _MEMORY)


def phased_sections(
    model: Imported, sections: list[ScenarioSection], batch: Entry
) -> tuple[TrainingScenario, list[ScenarioSection], str]:
    """Return the scenario with each layer on the fewest possible IPUs, its sections, and a note on the smallest pod."""
    spec = _undivided(sections, _PHASED_MEMORY, {"execution": "phased"})
    why = "no pipeline that was tried fits"
    fitting, division = _first_sections(model, spec, batch, why, "one layer at a time", _PHASED_MEMORY)
    pods = ((name, pod) for name, pod in larger_pods(spec.system) if pod.ipu_count < spec.system.ipu_count)
    smallest = next((name for name, pod in pods if _first_that_fits(_on_pod(spec, pod), batch.whole, [])), None)
    ipus = counted(fitting.parallelism.ipus_per_replica, "IPU")
    note = f"{why} {spec.system.name}: all layers run on the same {ipus}, one after the other (phased execution); " + (
        f"the smallest shipped pod that would do is {smallest}" if smallest else "no smaller shipped pod would do"
    )
    return fitting, division, note


def _on_pod(spec: TrainingScenario, pod: System) -> TrainingScenario:
    return spec.model_copy(update={"system": pod})


def _first_sections(
    model: Imported, spec: TrainingScenario, batch: Entry, why: str, attempt: str, memory: ScenarioSection
) -> tuple[TrainingScenario, list[ScenarioSection]]:
    """Return the scenario with the first layout that fits, and its sections; the error says `attempt` if none does."""
    tried: list[str] = []
    fitting = _first_that_fits(spec, batch.whole, tried)
    if fitting is None:
        raise fits_elsewhere(
            spec.system,
            attempt,
            lambda pod: _first_that_fits(_on_pod(spec, pod), batch.whole, []) is not None,
            lambda pod: _largest_failure(_on_pod(spec, pod), batch.whole),
        ).with_place(model.config.name)
    first = f"A batch of {batch.value} ({batch.origin}), tried in this order; the first that fits is taken ({why})."
    return fitting, [ScenarioSection("parallelism", _entries(fitting.parallelism), (first, *tried)), memory]


def _undivided(
    sections: list[ScenarioSection], memory: ScenarioSection, place: Mapping[str, object]
) -> TrainingScenario:
    """Return the scenario on a single IPU, which may not fit."""
    single = {"micro_batch_size": 1, "accumulation_factor": 1, "replication_factor": 1, **place}
    return load_scenario(as_mapping([*sections, memory]) | {"parallelism": single}).require(TrainingScenario)


def _entries(parallelism: TrainingLayoutSpec) -> tuple[Entry, ...]:
    assert isinstance(parallelism, ParallelismSpec)
    batch = (
        Entry("micro_batch_size", parallelism.micro_batch_size, "the largest power of two that fits"),
        Entry("accumulation_factor", parallelism.accumulation_factor, "the rest of the batch"),
        Entry("replication_factor", parallelism.replication_factor, "as many as pod and batch allow"),
    )
    if not parallelism.is_phased:
        return *batch, Entry("layers_per_ipu", tuple(parallelism.layers_per_ipu or ()), "evenly")
    return (
        Entry("execution", "phased", "all that waits is in streaming memory"),
        Entry("tensor_parallel", parallelism.tensor_parallel, "the fewest IPUs that hold a layer"),
        *batch,
    )


def _first_that_fits(spec: TrainingScenario, batch: int, tried: list[str]) -> TrainingScenario | None:
    """Return the scenario with the first layout that fits, or None; `tried` gets a line for each number of IPUs."""
    for count in _ipu_counts(spec):
        fitting = None
        for candidate in _divisions(spec, batch, count) if _weights_fit(spec, count) else ():
            if not _fits(candidate):
                break
            fitting = candidate
        words = f"{counted(count, 'IPU')} per replica"
        if fitting is not None:
            tried.append(f"{words}: fits")
            return fitting
        reason = "too little memory for one sample at a time"
        tried.append(f"{words}: {reason}" + ("" if _is_phased(spec) else ", or too few samples for a pipeline"))
    return None


def _is_phased(spec: TrainingScenario) -> bool:
    return isinstance(spec.parallelism, ParallelismSpec) and spec.parallelism.is_phased


def _ipu_counts(spec: TrainingScenario) -> Iterator[int]:
    """Yield the numbers of IPUs per replica to try, as pipeline stages or as shards of every layer."""
    for count in _SHARD_COUNTS if _is_phased(spec) else _IPU_COUNTS:
        shared = not any(shard_findings(spec.model, count)) if _is_phased(spec) else count <= spec.model.placed_layers
        if shared and not spec.system.domain_ipu_count % count:
            yield count


def _weights_fit(spec: TrainingScenario, count: int) -> bool:
    """Return False if half-precision weights and accumulated gradients exceed the memory of `count` pipeline stages."""
    if _is_phased(spec):
        return True
    job = training_job(spec)
    return 4 * job.workload_of(1).parameter_count <= count * job.system.machine.ipu.memory_bytes


def _divisions(spec: TrainingScenario, batch: int, count: int) -> Iterator[TrainingScenario]:
    """Yield layouts with as many replicas as batch and pod allow, by increasing micro-batch."""
    for replicas in reversed(divisors(batch, spec.system.ipu_count // count)):
        if _with_layout(spec, batch, count, replicas, 1) is not None:
            sizes = (_with_layout(spec, batch, count, replicas, size) for size in _MICRO_BATCHES)
            yield from (candidate for candidate in sizes if candidate is not None)
            return


def _with_layout(spec: TrainingScenario, batch: int, count: int, replicas: int, size: int) -> TrainingScenario | None:
    """Return the scenario with `count` IPUs per replica and micro-batches of `size`, or None if that is not valid."""
    layers, remainder = divmod(spec.model.placed_layers, count)
    stages = 1 if _is_phased(spec) else count + (spec.model.shares_embedding and count > 1)
    accumulation_factor = accumulation(batch, replicas, size, stage_count=stages)
    if accumulation_factor is None:
        return None
    common = {"micro_batch_size": size, "accumulation_factor": accumulation_factor, "replication_factor": replicas}
    if _is_phased(spec):
        parallelism = ParallelismSpec(execution="phased", tensor_parallel=count, **common)
    else:
        # The first IPU also has the embedding.
        layers_per_ipu = [layers + (place >= count - remainder) for place in range(count)]
        parallelism = ParallelismSpec(layers_per_ipu=layers_per_ipu, **common)
    candidate = spec.model_copy(update={"parallelism": parallelism})
    return None if any(candidate.division_findings()) else candidate


def _fits(spec: TrainingScenario) -> bool:
    """Return True if a layout fits with as much code as there may be."""
    try:
        plan = make_plan(replace(training_job(spec), changes=()))
    except InfeasibleError:
        return False
    return fit_verdict(plan.memory) == "fits"


def _largest_failure(spec: TrainingScenario, batch: int) -> InfeasibleError:
    """Return the error of the layout over the most IPUs."""
    try:
        for candidate in _divisions(spec, batch, max(_ipu_counts(spec))):
            memory = make_plan(training_job(candidate)).memory
            if fit_verdict(memory) != "fits":
                return DoesNotFitError(f"it is not certain that it fits: {misfit_text(memory)}", do="use a larger pod")
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the batch has too few samples for a pipeline", do="use a larger --batch-size")


_DIGITS = 4


@dataclass(frozen=True, slots=True)
class ForwardFit:
    """First pipeline that fits, with the smaller ones that do not."""

    stages: int  # IPUs of one replica
    replicas: int  # copies of the model
    tried: tuple[str, ...]  # a line for each number of stages tried


def fitted_pipeline(spec: ForwardScenario, workload: Workload, name: str, cure: str) -> ForwardFit:
    """Return the first pipeline of 1, 2, 4, … stages that fits; errors name the file `name`, and the cure `cure`."""

    def job_on(pod: System) -> PlanInput:
        return forward_job(spec.model_copy(update={"system": pod}), workload)

    fit = _pipeline_that_fits(job_on(spec.system))
    if fit is None:
        error = fits_elsewhere(
            spec.system,
            f"cut into up to {counted(len(workload.order), 'part')}",
            lambda pod: _pipeline_that_fits(job_on(pod)) is not None,
            lambda pod: _longest_failure(job_on(pod)),
            cure,
        )
        raise error.with_place(name)
    return fit


def pipeline_section(fit: ForwardFit) -> ScenarioSection:
    """Return the keys of the pipeline, after a comment with the numbers of stages tried."""
    entries = (
        Entry("pipeline_stages", fit.stages, "IPUs of one copy of the model"),
        Entry("replication_factor", fit.replicas, "as many as the pod holds"),
    )
    return ScenarioSection("parallelism", entries, ("Tried in this order; the first that fits is taken.", *fit.tried))


def _pipeline_that_fits(job: PlanInput) -> ForwardFit | None:
    """Return the first pipeline of 1, 2, 4, … stages that fits, or None."""
    tried, model = list[str](), cost_model(job)
    for candidate in _pipelines(job):
        stages = candidate.layout.ipus_per_replica
        try:
            memory = job_memory(candidate, model)
        except InfeasibleError:
            return None
        fits = all(ipu.fits for ipu in memory)
        outcome = "fits" if fits else "too little memory"
        tried.append(f"{counted(stages, 'stage')}: {outcome} ({_fullest_text(memory)})")
        if fits:
            return ForwardFit(stages, candidate.layout.replication_factor, tuple(tried))
    return None


def _longest_failure(job: PlanInput) -> InfeasibleError:
    """Return the error of the pipeline with the most stages."""
    *_, longest = _pipelines(job)
    try:
        make_plan(longest)
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the pipelines that were tried do not fit", do="use a smaller model, or a larger pod")


def _pipelines(job: PlanInput) -> Iterator[PlanInput]:
    stages, most = 1, min(job.system.domain_ipu_count, len(job.workload.order))
    while stages <= most:
        layout = with_stages(job.layout, job.system, stages, job.system.ipu_count // stages)
        yield replace(job, layout=layout)
        stages *= 2


def _fullest_text(memory: Sequence[IpuMemory]) -> str:
    ipu = max(memory, key=lambda ipu: ipu.used_bytes())
    return f"{format_bytes(ipu.used_bytes(), _DIGITS)} of {format_bytes(ipu.capacity_bytes, _DIGITS)}"


_SMALLER = "import a smaller model, or ask for fewer tokens or a smaller batch"


def fits_elsewhere(
    system: System,
    attempt: str,
    fits: Callable[[System], bool],
    failure: Callable[[System], InfeasibleError],
    cure: str = _SMALLER,
) -> DoesNotFitError:
    """Return the error for a model that does not fit: it names the smallest shipped pod with room, if there is one.

    `attempt` describes the layouts that do not fit; `fits` tests a pod, and `failure` returns the error on a pod.
    """
    pods = dict(larger_pods(system))
    for name, pod in pods.items():
        if fits(pod):
            what = f"the model does not fit {system.name}, {attempt}"
            return DoesNotFitError(what, do=f"use `--system {name}`, the smallest shipped pod on which it fits")
    largest = max([system, *pods.values()], key=lambda pod: pod.domain_ipu_count)
    error = failure(largest)
    what = f"the model fits no shipped pod, {attempt}; on {largest.name}, {error.message}"
    if isinstance(error, MissingMethodError):
        return MissingMethodError(what, do=error.do)
    helps = error.do and error.do.startswith(HELPS)
    return DoesNotFitError(what, do=f"{cure}; in a scenario of your own, {error.do}" if helps else cure)
