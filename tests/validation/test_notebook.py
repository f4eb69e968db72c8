"""What notebooks/mlperf_v1.ipynb and mlperf_v2.ipynb conclude is so, for predictions and for measurements."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import pandas as pd
import pytest

from notebooks.figures import samples_of_update
from notebooks.mlperf import dgx_a100_minutes, mlperf_frame, mlperf_results, speedups
from podsim.result.reference_data import rows
from podsim.result.result import RunResult
from podsim.scenario import load_scenario
from tests.validation.notebook_texts import states

BOTH = ("", "measured_")
ROUNDS = ("v1.0", "v1.1", "v2.0")
RUNS = {"bert": 10, "resnet": 5}
"""Runs that MLPerf asks of a submission."""
both = pytest.mark.parametrize("prefix", BOTH, ids=["predicted", "measured"])


@lru_cache
def results() -> dict[str, RunResult]:
    return mlperf_results(ROUNDS)


@lru_cache
def frame() -> pd.DataFrame:
    return mlperf_frame(results())


def of_round(*rounds: str) -> pd.DataFrame:
    return frame()[frame()["round"].isin(rounds)]


def latest(benchmark: str, division: str) -> pd.DataFrame:
    table = of_round("v1.1")
    return table[(table["benchmark"] == benchmark) & (table["division"] == division)]


def gains(before: str, after: str) -> pd.DataFrame:
    """Shares of the time to train that the later round saved, where both have a pod and division."""
    keys, columns = ["benchmark", "ipus", "division"], ["train_min", "measured_train_min"]
    old, new = (of_round(name).set_index(keys)[columns] for name in (before, after))
    return (1 - new / old).dropna()


def cost_us(kinds: set[str], scenario: str) -> float:
    """Time of one IPU for one sample."""
    result = results()[scenario]
    seconds = sum(result.breakdown[kind] for kind in kinds & set(result.breakdown))
    return seconds * 1e6 * frame()["ipus"][scenario] / samples_of_update(result)


@both
def test_pods_of_the_first_round_beside_a_dgx_a100(prefix: str) -> None:
    states("mlperf_v1", "On either benchmark a DGX A100 took less time than a POD16 and more than a POD64.")
    gpus, table = dgx_a100_minutes("v1.0"), of_round("v1.0")
    for _, row in table.iterrows():
        assert (row[f"{prefix}train_min"] > gpus[row["benchmark"]]) == (row["ipus"] == 16)
    assert len(table) == 6
    assert (table["train_min"] / table["measured_train_min"] - 1).abs().max() < 0.08


def test_runs_of_one_submission_of_the_first_rounds_differ_with_bert() -> None:
    states("mlperf_v1", "Runs of one submission differ by 9 to 45 % with BERT")
    states("mlperf_v1", "by no more than 2 % with ResNet-50")
    spread = of_round("v1.0")["longest_run_min"] / of_round("v1.0")["shortest_run_min"] - 1
    found = spread.groupby(of_round("v1.0")["benchmark"])
    assert (round(found.min()["BERT"], 2), round(found.max()["BERT"], 2)) == (0.09, 0.45)
    assert round(found.max()["ResNet-50"], 2) == 0.02


def test_every_submission_has_whiskers_around_its_score() -> None:
    """The single runs of a submission are at hand, and MLPerf's mean of them lies between the ends."""
    states("mlperf_v1", "four runs of ResNet-50 in v1.1, one per pod, missed their target and are left out")
    table = frame()
    assert (table["shortest_run_min"] <= table["longest_run_min"]).all()
    assert table["measured_train_min"].between(table["shortest_run_min"], table["longest_run_min"]).all()
    keys = ("round", "division", "benchmark", "ipus", "framework", "submitter")
    runs = Counter(tuple(run[key] for key in keys) for run in rows("mlperf_runs"))
    logged = {tuple(row[key] for key in keys): row for row in rows("mlperf_submissions")}
    assert runs.keys() == logged.keys()
    missed = {key for key in runs if runs[key] < RUNS[key[2]]}
    of_paddle = ("v2.0", "closed", "bert", "16", "PaddlePaddle", "Graphcore")  # nine of ten runs reached the target
    assert missed == {key for key in runs if (key[0], key[2]) == ("v1.1", "resnet")} | {of_paddle}
    assert all(runs[key] == RUNS[key[2]] - 1 for key in missed)


@both
def test_pods_beside_a_dgx_a100(prefix: str) -> None:
    gpus, column = dgx_a100_minutes("v1.1"), f"{prefix}train_min"
    resnet = latest("ResNet-50", "closed").set_index("ipus")[column] / gpus["ResNet-50"]
    assert resnet[16] == pytest.approx(1, abs=0.1)
    assert (resnet.drop(16) < 1).all()
    for division in ("closed", "open"):
        bert = latest("BERT", division).set_index("ipus")[column] / gpus["BERT"]
        assert bert[16] > 1.2 and (bert.drop(16) < 1).all()


def test_times_to_train_of_the_later_round() -> None:
    table = of_round("v1.1")
    states("mlperf_v1", "predictions stay within 8 % of the logs")
    assert (table["train_min"] / table["measured_train_min"] - 1).abs().max() < 0.08
    assert table["measured_train_min"].min() < 4 and table["train_min"].min() < 4


def test_every_system_gained_and_each_gain_is_found() -> None:
    states("mlperf_v1", "6 to 41 % in the logs. podsim finds each gain to within five percentage points")
    found = gains("v1.0", "v1.1")
    measured = found["measured_train_min"]
    assert len(found) == 6 and (found > 0).all().all()
    assert (round(measured.min(), 2), round(measured.max(), 2)) == (0.06, 0.41)
    assert (found["train_min"] - measured).abs().max() < 0.05


@pytest.mark.parametrize(
    ("notebook", "rounds", "count", "mean", "said"),
    [
        ("mlperf_v1", ("v1.0", "v1.1"), 16, 0.022, "All sixteen lie within 6 %, and within 2.2 % on average."),
        ("mlperf_v2", ("v2.0",), 8, 0.03, "All eight lie within 6 %, and within 3 % on average."),
    ],
)
def test_how_far_weight_updates_are_off(
    notebook: str, rounds: tuple[str, ...], count: int, mean: float, said: str
) -> None:
    states(notebook, said)
    table = of_round(*rounds)
    errors = (table["update_ms"] / table["measured_update_ms"] - 1).abs()
    assert len(errors) == count
    assert errors.max() < 0.06 and errors.mean() < mean
    assert errors[table["role"] == "hold-out"].mean() < mean


@pytest.mark.parametrize(("notebook", "rounds"), [("mlperf_v1", ("v1.0", "v1.1")), ("mlperf_v2", ("v2.0",))])
def test_all_submissions_in_short(notebook: str, rounds: tuple[str, ...]) -> None:
    states(notebook, "weight updates lie within 6 % of their logs")
    states(notebook, "times to train within 8 %.")
    table = of_round(*rounds)
    assert (table["update_ms"] / table["measured_update_ms"] - 1).abs().max() < 0.06
    assert (table["train_min"] / table["measured_train_min"] - 1).abs().max() < 0.08


def test_submissions_that_constants_were_fitted_to() -> None:
    states("mlperf_v1", "seven of the sixteen, marked *calibration*")
    states("mlperf_v2", "Constants were fitted to the weight updates of ResNet-50, marked *calibration*")
    table = of_round("v1.0", "v1.1")
    assert (table["role"] == "calibration").sum() == 7
    roles = of_round("v2.0").groupby("benchmark")["role"].unique()
    assert {name: list(found) for name, found in roles.items()} == {"BERT": ["hold-out"], "ResNet-50": ["calibration"]}


def test_what_grows_with_the_pod_for_resnet() -> None:
    small, large = "resnet50_v1.1_pod16", "resnet50_v1.1_pod256"
    same = {"matmul", "vector", "reduction", "exchange", "rearrange", "sync", "superstep"}
    assert cost_us(same, large) == pytest.approx(cost_us(same, small), rel=0.01)
    growth = {
        kind: cost_us({kind}, large) - cost_us({kind}, small) for kind in ("host", "all_reduce", "gw_link", "optimizer")
    }
    assert min(growth["host"], growth["all_reduce"]) > max(growth["gw_link"], growth["optimizer"])
    assert min(growth["gw_link"], growth["optimizer"]) > 0
    assert growth["host"] + growth["all_reduce"] > 0.6 * sum(growth.values())


def test_why_a_pod256_is_not_sixteen_pod16() -> None:
    resnet = latest("ResNet-50", "closed")
    predicted, measured = (speedups(resnet, results(), prefix) for prefix in BOTH)
    states("mlperf_v1", "trains 7.5 times as fast")
    states("mlperf_v1", "takes 36 % more time of an IPU")
    states("mlperf_v1", "28 % of the run instead of 3 %. Each predicted step is within 5 % of the measured one")
    assert (round(measured[-1], 1), round(16 / measured[1], 2)) == (7.5, 1.36)
    assert predicted == pytest.approx(measured, rel=0.05)
    for pod, share in ((16, 0.03), (256, 0.28)):
        parts = results()[f"resnet50_v1.1_pod{pod}"].run_breakdown
        rest = parts["checkpoint"] + parts["evaluation"]
        assert 45 < rest < 75
        assert round(rest / sum(parts.values()), 2) == share


def test_what_grows_with_the_pod_for_bert() -> None:
    pods = [f"bert_v1.1_pod{ipus}_open" for ipus in (16, 64, 128)]
    every = set(results()[pods[-1]].breakdown) | {"streaming"}
    small, middle, large = (cost_us(every, pod) for pod in pods)
    assert middle / small == pytest.approx(1.25, abs=0.02)
    assert 1 < large / middle < 1.04
    host = cost_us({"host"}, pods[1]) - cost_us({"host"}, pods[0])
    idle = [cost_us({"bubble", "imbalance", "update_wait"}, pod) for pod in pods]
    assert host > 0.5 * (middle - small) and idle[1] - idle[0] > 0.2 * (middle - small)
    measured = latest("BERT", "open").set_index("ipus")["measured_update_ms"]
    assert measured[64] * 4 / measured[16] == pytest.approx(1.25, abs=0.02)
    assert 1 < measured[128] / measured[64] < 1.04


@both
def test_bow_pods_beside_a_dgx_a100(prefix: str) -> None:
    gpus, column = dgx_a100_minutes("v2.0"), f"{prefix}train_min"
    shares = {
        name: table.set_index("ipus")[column] / gpus[str(name)] for name, table in of_round("v2.0").groupby("benchmark")
    }
    assert all(list(found.index) == [16, 64, 128, 256] for found in shares.values())
    assert shares["ResNet-50"].max() < 0.75
    assert shares["BERT"][16] > 1.05 and (shares["BERT"].drop(16) < 1).all()
    if prefix:
        states("mlperf_v2", "32 % less time than a DGX A100 of the same round; on BERT it takes 12 % more")
        assert (round(1 - shares["ResNet-50"][16], 2), round(shares["BERT"][16] - 1, 2)) == (0.32, 0.12)


def test_runs_of_one_submission_differ_with_bert() -> None:
    states("mlperf_v2", "Runs of one submission differ by 14 to 23 % with BERT")
    states("mlperf_v2", "by no more than 1 % with ResNet-50")
    table = of_round("v2.0")
    spread = (table["longest_run_min"] / table["shortest_run_min"] - 1).groupby(table["benchmark"])
    assert (round(spread.min()["BERT"], 2), round(spread.max()["BERT"], 2)) == (0.14, 0.23)
    assert round(spread.max()["ResNet-50"], 2) == 0.01
    inside = table["measured_train_min"].between(table["shortest_run_min"], table["longest_run_min"])
    assert inside.all()


def test_from_gc200_to_bow() -> None:
    states("mlperf_v2", "in 26 to 36 % less time, while the faster clock alone saves no more than 28 %")
    states("mlperf_v2", "podsim finds each gain to within seven percentage points")
    found = gains("v1.1", "v2.0")
    measured = found["measured_train_min"]
    assert len(found) == 7
    assert (round(measured.min(), 2), round(measured.max(), 2)) == (0.26, 0.36)
    clocks = [load_scenario(f"resnet50_{name}_pod16").spec.system.machine.ipu.clock_hz for name in ("v1.1", "v2.0")]
    assert round(1 - clocks[0] / clocks[1], 2) == 0.28
    assert (found["train_min"] - measured).abs().max() < 0.07


def test_what_grows_with_the_bow_pod_for_bert() -> None:
    """The predicted loss is too small, by both ends: of BERT in v2.0 Bow Pod16 and Bow Pod256 are the worst."""
    states("mlperf_v2", "trains 55 % as fast as one of a Bow Pod16 (53 % in the logs")
    states("mlperf_v2", "Bow Pod16 is predicted 2 % too slow and Bow Pod256 2 % too fast)")
    small, large = (f"bert_v2.0_pod{ipus}_closed" for ipus in (16, 256))
    bert = of_round("v2.0").loc[[small, large]]
    measured, predicted = (speedups(bert, results(), prefix)[1] / 16 for prefix in ("measured_", ""))
    assert (round(measured, 2), round(predicted, 2)) == (0.53, 0.55)
    assert list((bert["update_ms"] / bert["measured_update_ms"] - 1).round(2)) == [0.02, -0.02]
    same = {"matmul", "vector", "reduction", "exchange", "rearrange", "superstep"}
    assert cost_us(same, large) == pytest.approx(cost_us(same, small), rel=0.02)
    every = set(results()[large].breakdown) | set(results()[small].breakdown)
    growth = cost_us(every, large) - cost_us(every, small)
    assert cost_us({"host"}, large) - cost_us({"host"}, small) > 0.5 * growth
