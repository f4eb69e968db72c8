"""Capacity planning: what is ranked, what is ruled out and by how much."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim import load, run
from podsim.cli.app import main
from podsim.errors import PodsimError, SpecError
from podsim.scenario.expectations import expectation
from podsim.show.markdown import to_csv
from podsim.show.text import report_as_text
from podsim.study.plan import Goal, Option, find_systems, read_goal
from podsim.study.plan.report import PlanResult, option_table

BERT = "bert_v1.1_pod16_open"
GIVEN = (BERT, "--system", "ipu_pod16", "--division", "given")


@pytest.fixture(scope="module")
def answer() -> object:
    limits = (expectation("time_to_train_s", "< 25 min"), expectation("memory.fullest_ipu_bytes", "> 1 MiB"))
    return find_systems(Goal(BERT, systems=("ipu_pod4", "ipu_pod16", "bow_pod16"), limits=limits, draws=0), processes=2)


def test_the_best_comes_first_and_the_given_division_is_ranked(answer) -> None:  # type: ignore[no-untyped-def]
    times = [each.figures["time_to_train_s"] for each in answer.ranked]
    assert times == sorted(times)
    given = next(each for each in answer.ranked if (each.system, each.division) == ("bow_pod16", "as given"))
    assert given.figures["time_to_train_s"] == run(BERT, overrides=["system=bow_pod16"]).time_to_train_s
    assert (given.ipus_per_replica, given.replicas, given.arithmetic) == (4, 4, "16 (= 4 × 4)")
    chosen = next(each for each in answer.ranked if (each.system, each.division) == ("bow_pod16", "chosen"))
    assert chosen.figures["time_to_train_s"] <= given.figures["time_to_train_s"]


def test_what_misses_a_limit_says_by_how_much(answer) -> None:  # type: ignore[no-untyped-def]
    out = {(each.system, each.division): each.reason for each in answer.ruled_out}
    late = run(BERT).time_to_train_s / (25 * 60) - 1
    assert late > 0
    assert out["ipu_pod16", "as given"] == f"time_to_train_s < 25 min: {late:+.1%}"
    assert "16" in out["ipu_pod4", "as given"]
    assert len(answer.ranked) + len(answer.ruled_out) <= 6


def test_what_is_saved_gives_the_same(answer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for option in answer.ranked:
        path = tmp_path / f"{option.name}.yaml"
        path.write_text(option.written)
        assert run(path).time_to_train_s == option.figures["time_to_train_s"]
        assert load(path).spec.system.name in ("IPU-POD16", "Bow Pod16")


def test_tables_fit_eighty_columns(answer) -> None:  # type: ignore[no-untyped-def]
    text = report_as_text(answer.report(), 80)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "bow_pod16" in text and "as given" in text and "Ruled out" in text
    json.dumps(answer.to_dict())


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (Option("a", "chosen", ipu_count=64, ipus_per_replica=4, replicas=16), "64 (= 4 × 16)"),
        (Option("a", "chosen", ipu_count=64, ipus_per_replica=4, replicas=8), "64 (32 used, 4 × 8)"),
        (Option("a", "chosen", ipu_count=64), "64"),
    ],
)
def test_the_arithmetic_is_in_the_cell(option: Option, words: str) -> None:
    assert option.arithmetic == words


def test_rates_are_maximised_and_times_minimised() -> None:
    assert Goal(BERT, objective="throughput_samples_per_s").more_is_better
    assert not Goal(BERT, objective="weight_update_s").more_is_better


GOAL = (
    "kind: goal\ndraws: 0\nscenario: bert_v1.1_pod16_open\nsystems: [ipu_pod16]\ndivisions: [as given]\n"
    "limits: {time_to_train_s: < 60 min}\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOAL.replace("< 60 min", "< 60 GB"), "unit `GB` does not fit"),
        (GOAL.replace("scenario", "scenaro"), "scenario"),
        (GOAL.replace("[ipu_pod16]", "[]"), "few"),
    ],
)
def test_wrong_goals_are_told(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(text)
    with pytest.raises(SpecError, match=words):
        read_goal(tmp_path / "g.yaml")


@pytest.mark.parametrize("goal", [{"system": "ipu_pod16"}, None, 3])
def test_what_is_no_goal_at_all_is_told(goal: Any) -> None:
    with pytest.raises(PodsimError, match="a goal is a path or the name of a scenario or study, not"):
        podsim.plan(goal)


@pytest.mark.parametrize("path", [{"system": "ipu_pod16"}, None, 3])
def test_what_is_no_path_is_not_checked(path: Any) -> None:
    with pytest.raises(PodsimError, match="what is checked is a path or the name of a scenario, not"):
        podsim.check(path)


def test_a_figure_that_does_not_exist_is_told() -> None:
    with pytest.raises(PodsimError, match="no figure `speed`"):
        find_systems(Goal("bert_base_c600", objective="speed", systems=("c600",)), processes=1)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    sys.argv = ["podsim", "plan", *arguments]
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out + captured.err


def test_an_answer_is_never_empty(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, text = told(capsys, *GIVEN, "--deadline", "1min", "--draws", "0")
    assert code == 3
    assert "nothing reaches the goal" in text and "time_to_train_s <= 1min: +" in text
    for wrong in (["--limit", "mfu"], ["--limit", "mfu=0.4"], ["--deadline", "soon"], ["--save-dir", __file__]):
        code, text = told(capsys, *GIVEN, *wrong)
        assert code == 2 and "do: " in text


def test_flags_and_files_say_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(GOAL)
    answers: list[Mapping[str, object]] = []
    for arguments in (
        [str(tmp_path / "g.yaml")],
        [*GIVEN, "--limit", "time_to_train_s=< 60 min", "--draws", "0"],
    ):
        code, text = told(capsys, *arguments, "--format", "json", "--save-dir", str(tmp_path / "best"))
        assert code == 0
        answers.append(json.loads(text[: text.rindex("}") + 1]))
    assert answers[0] == answers[1]
    assert (tmp_path / "best" / "ipu_pod16-as-given.yaml").is_file()


def test_a_cost_has_its_currency_and_no_cell_is_cut_off() -> None:
    """The heading of a long name takes several lines instead."""
    goal = Goal(BERT, "", "cost_per_million_samples")
    figures = {"cost_per_million_samples": 8.5466, "throughput_samples_per_s": 780.0, "weight_update_s": 10.5}
    option = Option("ipu_pod64", "as given", "", 64, 4, 4, figures, currency="USD")
    text = report_as_text(PlanResult(goal, [option], []).report(), 80)
    assert "8.547 USD" in text and "64 (16 used, 4 × 4)" in text and "as given" in text and "…" not in text


def test_a_figure_with_a_limit_is_shown_however_long_names_are() -> None:
    """Partitions with many replicas take the width; the time that the deadline is about stays."""
    goal = Goal(BERT, objective="cost_per_run", limits=(expectation("time_to_train_s", "< 12 h"),))
    figures = {"cost_per_run": 1234.5, "time_to_train_s": 25554.0, "throughput_samples_per_s": 780.0}
    option = Option("32 of bow_pod1024", "as given", "", 1024, 16, 1, figures, currency="USD")
    long = replace(option, system="hardware/a_pod_with_a_very_long_name.yaml", ipu_count=16384)
    text = report_as_text(PlanResult(goal, [option, long], []).report(), 80)
    assert "7.098 h" in text and "1,234 USD" in text and "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_all_options_are_rows_of_csv_with_figures_in_si_units() -> None:
    fast = Option("bow_pod16", "chosen", ipu_count=16, ipus_per_replica=4, replicas=4)
    fast = replace(
        fast, figures={"time_to_train_s": 1084.5, "ipus": 16, "mfu": 0.25, "cost_per_run": 8.5}, currency="USD"
    )
    slow = replace(fast, system="ipu_pod4", ipu_count=4, figures={"time_to_train_s": 5184.0}, reason="=late, by far")
    answer = PlanResult(Goal("x"), [fast], [slow, Option("ipu_pod64", "as given", reason="16 IPUs, not 64")])
    assert to_csv(option_table(answer, [*answer.ranked, *answer.ruled_out])).splitlines() == [
        "option,IPUs,time to train [s],MFU,cost per run [USD],ruled out by",
        '"bow_pod16, chosen",16,1084.5,0.25,8.5,',
        '"ipu_pod4, chosen",4,5184.0,,,"\'=late, by far"',
        '"ipu_pod64, as given",0,,,,"16 IPUs, not 64"',
    ]
