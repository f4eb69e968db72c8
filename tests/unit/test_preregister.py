"""Predictions that are written before measurements are known, and scored when they are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from podsim import generate, infer, simulate
from podsim._version import __version__
from podsim.errors import OutputError, PodsimError
from podsim.watch import silent
from tools import preregister as module
from tools.preregister import preregister, score
from tools.truth import main

TRAINED, GENERATED, PASSED = "bert_large_squad_pod16@bow", "llama2_7b_pods@pod4", "vit_base_pod4"
IMPOSSIBLE = "bert_pod64_hardware@half_memory"
CURE = "\n  do: score a file that `./dev truth preregister` wrote, with numbers at `measured` and nothing else changed"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("predictions") / "p.json"
    preregister(path, silent, [TRAINED, GENERATED, PASSED])
    return path.read_text()


def filled(written: str, path: Path, measured: dict[str, Any], **changes: Any) -> Path:
    """The file with measurements by quantity, and other changes of every row."""
    report = json.loads(written)
    for row in report["rows"]:
        row |= {"measured": measured.get(row["quantity"])} | changes
    path.write_text(json.dumps(report))
    return path


def test_the_file_holds_what_is_predicted_and_no_measurement(written: str) -> None:
    rows = {(row["row"], row["quantity"]): row for row in json.loads(written)["rows"]}
    trained = simulate("bert_large_squad_pod16", variant="bow")
    step = generate("llama2_7b_pods", variant="pod4")
    assert rows[TRAINED, "weight update"]["predicted"] == pytest.approx(trained.weight_update_s * 1000)
    assert trained.time_to_train_s is not None
    assert rows[TRAINED, "time to train"]["predicted"] == pytest.approx(trained.time_to_train_s / 60)
    assert rows[GENERATED, "time per output token"]["predicted"] == pytest.approx(step.time_per_output_token_s * 1000)
    passes = infer(PASSED).throughput_samples_per_s
    assert rows[PASSED, "throughput of forward passes"]["predicted"] == pytest.approx(passes)
    assert {row["measured"] for row in rows.values()} == {None}


def test_a_score_is_the_error_of_what_was_measured(written: str, tmp_path: Path) -> None:
    (row,) = (row for row in json.loads(written)["rows"] if row["quantity"] == "weight update")
    scored = score(filled(written, tmp_path / "p.json", {"weight update": row["predicted"] / 1.25}))
    (comparison,) = scored.found.comparisons
    assert (comparison.name, comparison.unit) == (TRAINED, "ms")
    assert comparison.error == pytest.approx(0.25)
    assert scored.changed == ()


def test_a_score_says_what_has_changed_since(written: str, tmp_path: Path) -> None:
    report = json.loads(filled(written, tmp_path / "p.json", {"weight update": 1.0}).read_text())
    report["fingerprint"]["code"] = "0" * 64
    (tmp_path / "p.json").write_text(json.dumps(report))
    assert score(tmp_path / "p.json").changed == ("code",)


@pytest.mark.parametrize("changes", [{"predicted": 1.0}, {"row": "another"}, {"unit": "s"}])
def test_predictions_that_were_changed_are_not_scored(written: str, tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(PodsimError, match="the predictions were changed after they had been written"):
        score(filled(written, tmp_path / "p.json", {"weight update": 1.0}, **changes))


@pytest.mark.parametrize(
    ("measured", "told"),
    [
        ("12 ms", '"12 ms"'),
        (0, "0"),
        (-1.5, "-1.5"),
        (True, "true"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_what_is_no_measurement_is_told(written: str, tmp_path: Path, measured: Any, told: str) -> None:
    path = filled(written, tmp_path / "p.json", {"weight update": measured})
    with pytest.raises(PodsimError) as caught:
        score(path)
    assert str(caught.value) == (
        f"{path} [{TRAINED}, weight update]: `{told}` is no measurement\n  do: write a number above 0, in ms, or null"
    )


def test_a_file_without_measurements_has_no_score(written: str, tmp_path: Path) -> None:
    with pytest.raises(PodsimError, match="no measurement is filled in"):
        score(filled(written, tmp_path / "p.json", {}))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"rows": 1}', '{"rows": [1]}', "[" * 100_000])
def test_other_files_hold_no_predictions(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(PodsimError) as caught:
        score(tmp_path / "p.json")
    assert str(caught.value) == f"{tmp_path / 'p.json'}: this file holds no predictions{CURE}"


def test_predictions_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("mine")
    with pytest.raises(OutputError, match="predictions that were written are not replaced"):
        preregister(tmp_path / "p.json", silent, [PASSED])
    assert (tmp_path / "p.json").read_text() == "mine"


def test_what_is_impossible_is_left_out(tmp_path: Path) -> None:
    preregister(tmp_path / "p.json", silent, [IMPOSSIBLE, PASSED])
    assert {row["row"] for row in json.loads((tmp_path / "p.json").read_text())["rows"]} == {PASSED}


def test_the_command_writes_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "_shipped", lambda: [PASSED])

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["truth", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), *capsys.readouterr()

    assert run("preregister", "p.json")[:2] == (0, "")
    (row,) = json.loads(Path("p.json").read_text())["rows"]
    filled(Path("p.json").read_text(), Path("p.json"), {row["quantity"]: row["predicted"] / 1.1})
    code, out, err = run("score", "p.json")
    assert (code, err) == (0, f"predicted by podsim {__version__}\n")
    assert "vit_base_pod4" in out and "+10.0%" in out
