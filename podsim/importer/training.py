"""A model as a scenario of training."""

from __future__ import annotations

from collections.abc import Iterable

from podsim.importer.asked import precision, refuse_tokens
from podsim.importer.chosen import chosen_division, division_lines
from podsim.importer.even_pipeline import pipeline_sections
from podsim.importer.imported import Imported
from podsim.importer.reader import Entry
from podsim.importer.request import Request, header, option, top
from podsim.importer.scenario_text import Section, scenario_text
from podsim.parallelism.choice import Choice
from podsim.plan.job import training_job
from podsim.specs import Activity
from podsim.specs.training import TrainingScenario
from podsim.watch import Watch

_PRETRAINING, _FINE_TUNING = 1024, 256
# The search takes seconds for a hundred layers, and minutes for five hundred.
_MOST_SEARCHED_LAYERS = 48
_TOO_DEEP = "`--set parallelism=auto` finds the fastest, which takes long for so many layers"
_PRETRAINED_BERT = ("popart_sdk_2.3", "lamb")
_OTHERS = ("pytorch_sdk_3.1", "adamw")


def training_scenario(model: Imported, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """The scenario as commented YAML, and its notes; divided as is fastest, a T5 or a deep model as fits first.

    Raises:
        SpecError: The pod is not known.
        PodsimError: Something is asked that only a decoder can do.
        InfeasibleError: The model does not fit the pod, or its batch cannot be divided.
    """
    where = model.config.name
    refuse_tokens(request, Activity.TRAINING, where)
    tuned = model.purpose.startswith("fine-tuning")
    software, optimizer = _PRETRAINED_BERT if model.kind == "bert" and not tuned else _OTHERS
    batch = option("batch_size", request.batch_size, _FINE_TUNING if tuned else _PRETRAINING)
    sections = [
        top(model, request, software, model.purpose),
        Section("model", (Entry("kind", model.kind), *model.model)),
        Section("data", model.data),
        Section("optimizer", (Entry("kind", optimizer, "config.json does not say"),)),
        *precision(request, Activity.TRAINING, where),
    ]
    lines: Iterable[str] = ()
    if model.kind == "t5" or _layers(model) > _MOST_SEARCHED_LAYERS:
        why = "`auto` does not cover t5" if model.kind == "t5" else _TOO_DEEP
        spec, division = pipeline_sections(model, sections, batch, why)
        sections += division
    else:
        loaded, choice = chosen_division(model, sections, {"batch_size": batch.whole}, watch)
        spec, lines = loaded.of(TrainingScenario), division_lines(choice, _reason(model, batch, choice))
    parameters = training_job(spec).workload_of(1).parameter_count
    return scenario_text(header(model, parameters, model.notes), sections, lines), model.notes


def _layers(model: Imported) -> int:
    return next(entry.whole for entry in model.model if entry.key == "layer_count")


def _reason(model: Imported, batch: Entry, choice: Choice) -> str:
    samples = "images" if model.kind == "vit" else "sequences"
    rate = f"{choice.chosen.throughput_samples_per_s or 0:,.0f} {samples}/s"
    counts = f"{choice.considered_count} considered, {choice.simulated_count} simulated"
    return f"The fastest division of {batch.value} {samples} ({batch.origin}) that fits: {rate}; {counts}."
