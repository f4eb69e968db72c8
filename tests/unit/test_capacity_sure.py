"""How sure a ranking is: shares of draws counted by hand, and what a plan shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from podsim import run
from podsim.draws import Draws, Range
from podsim.errors import PodsimError
from podsim.report.chart import Bars, Chart, Curves
from podsim.result.uncertainty import percentiles
from podsim.show.matplotlib_charts import write_sheet
from podsim.show.text import report_as_text
from podsim.study.plan import Goal, Option, Part, PlanResult, confidence, find_systems, reliable_first
from podsim.study.plan.confidence import RELIABLE, confidence_of, sampled_figures
from podsim.study.plan.goal import limit
from tests.cases import every_case

BERT = "bert_v1.1_pod16_open"
TIME, COST = "time_to_train_s", "cost_per_run"
Times = dict[str, list[float | None]]


def option(name: str, time_s: float, cost: float = 1.0, reason: str = "") -> Option:
    figures = {TIME: time_s, COST: cost, "throughput_samples_per_s": 1000 / time_s}
    part = Part("", name, 16, 4, 4, figures, written=name)
    return Option(name, "as given", name, 16, 4, 4, figures, reason, "", "USD", parts=(part,))


def sure_of(
    times: Mapping[str, Sequence[float | None]],
    ranked: Sequence[Option],
    out: Sequence[Option],
    monkeypatch: pytest.MonkeyPatch,
    **wanted: Any,
) -> tuple[list[tuple[str, float, float, float]], list[str]]:
    """Name, first, within and possible of each contender, and which were drawn, if draws give these times."""
    asked = []

    def _drawn(part: Part, goal: Goal) -> list[Mapping[str, float] | None]:
        asked.append(part.system)
        return [None if each is None else {TIME: each} for each in times[part.system]]

    monkeypatch.setattr(confidence, "_sampled_metrics", _drawn)
    found = confidence_of(Goal(BERT, **{"draws": 4, **wanted}), ranked, out, processes=1)
    assert found is not None
    return [
        (contender.option.system, contender.first, contender.within, contender.possible)
        for contender in found.contenders
    ], asked


def test_the_best_of_each_draw_is_the_one_that_keeps_to_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """`a` wins the first draw and the last, misses the deadline in the second, and does not fit in the third."""
    times = {"a": [10, 13, None, 10], "b": [12, 12, 12, 12]}
    ranked, limits = [option("a", 10), option("b", 12)], (limit("time", "< 12.5 s"),)
    found, _ = sure_of(times, ranked, [], monkeypatch, limits=limits)
    assert found == [("a", 0.5, 0.5, 0.75), ("b", 0.5, 1.0, 1.0)]


def test_what_misses_a_limit_by_little_may_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheaper one is 5 % late, and in time in one draw of four; one that is 20 % late is left out."""
    late, later = option("late", 10.5, 1.0, "late"), option("later", 12, 0.9, "later")
    times = {"a": [8, 8, 8, 8], "late": [10.5, 9.9, 11, 12]}
    found, _ = sure_of(
        times, [option("a", 8, 2)], [late, later], monkeypatch, objective="cost", limits=(limit("time", "< 10 s"),)
    )
    assert found == [("late", 0.25, 0.25, 1.0), ("a", 0.75, 1.0, 1.0)]


def test_the_best_is_drawn_however_many_miss_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    late = [option(f"late{place}", 10.1, 1 + place, "late") for place in range(6)]
    times: Times = {"a": [8] * 4, **{each.system: [10.1] * 4 for each in late}}
    wanted = {"objective": "cost", "limits": (limit("time", "< 10 s"),)}
    found, _ = sure_of(times, [option("a", 8, 9)], late, monkeypatch, **wanted)
    assert [(name, first) for name, first, *_ in found] == [("late0", 0.0), ("late1", 0.0), ("a", 1.0)]


def test_what_is_far_behind_is_drawn_only_if_it_can_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = [option("a", 10), option("b", 14), option("c", 16)]
    times: Times = {"a": [10] * 4, "b": [14] * 4, "c": [16] * 4}
    assert sure_of(times, ranked, [], monkeypatch)[1] == ["a", "b"]
    impossible: Times = {**times, "a": [10, 10, 10, None], "b": [14, 14, 14, None]}
    found, asked = sure_of(impossible, ranked, [], monkeypatch)
    assert asked == ["a", "b", "c"]
    assert [(name, first) for name, first, *_ in found] == [("a", 0.75), ("b", 0.0), ("c", 0.25)]
    reliable: Times = {"a": [10] * 4 + [None], "b": [14] * 4 + [None], "c": [16] * 5}  # in four fifths, not in all
    assert sure_of(reliable, ranked, [], monkeypatch, draws=5)[1] == ["a", "b", "c"]


def test_what_comes_after_the_first_four_is_drawn_where_none_of_them_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = [option(name, 10 + place) for place, name in enumerate("abcdef")]
    times: Times = {each.system: [10, None, 10, 10] for each in ranked[:4]}
    found, asked = sure_of({**times, "e": [14] * 4, "f": [15] * 4}, ranked, [], monkeypatch)
    assert asked == ["a", "b", "c", "d", "e", "f"]
    assert [(name, first) for name, first, *_ in found][3:] == [("d", 0.0), ("e", 0.25), ("f", 0.0)]


def test_what_rarely_holds_does_not_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five draws the cheapest keeps to the limit in two, the next in three, the dearest two in four and in five."""
    ranked = [option(name, 9 + place, place) for place, name in enumerate("abcd")]
    within = {"a": 2, "b": 3, "c": 4, "d": 5}
    times: Times = {name: [9.0] * count + [11.0] * (5 - count) for name, count in within.items()}
    wanted: dict[str, Any] = {"objective": "cost", "limits": (limit("time", "< 10 s"),), "draws": 5}
    sure_of(times, ranked, [], monkeypatch, **wanted)
    found = confidence_of(Goal(BERT, **wanted), ranked, [], processes=1)
    assert found is not None and [contender.within >= RELIABLE for contender in found.contenders] == [
        False,
        False,
        True,
        True,
    ]
    assert [each.system for each in reliable_first(ranked, found)] == ["c", "d", "b", "a"]
    answer = PlanResult(Goal(BERT, **wanted), reliable_first(ranked, found), [], COST, 4, found)
    assert [each["holds_in"] for each in answer.to_dict()["ranked"]] == [0.8, 1.0, 0.6, 0.4]
    assert [each["reliable"] for each in answer.to_dict()["ranked"]] == [True, True, False, False]
    text = printed(answer)
    assert "! 60 %" in text and "! 40 %" in text and "! less likely than 80 %" in text
    assert answer.report().warnings == ()


def test_none_that_holds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The surest leads, those behind the first four are drawn as well, and what was not drawn comes last."""
    ranked = [option(name, 9 + place / 10) for place, name in enumerate("abcdefghi")]
    times: Times = {each.system: [9.0, 11.0, 11.0, 11.0] for each in ranked}
    wanted: dict[str, Any] = {"limits": (limit("time", "< 10 s"),)}
    times["f"] = [9.0, 9.0, 9.0, 11.0]
    _, asked = sure_of(times, ranked, [], monkeypatch, **wanted)
    assert asked == list("abcdefgh")
    found = confidence_of(Goal(BERT, **{"draws": 4, **wanted}), ranked, [], processes=1)
    assert found is not None
    order = reliable_first(ranked, found)
    assert [each.system for each in order] == list("fabcdeghi")
    answer = PlanResult(Goal(BERT, **{"draws": 4, **wanted}), order, [], None, 9, found)
    doubt = "no option holds in 80 % of the draws: the first does in 75 %"
    text = printed(answer)
    assert (
        answer.report().warnings == (doubt,) and doubt in text and "– not drawn" in text and "no other has" not in text
    )
    assert answer.to_dict()["ranked"][-1]["holds_in"] is None


def test_a_limit_that_is_met_exactly_in_each_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    times: Times = {"a": [10.0] * 4, "b": [9.0] * 4}
    ranked = [option("a", 10), option("b", 12)]
    for sign, within in (("<", 0.0), ("<=", 1.0)):
        limits = (limit("time", f"{sign} 10 s"),)
        found, _ = sure_of(times, ranked, [], monkeypatch, limits=limits)
        assert [each[2] for each in found] == [within, 1.0]


def test_what_counts_and_what_is_limited_has_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cost follows time; a tenth of ten draws lies below the first; what is placed, 10 s for 20 USD, is held."""
    ranked = [option("a", 10, 20), option("b", 12, 21)]
    times: Times = {"a": [float(each) for each in range(1, 11)], "b": [None] + [12.0] * 9}
    wanted: dict[str, Any] = {"objective": "cost", "limits": (limit("time", "< 30 s"),), "draws": 10}
    sure_of(times, ranked, [], monkeypatch, **wanted)
    found = confidence_of(Goal(BERT, **wanted), ranked, [], processes=1)
    assert found is not None
    first, second = found.contenders
    assert first.ranges == {COST: Range(2.0, 20.0), TIME: Range(1.0, 10.0)}
    assert second.ranges == {COST: Range(21.0, 21.0), TIME: Range(12.0, 12.0)}
    text = printed(PlanResult(Goal(BERT, **wanted), ranked, [], TIME, 2, found))
    assert "2 to 20 USD" in text and "1 to 10 s" in text


def printed(answer: PlanResult) -> str:
    return report_as_text(answer.report(), 80)


def test_shares_are_of_draws_in_which_something_reaches_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    times: Times = {"a": [None, None, 10, 10], "b": [None, None, 9, 12]}
    found, _ = sure_of(times, [option("a", 10), option("b", 11)], [], monkeypatch)
    assert found == [("a", 0.5, 0.5, 0.5), ("b", 0.5, 0.5, 0.5)]


def test_cost_and_energy_follow_time() -> None:
    """A tenth longer, at 9 tenths of the rate."""
    rates = {
        "throughput_samples_per_s": 100.0,
        "cost_per_million_samples": 9.0,
        "samples_per_currency": 10.0,
        "mfu": 0.4,
    }
    known = {
        TIME: 100.0,
        COST: 20.0,
        "energy_per_run_j": 5.0,
        "mean_power_w": 7.0,
        "memory.fullest_ipu_bytes": 1,
        **rates,
    }
    found = sampled_figures(
        Part("", "a", 4, 4, 1, known), {TIME: 110.0, "throughput_samples_per_s": 90.0, "other": 1.0}
    )
    assert found == pytest.approx(
        {TIME: 110, COST: 22, "energy_per_run_j": 5.5, "mean_power_w": 7, "memory.fullest_ipu_bytes": 1}
        | {"throughput_samples_per_s": 90, "cost_per_million_samples": 10, "samples_per_currency": 9, "mfu": 0.36}
    )


@pytest.fixture(scope="module")
def answer() -> PlanResult:
    rent = "cost.price_per_ipu_hour=1.5 USD"
    systems = ("ipu_pod16", "bow_pod16", "32 of ipu_pod64", "48 of ipu_pod64")
    wide = ("parallelism.micro_batch_size=1", "parallelism.accumulation_factor=384", rent)
    limits = (limit("time", "< 32 min"), limit("cost", "< 20 USD"))
    goal = Goal(BERT, systems=systems, divisions=("as given",), overrides=wide, limits=limits, draws=10)
    return find_systems(goal, processes=1)


def test_draws_are_those_of_a_run(answer: PlanResult) -> None:
    """The faster chip wins in every draw: what is drawn is common to both."""
    assert answer.confidence is not None
    first, *others = answer.confidence.contenders
    assert (first.option.system, first.first) == ("bow_pod16", 1.0) and all(other.first == 0 for other in others)
    assert answer.best is not None
    drawn = confidence._sampled_metrics(answer.best.parts[0], answer.goal)
    wide = ["parallelism.micro_batch_size=1", "parallelism.accumulation_factor=384"]
    again = run(BERT, overrides=["system=bow_pod16", *wide], uncertainty=Draws(10)).uncertainty
    assert again is not None
    assert percentiles([each[TIME] for each in drawn if each is not None]) == again.metrics[TIME]


def test_tables_with_all_that_there_is_to_say_fit_eighty_columns(answer: PlanResult) -> None:
    text = printed(answer)
    for words in ("Ruled out", "48 IPUs are no partition", "How sure: 10 draws", "100 %"):
        assert words in text
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    assert answer.to_dict()["sureness"]["contenders"][0]["option"] == "bow_pod16, as given"


def test_a_chart_shows_the_options_and_is_the_same_again(answer: PlanResult, tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        write_sheet(answer.report().sheet, folder / "chart.svg", answer.inputs)
    assert (tmp_path / "a" / "chart.svg").read_bytes() == (tmp_path / "b" / "chart.svg").read_bytes()
    with pytest.raises(PodsimError, match="nothing to draw"):
        PlanResult(Goal(BERT), [], []).plot()


@every_case(
    "figure, value, unit, shown",
    lambda: [
        ("energy_per_run_j", 5e5, "kJ", 500.0),
        ("energy_per_run_j", 7.2e6, "kWh", 2.0),  # 3.6 MJ each
        ("time_to_train_s", 600.0, "min", 10.0),
        ("weight_update_s", 0.25, "ms", 250.0),
    ],
)
def test_axes_of_plans_have_the_unit_that_suits(figure: str, value: float, unit: str, shown: float) -> None:
    found = Option("a", "chosen", ipu_count=4, figures={figure: value})
    ((chart,),) = PlanResult(Goal(BERT, objective=figure), [found], []).report().sheet().rows
    drawn = chart.drawn
    assert isinstance(drawn, Bars)
    assert drawn.x.unit == unit
    assert [bar.end for bar in drawn.bars] == [pytest.approx(shown)]


def test_points_of_a_plan_carry_the_names_of_their_options() -> None:
    figures = ({"time_to_train_s": 100.0 * count, "cost_per_run": 400.0 / count} for count in (1, 2, 4))
    found = [
        Option(f"pod{place}", "chosen", ipu_count=4**place, figures=figure) for place, figure in enumerate(figures, 1)
    ]
    answer = PlanResult(Goal(BERT, objective="time_to_train_s"), found, [], second="cost_per_run")
    sections = {section.title: section.blocks for section in answer.report().sections}
    (chart,) = sections["Weighed"]
    assert isinstance(chart, Chart) and isinstance(chart.drawn, Curves)
    texts = [text for series in chart.drawn.series for text in series.texts]
    assert sorted(texts) == ["pod1, chosen", "pod2, chosen", "pod3, chosen"]
    two = PlanResult(answer.goal, found[:2], [], second="cost_per_run").report()
    assert "Weighed" not in {section.title for section in two.sections}  # two are no chart
