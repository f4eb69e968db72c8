"""What was asked is what results say: pod, chip, changes, IPUs in use and published figures."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.cli.app import main
from podsim.result.base import Result
from podsim.result.shared import Simulated
from podsim.scenario import load_scenario
from podsim.scenario.library import data_file
from podsim.show.text import report_as_text
from podsim.validation.reference_data import submissions

TRAINING, GENERATION, FORWARD = "bert_v1.1_pod16_open", "llama2_7b_pods", "e5_large_pod4"
SERVED = "serving_llama2_7b_pod64"


def text_of(result: Result) -> str:
    """The tables of a result, on lines that hold all of it."""
    return report_as_text(result.report(), 400)


def test_every_kind_says_what_was_simulated_and_which_ipus_are_not_used() -> None:
    """One of each kind on a pod that the file does not name: 16, 16, 4 and, of one copy on 32 IPUs, 32 of 64."""
    asked = ["system=bow_pod64"]
    served = [*asked, "serving.replicas=1", "serving.request_count=20"]
    results: list[tuple[Any, str, int]] = [
        (podsim.simulate(TRAINING, overrides=asked), "ipu_pod16", 16),
        (podsim.generate(GENERATION, overrides=asked), "ipu_pod16", 16),
        (podsim.infer(FORWARD, overrides=asked), "ipu_pod4", 4),
        (podsim.serve(SERVED, overrides=served, loads=[0.5]), "ipu_pod64", 32),
    ]
    for result, before, used in results:
        text, told = text_of(result), json.loads(result.to_json())
        title, machine, difference, *_ = text.splitlines()
        assert title.startswith(f"Changed from: {result.description}")
        assert machine.startswith(f"Bow Pod64, {used} of 64 IPUs in use, Bow at 1.85 GHz; ")
        assert f"system {before} → bow_pod64" in difference
        about = told["simulated"]
        assert (about["system"], about["ipu"], about["clock_hz"]) == ("Bow Pod64", "Bow", 1.85e9)
        assert about["changes"][0] == {"key": "system", "before": before, "after": "bow_pod64"}
        assert any(warning.startswith(f"uses {used} of 64 IPUs: ") for warning in result.warnings)
        assert f"warning: uses {used} of 64 IPUs: " in text
        assert told["warnings"] == list(result.warnings)


def test_shipped_scenarios_of_training_use_their_pods() -> None:
    """16 of 16: nothing to say, and one MFU."""
    result = podsim.simulate(TRAINING)
    assert (result.warnings, result.mfu_of_pod) == ((), result.mfu)
    assert "as the file says" in text_of(result)
    assert "of all 16 IPUs" not in text_of(result)


def test_the_advice_uses_all_ipus_with_the_same_batch() -> None:
    """64 replicas of 4 IPUs; 4 x 192 micro-batches among 64 are 12 for each."""
    small = podsim.simulate(TRAINING, overrides=["system=ipu_pod256"])
    settings = ["parallelism.replication_factor=64", "parallelism.accumulation_factor=12"]
    assert f"`--set {settings[0]} --set {settings[1]}` would use all" in small.warnings[0]
    assert "the same batch of 1,536; the first alone makes it 24,576" in small.warnings[0]
    assert small.mfu_of_pod == pytest.approx(small.mfu * 16 / 256)
    large = podsim.simulate(TRAINING, overrides=["system=ipu_pod256", *settings])
    assert (large.simulated.ipus_used, large.warnings) == (256, ())


def test_an_accumulation_that_would_not_be_whole_is_not_advised() -> None:
    """80 micro-batches for 4 replicas; 16 would have 5 each, fewer than the 2·5 - 1 that five stages need."""
    asked = ["system=ipu_pod64", "parallelism.accumulation_factor=20"]
    warning, _ = podsim.simulate(TRAINING, overrides=asked).warnings
    assert warning.endswith(
        "`--set parallelism.replication_factor=16` would use all, with a batch of 640 rather than 160"
    )


@pytest.mark.parametrize(
    ("override", "before", "after"),
    [
        ("parallelism.accumulation_factor=96", 192, 96),
        ("system.machine.ipu.clock=1.5 GHz", "1.33 GHz", "1.5 GHz"),
        ("batch_size=1536", None, 1536),
    ],
)
def test_a_change_has_the_value_before_wherever_it_stood(override: str, before: object, after: object) -> None:
    (change,) = load_scenario(TRAINING, overrides=[override]).changes
    assert (change.key, change.before, change.after) == (override.partition("=")[0], before, after)


def test_an_override_that_changes_nothing_is_no_change() -> None:
    loaded = load_scenario(TRAINING, overrides=["system=ipu_pod16", "parallelism.accumulation_factor=192"])
    assert loaded.changes == ()


def test_a_variant_that_describes_itself_does_so_until_it_is_changed() -> None:
    """The file's variant `pod4` has another description."""
    plain = podsim.generate(GENERATION, variant="pod4")
    assert plain.title == plain.description == "LLaMa2-7B on 4 IPUs, weights streamed"
    assert "system" in {change.key for change in plain.simulated.changes}
    assert "; variant pod4: " in plain.about[1]
    changed = podsim.generate(GENERATION, variant="pod4", overrides=["system=bow_pod4"])
    assert changed.title == f"Changed from: {plain.description}"


def test_a_description_that_is_given_is_that_of_the_run() -> None:
    asked = ["system=bow_pod16", "description=on Bow"]
    assert podsim.simulate(TRAINING, overrides=asked).title == "on Bow"


def test_a_variant_without_words_of_its_own_borrows_those_of_the_file() -> None:
    about = Simulated(system="P", ipu="C", clock_hz=1e9, software="S", ipus_used=1, ipu_count=1, variant="small")
    assert about.titled("A model") == "Variant small of: A model"


def test_published_figures_are_beside_unchanged_results_of_every_kind() -> None:
    """LLM-001 to LLM-003 are 3.502, 3.508 and 3.776 steps/s; HFNB-015 is 864.65 sequences/s."""
    generated = podsim.generate("llama2_7b_pod16_streamed")
    assert [reference.measured for reference in generated.references] == [3.502, 3.508, 3.776]
    assert generated.error_of(generated.references[0]) == pytest.approx(generated.steps_per_s / 3.502 - 1)
    assert text_of(generated).count("measured 3.") == 3
    (passed,) = (podsim.infer(FORWARD),)
    assert [reference.measured for reference in passed.references] == [864.65]
    assert "measured 864.6/s, error" in text_of(passed)
    (row,) = (
        row for row in submissions("bert") if (row["round"], row["ipus"], row["division"]) == ("v1.1", "16", "open")
    )
    update = podsim.simulate(TRAINING).references[0]
    assert (update.measured, update.role) == (float(row["step_ms_median"]) / 1000, row["role"])


def test_the_command_line_prints_the_json_of_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["podsim", "run", TRAINING, "--format", "json"])
    with suppress(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out) == json.loads(podsim.simulate(TRAINING).to_json())


def test_only_the_shipped_scenario_as_it_is_has_published_figures(tmp_path: Path) -> None:
    assert load_scenario(TRAINING).shipped_name == TRAINING
    assert load_scenario(TRAINING, overrides=["system=bow_pod16"]).shipped_name is None
    assert load_scenario({"base": TRAINING}).shipped_name is None
    copy = tmp_path / f"{TRAINING}.yaml"
    shutil.copy(data_file(f"scenarios/mlperf/{TRAINING}.yaml"), copy)
    assert podsim.simulate(str(copy)).references == ()


def test_a_pod_of_the_same_name_is_not_the_shipped_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for by its path, and takes the published figures away; the name alone means the shipped one."""
    monkeypatch.chdir(tmp_path)
    Path("ipu_pod16.yaml").write_text("base: ipu_pod64\nname: another\n", encoding="utf-8")
    assert podsim.simulate(TRAINING).references
    loaded = load_scenario(TRAINING, overrides=["system=./ipu_pod16.yaml"])
    assert (loaded.spec.system.name, loaded.shipped_name) == ("another", None)


def test_rates_given_to_serve_are_changes() -> None:
    result = podsim.serve(SERVED, overrides=["serving.request_count=20"], rate=2.0, loads=[0.5])
    assert {change.key: change.after for change in result.simulated.changes} == {
        "serving.request_count": 20,
        "serving.rate": 2.0,
        "serving.loads": (0.5,),
    }
