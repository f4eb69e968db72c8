"""The door: text in, checked and frozen specifications out."""

from podsim.specs.assumptions import Assumption, assumptions
from podsim.specs.forward import ForwardScenarioSpec
from podsim.specs.hardware import IpuSpec, MachineSpec, PodSpec
from podsim.specs.image import ImageScenarioSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.library import data_file, shipped_names
from podsim.specs.load import (
    LoadedScenario,
    load_hardware,
    load_ipu,
    load_scenario,
    variant_names,
)
from podsim.specs.scenario import ScenarioSpec, TrainingScenario
from podsim.specs.schema import json_schema, part_schema
from podsim.specs.software import SoftwareSpec

__all__ = [
    "Assumption",
    "ForwardScenarioSpec",
    "ImageScenarioSpec",
    "InferenceScenarioSpec",
    "IpuSpec",
    "LoadedScenario",
    "MachineSpec",
    "PodSpec",
    "ScenarioSpec",
    "SoftwareSpec",
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
