"""Power and energy: from what IPUs do to watts and joules, by hand and beside what was published."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import podsim
from podsim.errors import SpecError
from podsim.format import format_energy_j
from podsim.report.report import Tile
from podsim.result.power import Energy, Meter, WorkDone
from podsim.result.rows import Reference
from podsim.scenario import load_scenario
from podsim.scenario.assumptions import assumptions, numbers, with_value
from podsim.scenario.expectations import expectation
from podsim.scenario.hardware import System
from podsim.scenario.load import load_hardware
from podsim.scenario.power import ChipPower, HostPower, MachinePower, PodPower
from podsim.tiles.planned import Chip
from podsim.validation.comparison import RowComparison
from podsim.validation.power import compare_power, power_titles
from podsim.validation.runs import Runs
from tests.unit.report_examples import make_result, result_text


def system(name: str = "ipu_pod64", **pod: Any) -> System:
    """A shipped pod with round numbers for power."""
    found = load_hardware(name, "pod")[0]
    assert isinstance(found, System)
    chip = ChipPower.model_validate(
        {
            "idle": "20 W",
            "tile_cycle": "25 pJ",
            "half_flop": "1 pJ",
            "half_partials_float_flop": "2 pJ",
            "single_flop": "4 pJ",
            "transfer": "10 W",
        }
    )
    ipu = found.machine.ipu.model_copy(update={"power": chip})
    power = MachinePower.model_validate({"without_ipus": "300 W"})
    machine = found.machine.model_copy(update={"ipu": ipu, "power": power})
    host = found.host.model_copy(update={"power": HostPower.model_validate({"idle": "250 W", "busy": "800 W"})})
    switches = PodPower.model_validate({"switch": "400 W", "switch_count": 2})
    return found.model_copy(update={"machine": machine, "host": host, "power": switches, "host_count": 4, **pod})


WORK = WorkDone(
    {"matmul": 400, "vector": 100, "optimizer": 100, "exchange": 50, "sync": 50, "all_reduce": 100, "bubble": 200},
    {"sample": 100.0},
    {"half_flop": 80e12, "half_partials_float_flop": 20e12, "single_flop": 5e12},
)
AT_WORK_W = 1472 * 1.33e9 * 25e-12  # 49 W
# 80 + 40 + 20 W in products, 40 % of the time; tiles work in 70 %, and a tenth goes to links.
DYNAMIC_W = 0.7 * AT_WORK_W + 0.4 * 140 + 0.1 * 10


def test_each_part_draws_what_it_does() -> None:
    energy = Energy(Meter(system(), 64), WORK)
    assert energy.dynamic_w == pytest.approx(DYNAMIC_W)
    assert energy.chip_w == pytest.approx(20 + DYNAMIC_W)
    assert energy.activity == pytest.approx(DYNAMIC_W / (AT_WORK_W + 140))
    assert energy.component_power.ipus_w == pytest.approx(64 * (20 + DYNAMIC_W))
    assert energy.component_power.machines_w == 16 * 300
    assert (energy.component_power.hosts_w, energy.component_power.switches_w) == (4 * 800, 2 * 400)
    assert energy.mean_power_w == pytest.approx(64 * (20 + DYNAMIC_W) + 4800 + 3200 + 800)
    assert energy.idle_power_w == 64 * 20 + 4800 + 4 * 250 + 800
    assert energy.per_j == {"sample": pytest.approx(energy.mean_power_w / 100)}


def test_machines_are_metered_whole_with_their_part_of_the_pod() -> None:
    """6 IPUs in use are 2 of 16 machines: 8 idle powers, and an eighth of 4 servers and 2 switches."""
    energy = Energy(Meter(system(), 6), WORK)
    assert (energy.meter.machine_count, energy.meter.ipu_count) == (2, 8)
    assert energy.component_power.ipus_w == pytest.approx(8 * 20 + 6 * DYNAMIC_W)
    assert (energy.component_power.machines_w, energy.component_power.hosts_w, energy.component_power.switches_w) == (
        600,
        400,
        100,
    )
    assert energy.to_dict()["host_count"] == 0.5


def test_power_of_tiles_goes_with_the_clock() -> None:
    """1.9 instead of 1.33 GHz: 10/7 of 49 W, and of products as many more are done."""
    fast = Energy(Meter(with_value(system(), "machine.ipu.clock", 1.9e9), 64), WORK)
    assert fast.dynamic_w == pytest.approx(DYNAMIC_W + 0.7 * AT_WORK_W * 3 / 7)


def test_products_in_fp8_take_half_of_those_in_half_precision_where_nothing_is_said() -> None:
    energy = Energy(Meter(system(), 64), replace(WORK, products={"fp8_flop": 100e12}))
    assert energy.dynamic_in_w("matmul") == pytest.approx(AT_WORK_W + 50)
    said = replace(energy, moved={"machine.ipu.power.fp8_flop": 0.7e-12})
    assert said.dynamic_in_w("matmul") == pytest.approx(AT_WORK_W + 70)


def test_waiting_draws_nothing_but_idle_power() -> None:
    idle = Energy(Meter(system(), 64), replace(WORK, time_ps={"bubble": 10, "host_wait": 5}))
    assert idle.dynamic_w == idle.activity == 0
    assert idle.mean_power_w == idle.waiting_power_w == pytest.approx(64 * 20 + 4800 + 3200 + 800)


def test_batches_in_flight_draw_more_and_idle_copies_less() -> None:
    double = Energy(Meter(system(), 64), replace(WORK, density=2.0))
    assert double.dynamic_w == pytest.approx(2 * DYNAMIC_W)


def test_ipus_wait_in_the_set_up_of_a_run_and_at_checkpoints() -> None:
    parts = {"setup": 10.0, "training": 60.0, "evaluation": 20.0, "checkpoint": 10.0}
    energy = Energy(Meter(system(), 64), replace(WORK, run_parts=parts, run_s=200.0))
    mean_w, waiting_w = energy.mean_power_w, energy.waiting_power_w
    assert mean_w - waiting_w == pytest.approx(64 * DYNAMIC_W)
    assert energy.per_j["run"] == pytest.approx(200 * (0.8 * mean_w + 0.2 * waiting_w))


def test_the_range_is_the_root_of_the_sum_of_squares() -> None:
    """Only two inputs with a range: 64 IPUs by 1 W either way, and 16 machines by 10 W less and 30 W more."""

    def exact(number: float, low: float, high: float) -> dict[str, Any]:
        unit = f"{number} W"
        return {"value": unit, "source": "me", "basis": "measured", "range": [f"{low} W", f"{high} W"]}

    whole = system()
    ipu = whole.machine.ipu.power
    assert ipu is not None
    flop = {f"{name}_flop": {"value": "1 pJ"} for name in ("half", "half_partials_float", "single")}
    still = flop | {"tile_cycle": {"value": "25 pJ"}, "transfer": {"value": "10 W"}}
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
    for key in ("idle", "tile_cycle", "half_flop", "half_partials_float_flop", "single_flop", "transfer")
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
    keys = {key for key, _, _ in numbers(loaded.spec)} | {assumption.key for assumption in assumptions(loaded.spec)}
    assert keys
    assert not [key for key in keys if "power" in key or key.startswith("cost")]


def test_plans_are_kept_whatever_a_chip_draws() -> None:
    ipu = load_scenario("bert_v1.1_pod16_open").spec.system.machine.ipu
    assert ipu.power is not None
    assert Chip(ipu).key == Chip(ipu.model_copy(update={"power": None})).key


# What was published


@pytest.mark.parametrize(
    ("name", "typical_w"),
    [("bert_v1.1_pod16_closed", 1000), ("bert_v1.1_pod16_open", 1000), ("bert_v2.0_pod16_closed", 1250)],
)
def test_machines_draw_what_is_typical_of_training_bert(name: str, typical_w: float) -> None:
    """1 kW for an IPU-M2000 that trains BERT, 1.25 kW for a Bow-2000 on average [power_of_m2000] [power_of_bow]."""
    energy = podsim.run(name).energy
    assert energy is not None
    machine_w = (energy.component_power.ipus_w + energy.component_power.machines_w) / energy.meter.machine_count
    assert machine_w == pytest.approx(typical_w, rel=0.1)


def test_no_machine_draws_more_than_its_limit_on_average() -> None:
    """1.5 kW for an IPU-M2000, whatever it trains."""
    for name in ("resnet50_v1.1_pod64", "bert_v1.1_pod64_closed", "gpt2_small_pod4"):
        energy = podsim.run(name).energy
        assert energy is not None
        assert energy.component_power.ipus_w + energy.component_power.machines_w < 1500 * energy.meter.machine_count


def test_a_chip_draws_in_kernels_and_in_training_what_was_measured() -> None:
    """Products, triads and stencils on one chip, and an epoch of ResNet-50, from which no number was fitted."""
    found = list(compare_power(Runs(power_titles(), list)))
    assert len(found) == 7
    for row in found:
        assert isinstance(row, RowComparison)
        assert abs(row.error) < 0.1, row.name


def test_all_formats_of_products_are_told_apart() -> None:
    """A C600 that multiplies in FP8 and in half precision; none of its products are single."""
    trained = podsim.simulate("bert_v1.1_pod16_open").products
    assert set(trained) == {"half_flop"}
    assert (
        0 < trained["half_flop"] < load_scenario("bert_v1.1_pod16_open").spec.system.machine.ipu.peak_flop_per_s("fp16")
    )
    assert set(podsim.simulate("bert_large_fp8_c600_chips").products) >= {"fp8_flop"}


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
    work_of_one = alone.energy.dynamic_w * alone.time_per_output_token_s
    assert both.energy.dynamic_w * both.time_per_output_token_s == pytest.approx(4 * work_of_one, rel=0.02)


def test_a_chip_that_says_nothing_of_power_has_none() -> None:
    result = podsim.run("bert_v1.1_pod16_open", overrides=["system.machine.ipu.power=null"])
    assert (result.energy, result.mean_power_w, result.energy_per_run_j) == (None, None, None)
    assert result.to_dict()["energy"] is None
    assert list(result.spent_tiles()) == [Tile("Power", "not known without system.machine.ipu.power")]


def test_energy_may_be_expected_in_its_units() -> None:
    assert expectation("energy_per_run_j", "< 3 kWh").high == pytest.approx(3 * 3.6e6)
    assert expectation("energy_per_sample_j", "> 170 mJ").low == pytest.approx(0.17)
    assert expectation("mean_power_w", "5 kW ± 10 %").low == pytest.approx(4500)


def test_a_result_without_a_meter_shows_no_power() -> None:
    assert list(make_result().spent_tiles()) == []


def test_the_table_shows_power_and_energy() -> None:
    """2 of 4 IPUs: 72.5 % of 49 W and 20 % of 10 W beside 4 x 20 W, 300 W and 800 W; 15 of 1,563 s wait."""
    pod4 = system("ipu_pod4", host_count=1, power=None)
    result = make_result(meter=Meter(pod4, 2))
    assert result.mean_power_w == pytest.approx(80 + 300 + 800 + 2 * (0.725 * AT_WORK_W + 2))
    power, energy = result.spent_tiles()
    assert (power.value, power.notes[0][:14]) == ("1.25 kW", "range 1.17 to ")
    assert (energy.value, energy.notes) == ("15.7 mJ/sample", ("0.545 kWh/run",))
    assert all(value in result_text(result) for value in (power.value, *power.notes, energy.value, *energy.notes))


def test_measured_power_is_shown_beside_it() -> None:
    pod4 = system("ipu_pod4", host_count=1, power=None)
    result = make_result(meter=Meter(pod4, 2), references=(Reference("mean_power_w", 1400.0, "a meter"),))
    assert "measured 1.4 kW, error -10.4 %" in result_text(result)


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
        ("system.machine.ipu.power.transfer=-5 W", "too small"),
        ("system.machine.ipu.power.half_flop=200", "no unit"),
        ("system.machine.ipu.power.single_flop=2 uJ", "too large"),
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
