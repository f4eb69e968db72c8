"""What a study says: the best point and the worst, what changes nothing, a chart, and what is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import PodsimError
from podsim.report.chart import Bars, Curves, Mark, Study, StudyPlot
from podsim.report.report import Folded, Report
from podsim.report.table import Table
from podsim.scenario.document import Document
from podsim.show.text import report_as_text
from podsim.study import sweep_report as module
from podsim.study.points import MeasuredSpec, space_of
from podsim.study.sweep import sweep
from podsim.study.sweep_report import measured_points, quantity, study_report
from tests.unit.page_examples import charts_of

RATE = "throughput_samples_per_s"
FEW = "8 replicas of 8 IPUs need 64 IPUs; IPU-POD16 has {}"


def reported(rows: list[dict[str, Any]], metric: str | None = None, **study: Any) -> Report:
    """What is made of a table that is given, instead of simulated."""
    usual = {"scenario": "template", "variant": None, "status": "done", "reason": None}
    table = [{"point": number} | usual | row for number, row in enumerate(rows)]
    space = space_of(Document({"kind": "study", "scenario": "template"} | study))
    return study_report(space, table, Counter(row["status"] for row in table), (), metric)


def table_of(report: Report, title: str) -> list[list[str]]:
    """The cells of the short table of a section."""
    (blocks,) = [section.blocks for section in report.sections if section.title == title]
    assert isinstance(blocks[0], Table)
    return [[str(cell) for cell in row] for row in blocks[0].rows]


def crossed(**keys: list[Any]) -> list[dict[str, Any]]:
    """A row for each combination, whose update takes 0.5 s, 1.5 s and so on."""
    rows: list[dict[str, Any]] = [{}]
    for key, values in keys.items():
        rows = [row | {key: value} for row in rows for value in values]
    return [row | {"weight_update_s": 0.5 + place} for place, row in enumerate(rows)]


def drawn(rows: list[dict[str, Any]], metric: str = "weight_update_s", **study: Any) -> Any:
    """What the chart of a table draws."""
    (chart,) = charts_of(reported(rows, metric, **study))
    return chart.drawn


# The best and the worst


def test_the_best_and_the_worst_come_first_with_their_units_and_places() -> None:
    """Rates of 10, 20, … 70 thousand; the fifth best is 30 thousand, which is 42.9 % of the best."""
    keys = {"x.a": list(range(1, 8)), "x.b": ["8 GB/s"]}
    rows = [{"x.a": at, "x.b": "8 GB/s", RATE: 10_000.0 * at} for at in (3, 1, 7, 2, 6, 5, 4)]
    found = reported(rows, keys=keys)
    assert found.verdict == ["best throughput 70,000 samples/s at a 7; worst 10,000 samples/s at a 1"]
    assert table_of(found, "Points") == [
        ["2", "7", "70,000", "100.0 %"],
        ["4", "6", "60,000", "85.7 %"],
        ["5", "5", "50,000", "71.4 %"],
        ["6", "4", "40,000", "57.1 %"],
        ["0", "3", "30,000", "42.9 %"],
        ["1", "1", "10,000", "14.3 %"],
    ]
    (chart,) = charts_of(found)
    assert chart.numbers is not None and [row[0] for row in chart.numbers.rows] == list("2456031")
    assert (found.tiles[0].label, found.tiles[0].value, found.tiles[0].notes) == (
        *("Most throughput", "70,000 samples/s"),
        ("at a 7",),
    )
    assert found.about[1:] == ("Varies: x.a with 7 values", "7 points: 7 done")
    assert "The best 5 of 7 points, and the worst\npoint  a  throughput [samples/s]" in report_as_text(found)


def test_ranges_stand_beside_figures_and_around_lines() -> None:
    """Two points with a range, a third without."""
    rows: list[dict[str, Any]] = [{"a": at, RATE: 100.0 * at} for at in (1, 2, 3)]
    for row in rows[:2]:
        row |= {f"{RATE}_low": 0.9 * row[RATE], f"{RATE}_high": 1.2 * row[RATE]}
    found = reported(rows, keys={"a": [1, 2, 3]})
    assert found.verdict == ["best throughput 300 samples/s at a 3; worst 100 samples/s (80 %: 90 to 120) at a 1"]
    assert [row[3] for row in table_of(found, "Points")] == ["–", "180 to 240", "90 to 120"]
    (chart,) = charts_of(found)
    assert isinstance(chart.drawn, Curves)
    band, line = chart.drawn.series
    assert (band.mark, list(band.x), list(band.y), list(band.to)) == (Mark.BAND, [1, 2], [90, 180], [120, 240])
    assert (line.mark, line.x, line.y) == (Mark.LINE, [1, 2, 3], [100, 200, 300])
    thousands = [{name: 1000 * value if name != "a" else value for name, value in row.items()} for row in rows]
    band, _ = drawn(thousands, RATE, keys={"a": [1, 2, 3]}).series  # in 1,000 samples/s
    assert (list(band.y), list(band.to)) == ([90, 180], [120, 240])
    share = [{"mfu": 0.15, "mfu_low": 0.14, "mfu_high": 0.165}]  # the ends in the unit of the value
    assert reported(share, "mfu", names={"a": [1]}, keys={"b": [1]}).verdict == [
        "best MFU 15.0 % (80 %: 14 to 16.5) at the only point"
    ]
    assert reported(rows, f"{RATE}_low", keys={"a": [1, 2, 3]}).verdict == [
        "best throughput, low end 180 samples/s at a 2; worst 90 samples/s at a 1"
    ]


def test_of_times_the_least_is_best() -> None:
    rows = [{"a": at, "weight_update_s": at / 10, RATE: 1.0} for at in (2, 1, 3)]
    found = reported(rows, "weight_update_s", keys={"a": [1, 2, 3]})
    assert found.verdict == ["best weight update 100 ms at a 1; worst 300 ms at a 3"]


def test_points_that_are_as_good_stand_in_their_order() -> None:
    rows = [{"a": at, RATE: 2.0 if at else 1.0} for at in range(8)]
    found = table_of(reported(rows, keys={"a": list(range(8))}), "Points")
    assert [row[0] for row in found] == ["1", "2", "3", "4", "5", "0"]


def test_pods_that_are_not_used_are_told() -> None:
    """The same figures at 64, 128 and 256 IPUs with the division given, where a run warns of the idle ones."""
    warnings = {64: None, 128: "uses 64 of 128 IPUs: more replicas", 256: "uses 64 of 256 IPUs: more replicas"}
    rows: list[dict[str, Any]] = [
        {"system": f"ipu_pod{each}", RATE: 4904.3, "warnings": told} for each, told in warnings.items()
    ]
    reason = f"s.yaml:1 [a.b]: {FEW.format(16)}\n  do: x"
    rows.insert(0, {"system": "ipu_pod16", RATE: None, "status": "refused", "reason": reason})
    found = reported(rows, keys={"system": [row["system"] for row in rows]})
    assert found.verdict == ["throughput 4,904 samples/s at each of 3 points"]
    assert found.warnings == [
        "system changes nothing here: throughput is the same at all 3 values",
        "at 2 points: uses 64 of 128 IPUs: more replicas",
    ]
    assert table_of(found, "What could not be simulated") == [["1", "refused", FEW.format(16)]]
    assert found.sheet().warnings[1:] == [f"warning: {warning}" for warning in found.warnings]


@pytest.mark.parametrize(
    ("rows", "study", "told"),
    [
        (  # over `a` the figure is the same at each `b`; over `b` it is at none, though 1 and 2 meet at other places
            [{"a": a, "b": b, RATE: float(b)} for a in ("4 GB/s", "8 GB/s") for b in (1, 2, 3)],
            {"keys": {"a": ["4 GB/s", "8 GB/s"], "b": [1, 2, 3]}},
            ["a changes nothing here: throughput is the same at all 2 values"],
        ),
        (
            [{"a": a, "b": b, RATE: b + (a + b == 5) / 2} for a in (1, 2) for b in (1, 2, 3)],
            {"keys": {"a": [1, 2], "b": [1, 2, 3]}},
            [],
        ),
        (
            [{"system": name, RATE: rate} for name, rate in (("pod16", 1.0), ("pod64", 4.0), ("pod128", 4.0))],
            {"keys": {"system": ["pod16", "pod64", "pod128"]}},
            [],
        ),
        (  # of three values only two were compared
            [{"a": a, "b": b, RATE: 1.0} for a, b in ((1, 1), (2, 1), (3, 2))],
            {"keys": {"a": [1, 2, 3], "b": [1, 2]}},
            [],
        ),
        (  # keys that vary together are one
            [{"a": a, "b": 10 * a, RATE: float(a)} for a in (1, 2)],
            {"keys": {"a": [1, 2], "b": [10, 20]}, "zipped": [["a", "b"]]},
            [],
        ),
        (  # samples are compared with nothing
            [{"a": each, "b": each**2, RATE: 1.0} for each in (0.1, 0.2)],
            {"keys": {"a": {"from": 0, "to": 1}, "b": {"from": 0, "to": 1}}, "samples": {"count": 2}},
            [],
        ),
    ],
)
def test_values_without_effect_are_told(
    rows: list[dict[str, Any]], study: Mapping[str, Any], told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of so many points that they are not kept in memory nothing is said, rather than something of a part."""
    assert reported(rows, **study).warnings == told
    monkeypatch.setattr(module, "_MOST_COMPARED", len(rows))
    assert reported(rows, **study).warnings == told
    monkeypatch.setattr(module, "_MOST_COMPARED", len(rows) - 1)
    assert reported(rows, **study).warnings == []


def test_places_name_sampled_keys_and_the_first_of_those_that_vary_together() -> None:
    rows = [{"a": each, "b": 10 * each, RATE: each} for each in (0.1, 0.2)]
    ranges = {"a": {"from": 0, "to": 1}, "b": {"from": 0, "to": 9}}
    assert (
        reported(rows, keys=ranges, samples={"count": 2})
        .verdict[0]
        .startswith("best throughput 0.2 samples/s at a 0.2, b 2;")
    )
    lists = {"keys": {"a": [0.1, 0.2], "b": [1, 2]}, "zipped": [["a", "b"]]}
    assert reported(rows, **lists).verdict[0].startswith("best throughput 0.2 samples/s at a 0.2;")


def test_the_most_frequent_reasons_come_first_numbers_apart() -> None:
    need = "--set a=1 [parallelism]: IPU 1 needs {} GiB; it has 897 MiB"
    reasons = [("does not fit", need.format(size)) for size in (2.4, 2.9, 12.25)]
    reasons += [("refused", FEW.format(each)) for each in (16, 4)]
    reasons += [("refused", name) for name in "xyyz"]
    rows = [{"a": number, "status": status, "reason": text} for number, (status, text) in enumerate(reasons)]
    found = reported(rows, keys={"a": list(range(9))})
    assert table_of(found, "What could not be simulated") == [
        ["3", "do not fit", "IPU 1 needs 2.4 GiB; it has 897 MiB"],
        ["2", "refused", FEW.format(16)],
        ["2", "refused", "y"],
    ]
    assert "2 more say something else: see the column `reason` of the table" in report_as_text(found)
    folded = found.sections[0].blocks[1]
    assert isinstance(folded, Folded) and isinstance(folded.blocks[0], Table)
    assert (folded.title, folded.blocks[0].rows[8]) == ("Each of them", ("8", "8", "refused", "z"))
    assert (found.verdict, found.sheet().rows) == ([], [])
    assert [(tile.label, tile.value) for tile in found.tiles] == [
        ("Points that do not fit", "3"),
        ("Points refused", "6"),
    ]


def test_infinite_and_missing_figures_are_no_best() -> None:
    rows = [{"a": number, RATE: rate} for number, rate in enumerate((float("inf"), float("nan"), None, 2.0))]
    found = reported(rows, keys={"a": [0, 1, 2, 3]})
    assert (found.verdict, len(table_of(found, "Points"))) == (["best throughput 2 samples/s at a 3"], 1)


def test_a_figure_that_no_point_has_is_refused() -> None:
    rows = crossed(a=[1, 2])
    assert reported(rows, keys={"a": [1, 2]}).verdict == ["best weight update 500 ms at a 1; worst 1.5 s at a 2"]
    with pytest.raises(PodsimError, match="no column of numbers `mfu`"):
        reported(rows, "mfu", keys={"a": [1, 2]})


def test_of_many_points_some_are_drawn_and_the_best_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points 0 to 19, of which every seventh is drawn from the first on; the last is the best."""
    monkeypatch.setattr(module, "_DRAWN", 3)
    monkeypatch.setattr(module, "_LISTED", 8)
    rows = [{"a": at, "mfu": (1 + at) / 100} for at in range(20)]
    (chart,) = charts_of(reported(rows, keys={"a": list(range(20))}))
    assert isinstance(chart.drawn, Curves)
    assert chart.drawn.series[0].x == [0, 7, 14, 19]
    assert chart.notes == ["4 of 20 points are shown, evenly chosen, and the best."]
    assert chart.numbers is not None
    assert [row[0] for row in chart.numbers.rows] == [str(number) for number in range(19, 11, -1)]
    assert chart.numbers.title == "The best 8 of 20 points"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_both_tables_say_the_same(name: str, tmp_path: Path) -> None:
    """With the division given, an IPU-POD128 and 256 run what an IPU-POD64 does; an IPU-POD16 cannot."""
    study: Mapping[str, Any] = {
        "kind": "study",
        "scenario": "bert_v1.1_pod64_open",
        "keys": {"system": ["ipu_pod16", "ipu_pod64", "ipu_pod128", "ipu_pod256"]},
    }
    swept = sweep(study, tmp_path / name)
    found = swept.report()
    assert found.verdict == ["throughput 4,872 samples/s at each of 3 points"]
    assert found.about[2] == swept.summary == "4 points: 3 done, 1 refused"
    assert found.warnings[0] == "system changes nothing here: throughput is the same at all 3 values"
    assert any(warning.startswith("at 2 points: ") and "uses 64 of 128 IPUs: " in warning for warning in found.warnings)
    assert table_of(found, "What could not be simulated") == [["1", "refused", FEW.format(16)]]
    (chart,) = charts_of(found)
    assert isinstance(chart.drawn, Bars)
    assert [bar.text for bar in chart.drawn.bars] == ["refused", *["4,872 samples/s"] * 3]
    assert repr(swept).splitlines()[1] == found.verdict[0]


# The chart


def test_a_key_of_numbers_is_a_line_and_one_of_words_bars() -> None:
    curves = drawn(crossed(a=["8 GB/s", "16 GB/s"]), keys={"a": ["8 GB/s", "16 GB/s"]})
    assert (curves.x.title, curves.y.title) == ("a [GB/s]", "weight update [s]")
    assert (curves.series[0].x, curves.series[0].y) == ([8, 16], [0.5, 1.5])
    assert curves.series[0].tips[1] == {"a [GB/s]": "16", "weight update [s]": "1.5", "point": "1"}
    bars = drawn([*crossed(a=["x", "y"]), {"a": "z", "status": "refused"}], keys={"a": ["x", "y", "z"]})
    assert [(bar.row, bar.end, bar.text) for bar in bars.bars] == [
        *(("x", 0.5, "0.5 s"), ("y", 1.5, "1.5 s"), ("z", 0, "refused")),
    ]
    assert bars.ends == (0, 1.5 * 1.25)


def test_a_key_of_few_words_tells_lines_apart() -> None:
    keys = {"a": ["none", "layer"], "b": [1, 2, 4]}
    lines = drawn(crossed(**keys), keys=keys).series
    assert [(line.name, line.y) for line in lines] == [("a: none", [0.5, 1.5, 2.5]), ("a: layer", [3.5, 4.5, 5.5])]


def test_points_without_a_figure_are_crosses_that_say_why() -> None:
    rows = crossed(a=[1, 2, 3])
    rows[1] |= {"weight_update_s": None, "status": "does not fit"}
    line, crosses = drawn(rows, keys={"a": [1, 2, 3]}).series
    assert (line.x, crosses.x, crosses.y, crosses.name, crosses.marker) == ([1, 3], [2], [0], "does not fit", "cross")


@pytest.mark.parametrize(
    ("keys", "panels"),
    [({"a": [1, 2, 3], "b": [1, 2]}, "ba"), ({"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3, 4]}, "acb")],
)
def test_two_or_three_keys_are_heat_maps(keys: Mapping[str, list[int]], panels: str) -> None:
    rows = crossed(**keys)
    found = drawn(rows, keys=keys)
    assert isinstance(found, Study)
    assert (found.plot, "".join(key.name for key in found.keys)) == (StudyPlot.HEAT_MAP, panels)
    assert (found.values, found.more_is_better) == ([row["weight_update_s"] for row in rows], False)


def test_the_file_itself_stands_beside_its_variants() -> None:
    variants = [None, "a", "b", "c", "d"]
    found = drawn(crossed(variant=variants, b=[1, 2]), keys={"b": [1, 2]}, all_variants=True)
    assert [list(key.values) for key in found.keys] == [["1", "2"], ["no variant", "a", "b", "c", "d"]]


def test_samples_are_dots_and_more_keys_parallel_axes() -> None:
    rows = [{"a": at, "b": at**2, "weight_update_s": at} for at in (0.1, 0.2, 0.3, 0.5)]
    ranges = {"a": {"from": 0, "to": 1}, "b": {"from": 0, "to": 1}}
    assert drawn(rows, keys=ranges, samples={"count": 4}).plot == StudyPlot.DOTS
    keys = {name: [1, 2] for name in "abcd"}
    found = drawn(crossed(**keys), keys=keys)
    assert (found.plot, [key.name for key in found.keys]) == (StudyPlot.PARALLEL, list("abcd"))


def test_spans_of_ratios_are_logarithmic_and_small_ones_start_at_nothing() -> None:
    curves = drawn(crossed(a=[1, 2, 3]), keys={"a": [1, 2, 3]})
    assert (curves.x.is_log, curves.y.is_log, curves.y.from_zero) == (False, False, True)
    curves = drawn([{"a": at, "weight_update_s": float(at)} for at in (16, 64, 1024)], keys={"a": [16, 64, 1024]})
    assert (curves.x.is_log, curves.y.is_log, curves.x.ticks) == (True, True, [16, 64, 1024])
    assert len(curves.series) == 1


def test_a_rate_over_replicas_has_the_line_in_proportion() -> None:
    """From 10 samples/s of one replica to 40 of four, on axes of ratios though the numbers span few; no time has it."""
    rows: list[dict[str, Any]] = [{"x.replicas": at, RATE: 8.0 * at + 2, "weight_update_s": 1.0} for at in (4, 1, 2)]
    curves = drawn(rows, RATE, keys={"x.replicas": [4, 1, 2]})
    ideal, line = curves.series
    assert (ideal.x, ideal.y, line.x, line.y) == ([1, 4], [10, 40], [1, 2, 4], [10, 18, 34])
    assert (curves.x.is_log, curves.y.is_log) == (True, True)
    assert len(drawn(rows, keys={"x.replicas": [4, 1, 2]}).series) == 1
    two = [{"w": word, "ipus": at, RATE: at * 3.0} for word, ats in (("x", (2, 4)), ("y", (1, 2))) for at in ats]
    ideal = drawn(two, RATE, keys={"w": ["x", "y"], "ipus": [1, 2, 4]}).series[0]
    assert (ideal.name, ideal.x, ideal.y) == ("in proportion", [1, 4], [3, 12])  # of the line that begins first
    assert len(drawn([{"b": row["x.replicas"]} | row for row in rows], RATE, keys={"b": [4, 1, 2]}).series) == 1


@pytest.mark.parametrize(
    ("metric", "most", "label", "divisor"),
    [
        ("weight_update_s", 0.6, "weight update [ms]", 1e-3),
        ("time_to_train_s", 400.0, "time to train [min]", 60),
        ("time_to_train_s", 9000.0, "time to train [h]", 3600),
        ("tokens_per_s", 900.0, "rate [tokens/s]", 1),
        ("memory.fullest_ipu_bytes", 2.0**29, "memory of the fullest IPU [MiB]", 2**20),
        ("mean_power_w", 100.0, "mean power [W]", 1),
        ("mfu", 0.4, "MFU", 1),
    ],
)
def test_units_keep_numbers_short(metric: str, most: float, label: str, divisor: float) -> None:
    axis, found = quantity(metric, most)
    assert (axis.title, found) == (label, divisor)


def test_what_was_measured_is_published() -> None:
    """MLPerf v2.0 logs 629 ms per update of 2,304 packs with 2.0368 sequences each, and 6.703 min to train."""
    given = [MeasuredSpec(at=64, scenario="bert_v2.0_pod64_closed"), MeasuredSpec(at=16, scenario="template")]
    ((at, rate),) = measured_points(given, RATE)
    assert (at, rate) == (64, pytest.approx(2304 * 2.0368 / 0.629, rel=1e-3))
    ((_, seconds),) = measured_points(given, "time_to_train_s")
    assert seconds == pytest.approx(6.703 * 60, rel=1e-4)
    assert list(measured_points(given, "mfu")) == []
    rows = [{"a": at, RATE: 100.0 * at} for at in (16, 64)]
    _, measured = drawn(rows, RATE, keys={"a": [16, 64]}, measured=[dict(given[0])]).series
    assert (measured.name, measured.x, measured.y) == ("measured", [64], [pytest.approx(rate, rel=1e-5)])
