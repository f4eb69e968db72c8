"""Ranges of serving: steps at other inputs, percentiles of draws by hand, and where a reader sees them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from podsim.draws import Draws, Range
from podsim.placement.generation import Generation, generation_job
from podsim.report.chart import Chart, Curves
from podsim.report.table import Cell, Table
from podsim.result.serving import DrawnService, ServiceDraws, ServingResult
from podsim.runs.serve import serve
from podsim.runs.step_times import MovedSteps, PlannedSteps
from podsim.scenario import GenerationScenario, load_scenario
from podsim.scenario.assumptions import with_number
from podsim.show.html_page import as_html
from podsim.show.text import report_as_text
from podsim.study.plan import Goal, find_systems
from podsim.study.plan.goal import limit

SERVING = "serving_llama2_7b_pod64"
FEW = ("serving.request_count=300", "serving.loads=[0.8]")
CALL = "software.token_call"


@pytest.fixture(scope="module")
def result() -> ServingResult:
    return serve(SERVING, overrides=FEW, uncertainty=Draws(5))


def asked(call_s: float, batch: int = 4) -> Generation:
    spec = with_number(load_scenario(SERVING).require(GenerationScenario), CALL, call_s)
    assert isinstance(spec, GenerationScenario)
    return replace(generation_job(spec).laid_out(micro_batch_size=batch), prompt_tokens=512, output_tokens=256)


@pytest.mark.parametrize("call_s", [0.001, 0.010])
def test_steps_at_other_inputs_are_those_that_are_simulated(call_s: float) -> None:
    """Corners are simulated, all between is what the base takes and what corners add: within one part in a thousand."""
    steps = PlannedSteps(asked(0.007))
    there = PlannedSteps(asked(call_s), model=steps.model)
    moved = MovedSteps(steps, PlannedSteps(asked(call_s), model=steps.model), shortest_prompt=128)
    for batch, tokens in ((1, 128), (2, 200), (3, 512), (4, 300)):
        assert moved.decode_s(batch, tokens) == pytest.approx(there.decode_s(batch, tokens), rel=1e-3)
        assert moved.prefill_s(batch, tokens) == pytest.approx(there.prefill_s(batch, tokens), rel=1e-3)
    twice = MovedSteps(steps, there, 128, factor=2.0)
    assert twice.decode_s(2, 200) == pytest.approx(2 * moved.decode_s(2, 200))


def drawn_as(result: ServingResult, factors: list[float | None]) -> ServingResult:
    """A result whose draws have times and a saturation that are these factors of its own."""

    def run(factor: float) -> DrawnService:
        first = result.outcome.time_to_first_token
        times = replace(
            first, **{name: factor * getattr(first, name) for name in ("p50_s", "p95_s", "p99_s", "mean_s")}
        )
        return DrawnService(replace(result.outcome, time_to_first_token=times), result.saturation.rate_per_s / factor)

    runs = tuple(None if each is None else run(each) for each in factors)
    draws = ServiceDraws(len(runs), 0, (CALL,), result.request_count, run(1.0), runs, ("IPUs 32 were not compared",))
    return replace(result, draws=(draws,))


def test_a_range_holds_four_fifths_of_the_draws(result: ServingResult) -> None:
    """Of ten draws the least is what a tenth does not exceed, and the ninth what nine tenths do not.

    The draw that takes longest saturates first: rates are in the other order.
    """
    found = drawn_as(result, [0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 3.0]).ranges
    p99_s, limit_per_s = result.outcome.time_to_first_token.p99_s, result.saturation.rate_per_s
    first, most = found["time_to_first_token_p99_s"], found["saturation_per_s"]
    assert (first.low, first.high) == pytest.approx((0.5 * p99_s, 1.3 * p99_s))
    assert (most.low, most.high) == pytest.approx((limit_per_s / 3.0, limit_per_s / 0.6))
    assert found["throughput_requests_per_s"] == Range(*(2 * [result.outcome.throughput_requests_per_s]))


def test_draws_of_the_first_requests_count_by_how_far_they_are_off(result: ServingResult) -> None:
    """A run whose first requests waited half as long as all of them: draws are taken by the ratio."""
    moved = drawn_as(result, [1.0] * 10)
    (draws,) = moved.draws
    half = replace(draws.likely.outcome.time_to_first_token, p99_s=0.5 * result.outcome.time_to_first_token.p99_s)
    likely = replace(draws.likely, outcome=replace(draws.likely.outcome, time_to_first_token=half))
    found = replace(moved, draws=(replace(draws, likely=likely),)).ranges["time_to_first_token_p99_s"]
    assert found.low == pytest.approx(result.outcome.time_to_first_token.p99_s)  # which a range holds
    assert found.high == pytest.approx(2 * found.low)


def shown(result: ServingResult) -> str:
    return report_as_text(result.report(), 80)


def test_saturated_and_impossible_draws_are_told(result: ServingResult) -> None:
    """Twice the time in which all that come are just served saturates, once what it takes does not."""
    twice = 2 / result.load if result.load else 0.0
    moved = drawn_as(result, [1.0, 1.0, twice, twice, None])
    assert moved.saturated_count == 2
    text = " ".join(shown(moved).split())
    assert "in 2 of 5 draws more requests come than can be served" in text
    assert "in 1 of the draws the model does not fit" in text
    assert "IPUs 32 were not compared" in text
    plain: Any = moved.to_dict()["draws"]
    assert (plain["count"], plain["impossible"], plain["saturated"]) == (5, 1, 2)


def test_draws_widen_what_one_input_alone_spans(result: ServingResult) -> None:
    """A token's call takes between 0.1 and 1 ms: with all inputs, times to a first token differ by more than 0.9 ms."""
    (draws,) = result.draws
    assert CALL in draws.drawn and draws.runs.count(None) == 0 and draws.request_count == 300
    found = result.ranges["time_to_first_token_p99_s"]
    assert found.high - found.low > 0.9e-3


def test_draws_are_the_same_again(result: ServingResult) -> None:
    again = serve(SERVING, overrides=FEW, uncertainty=Draws(5))
    assert again.ranges == result.ranges
    assert serve(SERVING, overrides=FEW, uncertainty=None).ranges == {}


def test_terminal_json_page_and_chart_have_the_ranges(result: ServingResult) -> None:
    text = shown(result)
    assert text.count("80 %: from") == 4 and "of saturation  (80 %: " in text and "ranges: 5 draws" in text
    assert max(map(len, text.splitlines())) <= 80
    plain = json.loads(result.to_json())
    for name in ("time_to_first_token", "time_per_output_token", "latency", "queueing"):
        for share in ("p50", "p95", "p99", "mean"):
            ends = plain["ranges"][f"{name}_{share}_s"]
            assert ends["low"] <= ends["high"] and ends["share"] == 0.8
    assert {"throughput_requests_per_s", "saturation_per_s", "load"} < set(plain["ranges"])
    page = as_html(result.report())
    assert "80 %: from" in page and page.count("80 %: ") >= 7
    assert result.conclusion().count("(80 %: ") == 2


def test_a_report_has_the_numbers_of_what_requests_see(result: ServingResult) -> None:
    """Percentiles with their ranges below them, and the curve of each kind of time with both rates as lines."""
    sections = {section.title: section.blocks for section in result.report().sections}
    table, *charts = sections["What requests see"]
    assert isinstance(table, Table)
    first, low, high = ([cell.value or 0.0 for cell in row if isinstance(cell, Cell)] for row in table.rows[:3])
    times = result.outcome.time_to_first_token
    assert times is not None and first == [times.p50_s, times.p95_s, times.p99_s, times.mean_s]
    assert all(a <= b <= c for a, b, c in zip(low, first, high, strict=True)) and low != high
    assert len(charts) == 3
    assert result.rate_per_s is not None and result.rate_per_s < result.saturation.rate_per_s
    for chart in charts:
        assert isinstance(chart, Chart) and isinstance(chart.drawn, Curves) and chart.numbers is not None
        assert list(chart.drawn.rules.values()) == [result.saturation.rate_per_s, result.rate_per_s]
        loads = [row[0].value for row in chart.numbers.rows if isinstance(row[0], Cell)]
        assert loads == sorted(point.rate_per_s / result.saturation.rate_per_s for point in result.points)


@pytest.mark.slow
def test_a_plan_of_serving_says_how_often_each_option_holds() -> None:
    """Four draws: the POD64 is limited to a saturation that token calls alone put on either side."""
    limits = (limit("saturation_per_s", "> 4 "), limit("p99_latency", "< 60 s"))
    goal = Goal(
        SERVING,
        objective="energy_per_token_j",
        systems=("ipu_pod64", "bow_pod64"),
        divisions=("as given",),
        limits=limits,
        overrides=("serving.request_count=100",),
        draws=4,
    )
    answer = find_systems(goal, processes=1)
    assert answer.confidence is not None and len(answer.confidence.contenders) == 2
    for contender in answer.confidence.contenders:
        assert set(contender.ranges) == {"energy_per_token_j", "saturation_per_s", "latency_p99_s"}
        assert contender.possible == 1.0
        ends = contender.ranges["saturation_per_s"]
        known = (contender.option.figures or {})["saturation_per_s"]
        assert ends.low <= known <= ends.high and ends.low < ends.high
    text = answer.text()
    for words in ("of 4 draws", "latency, P99", "saturation", "How sure: 4 draws"):
        assert words in text


def test_requests_are_drawn_twenty_times_unless_said_otherwise() -> None:
    served = Goal(SERVING, objective="p99_latency")
    assert (served.draw_count, Goal("bert_v1.1_pod16_open").draw_count, replace(served, draws=7).draw_count) == (
        20,
        50,
        7,
    )
