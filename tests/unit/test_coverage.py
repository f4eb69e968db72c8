"""`podsim validate --coverage`: rows inside of their ranges, by hand; what was chosen."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from podsim.cli.app import main
from podsim.draws import Draws
from podsim.result.uncertainty import DrawnRun
from podsim.validation import compare, coverage
from podsim.validation.comparison import RowComparison, Validation
from podsim.validation.coverage import Coverage, PredictedRange, draw_all, far_outside
from podsim.validation.freedom import MOST_FITTED, MOST_OF_NOISE, freedom
from podsim.validation.left_out import LeftOutPart, LeftOutRow
from podsim.validation.runs import WHOLE_RUNS
from podsim.validation.show import show_coverage

POD64, POD128 = "bert_v1.1_pod64_open", "bert_v1.1_pod128_open"
UPDATE = RowComparison("BERT weight update", POD64, 980.0, 1000.0, "ms", "hold-out", "logs", None, (POD64,))
ADDED = RowComparison(
    "BERT effect of a change", "POD64 to POD128, open", 9.0, 15.0, "ms", "hold-out", "logs", None, (POD128, POD64)
)
VERTEX = RowComparison("AMP vertex", "16x16x16", 1.0, 1.0, "cycles", "hold-out", "logs")


def drawn_times(*times_s: float | None, factor: float = 1.0) -> list[DrawnRun | None]:
    return [
        None if each is None else DrawnRun({"weight_update_s": each}, {"evaluation": 1.0}, factor) for each in times_s
    ]


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, list[DrawnRun | None]]], Coverage]:
    """The coverage of two rows by draws that are given."""

    def made(found: dict[str, list[DrawnRun | None]]) -> Coverage:
        monkeypatch.setattr(coverage, "draw_all", lambda titles, draws, watch: {each: found[each] for each in titles})
        return coverage.coverage([UPDATE, ADDED, VERTEX], Draws(len(found[POD64])), list)

    return made


def test_a_row_takes_all_its_runs_from_the_same_draw(
    draws: Callable[[dict[str, list[DrawnRun | None]]], Coverage],
) -> None:
    """Ten updates of 0.991 to 1 s, each 10 ms longer on the larger pod: the difference is 10 ms in every draw."""
    times_s = [0.99 + tenth / 1000 for tenth in range(1, 11)]
    found = draws({POD64: drawn_times(*times_s), POD128: drawn_times(*(each + 0.01 for each in times_s))})
    update, added = found.ranges
    assert (update.low, update.high) == pytest.approx((991, 999))
    assert (added.low, added.high) == pytest.approx((10, 10))
    assert [each.is_inside for each in found.ranges] == [False, False]
    assert update.beyond == pytest.approx(1000 / 999 - 1)
    assert far_outside(found) == (added, update)  # 15 ms over 10 ms, and 1000 over 999


def test_what_the_model_gets_wrong_widens_ranges_and_its_lack_is_shown(
    draws: Callable[[dict[str, list[DrawnRun | None]]], Coverage],
) -> None:
    """One draw as it is, one a tenth slower: 980 to 1078 ms, the differences 10 to 11 ms."""
    one, other = ({POD64: drawn_times(0.98, factor=f), POD128: drawn_times(0.99, factor=f)} for f in (1.0, 1.1))
    update, added = draws({title: one[title] + other[title] for title in one}).ranges
    assert (update.low, update.high) == pytest.approx((980, 1078))
    assert update.bare == pytest.approx((980, 980))
    assert (update.is_inside, update.is_inside_bare) == (True, False)
    assert (added.low, added.high) == pytest.approx((10, 11))


def test_draws_without_a_run_are_left_out(draws: Callable[[dict[str, list[DrawnRun | None]]], Coverage]) -> None:
    found = draws({POD64: drawn_times(0.9, 1.1, None), POD128: drawn_times(0.9, None, None)})
    assert [each.draws for each in found.ranges] == [2, 1]


def test_rows_without_any_draw_are_not_counted_but_told(
    draws: Callable[[dict[str, list[DrawnRun | None]]], Coverage],
) -> None:
    found = draws({POD64: drawn_times(0.9, 1.1), POD128: drawn_times(None, None)})
    assert [each.row.name for each in found.ranges] == [POD64]
    assert found.undrawn == ("POD64 to POD128, open",)
    text = show_coverage(found, "table")
    assert "without any draw that is possible, and not counted: POD64 to POD128, open" in text


LEFT_OUT = (
    LeftOutPart("all of X", (LeftOutRow("a", 0.1, 0.05),) * 4, 3, 2.5),
    LeftOutPart("all of Y", (LeftOutRow("b", -0.2, 0.1),) * 2, 1, 1.0),
)


def of(group: str, published: float) -> PredictedRange:
    return PredictedRange(
        RowComparison(group, "row", 1.0, published, "s", "hold-out", "logs"), 0.9, 1.1, (0.99, 1.01), 40
    )


def test_rows_outside_of_mlperf_have_a_total_of_their_own() -> None:
    """One of MLPerf inside, one of two published rows inside; averages of whole runs count in neither."""
    rows = (of("BERT weight update", 1.0), of("published throughput", 1.0), of("published throughput, kept aside", 2.0))
    found = Coverage(Draws(40), (*rows, of(WHOLE_RUNS, 1.0)))
    assert (found.total.rows, found.total.inside) == (3, 2)
    assert (found.outside_mlperf.rows, found.outside_mlperf.inside) == (2, 1)
    assert "of these, outside of MLPerf" in show_coverage(found, "table")


def test_averages_of_whole_runs_are_apart_from_the_total() -> None:
    found = Coverage(Draws(40), (of("A", 1.0), of("A", 1.05), of(WHOLE_RUNS, 2.0)), LEFT_OUT)
    assert (found.total.rows, found.total.inside, found.total.inside_bare) == (2, 2, 1)
    assert [(each.group, each.rows, each.inside) for each in found.groups] == [("A", 2, 2), (WHOLE_RUNS, 1, 0)]
    text, report = show_coverage(found, "table"), json.loads(show_coverage(found, "json"))
    assert f"{WHOLE_RUNS}, row" in text and "+81.8%" in text  # 2 over 1.1
    assert re.search(r"all of X +4 +3 +\+10.0% +10.0% +10.0% +\+10.0% +5.0% +2.5 +83%", text)
    assert re.search(r"together +6 +4 +0.0% +13.3% +14.1% +-20.0% +6.7% +3.5 +88%", text)  # 3.5 of 4 configurations
    assert report["left_out"][1] | {"rows": 2, "configurations": 1, "inside": 1.0} == report["left_out"][1]
    assert report["total"]["inside"] == 2 and report["rows"][2]["is_inside"] is False
    assert "| A | 2 | 2 | 100% | 50% |" in show_coverage(found, "markdown")


def test_a_scenario_is_drawn_as_a_run_is() -> None:
    (found,) = draw_all(["bert_base_c600"], Draws(2, 3), list).values()
    assert all(each is not None and set(each.metrics) == {"throughput_samples_per_s", "latency_s"} for each in found)


def test_configurations_that_differ_in_name_alone_count_once(tmp_path: Path) -> None:
    """Two files of one network, and a third on another pod."""
    titles = []
    for name, system in (("one", "ipu_pod4"), ("two", "ipu_pod4"), ("three", "bow_pod4")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"base: e5_large_pod4\ndescription: {name}\nsystem: {system}\n", encoding="utf-8")
        titles.append(str(path))
    rows = [RowComparison("A", title, 1.0, 1.0, "s", "hold-out", "logs", None, (title,)) for title in titles]
    both = [*rows, RowComparison("B", "two", 1.0, 1.0, "s", "calibration", "logs", None, (titles[1],))]
    found = freedom(both)
    assert found.configurations == {"hold-out": 2, "calibration": 1}
    assert found.shared == 1


def test_what_was_chosen_for_one_stack_is_no_switch() -> None:
    row = RowComparison("A", POD64, 1.0, 1.0, "s", "hold-out", "logs", None, (POD64,))
    other = RowComparison("A", "b", 1.0, 1.0, "s", "hold-out", "logs", None, ("bert_v2.0_pod64_closed",))
    assert freedom([row]).switches == ()
    assert freedom([row, other]).switches == ("software.collectives_merged", "software.evaluation")
    assert "software.host_call = 125 ms" in freedom([row]).fitted


def test_no_more_constants_are_fitted_than_was_promised() -> None:
    """Over all shipped specifications, whether a row stands on them or not; those of noise move no time without it."""
    root = Path(__file__).resolve().parent.parent.parent / "hardware_specs"
    stacks = [YAML(typ="safe").load(path) for path in root.rglob("*.yaml")]
    fitted, of_noise = (
        {(key, str(each["value"]), each["source"]) for stack in stacks for key, each in calibrated(part(stack))}
        for part in (lambda stack: {**stack, "noise": None}, lambda stack: stack.get("noise"))
    )
    assert 0 < len(fitted) <= MOST_FITTED == 21
    assert 0 < len(of_noise) <= MOST_OF_NOISE == 7


def calibrated(node: object, name: str = "") -> list[tuple[str, dict[str, object]]]:
    if not isinstance(node, dict):
        return []
    own = [(name, node)] if node.get("basis") == "calibrated" else []
    return own + [found for key, each in node.items() for found in calibrated(each, str(key))]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--coverage", "0"], "error: 0 draws of the uncertain inputs are not possible\n  do: draw from 1"),
        (["--coverage", "x"], "error: --coverage: needs a whole number\n  do: "),
        (["--coverage", "5", "--seed", "-1"], "error: the seed -1 is negative\n  do: "),
        (["--coverage", "5", "--max-mean", "5"], "error: --coverage looks at ranges, not at errors, and does not go"),
        (["--coverage", "5", "--group", "AMP"], "error: --coverage: a vertex or a product has no range"),
    ],
)
def test_what_cannot_be_covered_is_told(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare, "validation", lambda progress: Validation((UPDATE, VERTEX), ()))
    monkeypatch.setattr(sys, "argv", ["podsim", "validate", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "") and err.startswith(told)


def test_an_error_is_explained_by_data_and_inputs_together() -> None:
    """Inputs: ln(1.02 / 0.98) / (2 * 1.2816) = 1.561 %; with 1 % of data 1.854 %, of which twice is 3.71 %."""

    def beyond(published: float, uncertainty: float | None = 0.01) -> bool | None:
        row = RowComparison("A", "row", 1.0, published, "s", "hold-out", "logs", uncertainty=uncertainty)
        return PredictedRange(row, 0.9, 1.1, (0.98, 1.02), 40).is_beyond

    assert PredictedRange(UPDATE, 0.9, 1.1, (0.98, 1.02), 40).of_inputs == pytest.approx(0.01561, abs=1e-5)
    assert (beyond(1 / 1.037), beyond(1 / 1.0372)) == (False, True)
    assert (beyond(1 / 0.963), beyond(1 / 0.9628)) == (False, True)
    assert beyond(0.5, None) is None


def test_averages_of_whole_runs_that_came_later_are_apart_from_the_total_too() -> None:
    found = Coverage(Draws(40), (of("A", 1.0), of(f"{WHOLE_RUNS}, kept aside until 0.7", 2.0)), LEFT_OUT)
    assert found.total.rows == 1


def test_how_many_errors_are_beyond_data_and_inputs_is_shown() -> None:
    row = RowComparison("A", "row", 1.0, 0.9, "s", "hold-out", "logs", uncertainty=0.01)
    found = Coverage(Draws(40), (PredictedRange(row, 0.9, 1.1, (0.99, 1.01), 40), of("A", 1.0)), LEFT_OUT)
    report = json.loads(show_coverage(found, "json"))
    assert report["total"]["beyond_data_and_inputs"] == 1
    assert [each["is_beyond_data_and_inputs"] for each in report["rows"]] == [True, None]
    assert show_coverage(found, "table").count("beyond data and inputs") == 2
