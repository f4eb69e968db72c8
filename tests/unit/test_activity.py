"""One verb for scenarios of any kind, and verbs for one kind each."""

from __future__ import annotations

import pickle
import re
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import podsim
import podsim.runs
from podsim import ForwardResult, GenerationResult, PodsimError, RunResult, load
from podsim.cli.app import app
from podsim.draws import Draws, Seeds
from podsim.program.size import unseen
from podsim.runs.settings import Settings
from podsim.scenario import TrainingScenario
from podsim.scenario.activity import Activity
from podsim.scenario.families.registry import forms

BERT = {
    "system": "ipu_pod4",
    "software": "popart_sdk_2.3",
    "model": {"kind": "bert", "size": "tiny"},
    "data": {"sequence_length": 128, "masked_token_count": 20},
}
SCENARIOS: dict[Activity, dict[str, object]] = {
    Activity.TRAINING: BERT
    | {
        "parallelism": {
            "micro_batch_size": 1,
            "accumulation_factor": 1,
            "replication_factor": 1,
            "layers_per_ipu": [2],
        }
    },
    Activity.FORWARD: BERT | {"forward": {"batch_size": 2}},
    Activity.GENERATION: {
        "system": "ipu_pod4",
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "size": "gpt2_small"},
        "generation": {"prompt_tokens": 16, "output_tokens": 16},
    },
}
VERBS = {
    Activity.TRAINING: (podsim.simulate, RunResult),
    Activity.FORWARD: (podsim.infer, ForwardResult),
    Activity.GENERATION: (podsim.generate, GenerationResult),
}


@pytest.mark.parametrize("activity", Activity)
def test_one_verb_runs_what_the_keys_of_a_scenario_ask_for(activity: Activity) -> None:
    loaded = load(SCENARIOS[activity])
    verb, kind = VERBS[activity]
    assert loaded.spec.activity is activity
    result = podsim.run(loaded)
    assert isinstance(result, kind)
    assert result.to_dict() == verb(loaded).to_dict()


@pytest.mark.parametrize("activity", Activity)
def test_a_verb_of_one_kind_says_which_one_is_meant(activity: Activity) -> None:
    for other in set(Activity) - {activity}:
        with pytest.raises(PodsimError) as failure:
            VERBS[other][0](SCENARIOS[activity])
        assert str(failure.value) == (
            f"scenario describes {activity.label}, not {other.label}\n  do: use podsim.run, or {activity.verb}"
        )


def test_only_text_generation_is_served() -> None:
    with pytest.raises(PodsimError, match="scenario describes forward passes, not text generation"):
        podsim.serve(SCENARIOS[Activity.FORWARD])


def test_variants_and_overrides_reach_the_scenario() -> None:
    result = podsim.run(SCENARIOS[Activity.GENERATION], overrides=["generation.batch_size=3"])
    assert isinstance(result, GenerationResult)
    assert result.batch_size == 3


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ({"kind": "decoder", "size": "gpt2_small"}, {"sequence_length": 64}),
        ({"kind": "t5", "size": "small"}, {"source_length": 64, "target_length": 32}),
    ],
    ids=["decoder", "encoder-decoder"],
)
def test_forward_passes_do_the_forward_work_of_training(model: dict[str, object], data: dict[str, object]) -> None:
    """The products of the same graph, without its backward pass."""
    common = {"system": "ipu_pod4", "software": "popart_sdk_2.3", "model": model, "data": data}
    result = podsim.infer(common | {"forward": {"batch_size": 2}})
    layers = {"decoder": 12, "t5": 12}[str(model["kind"])]
    division = {"micro_batch_size": 2, "accumulation_factor": 1, "replication_factor": 1, "layers_per_ipu": [layers]}
    trained = load(common | {"parallelism": division}).require(TrainingScenario)
    assert result.flop_per_batch == trained.model.workload(trained.data, trained.formats, 2).forward_flop


def test_a_scenario_of_each_family_and_activity_travels() -> None:
    """Their classes are made when they are asked for, and found again by name."""
    for name, form in forms().items():
        assert pickle.loads(pickle.dumps(form)) is form, name


def test_no_code_asks_for_the_kind_of_a_scenario_but_the_scenario() -> None:
    question = re.compile(r"isinstance\([^)]*(?<!Loaded)Scenario\b")
    asking = [path for path in Path(podsim.__file__).parent.rglob("*.py") if question.search(path.read_text())]
    assert asking == []


def test_keywords_of_run_are_settings_with_the_same_defaults() -> None:
    """A seed belongs to draws or noise, and where nothing follows a run it is unseen."""
    settings = {field.name: field.default for field in fields(Settings)}
    keywords = {name: parameter.default for name, parameter in signature(podsim.run).parameters.items()}
    beside = {"scenario", "variant", "overrides", "seed"}
    assert {**keywords, "follow": unseen}.items() - {(name, keywords[name]) for name in beside} == settings.items()


def test_the_command_line_makes_the_settings_that_python_makes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[Settings] = []

    def stop(_loaded: object, settings: Settings) -> None:
        made.append(settings)
        raise typer.Exit

    monkeypatch.setattr(podsim.runs, "run_loaded", stop)
    options = ["--explicit", "--influence", "--noise", "7", "--seed", "3", "--fit", "warn", "--engine", "simpy"]
    CliRunner().invoke(app, ["run", "bert_v1.1_pod16_open", *options, "--trace", str(tmp_path / "trace.json")])
    (found,) = made
    wanted = Settings(explicit=True, record=True, influence=True, noise=Seeds(7, 3), fit="warn", engine="simpy")
    assert replace(found, watch=wanted.watch, follow=wanted.follow) == wanted
    assert found.watch is not wanted.watch


def test_noise_and_uncertainty_are_two_questions() -> None:
    with pytest.raises(podsim.PodsimError, match="two questions"):
        Settings(noise=Seeds(7), uncertainty=Draws(7))
