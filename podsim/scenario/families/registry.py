"""Registry of families of models and activities, which determines the sections of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

from pydantic import create_model

from podsim import scenario
from podsim.errors import Problem, SpecError
from podsim.scenario.activity import Activity
from podsim.scenario.document import Document
from podsim.scenario.family import Family
from podsim.scenario.scenario import Scenario
from podsim.scenario.wording import known_here, quoted

_SCENARIOS: Final = {
    Activity.TRAINING: "TrainingScenario",
    Activity.GENERATION: "GenerationScenario",
    Activity.FORWARD: "ForwardScenario",
}
"""Base class in `podsim.scenario` of the scenarios of each activity; imported on use."""
_MODULES: Final = {
    "bert": "bert",
    "vit": "vision",
    "t5": "seq2seq",
    "resnet": "convnet",
    "efficientnet": "convnet",
    "efficientnet_v2": "convnet",
    "conductivity_cnn": "convnet",
    "decoder": "decoder",
    "graph": "graph",
    "schnet": "molecules",
}
"""Module with the family of each kind of model; imported on use."""


def family(kind: str) -> Family:
    """Return the family of a kind of model."""
    return family_in(_MODULES[kind])


def family_in(module: str) -> Family:
    """Return the family that a module of `podsim.scenario.families` describes."""
    registered: Family = import_module(f"podsim.scenario.families.{module}").FAMILY
    return registered


def forms() -> dict[str, type[Scenario]]:
    """Return the scenario classes of every family and activity, by `family_activity`."""
    return {
        f"{module}_{activity}": form(module, activity)
        for module in dict.fromkeys(_MODULES.values())
        for activity in family_in(module).sections
    }


def activities_with(predicate: Callable[[type[Scenario]], bool]) -> list[Activity]:
    """Return the activities that have a scenario class with `predicate(class)`."""
    return list(dict.fromkeys(form.activity for form in forms().values() if predicate(form)))


@lru_cache
def form(module: str, activity: Activity) -> type[Scenario]:
    """Return the scenario class of an activity with the sections of a family."""
    registered = family_in(module)
    sections = {"model": (registered.model, ...)} | dict(registered.sections[activity])
    make: Any = create_model  # mypy accepts literal sections only
    scenario_class: type[Scenario] = make(
        _name(module, activity),
        __base__=getattr(scenario, _SCENARIOS[activity]),
        __module__=__name__,
        __doc__=f"One question about {activity.label} of {registered.label}.",
        **sections,
    )
    return scenario_class


def _name(module: str, activity: Activity) -> str:
    return f"{module.title()}{activity.title()}"


def __getattr__(name: str) -> type[Scenario]:
    """Return the scenario class of a name, as unpickling needs it."""
    for module in dict.fromkeys(_MODULES.values()):
        for activity in Activity:
            if name == _name(module, activity):
                return form(module, activity)
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


def form_of(document: Document) -> type[Scenario]:
    """Return the scenario class for a document, from the kind of its model and from its keys."""
    return form(_module_of(document), activity_of(document))


def activity_of(document: Document) -> Activity:
    """Return the activity of a document."""
    activities = family_in(_module_of(document)).sections
    if Activity.FORWARD in activities and (len(activities) == 1 or "forward" in document.data):
        return Activity.FORWARD
    if Activity.GENERATION not in activities:
        return Activity.TRAINING
    if {"data", "generation"} <= document.data.keys():
        what, do = "`data` (training) and `generation` are both given", "keep one of the two"
        raise SpecError([Problem(document.where(("generation",)), "generation", what, do)])
    return Activity.TRAINING if "data" in document.data else Activity.GENERATION


def _module_of(document: Document) -> str:
    """Return the module of the document's kind of model; without a kind that of BERT, which reports the missing key."""
    model = document.data.get("model")
    kind = model.get("kind") if isinstance(model, dict) else None
    if isinstance(kind, str) and kind not in _MODULES:
        where, message = document.where(("model", "kind")), f"{quoted(kind)} is not a family of models"
        raise SpecError([Problem(where, "model.kind", message, known_here(kind, _MODULES, "use one"))])
    return _MODULES.get(str(kind), "bert")
