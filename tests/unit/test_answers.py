"""Answers in Python: a few lines, tables for a notebook, a figure, a frame with units; a line of progress."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import podsim
from podsim.errors import PodsimError
from podsim.watch import SWITCH, progress_line, telling, watched

GOOD = "bert_base_c600"
STUDY = {"kind": "study", "scenario": GOOD, "keys": {"system.machine.ipu.clock": ["1 GHz", "1.2 GHz", "1.486 GHz"]}}
LONGEST = 100


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("check") / "slow.yaml"
    file.write_text(f"base: {GOOD}\nexpect: {{throughput_samples_per_s: '< 1'}}\n")
    goal = {"systems": ("c600",), "divisions": ("given",), "objective": "latency_s"}
    faster = {"base": GOOD, "system": {"machine": {"ipu": {"clock": "1.5 GHz"}}}}
    return {
        "run": podsim.run(GOOD),
        "sweep": podsim.sweep(STUDY),
        "plan": podsim.plan(GOOD, **goal, overrides={"cost.price_per_ipu_hour": "2 EUR"}),
        "compare": podsim.compare(GOOD, faster),
        "whatif": podsim.whatif(GOOD, times={"clock": 2}),
        "check": podsim.check(file),
    }


NAMES = ("run", "sweep", "plan", "compare", "whatif", "check")


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_told_in_five_lines(answers: dict[str, Any], name: str) -> None:
    lines = repr(answers[name]).splitlines()
    assert 2 <= len(lines) <= 5
    assert all(0 < len(line) <= LONGEST for line in lines)
    assert ".to_frame()" in lines[-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_a_table(answers: dict[str, Any], name: str) -> None:
    assert "<table" in answers[name]._repr_html_()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "check"])
def test_a_figure_is_drawn_that_a_notebook_shows_without_pyplot(answers: dict[str, Any], name: str) -> None:
    assert answers[name].plot()._repr_png_().startswith(b"\x89PNG")


def test_a_verdict_that_nothing_moved_has_no_chart(answers: dict[str, Any]) -> None:
    with pytest.raises(PodsimError, match="nothing to draw"):
        answers["check"].plot()


UNITS = {
    "run": ("latency_s", "s"),
    "sweep": ("throughput_samples_per_s", "1/s"),
    "plan": ("cost_per_hour", "EUR"),
    "compare": ("change", "1"),
    "whatif": ("value", "1/s"),
    "check": ("change", "1"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_has_units(answers: dict[str, Any], name: str) -> None:
    frame = answers[name].to_frame()
    column, unit = UNITS[name]
    assert column in frame.columns
    assert frame.attrs["unit"][column] == unit
    assert set(frame.attrs["unit"]) <= set(frame.columns)


def test_frames_hold_the_figures(answers: dict[str, Any]) -> None:
    run, sweep = answers["run"], answers["sweep"].to_frame()
    assert run.to_frame()["latency_s"].item() == run.latency_s
    # 1.486 GHz is the clock of the card as it is; the rows are in the order of the values.
    assert sweep["throughput_samples_per_s"].to_list()[2] == run.throughput_samples_per_s
    assert answers["plan"].to_frame()["rank"].to_list() == [1]
    # A card of one IPU at 2 EUR per hour.
    assert answers["plan"].to_frame()["cost_per_hour"].item() == pytest.approx(2.0)
    assert answers["check"].to_frame()["kind"].to_list() == ["unmet"]
    faster = podsim.run(GOOD, overrides={"system.machine.ipu.clock": "1.5 GHz"})
    (change,) = answers["compare"].to_frame().query("metric == 'latency_s'")["change"]
    assert change == pytest.approx(faster.latency_s / run.latency_s - 1)


def test_a_check_that_holds_is_a_frame_without_rows(tmp_path: Path) -> None:
    (tmp_path / "fast.yaml").write_text(f"base: {GOOD}\nexpect: {{throughput_samples_per_s: '> 1'}}\n")
    frame = podsim.check(tmp_path / "fast.yaml").to_frame()
    assert len(frame) == 0
    assert {"kind", "case", "metric", "change", "why"} <= {*frame.columns}


def test_a_study_without_a_file_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept, written = podsim.sweep(STUDY), podsim.sweep(STUDY, "t.csv")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.csv", "t.csv.json"]
    assert kept.output is None
    assert [*kept.rows()] == [*written.rows()]
    assert kept.by_status == written.by_status == {"done": 3}


def test_a_list_and_a_scenario_that_was_loaded_are_told_shortly() -> None:
    lines = repr(podsim.list("squad")).splitlines()
    assert lines[0] == "scenarios:"
    assert all("squad" in line.lower() for line in lines if line.startswith("  "))
    loaded = podsim.load(GOOD, None, {"system.machine.ipu.clock": "1 GHz"})
    assert repr(loaded) == f"LoadedScenario({GOOD}: forward passes, system.machine.ipu.clock=1 GHz)"


def test_validate_takes_no_scenario() -> None:
    with pytest.raises(PodsimError, match="`zzz` is no function") as error:
        podsim.validate("zzz")  # type: ignore[arg-type]
    assert "podsim.check" in error.value.do


# Progress


class Clock:
    """Two thirds of a second pass each time it is looked at."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 2 / 3
        return self.now_s


def test_a_line_of_progress_waits_two_seconds_and_leaves_nothing() -> None:
    stream = io.StringIO()
    with progress_line("points", stream, Clock()) as tell:
        tell(1, 4)
        tell(2, 4)
        assert stream.getvalue() == ""
        tell(3, 4, "last")  # two seconds after it began: three are done, so that the fourth takes 2/3 s
        assert stream.getvalue() == "\rpoints last [###############.....] 3 of 4, 1 s left"
    last = stream.getvalue().rpartition("\r")[0].rpartition("\r")[2]
    assert last.strip() == ""
    assert len(last) == len("points last [###############.....] 3 of 4, 1 s left")


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr("podsim.watch._PATIENCE_S", 0.0)
    monkeypatch.delenv(SWITCH, raising=False)


@pytest.mark.usefixtures("notebook")
def test_a_notebook_shows_progress_of_a_study_and_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    podsim.sweep(STUDY, processes=1)
    shown = capsys.readouterr().err
    assert "podsim: points" in shown
    assert "3 of 3" in shown
    assert [*watched(["a", "b"])] == ["a", "b"]
    assert "podsim: b" in capsys.readouterr().err


@pytest.mark.usefixtures("notebook")
def test_elsewhere_and_where_it_is_switched_off_nothing_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    podsim.sweep(STUDY, processes=1)
    monkeypatch.delenv(SWITCH)
    monkeypatch.delitem(sys.modules, "IPython")
    podsim.sweep(STUDY, processes=1)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("notebook")
def test_what_is_given_is_told_instead(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    with telling(lambda done, total: seen.append((done, total)), "points") as tell:
        tell(1, 2)
    assert seen == [(1, 2)]
    assert capsys.readouterr().err == ""
