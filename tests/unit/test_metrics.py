"""The table of metrics: every figure that is shown is in it, and nothing guesses a unit or a direction from a name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import podsim
from podsim.metrics import LESS, METRICS, MORE, NEITHER, RUN_METRICS, SHORT, find_metric, metric_of
from podsim.scenario import load_scenario
from podsim.scenario.expectations import expectation
from podsim.study.plan.goal import figure_named, figures, limit, names_of
from podsim.study.sides import COMPARED
from podsim.study.store import figures_of

PACKAGE = Path(podsim.__file__).parent
PRICED = ["cost.price_per_ipu_hour=1.5 USD"]
SUFFIX = re.compile(r"^_(per_s|samples_per_s|per_s_per_w|per_w|per_currency|s|w|j|hz|bytes|bytes_per_s|share)$")
NAMES_OF_FIELDS = {"scenario/base.py"}
"""Where keys of files are derived from names of fields."""


@pytest.mark.parametrize("scenario", ["bert_v1.1_pod16_open", "qwen2_7b_pod4", "resnet50_pod4"])
def test_every_figure_of_a_result_and_a_plan_is_in_the_table(scenario: str) -> None:
    loaded = load_scenario(scenario, overrides=PRICED)
    result = podsim.run(loaded)
    shown = {**dict(figures_of(result)), **figures(result), **result.ranges}
    shown.pop("warnings")
    assert {"cost_per_hour", "mean_power_w", "memory.fullest_ipu_bytes"} <= set(shown)
    assert [name for name in shown if find_metric(name) is None] == []
    asked = (name.rstrip(".") for name in names_of(loaded.spec, served=False))
    assert [name for name in asked if name not in METRICS] == []
    for name, value in dict(figures_of(result)).items():
        assert name == "warnings" or metric_of(name).get(result) == value, name


def test_every_figure_of_serving_is_in_the_table() -> None:
    loaded = load_scenario("qwen2_7b_pod4", overrides=[*PRICED, "serving.request_count=50"])
    result = podsim.serve(loaded, rate=0.1)
    shown = figures(result)
    shown.pop("warnings")
    assert [name for name in shown if name not in METRICS] == []
    assert shown["latency_p99_s"] == result.outcome.latency.p99_s
    assert shown["saturation_per_s"] == result.saturation.rate_per_s
    assert shown["utilization"] == result.outcome.utilization
    assert shown["tokens_per_s_per_w"] == pytest.approx(result.outcome.throughput_tokens_per_s / result.mean_power_w)


def test_comparisons_show_metrics_of_the_table_and_results_have_their_paths() -> None:
    training = podsim.run("bert_v1.1_pod16_open").to_dict()
    for key in COMPARED["training"]:
        parent = METRICS[key].name.partition(".")[0]
        assert parent in training or METRICS[key].unit == "B", parent


@pytest.mark.parametrize("name", ["latency_p99_s", "latency.p99_s"])
def test_both_spellings_of_a_percentile_are_one_metric(name: str) -> None:
    assert metric_of(name) is METRICS["latency_p99_s"]
    assert figure_named(name) == limit(name, "< 2 s").metric == expectation(name, "< 2 s").metric == "latency_p99_s"
    assert expectation(name, "< 500 ms").high == 0.5


def test_units_and_directions_that_names_cannot_tell() -> None:
    known = {"samples_per_s_per_w": ("1/J", MORE), "load": ("1", NEITHER), "mean_power_w": ("W", NEITHER)}
    assert {name: (METRICS[name].unit, METRICS[name].better) for name in known} == known
    percentile = METRICS["time_to_train_percentiles.p50"]
    assert (percentile.unit, percentile.better, percentile.titled) == ("s", LESS, "time to train, P50 [s]")
    assert limit("samples_per_s_per_w", ">= 0.5").low == 0.5
    assert expectation("time_to_train_percentiles.p90", "< 30 min").high == 1800.0


def test_names_are_taken_once() -> None:
    keys, shorts = list(METRICS), [name for each in METRICS.values() for name in each.short]
    assert len(SHORT) == len(shorts)
    assert not set(keys) & set(SHORT)
    assert all(each.follows in ("", *METRICS) for each in METRICS.values())
    assert all(each.of for each in RUN_METRICS)


def guesses(source: str) -> Iterator[str]:
    """Calls that take the unit of a name from its end, and collections of such ends."""
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("endswith", "removesuffix"):
                parts = node.args
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            parts = node.elts
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
        texts = [each for part in parts for each in (part.elts if isinstance(part, ast.Tuple) else [part])]
        words = (text.value for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str))
        yield from (word for word in words if SUFFIX.match(word))


def test_a_guess_is_noticed() -> None:
    assert list(guesses('x.endswith("_per_s")')) == ["_per_s"]
    assert list(guesses('UNITS = {"_s": "s"}')) == ["_s"]
    assert list(guesses('x.endswith("_stop") or x.removesuffix(".yaml")')) == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_guesses_a_unit_from_a_name(path: Path) -> None:
    if str(path.relative_to(PACKAGE)) not in NAMES_OF_FIELDS:
        assert list(guesses(path.read_text(encoding="utf-8"))) == []
