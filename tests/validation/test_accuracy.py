"""Published figures against predictions: the promises that the README makes."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from podsim import simulate
from podsim.engine import execute
from podsim.placement import make_plan
from podsim.placement.job import training_job
from podsim.program.compile import compile_evaluation
from podsim.result.evidence import residuals
from podsim.result.reference_data import rows
from podsim.scenario import TrainingScenario, load_scenario
from podsim.validation import RowComparison
from podsim.validation.comparison import Validation, summarize
from podsim.validation.fit import Fit
from podsim.validation.identifiability import MOST_OF_NOISE, identifiability
from tools.noise_fit import noise_fits
from tools.refit import calibrate, configurations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def comparisons(everything: Validation) -> Sequence[RowComparison]:
    return everything.comparisons


BROKEN = {
    "GCP-008": "ViT on Bow Pod64: time is missing that is not in its block, which is met on Pod16",
    "GCP-029": "the same",
}
"""Rows that break what is promised of their group, and what is known of the cause."""


def errors(comparisons: Sequence[RowComparison], group: str) -> list[float]:
    found = [abs(c.error) for c in comparisons if c.group == group and c.name.partition(":")[0] not in BROKEN]
    assert found, group
    return found


def test_matrix_vertex_is_within_five_percent_at_every_point(comparisons: Sequence[RowComparison]) -> None:
    found = errors(comparisons, "AMP vertex")
    assert len(found) == 8
    assert max(found) <= 0.05


@pytest.mark.parametrize(("group", "count"), [("GEMM fp16", 27), ("GEMM fp32", 45)])
def test_products_are_within_seven_and_a_half_percent_rms(
    comparisons: Sequence[RowComparison], group: str, count: int
) -> None:
    (summary,) = (s for s in summarize(comparisons) if s.group == group)
    assert summary.count == count
    assert summary.rms <= 0.075


@pytest.mark.parametrize(
    ("group", "count", "mean", "worst"),
    [
        ("Mk1 convolution", 93, 0.05, 0.21),
        ("Mk1 product", 2, 0.02, 0.02),
        ("Mk1 transfer", 55, 0.015, 0.04),
        ("Mk1 collective", 64, 0.2, 0.45),
        ("BERT weight update", 14, 0.03, 0.08),
        ("ResNet-50 weight update", 10, 0.03, 0.08),
        ("ResNet-50 throughput", 10, 0.03, 0.08),
        ("BERT time to train", 14, 0.04, 0.08),
        ("ResNet-50 time to train", 10, 0.04, 0.08),
        ("BERT evaluation", 14, 0.03, 0.08),
        ("published throughput", 16, 0.065, 0.2),
        ("published text generation", 4, 0.17, 0.28),
        ("published graph networks", 36, 0.08, 0.3),
        ("Bow gather", 198, 0.12, 0.3),
        ("Bow scatter-add", 198, 0.12, 0.3),
        ("Bow SchNet block", 198, 0.12, 0.3),
    ],
)
def test_groups_of_published_figures(
    comparisons: Sequence[RowComparison], group: str, count: int, mean: float, worst: float
) -> None:
    """All rows of a group, calibration and hold-out alike."""
    found = errors(comparisons, group)
    assert len(found) >= count
    assert sum(found) / len(found) <= mean
    assert max(found) <= worst


def test_graph_networks_by_how_they_are_fed(comparisons: Sequence[RowComparison]) -> None:
    """Synthetic data within 8 % on average, fed ones within 12 % each but for those that sum 41 tensors in turn."""
    rows = [row for row in comparisons if row.group == "published graph networks"]
    synthetic = [abs(row.error) for row in rows if "synthetic" in row.name]
    fed = [abs(row.error) for row in rows if "synthetic" not in row.name and "padded" not in row.name]
    padded = [abs(row.error) for row in rows if "padded" in row.name]
    assert [len(synthetic), len(fed), len(padded)] == [11, 18, 7]
    assert sum(synthetic) / len(synthetic) <= 0.08
    assert max(fed) <= 0.12
    assert sum(fed + padded) / len(fed + padded) <= 0.12


def test_convolutions_in_groups_are_within_a_fifth_where_the_matrix_unit_takes_them(
    comparisons: Sequence[RowComparison],
) -> None:
    """Groups of eight channels up to 32 images, which are padded.

    Of more images SDK 1.0 fits less than is planned here, so that batch 64 is twice too fast; groups of four channels
    are dot products, of which nobody knows how it folded the filter: up to three times too fast, or a third too slow.
    """
    found = {c.name: abs(c.error) for c in comparisons if c.group == "Mk1 convolution in groups"}
    assert len(found) == 16
    assert max(found[f"ResNeXt Conv3_3, batch {1 << n}"] for n in range(6)) <= 0.2


@pytest.mark.parametrize(
    ("group", "count", "mean", "worst"),
    [
        ("PaddlePaddle BERT weight update", 4, 0.04, 0.06),
        ("PaddlePaddle BERT evaluation", 4, 0.1, 0.21),
        ("PaddlePaddle BERT time to train", 4, 0.03, 0.05),
    ],
)
def test_rows_that_were_kept_aside_are_as_far_off_as_is_said(
    comparisons: Sequence[RowComparison], group: str, count: int, mean: float, worst: float
) -> None:
    """Rows that no version before 0.7 had seen, with what is wrong about them."""
    found = [c for c in comparisons if c.group == group]
    assert len(found) == count and {c.role for c in found} == {"hold-out"}
    assert sum(abs(c.error) for c in found) / count <= mean
    assert max(abs(c.error) for c in found) <= worst


@pytest.mark.parametrize(("version", "count"), [("0.1.0", 32), ("0.6.0", 13), ("0.11.0", 21)])
def test_rows_that_were_predicted_blind_are_all_shown(everything: Validation, version: str, count: int) -> None:
    assert sum(each.version == version for row in everything.rows for each in row.blind) == count


def test_rows_of_one_configuration_are_known_as_such(comparisons: Sequence[RowComparison]) -> None:
    of = {(c.group, c.name.partition(":")[0]): c for c in comparisons}
    updates = {
        name: of["BERT weight update", name].configuration
        for name in ("bert_v1.1_pod64_open", "bert_v2.0_pod64_closed", "bert_v2.0_pod128_closed")
    }
    assert len(set(updates.values())) == 3
    assert of["BERT evaluation", "bert_v2.0_pod64_closed"].configuration == updates["bert_v2.0_pod64_closed"]
    later = "published throughput"
    assert of[later, "GCP-048"].configuration == of[later, "GCP-049"].configuration
    assert of[later, "GCP-048"].configuration != of[later, "GCP-051"].configuration
    paddle = "PaddlePaddle BERT weight update"
    name = "bert_v2.0_pod64_closed_paddlepaddle"
    assert of[paddle, name].configuration == of[paddle, f"{name}@baidu"].configuration


def test_every_figure_that_is_compared_has_an_uncertainty(everything: Validation) -> None:
    assert all(row.uncertainty for row in everything.comparisons if row.scenarios)
    (added,) = (c for c in everything.comparisons if c.name == "POD64 to POD128, open")
    # 0.27 % of 638.4 and of 661.2 ms are 2.48 ms together, of 22.9 ms that were added.
    assert added.uncertainty == pytest.approx(2.48 / 22.9, rel=0.01)


def test_forward_passes_of_one_card(comparisons: Sequence[RowComparison]) -> None:
    rows_of_poprt = [c for c in comparisons if c.name.startswith(("POPRT-", "PRTB-"))]
    found = [abs(c.error) for c in rows_of_poprt if c.group == "published forward passes"]
    assert len(found) >= 9
    assert sum(found) / len(found) <= 0.06


def test_forward_passes_of_an_evaluation_are_not_fitted() -> None:
    """1.24 ms for each of the micro-batches and cycles of filling, as the logs of three pods have it.

    Predicted are 17 % more: passes of v2.0 are shorter than formulas say that meet v1.1 and other publications.
    """
    steps_ms = {}
    for pod in (64, 128, 256):
        plan = make_plan(training_job(load_scenario(f"bert_v2.0_pod{pod}_closed").require(TrainingScenario)))
        program = compile_evaluation(plan)
        steps_ms[plan.layout.accumulation_factor] = execute(program).makespan_ps / 1e9
    assert (steps_ms[96] - steps_ms[36]) / 60 == pytest.approx(1.24, rel=0.18)


def test_rows_that_cannot_be_run_say_why(everything: Validation) -> None:
    assert everything.not_run
    assert all(row.reason for row in everything.not_run)
    published = {row["id"] for row in rows("published_throughput")}
    shown = {row.name.partition(":")[0] for row in everything.rows}
    assert published <= shown


def test_blind_predictions_stand_beside_what_is_predicted_now(everything: Validation) -> None:
    blind = [each.predicted for row in everything.rows for each in row.blind]
    assert sorted(blind) == sorted(float(row["predicted"]) for row in rows("blind_predictions"))
    (row,) = (c for c in everything.comparisons if c.group == "BERT time to train" and "v2.0_pod64" in c.name)
    assert (row.role, row.blind[0].predicted) == ("hold-out", 7.135)


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("BERT weight update", {"bert_v1.1_pod16_open", "bert_v1.1_pod64_open", "bert_v1.1_pod128_open"}),
        (
            "ResNet-50 weight update",
            {f"resnet50_{each}_pod{ipus}" for each in ("v1.1", "v2.0") for ipus in (16, 64, 128, 256)},
        ),
    ],
)
def test_submissions_that_constants_are_fitted_to(everything: Validation, group: str, names: set[str]) -> None:
    """Those that fit; the others would count, too."""
    held = (*everything.comparisons, *everything.not_run)
    assert {each.name for each in held if each.group == group and each.role == "calibration"} == names


def test_constants_of_resnet50_do_not_act_on_its_weight_update() -> None:
    """They are fitted to a calibration row; its weight update is predicted all the same."""
    plain, changed = (
        simulate("resnet50_v1.1_pod16", overrides=overrides)
        for overrides in ([], ["software.checkpoint=9 s", "software.validation_setup=99 s"])
    )
    assert changed.weight_update_ps == plain.weight_update_ps
    assert changed.time_to_train_s != plain.time_to_train_s


def test_crossing_link_domains_costs_a_little_less_than_was_seen(comparisons: Sequence[RowComparison]) -> None:
    """Measured are 17 to 35 ms per weight update between POD64 and POD128 (medians, best runs); predicted 15.7."""
    added = [c.predicted for c in comparisons if c.name.startswith("POD64 to POD128")]
    assert len(added) == 2
    assert all(15 <= milliseconds <= 35 for milliseconds in added)


def test_optimizer_state_in_streaming_memory_costs_its_traffic() -> None:
    """Four IPUs of a machine share 19.2 GB/s both ways; then IPU 0 does it alone, at 6.64 and 7.5 GB/s."""
    name, key = "bert_v1.1_pod64_open", "memory.optimizer_state.storage"
    on_chip, off_chip = (
        simulate(name, overrides=[f"{key}={where}"]) for where in ("in_processor_memory", "streaming_memory")
    )
    shards = {row.ipu: row.size_bytes for row in off_chip.memory.rows if row.tenant == "optimizer_state"}
    together, alone = max(shards[ipu] for ipu in range(1, 8)), shards[0]
    expected = 2 * together / 4.8e9 + alone / 6.64e9 + alone / 7.5e9
    assert off_chip.weight_update_s - on_chip.weight_update_s == pytest.approx(expected, rel=0.05)


@pytest.fixture(scope="module")
def fits() -> tuple[Fit, ...]:
    """Every constant, fitted again; those of noise apart at the end."""
    return (*calibrate(), *noise_fits())


NOT_REFITTED = {"bandwidth_per_machine"}
"""Derived by hand from the rows that its note names; a datasheet of a memory has the same number."""


def test_calibration_reproduces_the_committed_constants(fits: Sequence[Fit]) -> None:
    for fit in fits:
        assert fit.fitted == pytest.approx(fit.committed, rel=0.01), fit.key


WIDE = 1.5
"""The greatest over the least of a range that is wide."""
SMALL = {"ms": 1e-3, "us": 1e-6, "ns": 1e-9, "%": 0.01}


def calibrated_numbers(node: Any, name: str = "") -> Iterator[tuple[str, list[float], str]]:
    """Name, value with both ends of its range in the unit of fits, and note of each constant of a file."""
    if isinstance(node, dict):
        if node.get("basis") == "calibrated" and "value" in node and name not in NOT_REFITTED:
            texts = [str(each).split() for each in (node["value"], *node["range"])]
            yield name, [float(t[0]) * SMALL.get(t[-1], 1) for t in texts], node.get("note", "")
        for key, each in node.items():
            yield from calibrated_numbers(each, str(key))


def test_constants_are_identified_or_say_that_they_are_not_and_have_wide_ranges(fits: Sequence[Fit]) -> None:
    """Two independent configurations for each constant of a fit, or a range with one end half above the other."""
    files = (ROOT / "hardware_specs").rglob("*.yaml")
    numbers = [
        calibrated_number for path in files for calibrated_number in calibrated_numbers(YAML(typ="safe").load(path))
    ]
    assert len(numbers) == len(fits)
    for fit in fits:
        leaf, value = fit.key.partition(" ")[0].rpartition(".")[2], pytest.approx(fit.committed, rel=1e-6)
        same = [number for number in numbers if number[0] == leaf and number[1][0] == value]
        assert len(same) == 1, fit.key
        ((_, (_, least, most), note),) = same
        assert ("not identified" in note) == (not fit.is_identified), fit.key
        assert fit.is_identified or most >= WIDE * least, fit.key


def test_how_many_configurations_a_fit_has() -> None:
    """Both divisions of a round are one configuration, as are batches of one model; another pod and chip are not."""
    alike = ["bert_v1.1_pod16_open", "bert_v1.1_pod16_closed"]
    assert configurations(alike) == 1
    assert configurations([*alike, "bert_v1.1_pod64_open", "bert_v2.0_pod64_closed"]) == 3
    assert configurations(["bert_base_c600", "bert_base_c600@batch_128"]) == 1


def test_errors_of_left_out_rows_start_from_what_is_predicted_now(comparisons: Sequence[RowComparison]) -> None:
    """`python tools/make_residuals.py` makes the file; an origin without calibration rows moves no constant."""
    now: dict[str, RowComparison] = {}
    for row in comparisons:
        if row.scenarios:
            now.setdefault(row.name.partition(":")[0], row)  # weight updates stand before what is made of them
    known = residuals().runs
    fitted_to = {each.origin for each in known if each.role == "calibration"}
    assert len(known) > 60
    for each in known:
        row = now[each.row]
        late = math.log(row.predicted / row.published)
        expected = -late if row.unit.endswith("/s") else late
        within = 0.15 if each.origin in fitted_to else 1e-4
        assert each.error == pytest.approx(expected, abs=within), each.row
        assert each.known_variance >= (row.uncertainty or 0.0) ** 2 * 0.999


def test_every_fitted_constant_is_counted(comparisons: Sequence[RowComparison], fits: Sequence[Fit]) -> None:
    """All that are fitted again, those that are not, and the numbers of tables of vertices; those of noise apart."""
    chosen = identifiability(comparisons)
    fitted = [name for names in chosen.fitted.values() for name in names]
    in_tables = [name for name in fitted if ".vertices." in name]
    assert len(fitted) == len(fits) - MOST_OF_NOISE + len(NOT_REFITTED) + len(in_tables)
    assert len(in_tables) == 5
    assert len(chosen.of_noise) == MOST_OF_NOISE == 7
    assert chosen.shared < chosen.configurations["calibration"] < chosen.configurations["hold-out"]


STREAMING = "system.machine.streaming_memory.bandwidth_per_machine"
UNEXPLAINED = "software.unexplained_cycles_per_byte"
"""Bandwidth that runs read which keep optimizer state off the chip."""


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("bert_v1.1_pod128_open", {"software.setup"}),
        ("resnet50_v1.1_pod128", {"software.checkpoint", "software.validation_setup", STREAMING}),
        ("gpt2_small_wikitext_pod16", {"software.setup", "software.stream_time", UNEXPLAINED, STREAMING}),
        ("bert_v2.0_pod64_closed", {"software.evaluation_call"}),
        ("resnet50_v2.0_pod64", {STREAMING}),
    ],
)
def test_no_other_constants_are_calibrated(name: str, others: set[str]) -> None:
    """Those of every run, and of its framework; PyTorch's own call was measured."""
    calibrated = {assumption["key"] for assumption in simulate(name).assumptions if assumption["basis"] == "calibrated"}
    of_call = set() if name.startswith("gpt2") else {"software.host_call"}
    assert calibrated == others | of_call | {
        "system.machine.ipu.superstep.overhead",
    }
