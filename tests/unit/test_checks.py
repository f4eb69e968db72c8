"""The regression gate: expectations, baselines, and what a verdict says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from podsim._version import __version__
from podsim.cli.app import main
from podsim.errors import BadValueError, PodsimError, SpecError
from podsim.scenario import load_scenario
from podsim.scenario.expectations import expectation
from podsim.study.check import verdict as ci
from podsim.study.check.measure import cases_of, measured, read_baseline, write_baseline
from podsim.study.check.verdict import Baseline, verdict_on
from podsim.study.plan.goal import limit, missed
from tests.cases import every_case

ROOT = Path(__file__).resolve().parent.parent.parent
SCENARIO = """base: bert_v1.1_pod16_open
expect: {weight_update_s: 2.04 s ± 5 %, time_to_train_s: < 40 min, fits: true}
variants:
  too_large: {parallelism: {micro_batch_size: 64}, expect: {fits: false}}
"""


def given(status: str = "done", expect: Mapping[str, Any] | None = None, **metrics: float) -> dict[str, Any]:
    return {
        "status": status,
        "reason": None if status == "done" else "too large\n  do: less",
        "metrics": metrics,
        "breakdown_ps": {"matmul": 8 * 10**9, "host": 2 * 10**9},
        "inputs": {"a.yaml": "1"},
        "expect": expect or {},
    }


# Expectations


@pytest.mark.parametrize(
    ("metric", "text", "inside", "outside"),
    [
        ("throughput_samples_per_s", "1500 ± 5 %", [1425, 1575], [1424.9, 1575.1]),
        ("throughput_samples_per_s", "1500 +- 20", [1480, 1520], [1479, 1521]),
        ("weight_update_s", "2.2 s ± 50 ms", [2.1501, 2.2499], [2.149, 2.251]),
        ("time_to_train_s", "< 30 min", [0, 1799.9], [1800, 2000]),
        ("time_to_train_s", "<= 30 min", [1800], [1800.1]),
        ("mfu", "> 40 %", [0.401], [0.4]),
        ("memory.fullest_ipu_bytes", ">= 1 MiB", [2**20], [2**20 - 1]),
    ],
)
def test_expectations(metric: str, text: str, inside: list[float], outside: list[float]) -> None:
    found = expectation(metric, text)
    assert all(map(found.holds, inside))
    assert not any(map(found.holds, outside))


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        ("time_to_train_s", "< 30"),
        ("time_to_train_s", "< 30 GB"),
        ("mfu", "0.4"),
        ("mfu", "about 3"),
        ("mfu", ""),
        ("mfu", "1 ± -5 %"),
    ],
)
def test_what_is_no_expectation_is_refused(metric: str, text: str) -> None:
    with pytest.raises(BadValueError):
        expectation(metric, text)


def test_a_wrong_expectation_has_a_place(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("base: bert_v1.1_pod16_open\nexpect:\n  time_to_train_s: < 30 GB\n  fits: maybe\n")
    with pytest.raises(SpecError) as caught:
        load_scenario(path)
    assert [problem.key for problem in caught.value.problems] == ["expect.time_to_train_s", "expect.fits"]
    assert "s.yaml:3:" in caught.value.problems[0].where


def test_expectations_of_a_base_are_not_inherited(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    (tmp_path / "t.yaml").write_text("base: s.yaml\n")
    assert load_scenario(tmp_path / "s.yaml").spec.expect
    assert load_scenario(tmp_path / "t.yaml").spec.expect is None
    assert (load_scenario(tmp_path / "s.yaml", "too_large").spec.expect or {})["fits"] is False


# Verdicts


def kinds(now: Mapping[str, Any], known: Mapping[str, Any], **rest: Any) -> list[tuple[str, str, str]]:
    verdict = verdict_on(now, Baseline(known, **rest))
    return [(issue.kind, issue.case, issue.metric) for issue in verdict.issues]


def test_each_kind_of_finding() -> None:
    before = {
        "same": given(mfu=0.4),
        "slower": given(weight_update_s=1.0),
        "faster": given(throughput_samples_per_s=100.0),
        "failing": given(mfu=0.4),
        "cured": given("does not fit"),
        "gone": given(),
    }
    now = {
        "same": given(mfu=0.4),
        "slower": given(weight_update_s=1.011),
        "faster": given(throughput_samples_per_s=102.0),
        "failing": given("does not fit"),
        "cured": given(mfu=0.1),
        "new": given(),
    }
    assert kinds(now, before) == [
        ("broken", "failing", ""),
        ("drift", "slower", "weight_update_s"),
        ("gain", "faster", "throughput_samples_per_s"),
        ("gain", "cured", ""),
        ("added", "new", ""),
        ("removed", "gone", ""),
    ]


def update(value: float) -> dict[str, Any]:
    return {"a": given(weight_update_s=value)}


SLOWER = [("drift", "a", "weight_update_s")]


@every_case(
    "before, now, rest, expected",
    lambda: [
        # A figure at its tolerance has not moved beyond it: from 4 to 5 is 25 %, exactly, in binary too.
        (update(4.0), update(5.0), {"tolerance": "25 %"}, []),
        (update(4.0), update(5.0), {"tolerance": "24.9 %"}, SLOWER),
        (update(4.0), update(3.0), {"tolerance": "25 %"}, []),
        (update(4.0), update(4.0), {"tolerance": "0 %"}, []),
        # Nothing can be related to zero, so that any change from it is a whole one, upwards.
        (update(0.0), update(0.0), {}, []),
        (update(0.0), update(1e-9), {"tolerance": "99 %"}, SLOWER),
        # Both come before the scenario, and that before the figure.
        (update(4.0), update(5.0), {"tolerances": {"weight_update_s": "26 %"}}, []),
        (update(4.0), update(5.0), {"tolerances": {"a": "26 %"}}, []),
        (update(4.0), update(5.0), {"tolerances": {"b": "26 %"}}, SLOWER),
        (update(4.0), update(5.0), {"tolerances": {"a": "30 %", "weight_update_s": "20 %"}}, []),
        (update(4.0), update(5.0), {"tolerances": {"a": "20 %", "weight_update_s": "30 %"}}, SLOWER),
        (update(4.0), update(5.0), {"tolerances": {"a weight_update_s": "20 %", "a": "30 %"}}, SLOWER),
        (update(4.0), update(5.0), {"tolerances": {"a weight_update_s": "30 %", "a": "20 %"}}, []),
        # Less power is neither better nor worse, and fails all the same; less energy is better.
        ({"a": given(mean_power_w=5.0)}, {"a": given(mean_power_w=4.0)}, {}, [("moved", "a", "mean_power_w")]),
        (
            {"a": given(energy_per_sample_j=3.0)},
            {"a": given(energy_per_sample_j=2.0)},
            {},
            [("gain", "a", "energy_per_sample_j")],
        ),
        # A figure that one of both lacks; another revision may know fewer.
        ({"a": given()}, {"a": given(mfu=0.4)}, {}, [("missing", "a", "mfu")]),
        ({"a": given()}, {"a": given(mfu=0.4)}, {"is_revision": True}, [("added", "a", "mfu")]),
        ({"a": given(mfu=0.4)}, {"a": given()}, {}, [("broken", "a", "mfu")]),
        ({}, {"a": given()}, {}, [("added", "a", "")]),
        ({"a": given()}, {}, {}, [("removed", "a", "")]),
    ],
)
def test_what_has_moved(before: Any, now: Any, rest: Any, expected: list[tuple[str, str, str]]) -> None:
    verdict = verdict_on(now, Baseline(before, **rest))
    assert [(issue.kind, issue.case, issue.metric) for issue in verdict.issues] == expected
    assert verdict.holds == all(kind == "added" for kind, *_ in expected)


def test_tolerances_that_nothing_uses_are_dropped_with_what_used_them() -> None:
    """A baseline with others would be refused when it is read."""
    tolerances = {"mfu": "2 %", "a": "3 %", "b": "4 %", "b mfu": "5 %", "b energy_j": "6 %"}
    before = Baseline({"a": given(mfu=1.0), "b": given(mfu=1.0, energy_j=1.0)}, tolerances=tolerances)
    assert before.with_measured({"b": given(mfu=2.0)}, "x").tolerances == {"mfu": "2 %", "b": "4 %", "b mfu": "5 %"}


def test_why_names_the_time_and_the_file_that_moved() -> None:
    before, now = given(weight_update_s=10e-3), given(weight_update_s=11.5e-3)
    now |= {"breakdown_ps": {"matmul": 8 * 10**9, "host": 3 * 10**9, "sync": 5 * 10**8}, "inputs": {"a.yaml": "2"}}
    (finding,) = verdict_on({"a": now}, Baseline({"a": before})).issues
    assert finding.why == "host +1 ms; a.yaml"
    assert finding.change == pytest.approx(0.15)
    (finding,) = verdict_on({"a": now | {"inputs": before["inputs"]}}, Baseline({"a": before})).issues
    assert finding.why == "host +1 ms; the code of podsim"


def test_expectations_are_looked_at_without_a_baseline() -> None:
    found = given(expect={"mfu": "> 40 %", "fits": True, "latency_s": "< 1 s"}, mfu=0.39)
    findings = verdict_on({"a": found}, None).issues
    assert [(each.metric, each.before, each.after) for each in findings] == [
        ("mfu", "> 40 %", "0.39"),
        ("latency_s", "< 1 s", "nothing"),
    ]
    for expect in ({"fits": True}, {"mfu": "> 1 %"}, {"mfu": "> 1 %", "latency_s": "< 1 s"}):
        (finding,) = verdict_on({"a": given("does not fit", expect)}, None).issues
        assert (finding.fails, finding.metric, finding.after, finding.why) == (True, "fits", "false", "too large")
    assert verdict_on({"a": given("does not fit", {"fits": False, "mfu": "> 1 %"})}, None).issues == []


def test_what_gives_nothing_is_told_where_nothing_is_known_of_it() -> None:
    (finding,) = verdict_on({"a": given("does not fit")}, None).issues
    assert (finding.kind, finding.after, finding.why, finding.fails) == (
        "impossible",
        "does not fit",
        "too large",
        False,
    )


# Formats


def verdict_of_many() -> Any:
    before = {f"s{number}": given(weight_update_s=1.0) for number in range(12)}
    return verdict_on({name: given(weight_update_s=1.1) for name in before}, Baseline(before))


def test_the_comment_has_a_verdict_eight_rows_and_the_rest_folded() -> None:
    lines = ci.as_comment(verdict_of_many()).splitlines()
    assert lines[1] == "**does not hold: 12 drift of 12 scenarios, 12 figures**"
    folded = lines.index("<details><summary>4 more</summary>")
    rows = [place for place, line in enumerate(lines) if line.startswith("| drift")]
    assert len(rows) == 12 and sum(place < folded for place in rows) == 8


def test_junit_has_a_test_per_case() -> None:
    verdict = verdict_of_many()
    suite = ET.fromstring(ci.as_junit(replace(verdict, now={**verdict.now, "other": given()})))
    assert (suite.get("tests"), suite.get("failures")) == ("13", "12")
    assert suite.find("testcase[@name='other']/failure") is None
    failure = suite.find("testcase[@name='s0']/failure")
    assert failure is not None and failure.get("message") == "drift: s0 weight_update_s"


def test_annotations_name_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd()))
    first = ci.as_github(replace(verdict_of_many(), paths={"s0": Path("x/s0.yaml")})).splitlines()[0]
    assert first.startswith("::error file=x/s0.yaml,title=podsim check::drift: s0 weight_update_s: 1 → 1.1 (+10.00%25)")


# The command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "s.yaml").write_text(SCENARIO)
    (tmp_path / "runs" / "pod.yaml").write_text("kind: pod\nbase: ipu_pod16\n")
    return tmp_path / "runs"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    sys.argv = ["podsim", "check", *arguments]
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out + captured.err


def test_a_baseline_is_written_held_and_rewritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, str(folder))
    assert code == 0 and "no baseline" in text
    assert told(capsys, str(folder), "--accept")[0] == 2
    assert told(capsys, str(folder), "--accept", "--reason", "first")[0] == 0
    kept = json.loads((folder / "podsim-baseline.json").read_text())
    assert kept["reason"] == "first"
    assert {name: each["status"] for name, each in kept["scenarios"].items()} == {
        "s": "done",
        "s@too_large": "does not fit",
    }
    code, text = told(capsys, str(folder))
    assert (code, text.splitlines()[0]) == (0, "holds: 2 scenarios, 9 figures, 4 expectations")
    assert " ".join(text.split()).endswith(f"compared with {folder / 'podsim-baseline.json'}, podsim {__version__}")
    # A call takes 104 ms.
    (folder / "s.yaml").write_text(SCENARIO + "software: {base: popart_sdk_2.3, host_call: 300 ms}\n")
    code, text = told(capsys, str(folder))
    assert code == 1
    assert "drift: got worse" in text and "host +196 ms" in text and "unmet" in text


def test_the_hook_of_pre_commit_needs_no_arguments(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It checks what a baseline in the working folder names, or the folder `scenarios`, or says what it needs."""
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert "entry: podsim check\n" in hook and "args" not in hook and "pass_filenames: false" in hook
    monkeypatch.chdir(folder)
    code, text = told(capsys)
    assert code == 2 and "has no podsim-baseline.json and no folder `scenarios`\n  do: give scenario files" in text
    Path("scenarios").mkdir()
    Path("scenarios/s.yaml").write_bytes(Path("s.yaml").read_bytes())
    assert told(capsys)[1].startswith("holds: 2 scenarios, 0 figures, 4 expectations")
    assert told(capsys, "--accept", "--reason", "first")[0] == 0
    assert Path("scenarios/podsim-baseline.json").is_file()
    assert told(capsys)[1].startswith("holds: 2 scenarios, 9 figures, 4 expectations")
    Path("other.yaml").write_text("no: scenario\n")
    assert told(capsys, "s.yaml", "bert_v1.1_pod16_open", "--accept", "--reason", "first")[0] == 0
    code, text = told(capsys)
    assert code == 0 and text.startswith("holds: 3 scenarios, ")
    assert "compared with podsim-baseline.json" in text
    assert told(capsys, "--baseline", "scenarios/podsim-baseline.json")[1].startswith("holds: 2 scenarios, 9 figures")
    Path("podsim-baseline.json").write_text(Path("scenarios/podsim-baseline.json").read_text())
    Path("s.yaml").unlink()
    code, text = told(capsys)
    assert code == 2 and "podsim-baseline.json: none of the scenarios of this baseline is there" in text


def test_wrong_baselines_are_told(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, Baseline({"a": given(mfu=0.123456789123)}, reason="x"))
    assert read_baseline(path).scenarios["a"]["metrics"] == {"mfu": 0.123456789}
    good = json.loads(path.read_text())
    for broken, words in (
        ({**good, "schema": 2}, "schema 2 is not the 1"),
        ({**good, "tolerance": "much"}, "no baseline"),
        ({"schema": 1}, "no baseline"),
        ([], "no `schema`"),
        ({**good, "scenarios": []}, "`scenarios`"),
        ({**good, "scenarios": {"a": {}}}, "`scenarios.a.status`"),
        ({**good, "scenarios": {"a": given() | {"metrics": {"mfu": "x"}}}}, "`scenarios.a.metrics.mfu`"),
        ({**good, "tolerance": "-1 %"}, "below 0"),
        ({**good, "tolerance": 1}, "`tolerance`"),
        ({**good, "tolerances": []}, "`tolerances`"),
        ({**good, "tolerances": {"mfv": "2 %"}}, "`tolerances.mfv`(.|\n)*write `mfu`"),
        ({**good, "tolerances": {"b mfu": "2 %"}}, "`tolerances.b mfu`"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(PodsimError, match=words):
            read_baseline(path)
    path.write_text("{")
    with pytest.raises(PodsimError, match="no baseline"):
        read_baseline(path)
    with pytest.raises(PodsimError, match="there is no baseline"):
        read_baseline(tmp_path / "none.json")


def test_a_shipped_name_is_checked_from_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its baseline lies in the working folder, and names it as results do."""
    monkeypatch.chdir(tmp_path)
    assert told(capsys, "conductivity_cnn_pod4", "--accept", "--reason", "x")[0] == 0
    kept = json.loads(Path("podsim-baseline.json").read_text())
    assert list(kept["scenarios"]) == ["scenarios/published/conductivity_cnn_pod4"]
    assert told(capsys, "conductivity_cnn_pod4")[0] == 0
    code, text = told(capsys, "conductivity_cnn_pod5")
    assert code == 2 and "conductivity_cnn_pod5" in text


def test_folders_without_scenarios_are_told(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(PodsimError):
            list(cases_of([path], tmp_path))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [b\n", "not valid YAML"),
        ("base: nothing_like_it\n", "no scenario"),
        ("- a\n", "must hold"),
        (f"{SCENARIO}variants: 3\n", "variants"),
        (SCENARIO.replace("40 min", "40 GB"), "GB"),
    ],
)
def test_a_wrong_file_is_a_finding_among_others(
    content: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not keep the others from being checked, needs no baseline, and is not agreed on."""
    (folder / "bad.yaml").write_text(content)
    code, text = told(capsys, str(folder))
    assert code == 1
    assert "broken: worked and now fails, or cannot be read" in text
    code, text = told(capsys, str(folder), "--format", "json")
    broken = [each for each in json.JSONDecoder().raw_decode(text)[0]["findings"] if each["kind"] == "broken"]
    assert {(each["case"].partition("@")[0], each["after"]) for each in broken} == {("bad", "not read")}
    assert re.search(rf"bad.yaml.*{words}", broken[0]["why"]), text
    code, text = told(capsys, str(folder), "--accept", "--reason", "x")
    assert code == 2 and words in text
    assert not (folder / "podsim-baseline.json").exists()


def test_a_tolerance_that_is_dropped_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "podsim-baseline.json"
    gone = {"status": "does not fit", "metrics": {}, "breakdown_ps": {}, "inputs": {}}
    write_baseline(file, Baseline({"gone": gone}, tolerances={"gone": "2 %"}, reason="first"))
    code, text = told(capsys, str(folder), "--accept", "--reason", "x")
    assert code == 0 and "dropped the tolerance of `gone`, which nothing uses any more" in text
    assert json.loads(file.read_text())["tolerances"] == {}


def test_a_figure_that_is_not_there_is_named(tmp_path: Path) -> None:
    name = "a"
    verdict = verdict_on({name: given(expect={"weight_update": "> 3"}, weight_update_s=4.0)}, None)
    (finding,) = verdict.issues
    assert (finding.kind, finding.after) == ("unmet", "nothing")
    assert "weight_update_s" in finding.why


def test_files_of_one_name_and_files_named_twice(folder: Path) -> None:
    assert len(list(cases_of([folder, folder / "s.yaml"], folder))) == 2
    (folder / "s.yml").write_text(SCENARIO)
    with pytest.raises(PodsimError, match="same name"):
        list(cases_of([folder], folder))
    with pytest.raises(PodsimError, match="no scenario"):
        list(cases_of([folder / "pod.yaml"], folder))


def nested(path: str, value: str) -> str:
    *parents, last = path.split(".")
    text = f"{last}: {value}"
    for parent in reversed(parents):
        text = f"{parent}: {{{text}}}"
    return text


PLANTED = [
    (key, nested(key, value))
    for key, value in (
        ("software.host_call", "138.72 ms"),
        ("software.layout_change_cycles_per_byte", "1.5708"),
        ("system.machine.ipu.clock", "1.3566 GHz"),
        ("system.machine.ipu.superstep.overhead", "202 cycles"),
        ("system.machine.ipu_link.efficiency", "83.3 %"),
        ("system.machine.ipu_link.bandwidth_per_direction", "15.68 GB/s"),
        ("system.machine.gw_link.bandwidth_per_direction", "9.8 GB/s"),
        ("software.setup", "13.77 s"),
        ("run.evaluation.every_samples", "207754"),
        ("system.machine.ipu.tile.count", "1443"),
    )
]


@pytest.mark.slow
@pytest.mark.parametrize(("key", "written"), PLANTED, ids=[key for key, _ in PLANTED])
def test_a_planted_change_of_two_per_cent_is_found_and_named(key: str, written: str, tmp_path: Path) -> None:
    scenario = f"base: bert_v1.1_pod128_open\n{written}\n"
    (tmp_path / "s.yaml").write_text("base: bert_v1.1_pod128_open\n")
    (case,) = cases_of([tmp_path / "s.yaml"], tmp_path)
    before = measured(case)
    (tmp_path / "s.yaml").write_text(scenario)
    after = measured(case)
    findings = verdict_on({"s": after}, Baseline({"s": before}, tolerance="0.01 %")).issues
    assert findings, key
    assert all("s.yaml" in finding.why for finding in findings)


# Other revisions, and other runners


@pytest.mark.slow
def test_another_revision_is_asked_for_its_own_numbers(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def git(*arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)

    git("init", "-q", "-b", "main", str(folder.parent))
    git("add", "-A")
    git("commit", "-qm", "first")
    assert told(capsys, str(folder), "--against", "main")[0] == 0
    (folder / "s.yaml").write_text(SCENARIO + "software: {base: popart_sdk_2.3, host_call: 200 ms}\n")
    code, text = told(capsys, str(folder), "--against", "main")
    assert code == 1 and "drift" in text and "host +96 ms" in text
    code, text = told(capsys, str(folder), "--against", "nothing")
    assert code == 2 and "nothing" in text
    code, text = told(capsys, str(folder), "--against", "main", "--baseline", "elsewhere.json")
    assert code == 2 and "--baseline" in text
    outside = tmp_path_factory.mktemp("outside") / "o.yaml"
    outside.write_text(SCENARIO)
    code, text = told(capsys, str(folder), str(outside), "--against", "main")
    assert code == 2 and f"{outside}: it does not lie in" in text
    shutil.rmtree(folder.parent / ".git")
    code, text = told(capsys, str(folder), "--against", "main")
    assert code == 2


@pytest.mark.slow
def test_pytest_collects_scenarios(folder: Path) -> None:
    installed = entry_points(group="pytest11", name="podsim")  # then pytest loads it by itself
    plugin = () if installed else ("-p", "podsim.study.check.pytest_plugin")
    command = [sys.executable, "-m", "pytest", "-q", *plugin, "-p", "no:cacheprovider"]
    plain = subprocess.run([*command, str(folder)], capture_output=True, text=True, cwd=folder)
    assert "no tests ran" in plain.stdout
    asked = subprocess.run([*command, "--podsim", str(folder)], capture_output=True, text=True, cwd=folder)
    assert "2 passed" in asked.stdout, asked.stdout
    (folder / "s.yaml").write_text(SCENARIO.replace("40 min", "10 min"))
    failed = subprocess.run([*command, "--podsim", str(folder)], capture_output=True, text=True, cwd=folder)
    assert "1 failed, 1 passed" in failed.stdout and re.search("time_to_train_s +< 10 min", failed.stdout)
    assert "Traceback" not in failed.stdout


# What a defect of the check would let through


@pytest.mark.parametrize(
    ("text", "at_the_bound"), [("< 30 s", False), ("<= 30 s", True), ("> 30 s", False), (">= 30 s", True)]
)
def test_a_strict_bound_is_not_met_exactly(text: str, at_the_bound: bool) -> None:
    found = verdict_on({"a": given(expect={"latency_s": text}, latency_s=30.0)}, None)
    assert found.holds == at_the_bound
    bound = limit("latency_s", text)
    assert bound.holds(30.0) == at_the_bound
    assert (list(missed([("latency_s", bound)], {"latency_s": 30.0})) == []) == at_the_bound


# Every figure that is counted is compared


def test_every_figure_of_a_baseline_that_is_edited_is_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten times as much of any of them, one after the other, and each of them gone."""
    told(capsys, str(folder), "--accept", "--reason", "first")
    path = folder / "podsim-baseline.json"
    good = json.loads(path.read_text())
    case, kept = next(cases_of([folder], folder)), good["scenarios"]["s"]
    now = {"s": measured(case), "s@too_large": good["scenarios"]["s@too_large"] | {"expect": {}, "reason": ""}}
    figures = kept["metrics"]
    assert "mean_power_w" in figures and len(figures) == 9
    for name in figures:
        for edited in ({**figures, name: figures[name] * 10}, {key: figures[key] for key in figures if key != name}):
            scenarios = {**good["scenarios"], "s": {**kept, "metrics": edited}}
            path.write_text(json.dumps({**good, "scenarios": scenarios}))
            verdict = verdict_on(now, read_baseline(path))
            assert [issue.metric for issue in verdict.issues if issue.fails] == [name]
            assert verdict.figure_count == 9


@pytest.mark.parametrize("text", ["nan %", "inf %", "nan", "-inf", ".inf", "1e999 %", "-0.1 %"])
def test_tolerances_are_finite(text: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, Baseline({"a": given(mfu=0.4)}, tolerances={"mfu": "1 %"}))
    good = json.loads(path.read_text())
    for broken in ({**good, "tolerance": text}, {**good, "tolerances": {"mfu": text}}):
        path.write_text(json.dumps(broken))
        with pytest.raises(PodsimError, match="no baseline"):
            read_baseline(path)


@pytest.mark.parametrize(
    "spoiled",
    ["NaN", "Infinity", "-Infinity", "1e999", f"1{'0' * 400}", f"1{'0' * 5000}", "[" * 100_000, '0.4, "mfu": 0.4'],
)
def test_a_baseline_holds_finite_numbers_once_each(spoiled: str, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, Baseline({"a": given(mfu=0.4)}))
    path.write_text(path.read_text().replace("0.4", spoiled))
    with pytest.raises(PodsimError, match="no baseline"):
        read_baseline(path)


@pytest.mark.parametrize("text", ["< nan s", "<= inf s", "1 s ± nan %", "nan s ± 1 s", "> -inf s", "< 1e999 s"])
def test_expectations_are_finite(text: str) -> None:
    with pytest.raises(BadValueError, match="finite"):
        expectation("latency_s", text)


# Nothing compared is not green


def test_nothing_compared_has_an_exit_code_of_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (folder / "s.yaml").write_text("base: conductivity_cnn_pod4\n")
    for form in ("text", "markdown", "github", "junit", "json"):
        code, text = told(capsys, str(folder), "--format", form)
        assert code == 5
        assert "holds: " not in text
        assert '"holds": true' not in text
    code, text = told(capsys, str(folder))
    assert "nothing was compared: 1 scenario, 0 figures" in text and "--accept --reason" in text and "`expect:`" in text
    (folder / "podsim-baseline.json").write_text(json.dumps(EMPTY))
    code, text = told(capsys, str(folder))
    assert code == 5 and "added: is new" in text
    (folder / "s.yaml").write_text("base: conductivity_cnn_pod4\nexpect: {fits: true}\n")
    assert told(capsys, str(folder))[0] == 0
    assert told(capsys, str(folder), "--accept", "--reason", "x")[0] == 0
    (folder / "s.yaml").write_text("base: conductivity_cnn_pod4\n")
    assert told(capsys, str(folder))[0] == 0


EMPTY = {"schema": 1, "version": "1", "reason": "", "tolerance": "1 %", "tolerances": {}, "scenarios": {}}


def test_what_stays_impossible_as_agreed_on_was_compared() -> None:
    verdict = verdict_on({"a": given("does not fit")}, Baseline({"a": given("does not fit")}))
    assert verdict.holds and not verdict.is_empty
    assert verdict_on({"a": given("does not fit")}, None).is_empty


# A file is one file, however it is typed


def test_a_file_is_one_file_however_it_is_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scen = tmp_path / "scen"
    scen.mkdir()
    (tmp_path / "link").symlink_to("scen")
    (scen / "common.yaml").write_text("base: conductivity_cnn_pod4\n")
    (scen / "s.yaml").write_text("base: common.yaml\n")
    assert told(capsys, "scen", "--accept", "--reason", "x")[0] == 0
    kept = json.loads((scen / "podsim-baseline.json").read_text())["scenarios"]
    assert sorted(kept) == ["common", "s"]
    assert {"common.yaml", "s.yaml"} == {path for path in kept["s"]["inputs"] if "/" not in path}
    (scen / "s.yaml").write_text(f"# a comment\nbase: common.yaml\n{FASTER}")
    ways = (("scen", tmp_path), (str(scen), tmp_path), ("link", tmp_path), (".", scen))
    for typed, folder in (*ways, ("scen/../scen/s.yaml", tmp_path)):
        monkeypatch.chdir(folder)
        baseline = ("--baseline", str(scen / "podsim-baseline.json"))
        _, text = told(capsys, typed, *baseline, "--format", "json")
        blamed = {each["why"].partition("; ")[2] for each in json.loads(text)["findings"] if each["why"]}
        assert blamed == {"s.yaml"}, typed


FASTER = "system: {base: ipu_pod4, machine: {ipu: {clock: 1.6 GHz}}}\n"


def test_names_of_an_earlier_version_are_known_by_content_and_by_their_end() -> None:
    before = given(weight_update_s=1.0) | {"inputs": {"scen/s.yaml": "1", "/x/scen/same.yaml": "2", "gone.yaml": "3"}}
    now = given(weight_update_s=2.0) | {"inputs": {"s.yaml": "9", "same.yaml": "2", "new.yaml": "4"}}
    (finding,) = verdict_on({"a": now}, Baseline({"a": before})).issues
    assert finding.files == ("gone.yaml", "new.yaml", "s.yaml")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_an_annotation_stands_once_at_the_file_and_line_that_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two scenarios over one file: what changed is that file, and not they."""

    def git(*arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    scen = tmp_path / "scen"
    scen.mkdir()
    (scen / "common.yaml").write_text("# one\n# two\nbase: conductivity_cnn_pod4\n")
    for name in ("a", "b"):
        (scen / f"{name}.yaml").write_text("base: common.yaml\n")
    monkeypatch.chdir(scen)
    assert told(capsys, ".", "--accept", "--reason", "x")[0] == 0
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "first")
    with (scen / "common.yaml").open("a") as file:
        file.write(FASTER)
    for wish in ((), ("--against", "main")):
        code, text = told(capsys, ".", "--format", "github", *wish)
        annotations = [line for line in text.splitlines() if line.startswith("::")]
        assert code == 1 and len(annotations) == 1
        assert annotations[0].startswith("::error file=scen/common.yaml,line=4,title=podsim check::drift: ")
        assert annotations[0].endswith("; and 23 more findings")
