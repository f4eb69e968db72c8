"""Power and energy: from what IPUs do to watts and joules, by hand and beside what was published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import podsim
from podsim.errors import SpecError
from podsim.format import format_energy_j
from podsim.result.power import Energy, Meter, Work
from podsim.result.rows import Reference
from podsim.scenario import load_scenario
from podsim.scenario.assumptions import assumptions, numbers, with_value
from podsim.scenario.expectations import expectation
from podsim.scenario.hardware import System
from podsim.scenario.load import load_hardware
from podsim.scenario.power import ChipPower, HostPower, MachinePower, PodPower
from podsim.show.tables import spent_rows
from podsim.tiles.planned import Chip
from tests.unit.report_examples import make_result, result_text


def system(name: str = "ipu_pod64", **pod: Any) -> System:
    """A shipped pod with round numbers for power."""
    found = load_hardware(name, "pod")[0]
    assert isinstance(found, System)
    chip = ChipPower.model_validate(
        {
            "idle": "20 W",
            "dynamic": "200 W",
            "at_clock": "1.33 GHz",
            "vector_activity": "50 %",
            "exchange_activity": "40 %",
            "transfer_activity": "10 %",
        }
    )
    ipu = found.machine.ipu.model_copy(update={"power": chip})
    power = MachinePower.model_validate({"without_ipus": "300 W"})
    machine = found.machine.model_copy(update={"ipu": ipu, "power": power})
    host = found.host.model_copy(update={"power": HostPower.model_validate({"idle": "250 W", "busy": "800 W"})})
    switches = PodPower.model_validate({"switch": "400 W", "switch_count": 2})
    return found.model_copy(update={"machine": machine, "host": host, "power": switches, "host_count": 4, **pod})


WORK = Work(
    {"matmul": 400, "vector": 100, "optimizer": 100, "exchange": 50, "sync": 50, "all_reduce": 100, "bubble": 200},
    {"sample": 100.0},
)
ACTIVITY = 0.4 + 0.2 * 0.5 + 0.1 * 0.4 + 0.1 * 0.1  # 55 % of the dynamic power


def test_each_part_draws_what_it_does() -> None:
    energy = Energy(Meter(system(), 64), WORK)
    assert energy.activity == pytest.approx(ACTIVITY)
    assert energy.drawn.ipus_w == pytest.approx(64 * (20 + 0.55 * 200))
    assert energy.drawn.machines_w == 16 * 300
    assert (energy.drawn.hosts_w, energy.drawn.switches_w) == (4 * 800, 2 * 400)
    assert energy.mean_power_w == pytest.approx(64 * 130 + 4800 + 3200 + 800)
    assert energy.idle_power_w == 64 * 20 + 4800 + 4 * 250 + 800
    assert energy.per_j == {"sample": pytest.approx(energy.mean_power_w / 100)}


def test_machines_are_metered_whole_with_their_part_of_the_pod() -> None:
    """6 IPUs in use are 2 of 16 machines: 8 idle powers, and an eighth of 4 servers and 2 switches."""
    energy = Energy(Meter(system(), 6), WORK)
    assert (energy.meter.machine_count, energy.meter.ipu_count) == (2, 8)
    assert energy.drawn.ipus_w == pytest.approx(8 * 20 + 6 * 0.55 * 200)
    assert (energy.drawn.machines_w, energy.drawn.hosts_w, energy.drawn.switches_w) == (600, 400, 100)
    assert energy.to_dict()["host_count"] == 0.5


def test_dynamic_power_goes_with_the_clock() -> None:
    """1.9 instead of 1.33 GHz: 10/7 of 200 W."""
    fast = Energy(Meter(with_value(system(), "machine.ipu.clock", 1.9e9), 64), WORK)
    assert fast.drawn.ipus_w == pytest.approx(64 * (20 + 0.55 * 200 * 1.9 / 1.33))
    shipped = load_scenario("bert_v1.1_pod16_open").spec.system.machine.ipu
    assert shipped.power is not None and shipped.power.at_clock_hz == shipped.clock_hz


def test_waiting_draws_nothing_but_idle_power() -> None:
    idle = Energy(Meter(system(), 64), replace(WORK, time_ps={"bubble": 10, "host_wait": 5}))
    assert idle.activity == 0
    assert idle.mean_power_w == idle.waiting_power_w == pytest.approx(64 * 20 + 4800 + 3200 + 800)


def test_batches_in_flight_draw_more_and_idle_copies_less() -> None:
    double = Energy(Meter(system(), 64), replace(WORK, density=2.0))
    assert double.activity == pytest.approx(2 * ACTIVITY)


def test_ipus_wait_in_the_set_up_of_a_run_and_at_checkpoints() -> None:
    parts = {"setup": 10.0, "training": 60.0, "evaluation": 20.0, "checkpoint": 10.0}
    energy = Energy(Meter(system(), 64), replace(WORK, run_parts=parts, run_s=200.0))
    mean_w, waiting_w = energy.mean_power_w, energy.waiting_power_w
    assert mean_w - waiting_w == pytest.approx(64 * 110)
    assert energy.per_j["run"] == pytest.approx(200 * (0.8 * mean_w + 0.2 * waiting_w))


def test_the_range_is_the_root_of_the_sum_of_squares() -> None:
    """Only two inputs with a range: 64 IPUs by 1 W either way, and 16 machines by 10 W less and 30 W more."""

    def exact(number: float, low: float, high: float) -> dict[str, Any]:
        unit = f"{number} W"
        return {"value": unit, "source": "me", "basis": "measured", "range": [f"{low} W", f"{high} W"]}

    whole = system()
    ipu = whole.machine.ipu.power
    assert ipu is not None
    still = {name: {"value": getattr(ipu, name).provenance.text} for name in ("vector_activity", "exchange_activity")}
    still |= {"transfer_activity": {"value": "10 %"}, "dynamic": {"value": "200 W"}}
    measured = {key: each | {"source": "me", "basis": "measured"} for key, each in still.items()}
    chip = ChipPower.model_validate(measured | {"idle": exact(20, 19, 21)})
    machine = whole.machine.model_copy(
        update={
            "ipu": whole.machine.ipu.model_copy(update={"power": chip}),
            "power": MachinePower.model_validate({"without_ipus": exact(300, 290, 330)}),
        }
    )
    fixed = {"value": "800 W", "source": "me", "basis": "published"}
    host = whole.host.model_copy(update={"power": HostPower.model_validate({"idle": fixed, "busy": fixed})})
    energy = Energy(Meter(whole.model_copy(update={"machine": machine, "host": host, "power": None}), 64), WORK)
    low_w, high_w = energy.range_w
    assert energy.mean_power_w - low_w == pytest.approx((64**2 + 160**2) ** 0.5)
    assert high_w - energy.mean_power_w == pytest.approx((64**2 + 480**2) ** 0.5)
    rows = energy.assumptions
    assert [row["key"] for row in rows] == ["system.machine.power.without_ipus", "system.machine.ipu.power.idle"]
    influence = rows[0]["influence"]
    assert influence == {
        "metric": "mean_power_w",
        "low": pytest.approx(-160 / energy.mean_power_w),
        "high": pytest.approx(480 / energy.mean_power_w),
    }


POWER = [
    f"machine.ipu.power.{key}"
    for key in ("idle", "dynamic", "at_clock", "vector_activity", "exchange_activity", "transfer_activity")
] + ["machine.power.without_ipus", "host.power.idle", "host.power.busy", "power.switch", "power.switch_count"]


@pytest.mark.parametrize("key", POWER)
def test_every_number_of_power_moves_it(key: str) -> None:
    base = Energy(Meter(system(), 64), WORK)
    assert set(base.meter.numbers) == set(POWER)
    number, _ = base.meter.numbers[key]
    moved = Energy(Meter(with_value(system(), key, number / 2), 64), WORK)
    assert (moved.mean_power_w, moved.idle_power_w) != (base.mean_power_w, base.idle_power_w)


def test_no_time_stands_on_power_or_prices() -> None:
    loaded = load_scenario("bert_v1.1_pod64_open", overrides=["cost={purchase: list, years: 3, overhead: 10 %}"])
    keys = {key for key, _, _ in numbers(loaded.spec)} | {each.key for each in assumptions(loaded.spec)}
    assert keys
    assert not [key for key in keys if "power" in key or key.startswith("cost")]


def test_plans_are_kept_whatever_a_chip_draws() -> None:
    ipu = load_scenario("bert_v1.1_pod16_open").spec.system.machine.ipu
    assert ipu.power is not None
    assert Chip(ipu).key == Chip(ipu.model_copy(update={"power": None})).key


# What was published


@pytest.mark.parametrize(
    ("name", "least_kw", "most_kw"),
    [
        ("bert_v1.1_pod16_closed", 4.0, 5.0),
        ("bert_v2.0_pod16_closed", 4.0, 5.0),
        ("resnet50_v1.1_pod16", 4.0, 5.0),
        ("resnet50_v1.1_pod64", 16.0, 20.0),
        ("bert_v2.0_pod64_closed", 16.0, 20.0),
    ],
)
def test_pods_draw_what_is_planned_for(name: str, least_kw: float, most_kw: float) -> None:
    """Four to five kilowatts for the machines of a POD16, 16 to 20 for those of a POD64, host servers apart."""
    energy = podsim.run(name).energy
    assert energy is not None
    assert least_kw <= (energy.drawn.ipus_w + energy.drawn.machines_w) / 1000 <= most_kw


def test_an_image_of_resnet_takes_a_fifth_of_a_joule() -> None:
    """(4 machines of 1 to 1.5 kW and a server of 0.9 kW) over 29,500 images/s: 0.17 to 0.23 J."""
    found = podsim.run("resnet50_v1.1_pod16").energy_per_sample_j
    assert found is not None
    assert 0.16 <= found <= 0.24


# Results


def test_every_kind_of_run_has_energy() -> None:
    trained, generated = podsim.run("bert_v1.1_pod16_open"), podsim.run("llama2_7b_pods")
    passed, served = (
        podsim.run("resnet50_c600"),
        podsim.serve("serving_llama2_7b_pod64", overrides=["serving.loads=[0.5]"]),
    )
    assert isinstance(trained, podsim.RunResult)
    power_w = trained.mean_power_w
    assert power_w is not None
    assert trained.energy_per_sample_j == pytest.approx(power_w / trained.throughput_samples_per_s)
    assert generated.energy_per_token_j is not None
    assert passed.energy_per_sample_j is not None
    assert set(served.energy.per_j) == {"token", "request"}  # type: ignore[union-attr]
    for result in (trained, generated, passed, served):
        parts = result.to_dict()["energy"]
        assert isinstance(parts, dict)
        drawn = [parts[name] for name in ("ipus_w", "machines_w", "hosts_w", "switches_w")]
        assert sum(drawn) == pytest.approx(parts["mean_power_w"])
        assert parts["mean_power_low_w"] < parts["mean_power_w"] < parts["mean_power_high_w"]
        assert parts["idle_power_w"] < parts["mean_power_w"]


def test_several_batches_in_flight_draw_their_work_together() -> None:
    """Dynamic power x interval is the work of all batches; each does what one alone does."""
    over = ["parallelism.tensor_parallel=4", "parallelism.pipeline_stages=4"]
    alone = podsim.generate("llama2_7b_pods", overrides=over)
    both = podsim.generate("llama2_7b_pods", overrides=[*over, "parallelism.batches_in_flight=4"])
    assert alone.energy is not None and both.energy is not None
    work_of_one = alone.energy.activity * alone.time_per_output_token_s
    assert both.energy.activity * both.time_per_output_token_s == pytest.approx(4 * work_of_one, rel=0.02)


def test_a_chip_that_says_nothing_of_power_has_none() -> None:
    result = podsim.run("bert_v1.1_pod16_open", overrides=["system.machine.ipu.power=null"])
    assert (result.energy, result.mean_power_w, result.energy_per_run_j) == (None, None, None)
    assert result.to_dict()["energy"] is None
    assert spent_rows(result) == [("Power", "", "not known without system.machine.ipu.power")]


def test_energy_may_be_expected_in_its_units() -> None:
    assert expectation("energy_per_run_j", "< 3 kWh").high == pytest.approx(3 * 3.6e6)
    assert expectation("energy_per_sample_j", "> 170 mJ").low == pytest.approx(0.17)
    assert expectation("mean_power_w", "5 kW ± 10 %").low == pytest.approx(4500)


def test_a_result_without_a_meter_shows_no_power() -> None:
    assert spent_rows(make_result()) == []


def test_the_table_shows_power_and_energy() -> None:
    """2 of 4 IPUs: 65 % + 7.5 % / 2 + 20 % / 10 of 200 W beside 4 x 20 W, 300 W and 800 W; 15 of 1,563 s wait."""
    pod4 = system("ipu_pod4", host_count=1, power=None)
    result = make_result(meter=Meter(pod4, 2))
    assert result.mean_power_w == pytest.approx(80 + 300 + 800 + 2 * 200 * 0.7075)
    rows = {name: value for _, name, value in spent_rows(result)}
    assert (rows["mean_power_w"], rows[""][:8]) == ("1.46 kW", "1.37 to ")
    assert (rows["energy_per_sample_j"], rows["energy_per_run_j"]) == ("18.3 mJ/sample", "0.634 kWh/run")
    assert all(value in result_text(result) for value in rows.values())


def test_measured_power_is_shown_beside_it() -> None:
    pod4 = system("ipu_pod4", host_count=1, power=None)
    result = make_result(meter=Meter(pod4, 2), references=(Reference("mean_power_w", 1400.0, "a meter"),))
    assert "measured 1.4 kW, error +4.5 %" in result_text(result)


def test_energy_is_in_the_unit_that_suits_it() -> None:
    assert [format_energy_j(each) for each in (2e-6, 0.5, 12.0, 3229.0, 3.6e6)] == [
        "2 uJ",
        "500 mJ",
        "12 J",
        "3.23 kJ",
        "1 kWh",
    ]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("system.machine.ipu.power.dynamic=-5 W", "too small"),
        ("system.machine.ipu.power.dynamic=200", "no unit"),
        ("system.machine.ipu.power.vector_activity=120 %", "too large"),
        ("system.host.power.idel=3 W", "unknown key"),
        (
            "system.machine.power={without_ipus: {value: 3 W, source: me, basis: assumed, date: 2026-02-30}}",
            "not a date",
        ),
    ],
)
def test_wrong_numbers_of_power_are_refused(override: str, told: str) -> None:
    with pytest.raises(SpecError, match=told):
        load_scenario("bert_v1.1_pod16_open", overrides=[override])
