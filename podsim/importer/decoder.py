"""A decoder as a scenario of text generation."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.errors import PodsimError
from podsim.importer.decoder_fit import DecoderFit, fit_decoder, widest_failure
from podsim.importer.huggingface import Imported
from podsim.importer.other_pods import fits_elsewhere
from podsim.importer.reader import Entry
from podsim.importer.request import Request, header, top
from podsim.importer.scenario_text import Section, as_mapping, scenario_text
from podsim.plan.inference import InferenceJob
from podsim.plan.inference_job import inference_job
from podsim.specs import InferenceScenarioSpec, PodSpec, load_scenario

_TOKENS, _BATCH = 512, 1
_SOFTWARE = "popxl_sdk_3.3"


def decoder_scenario(model: Imported, request: Request) -> str:
    """The scenario as commented YAML, divided so that it fits.

    Raises:
        SpecError: The pod is not known, or a number is beyond reason.
        PodsimError: The model has too few positions.
        DoesNotFitError: The model does not fit the pod.
    """
    notes = list(model.notes)
    sections = [
        top(model, request, "text generation", _SOFTWARE),
        Section("model", (Entry("kind", "decoder"), *model.model)),
        Section("generation", _asked(model, request, notes)),
    ]
    spec = load_scenario(as_mapping(sections)).spec
    assert isinstance(spec, InferenceScenarioSpec)

    def job_on(pod: PodSpec) -> InferenceJob:
        return inference_job(spec.model_copy(update={"system": pod}))

    job = inference_job(spec)
    fit = fit_decoder(job)
    if fit is None:
        error = fits_elsewhere(
            spec.system,
            "however it is divided",
            lambda pod: fit_decoder(job_on(pod)) is not None,
            lambda pod: widest_failure(job_on(pod)),
        )
        raise error.at(model.config.name)
    return scenario_text(header(model, job.shape.parameter_count, notes), [*sections, *_division(fit)])


def _asked(model: Imported, request: Request, notes: list[str]) -> tuple[Entry, Entry, Entry]:
    """Batch, prompt and output: within learned positions; beyond rotary ones with a note."""
    limit, binding = model.positions.whole, model.positions_bind
    given = request.output_tokens if request.prompt_tokens is None else request.prompt_tokens
    room = limit // 2 if given is None else limit - given
    default = max(1, min(_TOKENS, room)) if binding else _TOKENS
    prompt = _option("prompt_tokens", request.prompt_tokens, default)
    output = _option("output_tokens", request.output_tokens, default)
    total = prompt.whole + output.whole
    if total > limit and binding:
        what = f"{prompt.whole} + {output.whole} tokens; the model has {limit} positions"
        where = model.config.where(model.positions.origin)
        raise PodsimError(what, where=where, do="lower --prompt-tokens or --output-tokens")
    if total > limit:
        notes.append(f"{total} tokens are more than the {limit} that the model was made for (max_position_embeddings)")
    return _option("batch_size", request.batch_size, _BATCH), prompt, output


def _option(key: str, given: int | None, default: int) -> Entry:
    name = f"--{key.replace('_', '-')}"
    return Entry(key, default, f"{name} was not given") if given is None else Entry(key, given, name)


def _division(fit: DecoderFit) -> Iterator[Section]:
    comments = ["Tried in this order; the first that fits is taken.", *fit.tried]
    if fit.widest > fit.shards:
        widest = f"More IPUs load weights from more streaming memories at once, up to {fit.widest} here:"
        comments.append(f"{widest} `--set parallelism.tensor_parallel={fit.widest}`")
    yield Section(
        "parallelism",
        (
            Entry("tensor_parallel", fit.shards, "IPUs that share every layer"),
            Entry("pipeline_stages", fit.stages),
        ),
        comments,
    )
    yield Section("memory", (Entry("weights", "streamed" if fit.streamed else "resident"),))
