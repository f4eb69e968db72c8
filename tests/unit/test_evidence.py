"""What a run that was never compared is off by: by hand on few runs, and what the shipped runs must hold to."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest

import podsim
from podsim.result.base import Result
from podsim.result.evidence import (
    Compared,
    Residuals,
    dimensions_of,
    evidence_of,
    features_of,
    numbers_beyond,
    residuals,
)
from podsim.result.influence import StandsOn
from podsim.scenario import load_scenario

BERT = "bert_v1.1_pod64_open"
ON_CHIP = "memory.optimizer_state.storage=in_processor_memory"
CAPACITY = "system.machine.streaming_memory.capacity_per_ipu"
STREAMED = "system.machine.streaming_memory.bandwidth_per_machine"
LINKS = "system.machine.ipu_link.bandwidth_per_direction"
NAMES = {"activity": "training", "stack": "PopART", "family": "bert"}
SIZES = {"layer_count": 24.0, "ipu_count": 16.0}


def compared(origin: str, error: float, configuration: str = "one", **names: str) -> Compared:
    return Compared("row", origin, configuration, "hold-out", NAMES | names, SIZES, error, 0.0, 1.0)


TWO = Residuals((compared("logs", 0.02), compared("paper", -0.1, activity="forward")), other_activity=0.25, step=0.05)
NORMAL = math.sqrt(math.pi / 2)
"""Standard deviation of normal errors whose mean size is 1."""


def test_runs_of_the_same_activity_count_more() -> None:
    """Mean sizes: (0.02 + 0.1 / 4) / (1 + 1 / 4) for training, (0.02 / 4 + 0.1) / (1 + 1 / 4) for forward passes."""
    assert TWO.evidence_for(NAMES, SIZES).sigma == pytest.approx(NORMAL * 0.036)
    assert TWO.evidence_for(NAMES | {"activity": "forward"}, SIZES).sigma == pytest.approx(NORMAL * 0.084)
    assert TWO.evidence_for(NAMES, SIZES).new == ()


def test_rows_of_a_configuration_count_as_one() -> None:
    """Four rows with 0.02 and one with 0.1: as two runs."""
    rows = (compared("logs", 0.02),) * 4
    found = Residuals((*rows, compared("logs", 0.1, "other"))).evidence_for(NAMES, SIZES)
    assert found.sigma == pytest.approx(NORMAL * 0.06)


def test_each_new_feature_is_a_step_and_so_is_each_doubling() -> None:
    """Four times the IPUs are two doublings, with experts and fp8 four steps in all."""
    found = TWO.evidence_for(NAMES | {"experts": "experts", "formats": "fp8"}, SIZES | {"ipu_count": 64.0})
    assert found.sigma**2 == pytest.approx((NORMAL * 0.036) ** 2 + 4 * 0.05**2)
    assert found.new == ("training with experts", "training with fp8", "IPUs 64 (16)")


def test_an_activity_that_no_run_has_is_the_worst_of_all_and_a_step() -> None:
    found = TWO.evidence_for(NAMES | {"activity": "generation"}, SIZES)
    assert found.new == ("text generation",)
    assert found.sigma == pytest.approx(math.hypot(NORMAL * 0.084, 0.05))


SHIPPED = [(run.names, run.sizes) for run in residuals().runs]


@pytest.mark.parametrize("name", ["ipu_count", "layer_count", "hidden_size", "sequence_length", "depth"])
def test_further_from_what_was_compared_is_never_narrower(name: str) -> None:
    table = residuals()
    for names, sizes in SHIPPED:
        if name in sizes:
            most = max(run.sizes.get(name, 0.0) for run in table.runs)
            found = [table.evidence_for(names, sizes | {name: most * 2**doublings}).sigma for doublings in range(12)]
            assert all(less < more for less, more in pairwise(found))


@pytest.mark.parametrize("name", ["stack", "family", "execution", "shards", "experts", "formats", "links"])
def test_what_no_run_has_is_never_narrower(name: str) -> None:
    table = residuals()
    for names, sizes in SHIPPED:
        assert table.evidence_for(names | {name: "new"}, sizes).sigma > table.evidence_for(names, sizes).sigma


def stands_on(found: Result) -> StandsOn:
    assert isinstance(found.assumptions, StandsOn)
    return found.assumptions


@pytest.mark.parametrize(
    ("name", "overrides", "told"),
    [
        ("bert_large_fp8_c600_chips", (), "training with fp8"),
        ("llama2_7b_phased_pod64", (), "layers 32 (12 to 28)"),
        (
            "llama2_7b_pod16_streamed",
            ("software=tensorflow1_sdk_3.0", "software.token_call=7 ms"),
            "text generation with TensorFlow",
        ),
        (BERT, ("system.machine.ipu.exchange.bytes_per_cycle=40 B",), "exchange.bytes_per_cycle 40 B (4 B)"),
        (BERT, (f"{LINKS}=64 GB/s",), "bandwidth_per_direction 64 GB/s (16 GB/s)"),
        ("llama2_7b_pod16_streamed", (f"{STREAMED}=40 GB/s",), "bandwidth_per_machine 40 GB/s (19.2 GB/s)"),
    ],
)
def test_what_was_never_compared_is_named_before_any_number(name: str, overrides: tuple[str, ...], told: str) -> None:
    found = podsim.run(name, overrides=overrides)
    assert found.verdict[0].startswith("unknown: never compared with a published run: ")
    assert told in found.verdict[0]


def test_a_pod_of_fp8_that_nobody_built_is_a_step_wider() -> None:
    spec = load_scenario("bert_large_fp8_c600_chips").spec
    table, (names, sizes) = residuals(), (features_of(spec), dimensions_of(spec))
    as_usual = {key: value for key, value in names.items() if key != "formats"}
    assert evidence_of(spec).sigma ** 2 >= table.evidence_for(as_usual, sizes).sigma ** 2 + table.step**2 - 1e-12


def test_a_number_that_the_run_does_not_read_changes_nothing() -> None:
    """State on the chip, four times the Streaming Memory: as fast, as sure and as well known as before."""
    one = podsim.simulate(BERT, overrides=[ON_CHIP])
    other = podsim.simulate(BERT, overrides=[ON_CHIP, f"{CAPACITY}=448 GB"])
    assert one.weight_update_s == other.weight_update_s
    assert one.ranges == other.ranges
    assert one.verdict == other.verdict


def test_what_a_machine_moved_widens_the_range_by_its_share() -> None:
    """IPU-Links of 64 GB/s, 16 in every compared run: a share of the logarithm of what they bring."""
    slow, fast = podsim.simulate(BERT), podsim.simulate(BERT, overrides=[f"{LINKS}=64 GB/s"])
    assert slow.time_to_train_s and fast.time_to_train_s
    change = math.log(slow.time_to_train_s / fast.time_to_train_s)
    assert stands_on(slow).machine_sigma == 0
    assert stands_on(fast).machine_sigma == pytest.approx(residuals().change * change, rel=1e-6)
    assert stands_on(fast).evidence.sigma == stands_on(slow).evidence.sigma


def test_memory_of_a_machine_is_not_held_against_that_of_a_card() -> None:
    """27.2 GB/s for the one IPU of a card were compared, and 19.2 for four IPUs: 40 for four are more than those."""
    machine = load_scenario("llama2_7b_pod16_streamed", overrides=[f"{STREAMED}=40 GB/s"]).spec
    assert [(key, nearest) for key, nearest, _ in numbers_beyond(machine)] == [(STREAMED, 19.2e9)]
    card = load_scenario("bert_base_c600").spec
    assert not list(numbers_beyond(card))
    assert set(residuals().machines) == {"1", "4"}


def test_a_number_whose_range_reaches_what_was_compared_is_unsure_and_not_beyond() -> None:
    """A session call of 135 ms, where runs had 88 at most: with 80 to 150 ms its doubt is that of an input."""
    call = "software.host_call={{value: 135 ms, source: estimate, basis: assumed{}}}"
    far, near = (load_scenario(BERT, overrides=[call.format(each)]).spec for each in ("", ", range: [80 ms, 150 ms]"))
    assert [key for key, _, _ in numbers_beyond(far)] == ["software.host_call"]
    assert not list(numbers_beyond(near))


def test_a_faster_part_is_never_slower_in_a_draw() -> None:
    """x faster, a share b of it unsure: e^(-x + (sqrt(s² + b² x²) - s) z) is at most 1 for z below 1 / b, 20 or so."""
    b = residuals().change
    assert 1 / b > 4  # beyond four standard deviations lies one draw in 30,000
    for s in (0.0, 0.03, 0.3):
        for x in (0.01, 0.1, 1.0, 3.0):
            assert (math.hypot(s, b * x) - s) * 4 < x


def test_a_measured_number_with_a_range_is_listed_and_drawn() -> None:
    """Most of streamed LLaMa stands on the bandwidth of the Streaming Memory, 5.6 to 9.6 GB/s."""
    found = stands_on(podsim.run("llama2_7b_pod16_streamed"))
    (row,) = (each for each in found if each["key"] == "system.machine.streaming_memory.read_bandwidth_per_ipu")
    assert (row["basis"], row["range"]) == ("measured", (5.6e9, 9.6e9))
    assert row["key"] in next(iter(found.spreads().values())).parts


def test_a_stack_that_says_what_it_is_off_by_is_believed() -> None:
    spec = load_scenario(BERT, overrides=["software.model_scatter=3 %"]).spec
    assert evidence_of(spec) == replace(evidence_of(load_scenario(BERT).spec), sigma=0.03)


def test_of_kernels_that_nobody_measured_a_step_is_added_to_the_widest() -> None:
    table = replace(TWO, kernels={"GEMM fp16": 0.03, "transfer": 0.12})
    assert table.kernel_sigma("GEMM fp16") == 0.03
    assert table.kernel_sigma("GEMM fp8") == pytest.approx(0.13)  # 5, 12, 13
