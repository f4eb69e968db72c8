"""Imported models as scenarios of training, text generation or forward passes, by the options of an import."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from podsim.errors import DoesNotFitError, InfeasibleError, PodsimError
from podsim.importer.divisions import (
    chosen_division,
    division_lines,
    fitted_pipeline,
    phased_sections,
    pipeline_section,
    pipeline_sections,
)
from podsim.importer.reader import Entry
from podsim.importer.request import Imported, Request, header, option, top
from podsim.importer.scenario_text import ScenarioSection, as_mapping, scenario_text
from podsim.placement.generation import generation_job
from podsim.placement.job import training_job
from podsim.scenario import Activity, ForwardScenario, GenerationScenario, LoadedScenario, load_scenario
from podsim.scenario.software import PHASED_STACK
from podsim.scenario.training import TrainingScenario
from podsim.scenario.wording import quoted
from podsim.search.choice import Choice
from podsim.watch import Watch

ACTIVITIES = {"train": Activity.TRAINING, "forward": Activity.FORWARD, "generate": Activity.GENERATION}
"""Activities by their names in options."""
_PLAIN = ("fp16", "fp32")
_FORMATS = {
    Activity.TRAINING: (_PLAIN, ("weights", "activations", "gradient_accumulation", "matmul_partials")),
    Activity.FORWARD: (_PLAIN, ("weights", "activations", "matmul_partials")),
    # Narrow weights are unpacked for the matrix unit; all other numbers stay in half precision.
    Activity.GENERATION: (("fp16", "fp8", "int4"), ("weights",)),
}
"""Number formats of an activity, and the keys of `precision` that an option sets."""


def activity_of(
    request: Request, allowed: Collection[Activity], default: Activity, family: str, where: str
) -> Activity:
    """Return the activity that `--activity` requests, or the default; refuse one that is not allowed."""
    if request.activity is None:
        return default
    choices = " or ".join(f"`--activity {name}`" for name, activity in ACTIVITIES.items() if activity in allowed)
    activity = ACTIVITIES.get(request.activity)
    if activity is None:
        raise PodsimError(f"{quoted(request.activity)} is not an activity", where=where, do=f"use {choices}")
    if activity not in allowed:
        what = f"--activity {request.activity} means nothing for a {family}"
        raise PodsimError(what, where=where, do=f"use {choices}")
    return activity


def precision(request: Request, activity: Activity, where: str) -> Iterator[ScenarioSection]:
    """Yield the section `precision` if `--precision` is given."""
    if request.precision is None:
        return
    formats, keys = _FORMATS[activity]
    if request.precision == "fp8" and activity is not Activity.GENERATION:
        what = f"--precision is of all numbers in {activity.label}, of which only operands of products can be fp8"
        raise PodsimError(what, where=where, do="leave it out, and write `precision: {products: fp8}` for a c600")
    if request.precision not in formats:
        what = f"--precision {request.precision} is not modelled in {activity.label}"
        raise PodsimError(what, where=where, do=f"use one of: {', '.join(formats)}")
    yield ScenarioSection("precision", tuple(Entry(key, request.precision, "--precision") for key in keys))


def refuse_tokens(request: Request, activity: Activity, where: str) -> None:
    """Refuse options that apply to text generation only."""
    for name in ("prompt_tokens", "output_tokens"):
        if getattr(request, name) is not None:
            what = f"--{name.replace('_', '-')} means nothing in {activity.label}"
            raise PodsimError(what, where=where, do="leave it out")


_PRETRAINING, _FINE_TUNING = 1024, 256
# The search takes seconds for a hundred layers, and minutes for five hundred.
_MOST_SEARCHED_LAYERS = 48
_TOO_DEEP = "`--set parallelism=auto` finds the fastest, which takes long for so many layers"
_PRETRAINED_BERT = ("popart_sdk_2.3", "lamb")
_OTHER_MODELS = ("pytorch_sdk_3.1", "adamw")


def training_scenario(model: Imported, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """Return the scenario as commented YAML, and its notes.

    A decoder runs as a pipeline of PyTorch or, if that is faster, with PopXL, which divides layers among IPUs or runs
    them in phases. Encoders run as pipelines. For T5 and deep models the first layout that fits is chosen.
    """
    where = model.config.name
    refuse_tokens(request, Activity.TRAINING, where)
    is_tuned = model.purpose.startswith("fine-tuning")
    software, optimizer = _PRETRAINED_BERT if model.kind == "bert" and not is_tuned else _OTHER_MODELS
    batch = option("batch_size", request.batch_size, _FINE_TUNING if is_tuned else _PRETRAINING)
    sections = [
        top(model, request, software, model.purpose),
        ScenarioSection("model", (Entry("kind", model.kind), *model.model)),
        ScenarioSection("data", model.data),
        ScenarioSection("optimizer", (Entry("kind", optimizer, "config.json does not say"),)),
        *precision(request, Activity.TRAINING, where),
    ]
    reason = "divides layers among IPUs, or runs them in phases"
    phased = [top(model, request, PHASED_STACK, model.purpose, reason), *sections[1:]]
    layout_lines: Iterable[str] = ()
    notes, may_be_phased = model.notes, model.kind in ("decoder", "t5")
    try:
        if model.kind == "t5" or _layers(model) > _MOST_SEARCHED_LAYERS:
            why = "`auto` does not cover t5" if model.kind == "t5" else _TOO_DEEP
            spec, division = pipeline_sections(model, sections, batch, why)
            sections += division
        else:
            alternatives = [sections, phased] if may_be_phased else [sections]
            sections, loaded, choice, sentences = _fastest(model, alternatives, batch.whole, watch)
            spec = loaded.require(TrainingScenario)
            layout_lines = division_lines(choice, " ".join((_reason(model, batch, choice), *sentences)))
    except DoesNotFitError:
        if not may_be_phased:
            raise
        spec, division, note = phased_sections(model, phased, batch)
        sections, notes = phased + division, (*notes, note)
    workload = training_job(spec).workload_of(1)
    parameters = (workload.whole or workload).parameter_count
    return scenario_text(header(model, parameters, notes), sections, layout_lines), notes


def _fastest(
    model: Imported, alternatives: Sequence[list[ScenarioSection]], batch: int, watch: Watch
) -> tuple[list[ScenarioSection], LoadedScenario, Choice, tuple[str, ...]]:
    """Return the fastest of scenarios with different stacks, the search's choice, and a sentence on each other.

    If the fastest divides layers in the same way as the first, the first is returned.
    """
    fitting: list[tuple[list[ScenarioSection], LoadedScenario, Choice]] = []
    errors: list[InfeasibleError] = []
    for sections in alternatives:
        try:
            fitting.append((sections, *chosen_division(model, sections, {"batch_size": batch}, watch)))
        except InfeasibleError as error:
            errors.append(error)
    if not fitting:
        raise errors[0]
    best = max(fitting, key=lambda result: result[2].chosen.throughput_samples_per_s or 0.0)
    if _method(best[1]) == _method(fitting[0][1]):
        best = fitting[0]
    sentences = [_rate_text(loaded, choice) for _, loaded, choice in fitting if choice is not best[2]]
    sentences += [f"With the other stack: {error.message}." for error in errors]
    return *best, tuple(sentences)


def _rate_text(loaded: LoadedScenario, choice: Choice) -> str:
    """Return a sentence about a layout that was not chosen."""
    rate = choice.chosen.throughput_samples_per_s or 0
    return f"With {loaded.spec.software.name}, {_method(loaded)}: {rate:,.3g} samples/s."


def _method(loaded: LoadedScenario) -> str:
    """Return the way in which a scenario divides its layers, in words."""
    parallelism = loaded.require(TrainingScenario).parallelism
    if getattr(parallelism, "is_phased", False):
        return "in phases"
    return "layers shared" if getattr(parallelism, "tensor_parallel", 1) > 1 else "a pipeline"


def _layers(model: Imported) -> int:
    return next(entry.whole for entry in model.model if entry.key == "layer_count")


def _reason(model: Imported, batch: Entry, choice: Choice) -> str:
    samples = "images" if model.kind == "vit" else "sequences"
    rate = f"{choice.chosen.throughput_samples_per_s or 0:,.0f} {samples}/s"
    counts = f"{choice.considered_count} considered, {choice.simulated_count} simulated"
    return f"The fastest division of {batch.value} {samples} ({batch.origin}) that fits: {rate}; {counts}."


_PROMPT_TOKENS, _SEQUENCES = 512, 1
_MS_PER_S = 1000


def generation_scenario(model: Imported, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """Return the scenario as commented YAML, with the layout with the shortest time per output token, and its notes."""
    notes = list(model.notes)
    sections = [
        top(model, request, PHASED_STACK, Activity.GENERATION.label),
        ScenarioSection("model", (Entry("kind", "decoder"), *model.model)),
        ScenarioSection("generation", _generation(model, request, notes)),
        *precision(request, Activity.GENERATION, model.config.name),
    ]
    loaded, choice = chosen_division(model, sections, {}, watch)
    parameters = generation_job(loaded.require(GenerationScenario)).shape.parameter_count
    token_ms = (choice.chosen.decode_step_s or 0) * _MS_PER_S
    first = f"The division with the shortest time per output token ({token_ms:.3g} ms) of {choice.considered_count}"
    lines = division_lines(choice, f"{first} that were considered: IPUs that share every layer x pipeline stages.")
    return scenario_text(header(model, parameters, notes), sections, lines), tuple(notes)


def _generation(model: Imported, request: Request, notes: list[str]) -> tuple[Entry, Entry, Entry]:
    """Return the keys of batch, prompt and output.

    More tokens than learned positions or a window are refused; more than rotary positions add a note.
    """
    limit, limiting_key = model.positions.whole, model.positions.origin
    is_limited, unit = model.positions_bind, "positions"
    if model.window is not None and (model.window.whole < limit or not is_limited):
        limit, is_limited, limiting_key = model.window.whole, True, model.window.origin
        unit = "tokens in its attention window, and windows are not simulated"
    fixed_tokens = request.output_tokens if request.prompt_tokens is None else request.prompt_tokens
    room = limit // 2 if fixed_tokens is None else limit - fixed_tokens
    default = max(1, min(_PROMPT_TOKENS, room)) if is_limited else _PROMPT_TOKENS
    prompt = option("prompt_tokens", request.prompt_tokens, default)
    output = option("output_tokens", request.output_tokens, default)
    total = prompt.whole + output.whole
    if total > limit and is_limited:
        what = f"{prompt.whole} + {output.whole} tokens; the model has {limit} {unit}"
        where = model.config.where(limiting_key)
        raise PodsimError(what, where=where, do="lower --prompt-tokens or --output-tokens")
    if total > limit:
        notes.append(f"{total} tokens are more than the {limit} that the model was made for (max_position_embeddings)")
    return option("batch_size", request.batch_size, _SEQUENCES), prompt, output


_SOFTWARE_OF_FORWARD = "pytorch_sdk_3.1"
_DROPOUT = ("dropout", "attention_dropout")
_BATCHES_PER_CALL = 64
_SMALLER_MODEL = "import a smaller model, or ask for a smaller batch"


def forward_scenario(model: Imported, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """Return the scenario as commented YAML, and its notes."""
    where = model.config.name
    refuse_tokens(request, Activity.FORWARD, where)
    passes = (
        option("batch_size", request.batch_size, 1),
        Entry("batches_per_call", _BATCHES_PER_CALL, "batches of each replica that one session call runs"),
    )
    sections = [
        top(model, request, _SOFTWARE_OF_FORWARD, Activity.FORWARD.label),
        ScenarioSection("model", (Entry("kind", model.kind), *model.model)),
        ScenarioSection("data", tuple(entry for entry in model.data if entry.key not in _DROPOUT)),
        ScenarioSection("forward", passes),
        *precision(request, Activity.FORWARD, where),
    ]
    # The section of data is empty if it has nothing but dropout.
    sections = [section for section in sections if section.entries]
    spec = load_scenario(as_mapping(sections)).require(ForwardScenario)
    workload = spec.model.read(spec, Path(), watch).workload
    fit = fitted_pipeline(spec, workload, where, _SMALLER_MODEL)
    text = scenario_text(header(model, workload.parameter_count, model.notes), [*sections, pipeline_section(fit)])
    return text, model.notes
