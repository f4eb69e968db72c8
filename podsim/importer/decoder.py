"""A decoder as a scenario of text generation."""

from __future__ import annotations

from podsim.errors import PodsimError
from podsim.importer.asked import precision
from podsim.importer.chosen import chosen_division, division_lines
from podsim.importer.imported import Imported
from podsim.importer.reader import Entry
from podsim.importer.request import Request, header, option, top
from podsim.importer.scenario_text import Section, scenario_text
from podsim.plan.generation_job import generation_job
from podsim.specs import Activity, GenerationScenario
from podsim.watch import Watch

_TOKENS, _BATCH = 512, 1
_SOFTWARE = "popxl_sdk_3.3"
_MS_PER_S = 1000


def decoder_scenario(model: Imported, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """The scenario as commented YAML, with the division that has the shortest time per output token, and its notes.

    Raises:
        SpecError: The pod is not known, or a number is beyond reason.
        PodsimError: The model has too few positions.
        InfeasibleError: The model does not fit the pod.
    """
    notes = list(model.notes)
    sections = [
        top(model, request, _SOFTWARE, Activity.GENERATION.words),
        Section("model", (Entry("kind", "decoder"), *model.model)),
        Section("generation", _asked(model, request, notes)),
        *precision(request, Activity.GENERATION, model.config.name),
    ]
    loaded, choice = chosen_division(model, sections, {}, watch)
    parameters = generation_job(loaded.of(GenerationScenario)).shape.parameter_count
    token_ms = (choice.chosen.decode_step_s or 0) * _MS_PER_S
    words = f"The division with the shortest time per output token ({token_ms:.3g} ms) of {choice.considered_count}"
    lines = division_lines(choice, f"{words} that were considered: IPUs that share every layer x pipeline stages.")
    return scenario_text(header(model, parameters, notes), sections, lines), tuple(notes)


def _asked(model: Imported, request: Request, notes: list[str]) -> tuple[Entry, Entry, Entry]:
    """Batch, prompt and output: within learned positions; beyond rotary ones with a note."""
    limit, binding = model.positions.whole, model.positions_bind
    given = request.output_tokens if request.prompt_tokens is None else request.prompt_tokens
    room = limit // 2 if given is None else limit - given
    default = max(1, min(_TOKENS, room)) if binding else _TOKENS
    prompt = option("prompt_tokens", request.prompt_tokens, default)
    output = option("output_tokens", request.output_tokens, default)
    total = prompt.whole + output.whole
    if total > limit and binding:
        what = f"{prompt.whole} + {output.whole} tokens; the model has {limit} positions"
        where = model.config.where(model.positions.origin)
        raise PodsimError(what, where=where, do="lower --prompt-tokens or --output-tokens")
    if total > limit:
        notes.append(f"{total} tokens are more than the {limit} that the model was made for (max_position_embeddings)")
    return option("batch_size", request.batch_size, _BATCH), prompt, output
