"""Specifications: text goes in, checked and frozen objects come out."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from podsim.specs.activity import Activity
    from podsim.specs.assumptions import Assumption
    from podsim.specs.forward import ForwardScenario
    from podsim.specs.generation import GenerationScenario
    from podsim.specs.hardware import Machine, System
    from podsim.specs.ipu import Ipu
    from podsim.specs.library import data_file, shipped_names
    from podsim.specs.load import (
        LoadedScenario,
        load_hardware,
        load_ipu,
        load_scenario,
        variant_names,
    )
    from podsim.specs.scenario import Scenario
    from podsim.specs.schema import json_schema, part_schema
    from podsim.specs.software import Software
    from podsim.specs.training import TrainingScenario

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
    """Import a name when it is first used: a list of what is shipped needs none of the classes."""
    if name not in _HOMES:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
