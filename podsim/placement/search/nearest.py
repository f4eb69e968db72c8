"""When no division fits: the nearest one, what it lacks, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.errors import DoesNotFitError
from podsim.placement.fit import HELPS, lacking, misfit_text, missing_method
from podsim.placement.job import training_job
from podsim.placement.search.search import Search
from podsim.scenario import LoadedScenario, TrainingScenario
from podsim.scenario.pods import larger_pods
from podsim.scenario.wording import counted

_OTHERWISE = (
    "make the model, its sequences or images smaller; with one sample at a time it does not fit, "
    "so that a smaller batch is no help"
)


def nearest_miss(loaded: LoadedScenario, spec: TrainingScenario, search: Search) -> DoesNotFitError:
    """The error for a scenario of which no division fits."""
    lean = [found for setting in search.misfits.values() if (found := search.leanest(setting))]
    what = f"no division of batch_size {search.space.batch_size} fits {spec.system.name}"
    if lean:
        layout = min(lean, key=lambda each: each[0])[1]
        words = f"{counted(layout.ipus_per_replica, 'IPU')} per replica, micro_batch_size {layout.micro_batch_size}"
        what += f"; the nearest has {words}: {misfit_text(search.memory(layout))}"
    cures = list(_cures(loaded, spec))
    refused = DoesNotFitError(what, do=HELPS + "; ".join(cures) if cures else _OTHERWISE)
    lacks = missing_method(training_job(search.space.whole()))
    return refused if lacks is None else lacking(refused, lacks)


def _larger_batches(spec: TrainingScenario) -> Iterator[int]:
    """Twice as large, four times, …, up to the batch that fills a pipeline over a whole link domain."""
    batch = 2 * (spec.batch_size or 1)
    while batch < 4 * spec.system.domain_ipu_count:
        yield batch
        batch *= 2


def _cures(loaded: LoadedScenario, spec: TrainingScenario) -> Iterator[str]:
    """Changes that make it fit: fewer pins, more micro-batches for a longer pipeline, a larger pod."""
    if Search(loaded, spec, pinned=False, tight=True).fits():
        yield "pin less under `parallelism` and `memory`"
    for batch in _larger_batches(spec):
        if Search(loaded, spec.model_copy(update={"batch_size": batch}), tight=True).fits():
            yield f"`batch_size: {batch}`, which has micro-batches enough for a longer pipeline"
            break
    for name, pod in larger_pods(spec.system):
        if Search(loaded, spec.model_copy(update={"system": pod}), tight=True).fits():
            yield f"`system: {name}`, the smallest shipped pod on which it does"
            return
