"""A model as a scenario of forward passes, cut into stages so that it fits."""

from __future__ import annotations

from pathlib import Path

from podsim.importer.asked import precision, refuse_tokens
from podsim.importer.forward_fit import division, fitted
from podsim.importer.imported import Imported
from podsim.importer.reader import Entry
from podsim.importer.request import Request, header, option, top
from podsim.importer.scenario_text import Section, as_mapping, scenario_text
from podsim.specs import Activity, ForwardScenario, load_scenario
from podsim.watch import Watch

_SOFTWARE = "pytorch_sdk_3.1"
_DROPOUT = ("dropout", "attention_dropout")
_BATCHES_PER_CALL = 64
_SMALLER = "import a smaller model, or ask for a smaller batch"


def forward_scenario(model: Imported, request: Request, watch: Watch) -> tuple[str, tuple[str, ...]]:
    """The scenario as commented YAML, and its notes.

    Raises:
        SpecError: The pod is not known.
        PodsimError: Something is asked that only text generation can do.
        DoesNotFitError: The model does not fit the pod.
    """
    where = model.config.name
    refuse_tokens(request, Activity.FORWARD, where)
    passes = (
        option("batch_size", request.batch_size, 1),
        Entry("batches_per_call", _BATCHES_PER_CALL, "batches of each replica that one session call runs"),
    )
    sections = [
        top(model, request, _SOFTWARE, Activity.FORWARD.words),
        Section("model", (Entry("kind", model.kind), *model.model)),
        Section("data", tuple(entry for entry in model.data if entry.key not in _DROPOUT)),
        Section("forward", passes),
        *precision(request, Activity.FORWARD, where),
    ]
    # A family whose data has nothing but dropout has no such section.
    sections = [section for section in sections if section.entries]
    spec = load_scenario(as_mapping(sections)).of(ForwardScenario)
    workload = spec.model.read(spec, Path(), watch).workload
    fit = fitted(spec, workload, where, _SMALLER)
    text = scenario_text(header(model, workload.parameter_count, model.notes), [*sections, division(fit)])
    return text, model.notes
