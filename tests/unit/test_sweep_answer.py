"""What a study says in the terminal: the best point, the worst, what changes nothing, and why some have no figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from podsim.many.sweeps import answer as module
from podsim.many.sweeps import sweep
from podsim.many.sweeps.answer import StudyAnswer, answer, answer_tables, place
from podsim.many.sweeps.run import Swept
from podsim.many.sweeps.space import space_of
from podsim.pages.sweep_page import sweep_page
from podsim.scenario.document import Document

RATE = "throughput_samples_per_s"
FEW = "8 replicas of 8 IPUs need 64 IPUs; IPU-POD16 has {}"


def answered(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], metric: str | None = None, **study: Any
) -> StudyAnswer:
    """What is made of a table that is given, instead of simulated."""
    usual = {"scenario": "template", "variant": None, "status": "done", "reason": None}
    table = [{"point": number} | usual | row for number, row in enumerate(rows)]
    monkeypatch.setattr(Swept, "rows", lambda _self: iter(table))
    space = space_of(Document({"kind": "study", "scenario": "template"} | study))
    return answer(Swept(space, Path("t.csv"), len(rows), {}, ()), metric)


def lines(found: StudyAnswer, width: int = 100) -> list[str]:
    """As a terminal shows it."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        for each in answer_tables(found):
            console.print(each)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_best_and_the_worst_come_first_with_their_units_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rates of 10, 20, … 70 thousand; the fifth best is 30 thousand, which is 42.9 % of the best."""
    keys = {"x.a": list(range(1, 8)), "x.b": ["8 GB/s"]}
    rows = [{"x.a": at, "x.b": "8 GB/s", RATE: 10_000.0 * at} for at in (3, 1, 7, 2, 6, 5, 4)]
    found = answered(monkeypatch, rows, keys=keys)
    assert (found.metric, found.keys, found.count) == (RATE, ["x.a"], 7)
    assert [row[RATE] for row in found.best] == [70_000, 60_000, 50_000, 40_000, 30_000]
    shown = lines(found)
    assert shown[:2] == ["Best   70,000 samples/s at a 7", "Worst  10,000 samples/s at a 1"]
    assert shown[3:5] == ["The best 5 of 7 points, and the worst", "point  a  throughput [samples/s]  of the best"]
    assert [line.split() for line in shown[6:12]] == [
        ["2", "7", "70,000", "100.0", "%"],
        ["4", "6", "60,000", "85.7", "%"],
        ["5", "5", "50,000", "71.4", "%"],
        ["6", "4", "40,000", "57.1", "%"],
        ["0", "3", "30,000", "42.9", "%"],
        ["1", "1", "10,000", "14.3", "%"],
    ]


def test_of_times_the_least_is_best(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": at, "weight_update_s": at / 10, RATE: 1.0} for at in (2, 1, 3)]
    found = answered(monkeypatch, rows, "weight_update_s", keys={"a": [1, 2, 3]})
    assert lines(found)[:2] == ["Best   100 ms at a 1", "Worst  300 ms at a 3"]


def test_points_that_are_as_good_stand_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": at, RATE: 2.0 if at else 1.0} for at in range(8)]
    found = answered(monkeypatch, rows, keys={"a": list(range(8))})
    assert [row["point"] for row in found.best] == [1, 2, 3, 4, 5]
    assert found.worst is not None and found.worst["point"] == 0


def test_pods_that_are_not_used_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same figures at 64, 128 and 256 IPUs with the division given, where a run warns of the idle ones."""
    warnings = {64: None, 128: "uses 64 of 128 IPUs: more replicas", 256: "uses 64 of 256 IPUs: more replicas"}
    rows = [{"system": f"ipu_pod{each}", RATE: 4904.3, "warnings": told} for each, told in warnings.items()]
    rows.insert(
        0,
        {
            "system": "ipu_pod16",
            RATE: None,
            "status": "refused",
            "reason": f"s.yaml:1 [a.b]: {FEW.format(16)}\n  do: x",
        },
    )
    found = answered(monkeypatch, rows, keys={"system": [row["system"] for row in rows]})
    assert lines(found) == [
        "All    4,904 samples/s at each of 3 points",
        f"1 refused: {FEW.format(16)}",
        "system changes nothing here: throughput is the same at all 3 values",
        "warning at 2 points: uses 64 of 128 IPUs: more replicas",
    ]


def test_a_key_without_effect_is_told_and_one_with_any_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over `a` the figure is the same at each `b`; over `b` it is at none, though 1 and 2 meet at other places."""
    rows = [{"a": a, "b": b, RATE: float(b)} for a in ("4 GB/s", "8 GB/s") for b in (1, 2, 3)]
    found = answered(monkeypatch, rows, keys={"a": ["4 GB/s", "8 GB/s"], "b": [1, 2, 3]})
    assert found.same == ["a changes nothing here: throughput is the same at all 2 values"]
    rows[-1][RATE] = 3.5
    assert answered(monkeypatch, rows, keys={"a": ["4 GB/s", "8 GB/s"], "b": [1, 2, 3]}).same == []


def test_some_values_without_effect_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = {"pod16": 1.0, "pod64": 4.0, "pod128": 4.0}
    rows = [{"system": name, RATE: rate} for name, rate in pods.items()]
    found = answered(monkeypatch, rows, keys={"system": list(pods)})
    assert found.same == ["throughput is the same for system pod64 and pod128"]
    rows = [{"a": at, RATE: float(min(at, 10))} for at in range(1, 21)]
    assert answered(monkeypatch, rows, keys={"a": list(range(1, 21))}).same == [
        "throughput is the same for a 10 to 20, 11 values"
    ]


def test_keys_that_vary_together_are_one_and_samples_are_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": a, "b": 10 * a, RATE: float(a)} for a in (1, 2)]
    zipped = answered(monkeypatch, rows, keys={"a": [1, 2], "b": [10, 20]}, zipped=[["a", "b"]])
    assert zipped.same == []
    assert zipped.keys == ["a"]  # which tells `b`: no column and no axis of its own
    rows = [{"a": each, "b": each**2, RATE: 1.0} for each in (0.1, 0.2)]
    assert answered(monkeypatch, rows, keys={"a": [0.1, 0.2], "b": [0.01, 0.04]}).same == []


def test_the_most_frequent_reasons_come_first_numbers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    need = "--set a=1 [parallelism]: IPU 1 needs {} GiB; it has 897 MiB"
    reasons = [("does not fit", need.format(size)) for size in (2.4, 2.9, 12.25)]
    reasons += [("refused", FEW.format(each)) for each in (16, 4)]
    reasons += [("refused", name) for name in "xyyz"]
    rows = [{"a": number, "status": status, "reason": text} for number, (status, text) in enumerate(reasons)]
    found = answered(monkeypatch, rows, keys={"a": list(range(9))})
    assert [(each.count, each.status) for each in found.reasons] == [
        *((3, "does not fit"), (2, "refused"), (2, "refused"), (1, "refused"), (1, "refused"))
    ]
    assert lines(found) == [
        "3 do not fit: IPU 1 needs 2.4 GiB; it has 897 MiB",
        f"2 refused: {FEW.format(16)}",
        "2 refused: y",
        "2 more say something else: see the column `reason` of the table",
    ]


def test_what_users_write_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["[/bold]", "[red]x", "plain"]
    rows = [{"scenario": name, RATE: float(place)} for place, name in enumerate(names)]
    found = answered(monkeypatch, rows, scenario=["template"], keys={"a": [1]})
    assert found.keys == ["scenario"]
    shown = "\n".join(lines(found))
    assert all(name in shown for name in names)


def test_infinite_and_missing_figures_are_no_best(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": number, RATE: rate} for number, rate in enumerate((float("inf"), float("nan"), None, 2.0))]
    found = answered(monkeypatch, rows, keys={"a": [0, 1, 2, 3]})
    assert (found.count, [row["a"] for row in found.best]) == (1, [3])
    assert lines(found)[0] == "Best   2 samples/s at a 3"
    assert place(found, found.best[0]) == "a 3"


def test_so_many_points_are_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is said of what has no effect, rather than something of a part of the points."""
    rows = [{"a": at, RATE: 1.0} for at in (1, 2, 3)]
    monkeypatch.setattr(module, "_MOST_COMPARED", 3)
    assert len(answered(monkeypatch, rows, keys={"a": [1, 2, 3]}).same) == 1
    monkeypatch.setattr(module, "_MOST_COMPARED", 2)
    assert answered(monkeypatch, rows, keys={"a": [1, 2, 3]}).same == []


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_both_tables_say_the_same_and_so_does_the_page(name: str, tmp_path: Path) -> None:
    """With the division given, an IPU-POD128 and 256 run what an IPU-POD64 does; an IPU-POD16 cannot."""
    study: Mapping[str, Any] = {
        "kind": "study",
        "scenario": "bert_v1.1_pod64_open",
        "keys": {"system": ["ipu_pod16", "ipu_pod64", "ipu_pod128", "ipu_pod256"]},
    }
    swept = sweep(study, tmp_path / name)
    found = answer(swept)
    assert lines(found, 200)[:3] == [
        "All    4,882 samples/s at each of 3 points",
        "1 refused: 8 replicas of 8 IPUs need 64 IPUs; IPU-POD16 has 16",
        "system changes nothing here: throughput is the same at all 3 values",
    ]
    assert lines(found, 200)[3].startswith("warning at 2 points: uses 64 of 128 IPUs: ")
    page = sweep_page(swept)
    assert page.warnings == found.notes
    assert page.tiles[0].value == "4,882 samples/s"
