"""Specifications: text goes in, checked and frozen objects come out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podsim.scenario.activity import Activity
    from podsim.scenario.assumptions import Assumption
    from podsim.scenario.forward import ForwardScenario
    from podsim.scenario.generation import GenerationScenario
    from podsim.scenario.hardware import Machine, System
    from podsim.scenario.ipu import Ipu
    from podsim.scenario.library import data_file, shipped_names
    from podsim.scenario.load import (
        LoadedScenario,
        load_hardware,
        load_ipu,
        load_scenario,
        variant_names,
    )
    from podsim.scenario.scenario import Scenario
    from podsim.scenario.schema import json_schema, part_schema
    from podsim.scenario.software import Software
    from podsim.scenario.training import TrainingScenario

_HOMES = {
    "Activity": "activity",
    "Assumption": "assumptions",
    "ForwardScenario": "forward",
    "GenerationScenario": "generation",
    "Machine": "hardware",
    "System": "hardware",
    "Ipu": "ipu",
    "data_file": "library",
    "shipped_names": "library",
    "LoadedScenario": "load",
    "load_hardware": "load",
    "load_ipu": "load",
    "load_scenario": "load",
    "variant_names": "load",
    "Scenario": "scenario",
    "json_schema": "schema",
    "part_schema": "schema",
    "Software": "software",
    "TrainingScenario": "training",
}

__all__ = [
    "Activity",
    "Assumption",
    "ForwardScenario",
    "GenerationScenario",
    "Ipu",
    "LoadedScenario",
    "Machine",
    "Scenario",
    "Software",
    "System",
    "TrainingScenario",
    "data_file",
    "json_schema",
    "load_hardware",
    "load_ipu",
    "load_scenario",
    "part_schema",
    "shipped_names",
    "variant_names",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that a list of shipped files imports none of the classes."""
    if name not in _HOMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
