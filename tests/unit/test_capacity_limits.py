"""Limits and figures of goals: budgets with their currency, contradictions, power of a rack, latency under load."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from podsim import run
from podsim.cli.app import main
from podsim.errors import BadValueError, PodsimError, SpecError
from podsim.runs.serve import serve
from podsim.study.plan import Goal, find_systems, read_goal
from podsim.study.plan.goal import at_most, check_limits, figures, limit, missed, second_of

BERT = "bert_v1.1_pod16_open"
SERVING = "serving_llama2_7b_pod64"
RENT = "cost.price_per_ipu_hour=1.5 USD"


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    sys.argv = ["podsim", "plan", *arguments, "--processes", "1", "--draws", "0", "--division", "given"]
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out + captured.err


@pytest.mark.parametrize(
    ("metric", "text", "high", "currency"),
    [
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


@pytest.mark.parametrize(("metric", "text"), [("budget", "500"), ("deadline", "12 GB"), ("budget", "many USD")])
def test_what_is_no_limit_is_told(metric: str, text: str) -> None:
    with pytest.raises(BadValueError):
        at_most(metric, text)


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
        check_limits(limit(*each) for each in texts)


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
        (["--objective", "samples_per_currency"], "there is no price"),
        (["--deadline", "1h", "--limit", "time=> 2 h"], "limits contradict each other"),
        (["--deadline", "nan s"], "`nan s` is not a finite number"),
        (["--deadline", "inf h"], "`inf h` is not a finite number"),
        (["--budget", "1e999 USD"], "`1e999 USD` is not a finite number"),
        (["--rack-power", "nan kW"], "`nan kW` is not a finite number"),
        (["--limit", "mfu=> nan %"], "`nan %` is not a finite number"),
        (["--rate", "-1"], "do: "),
        (["--objective", "warnings", "--set", "parallelism.micro_batch_size=2"], "no figure `warnings`"),
        (["--limit", "warnings=< 3"], "no figure `warnings`"),
        (["--set", "system=bow_pod16"], "names one pod for all candidates"),
        (["--lease", "pod"], "no price is given"),
        (["--objective", "tokens_per_s"], "no figure `tokens_per_s`"),
        (["--second", "tokens_per_s"], "no figure `tokens_per_s`"),
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
    goal = Goal(**{**goal.__dict__, "request_rate": 2.0, "overrides": small})
    (found,) = find_systems(goal, processes=1).ranked
    served = serve(SERVING, overrides=small, rate=2.0, loads=(0.8,))
    assert found.figures is not None
    assert found.figures["latency_p99_s"] == served.outcome.latency.p99_s
    assert found.figures["energy_per_token_j"] == served.energy_per_token_j
    assert found.arithmetic == "64 (= 32 × 2)" and "rate: 2.0" in found.written
    code, text = told(
        capsys,
        SERVING,
        "--system",
        "ipu_pod64",
        "--rate",
        "1000",
        "--set",
        *small,
        "--latency",
        "9s",
        "--objective",
        "p99_latency",
    )
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
