"""The page of what is shipped: everything is on it, and rows are what a run gives."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsim.scenario.catalogue import ListedScenario, catalogue
from tools.make_shipped import PAGE, bars, scenario_row

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_scenario_has_a_row_with_its_command() -> None:
    rows = re.findall(r"^\| .+<br>`podsim run ([\w.]+)`", TEXT, re.MULTILINE)
    assert sorted(rows) == [scenario.name for scenario in catalogue().scenarios]


def test_every_study_has_a_section_with_its_command() -> None:
    told = re.findall(r"^### `(\w+)`\n\n.+`podsim (\w+) (\w+)`", TEXT, re.MULTILINE)
    assert told == [(study.name, study.command, study.name) for study in catalogue().studies]


def listed(name: str) -> ListedScenario:
    (found,) = (scenario for scenario in catalogue().scenarios if scenario.name == name)
    return found


@pytest.mark.parametrize("name", ["bert_v1.1_pod16_open", "llama2_7b_pods", "bert_base_c600"])
def test_rows_are_what_a_run_gives(name: str) -> None:
    assert scenario_row(listed(name)) in TEXT


def test_a_published_figure_stands_beside_its_prediction() -> None:
    """8.255 minutes are those of MLPerf v1.1, open division, POD64."""
    (row,) = (line for line in TEXT.splitlines() if "`podsim run bert_v1.1_pod64_open`" in line)
    (predicted,) = re.findall(r"time to train ([\d.]+) min", row)
    (error,) = re.findall(r"8.255 min, error ([+-][\d.]+) %", row)
    assert (float(predicted) / 8.255 - 1) * 100 == pytest.approx(float(error), abs=0.06)


def test_bars_are_as_long_as_their_shares() -> None:
    """Half of the time is 5 of 10 blocks; what is below one per cent has no bar."""
    result = cast("Any", SimpleNamespace(breakdown_ps={"matmul": 500, "host": 495, "halo": 5}))
    assert bars(result) == [f"{'█' * 5} matmul 50 %", f"{'█' * 5} host 50 %"]
