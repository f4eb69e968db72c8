"""A loaded scenario with other values: what reading it anew with them would give, word for word."""

from __future__ import annotations

import pytest

from podsim.errors import SpecError
from podsim.scenario import load_scenario
from podsim.scenario.document import Document
from podsim.scenario.load import LoadedScenario, _patched

BERT, RESNET, LLAMA = "bert_v1.1_pod64_open", "resnet50_v1.1_pod64", "llama2_7b_pod16_streamed"
MACHINE = "system.machine"
VALUES = [
    (BERT, f"{MACHINE}.ipu_link.bandwidth_per_direction=20 GB/s"),
    (BERT, f"{MACHINE}.ipu_link.hop_latency=300 ns"),
    (BERT, f"{MACHINE}.ipu.clock=2 GHz"),
    (BERT, f"{MACHINE}.ipu.clock=90 GHz"),
    (BERT, f"{MACHINE}.ipu.tile.count=1000"),
    (BERT, f"{MACHINE}.ipu.vertices.gather.skip=7"),
    (BERT, f"{MACHINE}.host_link.bandwidth_per_direction=30 GB/s"),
    (BERT, "system.host_count=2"),
    (BERT, "software.host_call=50 ms"),
    (BERT, "parallelism.micro_batch_size=1"),
    (BERT, "parallelism.accumulation_factor=96"),
    (BERT, "parallelism.replication_factor=4"),
    (BERT, "model.layer_count=24"),
    (BERT, "description=another"),
    (RESNET, f"{MACHINE}.ipu_link.bandwidth_per_direction=20 GB/s"),
    (RESNET, "parallelism.micro_batch_size=8"),
    (RESNET, "parallelism.accumulation_factor=8"),
    (LLAMA, f"{MACHINE}.ipu.clock=1.5 GHz"),
    (LLAMA, "generation.batch_size=2"),
    (LLAMA, "model.layer_count=16"),
]
WRONG = [
    f"{MACHINE}.ipu.clock=fast",
    f"{MACHINE}.ipu.clock=2 GB/s",
    f"{MACHINE}.ipu.tile.count=1.5",
    f"{MACHINE}.ipu.clok=2 GHz",
    f"{MACHINE}.ipu.clock.value=2 GHz",
    f"{MACHINE}.ipu.clock={{value: 2 GHz}}",
    f"{MACHINE}.ipu=ipu_nonsense",
    "parallelism.replication_factor=0",
    "parallelism.replication_factor=1000",
    "parallelism=3",
    "parallelism.layers_per_ipu=3",
    f"{MACHINE}.ipu.vertices.nx1.half_segment=3",
    "model.layers=two",
    "system=nothing",
    "kind=study",
]


def all_of(loaded: LoadedScenario) -> list[object]:
    document: Document = loaded.document
    keys = [(*path,) for path in document.places if document.value_at(path) is not None]
    return [
        *(loaded.name, loaded.spec, loaded.spec.model_dump(), loaded.resolved, document.data, loaded.inputs),
        *(loaded.notices, tuple(loaded.changes), loaded.overrides, loaded.shipped_name, type(loaded.spec)),
        *({path: document.where(path) for path in keys}, loaded.spec.model_fields_set),
    ]


OWNERS = ("data.", "description", "model.", "optimizer.", "run.")
"""Keys that say to what the end of a run belongs: with another value all of the scenario is read again."""


def anew(name: str, *overrides: str) -> LoadedScenario:
    return load_scenario(name, None, overrides)


@pytest.mark.parametrize("name, override", VALUES)
def test_a_value_over_a_loaded_scenario_is_as_if_read_with_it(name: str, override: str) -> None:
    assert all_of(load_scenario(load_scenario(name), overrides=[override])) == all_of(anew(name, override))


def test_values_are_laid_over_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = [override for name, override in VALUES if name == BERT and not override.startswith(OWNERS)]
    overrides += [f"{MACHINE}.ipu.clock=1.4 GHz"]
    expected, loaded = all_of(anew(BERT, *overrides)), load_scenario(BERT)
    monkeypatch.setattr("podsim.scenario.load.resolved_layers", None)
    for override in overrides:
        loaded = load_scenario(loaded, overrides=[override])
    assert loaded.spec.system.machine.ipu.clock_hz == 1.4e9
    monkeypatch.undo()
    assert all_of(loaded) == expected


@pytest.mark.parametrize("override", WRONG)
def test_what_is_wrong_is_told_as_if_read_with_it(override: str) -> None:
    with pytest.raises(SpecError) as expected:
        anew(BERT, override)
    with pytest.raises(SpecError) as found:
        load_scenario(load_scenario(BERT), overrides=[override])
    assert str(found.value) == str(expected.value)
    assert override.split("=")[0] in str(found.value)


def test_what_belongs_to_another_model_stays_away() -> None:
    """Logged samples are those of the published vocabulary: without them there is no time to train, which is told."""
    clock = f"{MACHINE}.ipu.clock=1.4 GHz"
    other = anew(BERT, "model.vocabulary_size=30400")
    assert other.spec.run.samples_to_converge is None  # type: ignore[attr-defined]
    loaded = _patched(other, [clock])
    assert loaded is not None
    assert loaded.spec.run == other.spec.run  # type: ignore[attr-defined]
    assert [notice.partition(":")[0] for notice in loaded.notices] == ["no time to train"]
    assert all_of(loaded) == all_of(anew(BERT, "model.vocabulary_size=30400", clock))
