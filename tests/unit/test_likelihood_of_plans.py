"""The arithmetic behind a plan's likelihood, on options that are written down: nothing is simulated."""

from __future__ import annotations

import math

import pytest

from podsim.draws import Range
from podsim.study.plan import Goal, Job, Option, Part, confidence
from podsim.study.plan.confidence import (
    SWAMPED,
    Confidence,
    Contender,
    confidence_of,
    gap,
    likelihood,
    sampled_figures,
    spreads_of,
)
from podsim.study.plan.goal import Limit, limit, missed
from tests.cases import every_case

BERT = "bert_v1.1_pod16_open"
TIME, MFU, COST = "time_to_train_s", "mfu", "cost_per_run"


def option(name: str = "a", /, **figures: float | None) -> Option:
    known = {TIME: 10.0, MFU: 0.5, COST: 1.0} | figures
    return Option(name, "as given", name, 16, 4, 4, known, parts=(Part("", name, 16, 4, 4, known, written=name),))


@every_case(
    "bound, expected",
    lambda: [
        ("< 0.25", 0.1),
        ("< 0.5", 0.5),
        ("<= 1", 0.9),
        ("< 2", 0.99),
        ("> 0.25", 0.9),
        ("> 0.5", 0.5),
        ("> 1", 0.1),
        ("0.625 ± 0.375", 0.8),
        ("0.5 ± 0.5", 0.9),  # nothing lies below 0
        ("> 0", 1.0),
        (">= -1", 1.0),
        ("< 0", 0.0),
    ],
)
def test_a_figure_below_1_is_as_likely_to_keep_a_limit(bound: str, expected: float) -> None:
    """P10 is 0.25 and P90 is 1: the median of the logarithm is 0.5, and P99.5 is 2, as far above P90 as P90 above that.

    1 - 0.25 is 0.625 ± 0.375, with four fifths of the draws in between.
    """
    goal = Goal(BERT, objective="mfu", limits=(limit("mfu", bound),))
    assert likelihood(goal, option(), {MFU: Range(0.25, 1.0)}) == expected


@every_case(
    "low, high, bound, expected",
    lambda: [
        (0.5, 0.5, "> 0.5", 0.0),  # a range without width: the figure itself decides
        (0.5, 0.5, ">= 0.5", 1.0),
        (0.0, 1.0, "> 0.4", 1.0),  # no logarithm has an end at 0
        (0.0, 1.0, "> 0.6", 0.0),
        (0.25, 0.5, "> 0.5", 0.1),  # P90 is at the bound, whatever the figure is
    ],
)
def test_a_range_that_is_none_leaves_the_figure(low: float, high: float, bound: str, expected: float) -> None:
    goal = Goal(BERT, limits=(limit("mfu", bound),))
    assert likelihood(goal, option(), {MFU: Range(low, high)}) == expected


def test_a_limit_of_a_figure_without_a_range_or_a_value_counts() -> None:
    """9.99 of at most 10 s is met; without any such figure nothing is."""
    goal = Goal(BERT, limits=(limit("time", "< 10.01 s"),))
    ranges = {MFU: Range(0.25, 1.0)}
    assert likelihood(goal, option(), ranges) == 1.0
    assert likelihood(goal, option(time_to_train_s=10.01), ranges) == 0.0
    assert likelihood(goal, option(time_to_train_s=None), ranges) == 0.0


@every_case(
    "bound, value, share",
    lambda: [
        ("< 10 s", 11.0, 0.1),
        ("< 10 s", 10.0, 0.0),
        ("> 10 s", 9.0, 0.1),
        ("> 10 s", 10.0, 0.0),
        ("10 s ± 1 s", 12.1, 0.1),
        ("10 s ± 1 s", 8.1, 0.1),
    ],
)
def test_how_far_a_limit_is_missed(bound: str, value: float, share: float) -> None:
    """Of 10, 11 and 9 s; half a thousandth more, so that what misses by nothing is still missed."""
    ((size, _),) = missed([(TIME, limit("time", bound))], {TIME: value})
    assert size == pytest.approx(share + 0.0005)


def test_a_missing_figure_misses_a_limit_by_all_of_it() -> None:
    limits = [(TIME, limit("time", "< 10 s")), (MFU, Limit(MFU, "< 0", -math.inf, 0.0, open_ended=True))]
    assert list(missed(limits, {MFU: 0.5})) == [(1.0, f"no {TIME}"), (1.0, f"{MFU} < 0")]
    assert list(missed(limits, {TIME: 9.0, MFU: -0.1})) == []


def test_limits_are_missed_together() -> None:
    """A tenth and a fifth, and twice the half thousandth; of an option without figures all."""
    goal = Goal(BERT, limits=(limit("time", "< 10 s"), limit("mfu", "> 0.5")))
    assert gap(goal, option(time_to_train_s=11.0, mfu=0.4)) == pytest.approx(0.301)
    assert gap(goal, option(time_to_train_s=9.0, mfu=0.6)) == 0
    assert gap(goal, Option("a", "as given")) == math.inf


def drawn(monkeypatch: pytest.MonkeyPatch, times: dict[str, list[float | None]]) -> None:
    """Let the draws of each option give these times."""

    def _drawn(part: Part, goal: Goal) -> list[dict[str, float] | None]:
        return [None if each is None else {TIME: each} for each in times[part.system]]

    monkeypatch.setattr(confidence, "_sampled_metrics", _drawn)


def test_nothing_is_drawn_where_nothing_can_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """No draws, no option, or one without a limit; one with a limit, or two, can change."""
    drawn(monkeypatch, {"a": [10.0] * 4, "b": [12.0] * 4})
    one, two = [option("a")], [option("a"), option("b", time_to_train_s=12.0)]
    limits = (limit("time", "< 11 s"),)
    assert confidence_of(Goal(BERT, draws=0), two, [], processes=1) is None
    assert confidence_of(Goal(BERT, draws=0, limits=limits), one, [], processes=1) is None
    assert confidence_of(Goal(BERT, draws=4), [], [], processes=1) is None
    assert confidence_of(Goal(BERT, draws=4, limits=limits), [], [], processes=1) is None
    assert confidence_of(Goal(BERT, draws=4), one, [], processes=1) is None
    held = confidence_of(Goal(BERT, draws=4, limits=limits), one, [], processes=1)
    assert held is not None and [each.within for each in held.contenders] == [1.0]
    first = confidence_of(Goal(BERT, draws=4), two, [], processes=1)
    assert first is not None and [each.first for each in first.contenders] == [1.0, 0.0]


@every_case(
    "late, is_drawn",
    lambda: [(10.9, True), (10.98, True), (11.0, False), (11.5, False)],
)
def test_what_misses_a_limit_by_a_tenth_is_not_drawn(late: float, is_drawn: bool) -> None:
    """10.98 s of 10 are 9.8 % and half a thousandth; 11 s are a half thousandth more than a tenth."""
    patch = pytest.MonkeyPatch()
    with patch.context() as monkeypatch:
        drawn(monkeypatch, {"a": [9.0] * 4, "late": [late] * 4})
        out = [option("late", time_to_train_s=late, cost_per_run=0.9)]
        goal = Goal(BERT, objective="cost", draws=4, limits=(limit("time", "< 10 s"),))
        found = confidence_of(goal, [option("a", time_to_train_s=9.0)], out, processes=1)
    assert found is not None
    assert [each.option.system for each in found.contenders] == (["late", "a"] if is_drawn else ["a"])


@every_case("second, asked", lambda: [(15.0, ["a", "b"]), (15.1, ["a"])])
def test_what_is_one_and_a_half_times_as_long_is_near(second: float, asked: list[str]) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as monkeypatch:
        drawn(monkeypatch, {"a": [10.0] * 4, "b": [second] * 4})
        ranked = [option("a"), option("b", time_to_train_s=second)]
        found = confidence_of(Goal(BERT, draws=4), ranked, [], processes=1)
    assert found is not None and [each.option.system for each in found.contenders] == asked


def test_an_option_that_cannot_keep_up_is_not_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """More requests come than can be served in two draws of four, though times keep to the limit."""
    times = [{TIME: 9.0, SWAMPED: place < 2} for place in range(4)]
    monkeypatch.setattr(confidence, "_sampled_metrics", lambda part, goal: times)
    found = confidence_of(Goal(BERT, draws=4, limits=(limit("time", "< 10 s"),)), [option()], [], processes=1)
    assert found is not None
    assert (found.contenders[0].within, found.contenders[0].possible, found.reached) == (0.5, 1.0, 2)


def test_figures_of_requests_replace_those_of_the_job() -> None:
    """Nothing follows from the time of requests: a draw has all of their figures."""
    part = Part("", "a", 4, 4, 1, {TIME: 10.0, COST: 2.0})
    assert sampled_figures(part, {SWAMPED: False, TIME: 20.0}) == {TIME: 20.0, COST: 2.0, SWAMPED: False}
    assert sampled_figures(part, {TIME: 20.0}) == {TIME: 20.0, COST: 4.0}


class Told:
    """A result with ranges, and what of it was never compared."""

    def __init__(self, ranges: dict[str, Range], outside: tuple[str, ...]) -> None:
        self.ranges, self.envelope = ranges, self
        self.outside = outside


@every_case("ranges", lambda: [{TIME: Range(8.0, 12.0)}, {}])
def test_cost_ranges_as_widely_as_the_time(ranges: dict[str, Range]) -> None:
    """8 to 12 s instead of 10 s, of which each costs a tenth; without ranges nothing but what is new is known."""
    patch = pytest.MonkeyPatch()
    with patch.context() as monkeypatch:
        monkeypatch.setattr(confidence, "parsed", lambda text, name: Told({}, ()))
        monkeypatch.setattr(Told, "data", {}, raising=False)
        monkeypatch.setattr(confidence, "load_scenario", lambda data: data)
        monkeypatch.setattr(confidence, "run", lambda loaded: Told(ranges, ("layers 3",)))
        goal = Goal(BERT, limits=(limit("cost", "< 2 USD"),))
        found = spreads_of(goal, [option()], processes=1)["a, as given"]
    assert found.new == ("layers 3",)
    assert found.ranges == ({TIME: Range(8.0, 12.0), COST: Range(0.8, 1.2)} if ranges else {})


def test_limits_of_jobs_are_behind_their_names() -> None:
    """The range of a job decides its limit, and that of all of them theirs."""
    job = Job("b", BERT, limits=(limit("mfu", "< 0.5"),))
    both = {f"b: {MFU}": Range(0.25, 1.0), MFU: Range(0.5, 1.0)}
    assert likelihood(Goal(jobs=(job,), limits=(limit("mfu", "< 1"),)), option(), both) == 0.5


def test_an_option_that_holds_in_four_fifths_of_the_draws_is_reliable() -> None:
    held = [Contender(option(name), 0.5, within, 1.0) for name, within in (("a", 0.8), ("b", 0.79))]
    found = Confidence(100, 0, 100, held)
    assert [each["reliable"] for each in found.to_dict()["contenders"]] == [True, False]
    assert found.contender_for(option("b")) is held[1] and found.contender_for(option("c")) is None
