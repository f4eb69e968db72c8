"""What a goal asks for is checked before anything is simulated, and a limit is met or missed at the bound itself."""

from __future__ import annotations

from typing import Any

import pytest

from podsim.errors import BadValueError, PodsimError
from podsim.scenario import shipped_names
from podsim.study.plan import Goal, Job, Option, Part, find_systems
from podsim.study.plan.goal import at_most, limit, missed, place_named
from podsim.study.plan.report import rank_key

BERT = "bert_v1.1_pod16_open"
SERVING = "serving_llama2_7b_pod64"
LLAMA = "llama2_7b_pod16_streamed"
TWICE = {"jobs": (Job("a", BERT), Job("b", BERT))}


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
        ({"scenario": BERT, "limits": (limit("speed", "< 5"),)}, "no figure `speed`"),
        ({"scenario": BERT, "objective": "latency_p99_s"}, "is training"),
        ({"scenario": BERT, "request_rate": 2.0}, "is training"),
        ({"scenario": SERVING, "request_rate": 2.0}, f"serving {SERVING} have no figure `time_to_train_s`"),
        ({"scenario": SERVING, "limits": (at_most("p99_latency", "2 s"),)}, "no figure `time_to_train_s`"),
        ({"scenario": SERVING, "objective": "p99_latency", "second": "mfu"}, "no figure `mfu`"),
        ({"scenario": SERVING, "objective": "p99_latency", "second": "cost"}, "no figure `cost_per_run`"),
        ({"scenario": LLAMA}, "no figure `time_to_train_s`"),
        ({**TWICE, "objective": "mfu"}, "these jobs together have no figure `mfu`"),
        ({"jobs": (Job("a", BERT, limits=(limit("speed", "> 1"),)),)}, "no figure `speed`"),
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


@pytest.mark.parametrize(
    ("metric", "most"), [("deadline", "nan s"), ("deadline", "inf s"), ("deadline", "-inf h"), ("power", "nan W")]
)
def test_a_bound_is_a_finite_number(metric: str, most: str) -> None:
    with pytest.raises(BadValueError) as found:
        at_most(metric, most)
    assert found.value.do


@pytest.mark.parametrize("text", ["0.4 ± nan", "nan ± 5 %", "0.4 ± inf", "> nan", ">= -inf", "< inf"])
def test_an_expectation_has_finite_bounds(text: str) -> None:
    with pytest.raises(BadValueError):
        limit("mfu", text)


@pytest.mark.parametrize(("sign", "keeps"), [("<", [9.0]), ("<=", [9.0, 10.0]), (">", [11.0]), (">=", [10.0, 11.0])])
def test_a_bound_that_is_met_exactly(sign: str, keeps: list[float]) -> None:
    """Of 9, 10 and 11 at a bound of 10: it belongs to what keeps to it only with the sign of equality."""
    bound = limit("mean_power_w", f"{sign} 10 W")
    values = [9.0, 10.0, 11.0]
    assert [each for each in values if not list(missed([("power", bound)], {"power": each}))] == keeps


def test_a_pod_of_just_as_many_ipus_as_the_bound() -> None:
    goal = Goal(BERT, objective="ipus", systems=("ipu_pod16", "ipu_pod64"), divisions=("as given",), draws=0)
    strict, loose = (
        find_systems(Goal(**{**goal.__dict__, "limits": (limit("ipus", f"{sign} 16"),)}), processes=1)
        for sign in ("<", "<=")
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
    parts = {each for each in systems if place_named(each).ipus is not None}
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
