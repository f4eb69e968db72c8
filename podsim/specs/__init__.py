"""Specifications: text goes in, checked and frozen objects come out."""

from podsim.specs.activity import Activity
from podsim.specs.assumptions import Assumption, assumptions
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
    "assumptions",
    "data_file",
    "json_schema",
    "load_hardware",
    "load_ipu",
    "load_scenario",
    "part_schema",
    "shipped_names",
    "variant_names",
]
