"""The door: text in, checked and frozen specifications out."""

from podsim.specs.assumptions import Assumption, assumptions
from podsim.specs.forward import ForwardScenarioSpec
from podsim.specs.hardware import Machine, System
from podsim.specs.image import ImageScenarioSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.ipu import Ipu
from podsim.specs.library import data_file, shipped_names
from podsim.specs.load import (
    LoadedScenario,
    load_hardware,
    load_ipu,
    load_scenario,
    variant_names,
)
from podsim.specs.scenario import ScenarioSpec
from podsim.specs.schema import json_schema, part_schema
from podsim.specs.software import Software

__all__ = [
    "Assumption",
    "ForwardScenarioSpec",
    "ImageScenarioSpec",
    "InferenceScenarioSpec",
    "Ipu",
    "LoadedScenario",
    "Machine",
    "ScenarioSpec",
    "Software",
    "System",
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
