"""What notebooks/mlperf_v1.ipynb concludes is so, for predictions and for measurements."""

from __future__ import annotations

from functools import lru_cache

import pandas as pd
import pytest

from podsim.report.result import RunResult
from podsim.studies.mlperf import dgx_a100_minutes, mlperf_frame, mlperf_results
from podsim.studies.speedups import samples_of_update, speedups

BOTH = ("", "measured_")
both = pytest.mark.parametrize("prefix", BOTH, ids=["predicted", "measured"])


@lru_cache
def results() -> dict[str, RunResult]:
    return mlperf_results()


@lru_cache
def frame() -> pd.DataFrame:
    return mlperf_frame(results())


def latest(benchmark: str, division: str) -> pd.DataFrame:
    table = frame()
    return table[(table["round"] == "v1.1") & (table["benchmark"] == benchmark) & (table["division"] == division)]


def cost_us(kinds: set[str], scenario: str) -> float:
    """Time of one IPU for one sample."""
    result = results()[scenario]
    seconds = sum(result.breakdown[kind] for kind in kinds & set(result.breakdown))
    return seconds * 1e6 * frame()["ipus"][scenario] / samples_of_update(result)


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
    table = frame()[frame()["round"] == "v1.1"]
    assert (table["train_min"] / table["measured_train_min"] - 1).abs().max() < 0.08
    assert table["measured_train_min"].min() < 4 and table["train_min"].min() < 4


def test_every_system_gained_and_large_gains_come_out_too_small() -> None:
    keys = ["benchmark", "ipus", "division"]
    before, after = (frame()[frame()["round"] == name].set_index(keys) for name in ("v1.0", "v1.1"))
    columns = ["train_min", "measured_train_min"]
    gains = (1 - after[columns] / before[columns]).dropna()
    assert len(gains) == 6 and (gains > 0).all().all()
    short = gains["train_min"] < gains["measured_train_min"]
    assert all(short[key] for key in gains.index if key[0] == "ResNet-50" or key[1] == 64)


def test_two_weight_updates_are_further_off_than_six_percent() -> None:
    errors = frame()["update_ms"] / frame()["measured_update_ms"] - 1
    far = errors[errors.abs() > 0.06]
    assert set(far.index) == {"resnet50_v1.0_pod16", "resnet50_v1.0_pod64"}
    missing_ms = (frame()["measured_update_ms"] - frame()["update_ms"])[far.index]
    assert (missing_ms > 3.5).all() and (missing_ms < 6.5).all()


def test_what_grows_with_the_pod_for_resnet() -> None:
    small, large = "resnet50_v1.1_pod16", "resnet50_v1.1_pod256"
    same = {"matmul", "vector", "reduction", "exchange", "rearrange", "sync", "superstep"}
    assert cost_us(same, large) == pytest.approx(cost_us(same, small), rel=0.01)
    growth = [
        cost_us({kind}, large) - cost_us({kind}, small) for kind in ("host", "all_reduce", "gw_link", "optimizer")
    ]
    assert growth == sorted(growth, reverse=True) and growth[-1] > 0


def test_why_a_pod256_is_not_sixteen_pod16() -> None:
    resnet = latest("ResNet-50", "closed")
    predicted, measured = (speedups(resnet, results(), prefix) for prefix in BOTH)
    assert (round(predicted[-1], 1), round(measured[-1], 1)) == (7.0, 7.5)
    assert (round(16 / predicted[1], 2), round(16 / measured[1], 2)) == (1.46, 1.36)
    for pod, share in ((16, 0.03), (256, 0.26)):
        parts = results()[f"resnet50_v1.1_pod{pod}"].run_breakdown
        rest = parts["checkpoint"] + parts["evaluation"]
        assert 45 < rest < 75
        assert rest / sum(parts.values()) == pytest.approx(share, abs=0.015)


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
