"""A BERT as a scenario of pre-training."""

from __future__ import annotations

from podsim.errors import PodsimError
from podsim.importer.encoder_fit import MICRO_BATCHES_PER_STAGE, MOST_IPUS, EncoderFit, fit_encoder, largest_failure
from podsim.importer.huggingface import Imported
from podsim.importer.other_pods import fits_elsewhere
from podsim.importer.reader import Entry
from podsim.importer.request import Request, header, top
from podsim.importer.scenario_text import Section, as_mapping, scenario_text
from podsim.plan.job import training_job
from podsim.specs import PodSpec, ScenarioSpec, load_scenario

_LONGEST_SEQUENCE, _MASKED_PERCENT = 512, 15
_SOFTWARE = "popart_sdk_2.3"
_MEMORY = Section(
    "memory",
    (
        Entry("optimizer_state.storage", "streaming_memory", "leaves the chip to weights and activations"),
        Entry("optimizer_state.replicated_tensor_sharding", True, "each replica keeps a shard"),
    ),
)


def encoder_scenario(model: Imported, request: Request) -> str:
    """The scenario as commented YAML, with a pipeline that fits.

    Raises:
        SpecError: The pod is not known.
        PodsimError: Something is asked that only a decoder can do.
        DoesNotFitError: The model does not fit the pod.
    """
    _refuse_generation(model, request)
    sections = [
        top(model, request, "pre-training", _SOFTWARE),
        Section("model", (Entry("kind", "bert"), *model.model)),
        Section("data", (*_sequences(model), *model.data)),
    ]
    spec = _undivided(sections)

    def spec_on(pod: PodSpec) -> ScenarioSpec:
        return spec.model_copy(update={"system": pod})

    fit = fit_encoder(spec)
    if fit is None:
        error = fits_elsewhere(
            spec.system,
            f"divided over up to {MOST_IPUS} IPUs",
            lambda pod: fit_encoder(spec_on(pod)) is not None,
            lambda pod: largest_failure(spec_on(pod)),
        )
        raise error.at(model.config.name)
    parameters = training_job(spec).workload_of(1).parameter_count
    return scenario_text(header(model, parameters, model.notes), [*sections, _division(fit), _MEMORY])


def _refuse_generation(model: Imported, request: Request) -> None:
    for name in ("prompt_tokens", "output_tokens", "batch_size"):
        if getattr(request, name) is not None:
            what = f"a {model.family} becomes a training run; --{name.replace('_', '-')} means nothing there"
            raise PodsimError(what, where=model.config.name, do="leave it out; micro-batches are chosen to fit")


def _undivided(sections: list[Section]) -> ScenarioSpec:
    """The scenario on a single IPU, whether or not it fits."""
    data = as_mapping([*sections, _MEMORY])
    layers = next(entry.whole for entry in sections[1].entries if entry.key == "layer_count")
    single = {"micro_batch_size": 1, "accumulation_factor": 1, "replication_factor": 1, "layers_per_ipu": [layers]}
    spec = load_scenario(data | {"parallelism": single}).spec
    assert isinstance(spec, ScenarioSpec)
    return spec


def _sequences(model: Imported) -> tuple[Entry, Entry]:
    length = min(_LONGEST_SEQUENCE, model.positions.whole)
    masked = max(1, length * _MASKED_PERCENT // 100)
    return (
        Entry("sequence_length", length, f"at most {_LONGEST_SEQUENCE} of {model.positions.whole} positions"),
        Entry("masked_token_count", masked, f"{_MASKED_PERCENT} % of them, as in [devlin2018]"),
    )


def _division(fit: EncoderFit) -> Section:
    parallelism = fit.parallelism
    entries = (
        Entry("micro_batch_size", parallelism.micro_batch_size, "the largest power of two that fits"),
        Entry("accumulation_factor", parallelism.accumulation_factor, f"{MICRO_BATCHES_PER_STAGE} per pipeline stage"),
        Entry("replication_factor", parallelism.replication_factor, "as many as the pod holds"),
        Entry("layers_per_ipu", tuple(parallelism.layers_per_ipu or ()), fit.split),
    )
    return Section("parallelism", entries, ("Tried in this order; the first that fits is taken.", *fit.tried))
