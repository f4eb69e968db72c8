"""Scenarios of convolutional networks: all that are shipped run, and slips are answered with a place and a cure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from podsim.scenario import TrainingScenario, data_file, load_scenario, shipped_names
from podsim.scenario.base import Spec
from podsim.scenario.families.convnet import ConductivityCnnSpec, EfficientNetSpec, EfficientNetV2Spec
from tests.unit.bad_input_cases import INFEASIBLE, Run, error_of

KINDS = ("resnet", "efficientnet", "efficientnet_v2", "conductivity_cnn")
TEMPLATE = data_file("scenarios/image_template.yaml")
IMAGES = """\
system: {base: ipu_pod4, host_count: 1}
software: tensorflow1_sdk_2.3
model: {kind: resnet, depth: 18, image_size: 64, class_count: 10}
data: {samples_per_epoch: 50000}
parallelism:
  micro_batch_size: 4
  accumulation_factor: 8
  replication_factor: 2
  pipeline_splits: [stage3/unit1]
memory: {io_tiles: 0}
run: {epochs: 10}
"""
UNITS = ", ".join(f"stage{stage}/unit{unit}" for stage in range(1, 5) for unit in (1, 2))
KNOWN = f"known here: {UNITS}, head"

BLOCKS = {
    "a split at a block that is not there": (
        "[stage3/unit1]",
        "[stage3/unit9]",
        "s.yaml:9:3 [parallelism.pipeline_splits]: `stage3/unit9` is not a block of the network behind its first\n"
        f"  do: did you mean `stage3/unit2`? {KNOWN}",
    ),
    "a split before the first block": (
        "[stage3/unit1]",
        "[stem]",
        "s.yaml:9:3 [parallelism.pipeline_splits]: `stem` is not a block of the network behind its first\n"
        f"  do: use one of its blocks; {KNOWN}",
    ),
    "the same split again": (
        "[stage3/unit1]",
        "[head, stage3/unit1, head]",
        "s.yaml:5:1 [parallelism]: pipeline split `head` is given more than once\n  do: name each block once",
    ),
    "a checkpoint at a block that is not there": (
        "[stage3/unit1]",
        "[stage3/unit1]\n  recomputation: segment\n  checkpoints: [stage2/unit7]",
        "s.yaml:11:3 [parallelism.checkpoints]: `stage2/unit7` is not a block of the network behind its first\n"
        f"  do: did you mean `stage2/unit2`? {KNOWN}",
    ),
    "checkpoints without recomputation": (
        "[stage3/unit1]",
        "[stage3/unit1]\n  checkpoints: [stage2/unit1]",
        "s.yaml:5:1 [parallelism]: checkpoints serve recomputation, which is off\n  do: add `recomputation: segment`",
    ),
    "three IPUs per replica": (
        "[stage3/unit1]",
        "[stage3/unit1, stage4/unit1]\n  schedule: lock_step",
        "s.yaml:8:3 [parallelism.replication_factor]: 2 replicas of 3 IPUs need 6 IPUs; IPU-POD4 has 4\n"
        "  do: use at most 1",
    ),
    "too few micro-batches": (
        "accumulation_factor: 8",
        "accumulation_factor: 2",
        "s.yaml:7:3 [parallelism.accumulation_factor]: 2 micro-batches are too few for 2 pipeline stages\n"
        "  do: use 2·2 - 1 = 3 or more",
    ),
}

MODELS = {
    "an image smaller than the kernel": (
        "image_size: 64",
        "image_size: 3",
        "s.yaml:3:34 [model.image_size]: conv: feature maps of 3x3 are smaller than its 7x7 window\n"
        "  do: use larger images",
    ),
    "groups of a plain ResNet": (
        "depth: 18",
        "depth: 18, groups: 32",
        "s.yaml:3:23 [model.depth]: a ResNet of 18 layers has no groups\n"
        "  do: leave groups and width_per_group out, or use 50 layers or more",
    ),
    "a group size that does not divide": (
        "{kind: resnet, depth: 18, image_size: 64, class_count: 10}",
        "{kind: efficientnet, group_size: 5}",
        "s.yaml:3:29 [model.group_size]: spatial: 6 groups do not divide 32 channels\n"
        "  do: change the size of the groups or the width of the model",
    ),
    "groups of a norm that do not divide": (
        "depth: 18",
        "depth: 18, norm: {kind: group, groups: 7}",
        "s.yaml:3:54 [model.norm.groups]: norm: 7 groups do not divide 64 channels\n"
        "  do: change the size of the groups or the width of the model",
    ),
    "group norm over replicas": (
        "depth: 18",
        "depth: 18, norm: {kind: group, replicas: 2}",
        "s.yaml:3:34 [model.norm]: group norm takes no statistics over replicas\n  do: leave `replicas` out",
    ),
    "batch norm over replicas that are not there": (
        "depth: 18",
        "depth: 18, norm: {replicas: 4}",
        "s.yaml:3:41 [model.norm.replicas]: 2 replicas cannot be divided into groups of 4 for batch norm\n"
        "  do: use a number that divides 2",
    ),
    "no such depth": (
        "depth: 18",
        "depth: 20",
        "s.yaml:3:23 [model.depth]: needs 18, 34, 50, 101 or 152, not `20`\n  do: write 18, 34, 50, 101 or 152",
    ),
}

MACHINES = {
    "zero hosts": (
        "host_count: 1",
        "host_count: 0",
        "s.yaml:1:26 [system.host_count]: `0` is too small\n  do: write 1 or more",
    ),
    "replicas that hosts cannot share": (
        "host_count: 1",
        "host_count: 3",
        "s.yaml:1:26 [system.host_count]: 2 replicas cannot be divided among 3 host servers\n"
        "  do: use a number of servers that divides 2",
    ),
    "as many I/O tiles as tiles": (
        "io_tiles: 0",
        "io_tiles: 1472",
        "s.yaml:10:10 [memory.io_tiles]: 1472 I/O tiles leave none of 1472 tiles to compute\n  do: use 32 or 64",
    ),
    "too many replicas": (
        "replication_factor: 2",
        "replication_factor: 3",
        "s.yaml:8:3 [parallelism.replication_factor]: 3 replicas of 2 IPUs need 6 IPUs; IPU-POD4 has 4\n"
        "  do: use at most 2",
    ),
    "nothing waits ready": (
        "data: {",
        "data: {prefetch_depth: 0, ",
        "s.yaml:4:8 [data.prefetch_depth]: `0` is too small\n  do: write 1 or more",
    ),
}

RUNS = {
    "checkpoints of a stack that does not know their cost": (
        "{epochs: 10}",
        "{epochs: 10, checkpoint: {every_epochs: 4}}",
        "s.yaml:11:19 [run.checkpoint]: PopART, SDK 2.3 does not say what a checkpoint costs\n"
        "  do: set `software.checkpoint`, for example to `2.5 s`",
    ),
    "less than one weight update": (
        "samples_per_epoch: 50000",
        "samples_per_epoch: 6",
        "s.yaml:11:7 [run.epochs]: 10 epochs of 6 samples are less than a batch of 64\n"
        "  do: use more epochs, or a smaller batch",
    ),
    "no epoch": ("epochs: 10", "epochs: 0", "s.yaml:11:7 [run.epochs]: `0` is too small\n  do: write a number above 0"),
    "no end of epochs": (
        "epochs: 10",
        "epochs: .inf",
        "s.yaml:11:7 [run.epochs]: `inf` is not a finite number\n  do: write for example `0.5`",
    ),
}


def test_the_good_scenario_is_good(podsim: Run) -> None:
    Path("s.yaml").write_text(IMAGES)
    assert podsim("run", "s.yaml") == (0, "")


@pytest.mark.parametrize(("old", "new", "message"), (cases := BLOCKS | MODELS | MACHINES).values(), ids=cases)
def test_a_wrong_scenario(podsim: Run, old: str, new: str, message: str) -> None:
    assert old in IMAGES
    Path("s.yaml").write_text(IMAGES.replace(old, new, 1))
    assert podsim("run", "s.yaml") == error_of(message)


@pytest.mark.parametrize(("old", "new", "message"), RUNS.values(), ids=RUNS)
def test_a_wrong_run(podsim: Run, old: str, new: str, message: str) -> None:
    popart = IMAGES.replace("tensorflow1_sdk_2.3", "popart_sdk_2.3")
    Path("s.yaml").write_text(popart.replace(old, new, 1))
    assert podsim("run", "s.yaml") == error_of(message)


def test_a_validation_of_a_stack_that_does_not_know_its_cost(podsim: Run) -> None:
    run = "{epochs: 10, checkpoint: {every_epochs: 4}, validation: {samples: 100}}"
    popart = IMAGES.replace("tensorflow1_sdk_2.3", "popart_sdk_2.3").replace("{epochs: 10}", run)
    Path("s.yaml").write_text(popart)
    assert podsim("run", "s.yaml", "--set", "software.checkpoint=2.5 s") == error_of(
        "s.yaml:11:50 [run.validation]: PopART, SDK 2.3 does not say how long the set-up of a validation takes\n"
        "  do: set `run.validation.setup`, for example to `20 s`"
    )


def test_what_checkpoints_cost_can_be_given(podsim: Run) -> None:
    popart = IMAGES.replace("tensorflow1_sdk_2.3", "popart_sdk_2.3")
    run = "{epochs: 10, checkpoint: {every_epochs: 4}, validation: {samples: 100, setup: 20 s}}"
    Path("s.yaml").write_text(popart.replace("{epochs: 10}", run))
    assert podsim("run", "s.yaml", "--set", "software.checkpoint=2.5 s") == (0, "")


@pytest.mark.slow
def test_what_does_not_fit_is_an_answer_with_a_cure(podsim: Run) -> None:
    """All activations of 20 images kept: half as many are tried."""
    changes = ("parallelism.checkpoints=[]", "parallelism.recomputation=none")
    code, text = podsim("run", "resnet50_v1.1_pod16", "--set", changes[0], "--set", changes[1])
    assert code == INFEASIBLE
    assert "IPU 0 of each replica needs" in text
    assert "any of these makes it fit: parallelism.micro_batch_size: 10" in text


# What is shipped


def test_both_families_and_all_optimizers_are_shipped() -> None:
    loaded = (load_scenario(name).spec for name in shipped_names()["scenarios"])
    specs = [spec for spec in loaded if spec.model.kind in KINDS and isinstance(spec, TrainingScenario)]
    assert {spec.model.kind for spec in specs} == set(KINDS)
    assert {spec.optimizer.kind for spec in specs} >= {"sgd", "lars", "rmsprop", "adamw"}


def _missing(spec: Spec, written: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Dotted keys of a specification that are not written; pods, stacks and quantities are names and texts."""
    for name in type(spec).model_fields:
        value = getattr(spec, name)
        if name not in written:
            yield prefix + name
        elif isinstance(value, Spec) and isinstance(written[name], dict) and name != "system":
            yield from _missing(value, written[name], f"{prefix}{name}.")


def test_the_template_has_every_key() -> None:
    spec, written = load_scenario("image_template").spec, YAML(typ="safe").load(TEMPLATE)
    shown = set(
        re.findall(r"^# (\w+):", TEMPLATE.read_text(encoding="utf-8"), re.MULTILINE)
    )  # sections that say what they are for, left out
    assert set(_missing(spec, written)) == {"cost", "expect", "faults"} <= shown
    written |= dict.fromkeys(shown)
    del written["data"]["prefetch_depth"], written["run"]["checkpoint"]
    assert list(_missing(spec, written)) == ["data.prefetch_depth", "run.checkpoint"]


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("efficientnet", EfficientNetSpec),
        ("efficientnet_v2", EfficientNetV2Spec),
        ("conductivity_cnn", ConductivityCnnSpec),
    ],
)
def test_the_template_has_the_keys_of_other_models_as_comments(kind: str, model: type) -> None:
    lines = TEMPLATE.read_text(encoding="utf-8").partition("# The keys of the other models:")[2].splitlines()
    text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines)
    found = [YAML(typ="safe").load(f"model:{part}") for part in text.split("model:")[1:]]
    (keys,) = (each["model"] for each in found if each["model"]["kind"] == kind)
    assert set(keys) == set(model.model_fields)
    assert model.model_validate(keys)
