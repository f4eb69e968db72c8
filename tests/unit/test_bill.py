"""Cost: what is fixed apart from energy, at a duty cycle; prices, their dates and currencies."""

from __future__ import annotations

import pickle
from datetime import date
from typing import Any

import pytest

import podsim
from podsim.errors import SpecError
from podsim.report.report import Tile
from podsim.result.power import Cost, Energy, Meter, WorkDone, cost_of, price_warnings, today
from podsim.scenario import load_scenario
from podsim.scenario.costs import CostSpec
from tests.unit.report_examples import make_result
from tests.unit.test_power import AT_WORK_W, system

HOUR_S = 3600.0
PRODUCTS = {"half_flop": (200 - AT_WORK_W) * 1e12}
WORK = WorkDone({"matmul": 1}, {"sample": 1000.0}, PRODUCTS, run_parts={"training": 7200.0}, run_s=7200.0)
"""Two hours of matrix products: 220 W of each IPU."""
BUSY_KW = (64 * 220 + 16 * 300 + 4 * 800 + 2 * 400) / 1000
IDLE_KW = (64 * 20 + 16 * 300 + 4 * 250 + 2 * 400) / 1000


def cost(ipus: int = 64, work: WorkDone = WORK, **prices: Any) -> Cost:
    meter = Meter(system(), ipus)
    return cost_of(CostSpec.model_validate(prices), meter, work, Energy(meter, work))


def test_rented_ipus_are_paid_by_the_hour() -> None:
    found = cost(price_per_ipu_hour="1.5 USD")
    assert (found.currency, found.price_per_ipu_hour, found.fixed_per_hour) == ("USD", 1.5, 96.0)
    assert (found.fixed_per_run, found.energy_per_run, found.per_run) == (192.0, None, 192.0)
    assert found.per_million == {"sample": pytest.approx(1e6 / 1000 / HOUR_S * 96)}


def test_what_was_bought_is_written_off_over_its_years() -> None:
    """876,000 EUR and 20 % more over 2 years of 8,760 hours and 64 IPUs."""
    found = cost(purchase="876000 EUR", years=2, overhead="20 %")
    assert found.price_per_ipu_hour == pytest.approx(876_000 * 1.2 / (2 * 8760 * 64))
    assert found.per_hour == pytest.approx(60)


def test_the_list_price_is_that_of_all_machines() -> None:
    found = cost(purchase="list", years=4)
    assert found.price_per_ipu_hour == pytest.approx(32450 / 4 / (4 * 8760))


def test_energy_is_apart_from_what_is_fixed() -> None:
    found = cost(price_per_ipu_hour="1 USD", energy_price="0.1 USD/kWh")
    assert found.energy_per_hour == pytest.approx(BUSY_KW * 0.1)
    assert found.energy_per_run == pytest.approx(2 * BUSY_KW * 0.1)
    assert found.per_run == pytest.approx(128 + 2 * BUSY_KW * 0.1)


def test_work_pays_for_the_time_without_work() -> None:
    """At 80 %, a quarter of an hour stands idle beside each hour of work."""
    found = cost(price_per_ipu_hour="1 USD", energy_price="100 USD/MWh", duty_cycle="80 %")
    assert found.fixed_per_hour == pytest.approx(64 * 1.25)
    assert found.energy_per_hour == pytest.approx((BUSY_KW + 0.25 * IDLE_KW) * 0.1)


def test_energy_alone_may_have_a_price() -> None:
    found = cost(energy_price="0.1 USD/kWh")
    assert (found.price_per_ipu_hour, found.fixed_per_run) == (None, None)
    assert found.per_run == found.energy_per_run == pytest.approx(0.2 * BUSY_KW)


def test_whole_machines_are_paid_for() -> None:
    assert cost(ipus=5, price_per_ipu_hour="2 USD").fixed_per_hour == 16


def test_without_an_end_there_is_no_cost_of_a_run() -> None:
    found = cost(work=WorkDone({"matmul": 1}, {"token": 10.0}), price_per_ipu_hour="2 USD").to_dict()
    assert (found["per_run"], found["run_ipu_hours"], found["per_hour"]) == (None, None, 128)
    assert found["per_million_tokens"] == pytest.approx(1e6 / 10 / HOUR_S * 128)


def test_no_price_no_cost() -> None:
    assert podsim.run("bert_v1.1_pod16_open").to_dict()["cost"] is None


def test_a_run_costs_its_time_to_train() -> None:
    result = podsim.simulate("bert_v1.1_pod16_closed", overrides=["cost.price_per_ipu_hour=1.5 USD"])
    assert result.time_to_train_s is not None
    assert result.cost_per_run == pytest.approx(1.5 * 16 * result.time_to_train_s / HOUR_S)
    assert pickle.loads(pickle.dumps(result)).cost_per_run == result.cost_per_run


def test_drawn_runs_cost_their_median() -> None:
    overrides = ["run.samples_to_converge={reference_convergence: true}", "cost.price_per_ipu_hour=1 USD"]
    result = podsim.simulate("bert_v1.1_pod64_open", overrides=overrides)
    assert result.time_to_train_percentiles is not None
    assert result.cost_per_run == pytest.approx(64 * result.time_to_train_percentiles["p50"] / HOUR_S)


def test_the_table_has_what_is_fixed_and_what_is_used() -> None:
    meter = Meter(system("ipu_pod4", host_count=1, power=None), 2)
    prices = CostSpec.model_validate({"price_per_ipu_hour": "1 USD", "energy_price": "1 USD/kWh"})
    *_, tile = make_result(meter=meter, prices=prices).spent_tiles()
    notes = ("fixed 1.74 USD", "energy 0.545 USD", "0.0182 USD per million samples")
    assert tile == Tile("Cost", "2.28 USD per run", notes)


def test_tables_of_many_results_have_what_is_known() -> None:
    paid = dict(podsim.run("bert_v1.1_pod16_open", overrides=["cost.price_per_ipu_hour=1 USD"]).figures())
    names = {"mean_power_w", "energy_per_sample_j", "energy_per_run_j"}
    names |= {"cost_per_hour", "cost_per_million_samples", "cost_per_run"}
    assert names <= set(paid)
    assert paid["cost_per_hour"] == 16
    alone = dict(podsim.run("llama2_7b_pods").figures())
    assert {name for name in alone if name.startswith(("energy", "cost", "mean"))} == {
        "mean_power_w",
        "energy_per_token_j",
    }


# Dates


def warnings(on: date, **prices: Any) -> list[str]:
    return list(price_warnings(CostSpec.model_validate(prices), Meter(system(), 64), on))


def test_prices_older_than_ninety_days_are_told() -> None:
    price = {"value": "1.5 USD", "date": "2026-01-01"}
    assert warnings(date(2026, 4, 1), price_per_ipu_hour=price) == []
    (told,) = warnings(date(2026, 4, 2), price_per_ipu_hour=price)
    assert "1.5 USD is a price of 2026-01-01, 91 days old" in told


def test_a_date_of_the_section_holds_for_prices_without_one() -> None:
    fresh = {"value": "1 USD/kWh", "date": "2026-05-01"}
    (told,) = warnings(date(2026, 5, 2), date="2025", price_per_ipu_hour="1 USD", energy_price=fresh)
    assert told.startswith("cost.price_per_ipu_hour: ") and "122 days" in told


def test_the_list_price_is_old() -> None:
    (told,) = warnings(date(2021, 12, 31), purchase="list", years=4)
    assert "32450 USD is a price of 2020, 365 days old" in told


def test_a_price_without_a_date_is_taken_as_of_today() -> None:
    assert warnings(date(2099, 1, 1), price_per_ipu_hour="1 USD") == []


def test_results_tell_the_age_on_the_day_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1775088000")
    assert today() == date(2026, 4, 2)
    prices = "cost={price_per_ipu_hour: 1 USD, date: 2026-01-01}"
    result = podsim.run("resnet50_c600", overrides=[prices])
    assert any("91 days old" in warning for warning in result.warnings)


@pytest.mark.parametrize("written", ["", "soon", "-1", "9" * 40])
def test_what_is_no_date_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", written)
    assert abs((today() - date.today()).days) <= 1


def test_energy_whose_power_is_not_known_has_no_price() -> None:
    over = ["system.host.power=null", "cost={price_per_ipu_hour: 1 USD, energy_price: 1 USD/kWh}"]
    result = podsim.run("resnet50_c600", overrides=over)
    assert any(
        "cost.energy_price has no effect: system.host.power is not given" in warning for warning in result.warnings
    )
    assert result.cost is not None
    assert (result.cost.energy_per_hour, result.cost.per_hour) == (None, 1.0)


# Bad input


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        ("{}", "no price is given"),
        ("{duty_cycle: 50 %}", "no price is given"),
        ("{price_per_ipu_hour: 1.5}", "`1.5` is not a price"),
        ("{price_per_ipu_hour: $1.5}", "is not a price"),
        ("{price_per_ipu_hour: -1 USD}", "is not a price"),
        ("{price_per_ipu_hour: 1 USD/kWh}", "a price per `kWh`"),
        ("{price_per_ipu_hour: 1e999 USD}", "not a finite number"),
        ("{price_per_ipu_hour: [1 USD]}", "needs a price, not a list"),
        ("{energy_price: 0.1 USD}", "does not say what it is the price of"),
        ("{price_per_ipu_hour: 1 USD, energy_price: 0.1 EUR/kWh}", "price_per_ipu_hour in USD, energy_price in EUR"),
        ("{purchase: list, years: 3, energy_price: 0.1 EUR/kWh}", "several currencies"),
        ("{purchase: lst, years: 3}", "`lst` is not a price"),
        ("{purchase: 5 USD}", "without `years`"),
        ("{purchase: 5 USD, years: 0}", "too small"),
        ("{purchase: 5 USD, years: 3, price_per_ipu_hour: 1 USD}", "are both given"),
        ("{price_per_ipu_hour: 1 USD, years: 3}", "nothing is bought"),
        ("{price_per_ipu_hour: 1 USD, overhead: 3 %}", "nothing is bought"),
        ("{price_per_ipu_hour: 1 USD, duty_cycle: 0 %}", "too small"),
        ("{price_per_ipu_hour: 1 USD, date: 2026-13}", "not a date"),
        ("{price_per_ipu_hour: {value: 1 USD, range: [1 USD, 2 EUR]}}", "another currency"),
        ("{price_per_ipu_hour: {value: 1 USD, range: [3 USD, 2 USD]}}", "ends before it starts"),
        ("{price_per_ipu_hour: {source: me}}", "needs `value`"),
        ("{price_per_ipu_hour: {value: 1 USD, bass: assumed}}", "unknown key `bass`"),
    ],
)
def test_wrong_prices_are_refused(cost: str, told: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario("bert_v1.1_pod16_open", overrides=[f"cost={cost}"])
    assert told in str(caught.value)
    assert "do: " in str(caught.value)


@pytest.mark.parametrize("name", ["llama2_7b_pods", "resnet50_c600", "resnet50_v1.1_pod16"])
def test_every_kind_of_scenario_has_prices(name: str) -> None:
    loaded = load_scenario(name, overrides=["cost.price_per_ipu_hour=1 USD"])
    assert loaded.spec.cost is not None
    with pytest.raises(SpecError, match="several currencies"):
        load_scenario(name, overrides=["cost={price_per_ipu_hour: 1 USD, energy_price: 1 EUR/kWh}"])


def test_prices_hold_where_the_division_is_chosen() -> None:
    """The list price of a pod in dollars, energy in euros."""
    over = ["parallelism=auto", "batch_size=3136", "cost={purchase: list, years: 3, energy_price: 0.1 EUR/kWh}"]
    with pytest.raises(SpecError, match="several currencies"):
        load_scenario("bert_v1.1_pod16_open", overrides=over)


def test_expectations_are_read_where_the_division_is_chosen() -> None:
    over = ["parallelism=auto", "batch_size=3136", "expect={energy_per_run_j: < 3 kW}"]
    with pytest.raises(SpecError, match="unit `kW` does not fit"):
        load_scenario("bert_v1.1_pod16_open", overrides=over)


def test_a_machine_without_a_list_price_is_told() -> None:
    with pytest.raises(SpecError, match="C600 has no list price"):
        load_scenario("resnet50_c600", overrides=["cost={purchase: list, years: 3}"])
