"""Limits and figures of goals: what is refused before anything is simulated, and what limits say of figures."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from podsim import run
from podsim.cli.app import main
from podsim.errors import BadValueError, PodsimError, SpecError
from podsim.runs.serve import serve
from podsim.scenario import load_scenario, shipped_names
from podsim.study.plan import Goal, Job, Option, Part, find_systems, read_goal
from podsim.study.plan.goal import (
    at_most,
    check_figures,
    check_limits,
    default_objective,
    figures,
    limit,
    missed,
    place_named,
    second_of,
)
from podsim.study.plan.report import rank_key
from tests.cases import every_case

BERT = "bert_v1.1_pod16_open"
SERVING = "serving_llama2_7b_pod64"
LLAMA = "llama2_7b_pod16_streamed"
RENT = "cost.price_per_ipu_hour=1.5 USD"
TWICE = {"jobs": (Job("a", BERT), Job("b", BERT))}


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    sys.argv = ["podsim", "plan", *arguments, "--processes", "1", "--draws", "0", "--division", "given"]
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out + captured.err


@every_case(
    "metric, text, high, currency",
    lambda: [
        ("cost", "<= 500 USD", 500, "USD"),
        ("budget", "< 1.5e3 EUR", 1500, "EUR"),
        ("cost_per_run", "< 20", 20, ""),
        ("deadline", "<= 12 h", 43200, ""),
        ("rack_power", "< 20 kW", 20000, ""),
        ("p99_latency", "< 2 s", 2, ""),
    ],
)
def test_limits_have_short_names_units_and_currencies(metric: str, text: str, high: float, currency: str) -> None:
    found = limit(metric, text)
    assert (found.high, found.currency) == (high, currency)


@every_case(
    "metric, most",
    lambda: [
        *(("budget", "500"), ("deadline", "12 GB"), ("budget", "many USD"), ("budget", "1e999 USD")),
        *(("deadline", "nan s"), ("deadline", "inf s"), ("deadline", "-inf h"), ("power", "nan W")),
    ],
)
def test_what_is_no_finite_bound_is_told(metric: str, most: str) -> None:
    with pytest.raises(BadValueError) as refused:
        at_most(metric, most)
    assert refused.value.do


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([("time", "> 2 h"), ("time", "< 1 h")], "contradict each other: time_to_train_s > 2 h and < 1 h"),
        ([("time", ">= 1 h"), ("time", "< 1 h")], "contradict"),
        ([("time", "<= 0 s")], "nothing can have time_to_train_s <= 0 s"),
        ([("cost", "< 5 USD"), ("cost_per_hour", "< 1 EUR")], "several currencies: EUR, USD"),
        ([("cost", "< 5 USD"), ("cost", "< 4 EUR")], "several currencies: EUR, USD"),
    ],
)
def test_limits_that_exclude_each_other_are_refused(texts: list[tuple[str, str]], words: str) -> None:
    with pytest.raises(PodsimError, match=words):
        check_limits(limit(*text) for text in texts)


def test_limits_that_leave_a_value_are_not() -> None:
    check_limits([limit("time", ">= 1 h"), limit("time", "<= 1 h"), limit("cost", "< 5 USD"), limit("cost", "> 1")])


def test_by_how_much_a_limit_is_missed() -> None:
    """66 minutes of 60, and 90 USD of at least 100; what is far too little to round to a tenth is told all the same."""
    bounds = [limit("time", "< 60 min"), limit("cost", "> 100 USD"), limit("energy", "< 1 kJ"), limit("power", "< 1 W")]
    known = {"time_to_train_s": 3960.0, "cost_per_run": 90.0, "energy_per_run_j": 1000.01}
    named = [(f"a: {bound.metric}", bound) for bound in bounds]
    assert [words for _, words in missed(named, {f"a: {name}": value for name, value in known.items()})] == [
        "a: time_to_train_s < 60 min: +10.0%",
        "a: cost_per_run > 100 USD: -10.0%",
        "a: energy_per_run_j < 1 kJ: +1.0e-05",
        "a: no mean_power_w",
    ]


def test_rates_are_divided_by_power_and_by_cost() -> None:
    result = run(BERT, overrides=[RENT])
    found = figures(result)
    assert found["samples_per_s_per_w"] == result.throughput_samples_per_s / result.mean_power_w
    assert found["samples_per_currency"] == pytest.approx(result.throughput_samples_per_s * 3600 / (16 * 1.5))
    assert found["rack_power_w"] == result.mean_power_w


def test_a_rack_of_a_large_pod_has_its_part_of_the_power() -> None:
    """All of a POD256's 64 machines work; a rack holds 16."""
    wide = ["system=ipu_pod256", "parallelism.replication_factor=64", "parallelism.accumulation_factor=12"]
    result = run(BERT, overrides=wide)
    assert result.mean_power_w is not None
    assert figures(result)["rack_power_w"] == pytest.approx(result.mean_power_w / 4)


def test_what_an_objective_is_weighed_against() -> None:
    known = {"time_to_train_s": 1.0, "energy_per_run_j": 1.0, "cost_per_run": 1.0}
    assert second_of("time_to_train_s", known) == "cost_per_run"
    assert second_of("energy_per_run_j", known) == "time_to_train_s"
    assert second_of("time_to_train_s", {"mfu": 0.4}) is None


def test_budget_deadline_and_power_are_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """26 minutes of 16 IPUs at 1.5 USD an hour cost 10.4 USD."""
    usd = run(BERT).time_to_train_s / 3600 * 16 * 1.5
    arguments = (BERT, "--system", "ipu_pod16", "--objective", "cost", "--set", RENT)
    code, text = told(capsys, *arguments, "--budget", "11 USD", "--deadline", "12h", "--rack-power", "20 kW")
    assert code == 0
    words = "time_to_train_s <= 12h, cost_per_run <= 11 USD, rack_power_w <= 20 kW: met by ipu_pod16"
    assert f"verdict: least cost per run of {BERT}, {words}" in " ".join(text.split())
    assert f"{usd:.2f} USD" in text and "cost: machines in use leased" in text
    code, text = told(capsys, *arguments, "--budget", "9 USD")
    assert code == 3 and f"cost_per_run <= 9 USD: {usd / 9 - 1:+.1%}" in text


def test_the_pod_can_be_leased_instead(capsys: pytest.CaptureFixture[str]) -> None:
    """16 of 64 IPUs are used, and all are paid."""
    usd = run(BERT).time_to_train_s / 3600 * 64 * 1.5
    arguments = (BERT, "--system", "ipu_pod64", "--objective", "cost", "--set", RENT, "--lease", "pod")
    code, text = told(capsys, *arguments)
    assert code == 0 and f"{usd:.2f} USD" in text and "cost: the whole pod leased" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", RENT, "--budget", "9 EUR"], "a limit is in EUR, and prices are in USD"),
        (["--budget", "9 USD"], "no `cost_per_run`: there is no price"),
        (["--deadline", "1h", "--limit", "time=> 2 h"], "limits contradict each other"),
        (["--rack-power", "nan kW"], "`nan kW` is not a finite number"),
        (["--limit", "mfu=> nan %"], "`nan %` is not a finite number"),
        (["--rate", "-1"], "do: "),
        (["--objective", "warnings", "--set", "parallelism.micro_batch_size=2"], "no figure `warnings`"),
        (["--set", "system=bow_pod16"], "names one pod for all candidates"),
        (["--lease", "pod"], "no price is given"),
        (["--plot", "chart.txt"], "is not a format for charts"),
    ],
)
def test_wrong_wishes_are_told(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, BERT, "--system", "ipu_pod16", *arguments)
    assert code == 2 and words in text and "do: " in text


def test_a_scenario_is_not_saved_over_what_it_is_based_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told(capsys, BERT, "--system", "ipu_pod16", "--save-dir", "best")[0] == 0
    saved = Path("best/ipu_pod16-as-given.yaml")
    before = saved.read_text()
    code, text = told(capsys, str(saved), "--system", "ipu_pod16", "--save-dir", "best")
    assert code == 2 and "do: " in text and saved.read_text() == before


def test_latency_is_that_of_requests_under_load(capsys: pytest.CaptureFixture[str]) -> None:
    """At two requests a second the 99th percentile is that of `podsim serve`; 1,000 a second are too many."""
    small = ("serving.request_count=300",)
    limits = (limit("p99_latency", "< 100 s"),)
    goal = Goal(SERVING, objective="p99_latency", systems=("ipu_pod64",), divisions=("as given",), limits=limits)
    goal = replace(goal, request_rate=2.0, overrides=small)
    (found,) = find_systems(goal, processes=1).ranked
    served = serve(SERVING, overrides=small, rate=2.0, loads=(0.8,))
    assert found.figures is not None
    assert found.figures["latency_p99_s"] == served.outcome.latency.p99_s
    assert found.figures["energy_per_token_j"] == served.energy_per_token_j
    assert found.arithmetic == "64 (= 32 × 2)" and "rate: 2.0" in found.written
    flags = ("--rate", "1000", "--latency", "9s", "--objective", "p99_latency", "--set", *small)
    code, text = told(capsys, SERVING, "--system", "ipu_pod64", *flags)
    assert code == 3 and "1000 requests/s come" in text and "nothing reaches the goal" in text


def test_a_rate_of_requests_has_to_be_known() -> None:
    goal = Goal("llama2_7b_pods", objective="p99_latency", systems=("ipu_pod16",), divisions=("as given",))
    (found,) = find_systems(goal, processes=1).ruled_out
    assert found.reason == "nothing says how many requests come"


def test_budget_and_deadline_are_keys_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(
        f"kind: goal\nscenario: {BERT}\nbudget: 500 USD\ndeadline: 12 h\nlimits: {{time: ['> 1 min', < 13 h]}}\n"
    )
    assert [each.text for each in read_goal(path).limits] == ["> 1 min", "< 13 h", "<= 12 h", "<= 500 USD"]
    path.write_text(f"kind: goal\nscenario: {BERT}\nbudget: 500\n")
    with pytest.raises(SpecError, match="budget"):
        read_goal(path)
    path.write_text(f"kind: goal\nscenario: {BERT}\ndeadline: 1 h\nlimits: {{time: '> 2 h'}}\n")
    with pytest.raises(PodsimError, match="contradict"):
        read_goal(path)


# Before anything is simulated


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be simulated."""

    def options(*_: object) -> None:
        raise AssertionError("a candidate was simulated")

    monkeypatch.setattr("podsim.study.plan.options_of", options)


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"scenario": BERT, "objective": "cost"}, "no `cost_per_run`: there is no price"),
        ({"scenario": BERT, "objective": "samples_per_currency"}, "there is no price"),
        ({"scenario": BERT, "second": "cost"}, "there is no price"),
        ({"scenario": BERT, "limits": (limit("cost", "< 5 USD"),)}, "there is no price"),
        ({"scenario": BERT, "objective": "ipu"}, "no figure `ipu`"),
        ({"scenario": BERT, "objective": "tokens_per_s"}, "no figure `tokens_per_s`"),
        ({"scenario": BERT, "objective": "energy_per_token_j"}, "no figure `energy_per_token_j`"),
        ({"scenario": BERT, "objective": "breakdown"}, "no figure `breakdown`"),
        ({"scenario": BERT, "limits": (limit("tokens_per_s", "> 5"),)}, "no figure `tokens_per_s`"),
        ({"scenario": BERT, "objective": "latency_p99_s"}, "is training"),
        ({"scenario": BERT, "request_rate": 2.0}, "is training"),
        ({"scenario": SERVING, "limits": (at_most("deadline", "2 h"),)}, "no figure `time_to_train_s`"),
        ({"scenario": SERVING, "objective": "p99_latency", "second": "mfu"}, "no figure `mfu`"),
        ({"scenario": SERVING, "objective": "p99_latency", "second": "cost"}, "no figure `cost_per_run`"),
        ({"scenario": LLAMA, "objective": "time"}, "no figure `time_to_train_s`"),
        ({**TWICE, "objective": "mfu"}, "these jobs together have no figure `mfu`"),
        ({"jobs": (Job("a", BERT, limits=(limit("tokens_per_s", "> 1"),)),)}, "no figure `tokens_per_s`"),
    ],
)
def test_figures_that_no_result_can_have_are_refused_first(wanted: dict[str, Any], words: str) -> None:
    with pytest.raises(PodsimError, match=words) as found:
        find_systems(Goal(**{"systems": ("ipu_pod16",), **wanted}), processes=1)
    assert found.value.do


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    "wanted",
    [
        {"scenario": BERT, "objective": "ipus"},
        {"scenario": BERT, "objective": "breakdown.host", "second": "mfu_of_pod"},
        {"scenario": BERT, "objective": "samples_per_s_per_w", "limits": (limit("rack_power", "< 20 kW"),)},
        {"scenario": BERT, "objective": "cost", "overrides": ("cost.price_per_ipu_hour=1 USD",)},
        {"scenario": SERVING, "objective": "energy_per_request_j", "request_rate": 1.0},
        {"scenario": SERVING, "objective": "tokens_per_s_per_w", "limits": (limit("load", "< 0.8"),)},
        {"scenario": LLAMA, "objective": "latency_s"},
        {"scenario": "bert_base_c600", "objective": "throughput", "second": "energy_per_sample_j"},
        {**TWICE, "objective": "ipus"},
    ],
)
def test_figures_that_results_have_are_not(wanted: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="a candidate was simulated"):
        find_systems(Goal(**{"systems": ("ipu_pod16",), **wanted}), processes=1)


def default_figure(scenario: str, **wanted: Any) -> str:
    spec = load_scenario(scenario).spec
    goal = Goal(scenario, **wanted)
    objective = default_objective(goal, [spec])
    check_figures(replace(goal, objective=objective), [spec])
    return objective


@every_case("scenario", lambda: shipped_names()["scenarios"])
def test_every_shipped_scenario_has_a_default_objective(scenario: str) -> None:
    assert default_figure(scenario) in ("time_to_train_s", "tokens_per_s", "throughput_samples_per_s", "latency_p99_s")


def test_the_default_objective_follows_the_activity() -> None:
    """Requests count by their latency where a rate, users, a file or a limit of theirs is there."""
    assert default_figure(BERT) == "time_to_train_s"
    assert default_figure("bert_base_c600") == "throughput_samples_per_s"
    assert default_figure(LLAMA) == "tokens_per_s"
    assert default_figure(LLAMA, request_rate=1.0) == default_figure(SERVING) == "latency_p99_s"
    assert default_figure(LLAMA, limits=(limit("p99_latency", "< 9 s"),)) == "latency_p99_s"


def test_a_run_without_an_end_is_planned_for_throughput(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "template", "--system", "ipu_pod16")
    assert code == 0 and text.startswith("Most samples/s: template\n")


def test_without_limits_none_is_to_be_loosened(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "template", "--system", "ipu_pod4")
    assert code == 3 and "nothing reaches the goal\n  do: add systems" in text
    code, text = told(capsys, BERT, "--system", "ipu_pod16", "--deadline", "1min")
    assert code == 3 and "do: loosen the limit that rules most out, or add systems" in text


@pytest.mark.parametrize(
    ("scenario", "figure", "nearest"),
    [
        (LLAMA, "p99_token", "`time_to_first_token_p99_s` or `time_per_output_token_p99_s`"),
        (SERVING, "token_p95", "`time_to_first_token_p95_s` or `time_per_output_token_p95_s`"),
        (BERT, "troughput_samples_per_s", "`throughput_samples_per_s`"),
        (BERT, "time_to_trane", "`time_to_train_s`"),
    ],
)
def test_an_unknown_figure_of_a_limit_names_those_of_the_question(
    scenario: str, figure: str, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = told(capsys, scenario, "--system", "ipu_pod16", "--limit", f"{figure}=< 50 ms")
    assert code == 2 and f"no result has a figure `{figure}`" in text and f"did you mean {nearest}" in text
    assert ("latency_p99_s" in text) == (scenario != BERT) and "ipus" in text


def test_an_unknown_figure_in_a_file_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "g.yaml"
    path.write_text(f"kind: goal\nscenario: {BERT}\nlimits: {{p99_latencies: < 2 s}}\n")
    with pytest.raises(SpecError, match=r"g\.yaml:3:10 .*no result has a figure `p99_latencies`") as found:
        read_goal(path)
    assert "`p99_latency`" in str(found.value)


@every_case("text", lambda: ["0.4 ± nan", "nan ± 5 %", "0.4 ± inf", "> nan", ">= -inf", "< inf"])
def test_an_expectation_has_finite_bounds(text: str) -> None:
    with pytest.raises(BadValueError):
        limit("mfu", text)


@every_case("sign, keeps", lambda: [("<", [9.0]), ("<=", [9.0, 10.0]), (">", [11.0]), (">=", [10.0, 11.0])])
def test_a_bound_that_is_met_exactly(sign: str, keeps: list[float]) -> None:
    """Of 9, 10 and 11 at a bound of 10: it belongs to what keeps to it only with the sign of equality."""
    bound = limit("mean_power_w", f"{sign} 10 W")
    values = [9.0, 10.0, 11.0]
    assert [value for value in values if not list(missed([("power", bound)], {"power": value}))] == keeps


def test_a_pod_of_just_as_many_ipus_as_the_bound() -> None:
    goal = Goal(BERT, objective="ipus", systems=("ipu_pod16", "ipu_pod64"), divisions=("as given",), draws=0)
    strict, loose = (
        find_systems(replace(goal, limits=(limit("ipus", f"{sign} 16"),)), processes=1) for sign in ("<", "<=")
    )
    assert [each.system for each in loose.ranked] == ["ipu_pod16"]
    assert [(each.system, each.reason) for each in strict.ruled_out] == [
        ("ipu_pod16", "ipus < 16: it is the bound itself"),
        ("ipu_pod64", "ipus < 16: +300.0%"),
    ]
    assert loose.to_dict()["ranked"][0]["figures"]["ipus"] == 16


def test_partitions_are_among_the_systems_that_are_looked_at() -> None:
    """Machines have 4 IPUs, pods 4, 16, 64, 128 and 256: 8 and 32 are sizes that partitions alone have.

    The server with 16 chips of Mk1 has no smaller sibling, so that 4 are a partition there, too.
    """
    systems = Goal(BERT).candidates
    assert set(shipped_names()["systems"]) < set(systems)
    parts = {system for system in systems if place_named(system).ipus is not None}
    pods = {f"{size} of {chip}_pod{pod}" for chip in ("ipu", "bow") for size, pod in ((8, 16), (32, 64))}
    assert parts == pods | {"4 of dss8440", "8 of dss8440"}


def test_ties_are_broken_by_the_second_figure() -> None:
    """Two options of 16 IPUs: the name would put the slower first."""
    slow, fast = (
        Option(
            name,
            "as given",
            ipu_count=16,
            figures=(known := {"ipus": 16, "time_to_train_s": time_s}),
            parts=[Part("", name, 16, 4, 4, known)],
        )
        for name, time_s in (("a", 20.0), ("b", 10.0))
    )
    goal = Goal(BERT, objective="ipus")
    assert sorted([slow, fast], key=lambda each: rank_key(goal, each, "time_to_train_s")) == [fast, slow]
