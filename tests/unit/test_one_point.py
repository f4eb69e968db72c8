"""One point has one figure, whichever command is asked."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podsim.cli.app import main
from podsim.runs.serve import serve
from podsim.study.plan import Goal, find_systems

BERT, LLAMA = "bert_v1.1_pod16_open", "llama_for_50_users"
Ask = Callable[..., str]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    """What a command prints, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def asked(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["podsim", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        assert not end.value.code, told.err
        return told.out

    return asked


def numbers(value: Any, key: str) -> set[float]:
    """All numbers that stand under a key, at any depth."""
    found = set()
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        if name == key and isinstance(each, float):
            found.add(each)
        elif isinstance(each, (dict, list)):
            found |= numbers(each, key)
    return found


def test_a_training_run_is_as_fast_in_every_command(ask: Ask) -> None:
    Path("point.yaml").write_text(f"base: {BERT}\nsystem: bow_pod16\n")
    Path("study.yaml").write_text(f"kind: study\nscenario: {BERT}\nkeys: {{system: [bow_pod16, ipu_pod16]}}\n")
    result = json.loads(ask("run", "point.yaml", "--format", "json"))
    update_s, rate = result["weight_update_s"], result["throughput_samples_per_s"]
    ask("sweep", "study.yaml", "--output", "study.csv", "--processes", "1")
    with Path("study.csv").open(newline="") as file:
        (row,) = [each for each in csv.DictReader(file) if each["system"] == "bow_pod16"]
    ask("check", "point.yaml", "--accept", "--reason", "as it is")
    planned = ("plan", BERT, "--system", "bow_pod16", "--division", "given", "--draws", "0", "--processes", "1")
    plan = json.loads(ask(*planned, "--format", "json", "--save-dir", "best"))
    (saved,) = Path("best").iterdir()
    updates_s = {
        "sweep": float(row["weight_update_s"]),
        "plan": plan["ranked"][0]["figures"]["weight_update_s"],
        "check": json.loads(Path("podsim-baseline.json").read_text())["scenarios"]["point"]["metrics"][
            "weight_update_s"
        ],
        "saved": json.loads(ask("run", str(saved), "--format", "json"))["weight_update_s"],
    }
    assert updates_s == pytest.approx(dict.fromkeys(updates_s, update_s), rel=1e-8)
    (found,) = json.loads(ask("whatif", "point.yaml", "--times", "clock=1.1", "--format", "json"))["workloads"]
    assert found["value"] == rate
    assert rate in numbers(json.loads(ask("compare", "point.yaml", BERT, "--format", "json")), "a")
    ranges = result["ranges"]["time_to_train_s"]
    assert plan["ranked"][0]["ranges"]["time_to_train_s"] == ranges


USERS = ("serving.rate=null", "serving.users=50", "serving.think=30 s")


@pytest.mark.parametrize(
    ("overrides", "rate", "served"),
    [((), None, ()), ((), 5.0, ("serving.rate=5.0",)), (USERS, None, USERS), (USERS, 3.3, ("serving.rate=3.3",))],
)
def test_requests_wait_as_long_in_plan_and_in_serve(
    overrides: tuple[str, ...], rate: float | None, served: tuple[str, ...], tmp_path: Path
) -> None:
    """Where a rate takes the place of users, the file of a plan was written without it, and gave what users see."""
    few = ("serving.request_count=200",)
    goal = Goal(LLAMA, objective="p99_latency", systems=("ipu_pod64",), divisions=("as given",), draws=0)
    plan = find_systems(replace(goal, overrides=(*few, *overrides), request_rate=rate), processes=1)
    assert plan.best is not None
    (tmp_path / "saved.yaml").write_text(plan.best.written)
    for source, given in ((LLAMA, (*few, *served)), (tmp_path / "saved.yaml", ())):
        result = serve(source, overrides=given, uncertainty=None)
        assert plan.best.value("latency_p99_s") == result.outcome.latency.p99_s
        assert plan.best.value("time_to_first_token_p99_s") == result.outcome.time_to_first_token.p99_s
        assert (plan.best.value("load"), rate in (None, result.rate_per_s)) == (result.load, True)


def test_a_rate_and_a_file_of_requests_are_two_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("requests.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,128,16\n1,128,16\n")
    serving = "{rate: null, lengths: null, file: requests.csv}"
    Path("replayed.yaml").write_text(f"base: serving_llama2_7b_pod64\nserving: {serving}\n")
    goal = Goal("replayed.yaml", systems=("ipu_pod64",), objective="p99_latency", request_rate=3.3, draws=0)
    (found, _) = find_systems(goal, processes=1).ruled_out
    assert found.reason == "requests come as `requests.csv` says, and the goal gives a rate"
