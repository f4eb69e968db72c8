"""Runs of epochs: updates, checkpoints and parts of the time by hand, and the logged counts of MLPerf."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim import simulate
from podsim.result.training_times import EpochRun
from podsim.runs.training import train
from podsim.scenario import load_scenario
from tests.examples import plan_of, small_cnn, small_pod

IMAGENET = 1_281_167
# Images per update, epochs, logged updates, logged checkpoints.
SUBMISSIONS = {
    "resnet50_v1.0_pod16": (20 * 6 * 16, 44, 29_393, 11),
    "resnet50_v1.0_pod64": (20 * 2 * 64, 45, 22_600, 12),
    "resnet50_v1.1_pod16": (20 * 10 * 16, 38, 15_280, 10),
    "resnet50_v1.1_pod64": (20 * 3 * 64, 38, 12_738, 10),
    "resnet50_v1.1_pod128": (20 * 2 * 128, 41, 10_300, 11),
    "resnet50_v1.1_pod256": (20 * 2 * 256, 45, 5_650, 12),
}
RUN = EpochRun(
    update_s=0.5,
    samples_per_update=100,
    samples_per_epoch=1_050,
    epoch_count=9,
    updates_per_session_call=4,
    setup_s=7.0,
    checkpoint_every_epochs=4,
    checkpoint_s=2.0,
    validation_setup_s=20.0,
    restore_s=0.25,
    evaluation_s=1.5,
)


@pytest.mark.parametrize(("batch", "epochs", "updates", "checkpoints"), SUBMISSIONS.values(), ids=SUBMISSIONS)
def test_counts_of_mlperf(batch: int, epochs: int, updates: int, checkpoints: int) -> None:
    """Five session calls per epoch, a checkpoint every four epochs from the first on."""
    run = EpochRun(1.0, batch, IMAGENET, epochs, IMAGENET // batch // 5, checkpoint_every_epochs=4)
    assert run.update_count == updates
    assert run.checkpoint_count == checkpoints


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_shipped_scenarios_have_these_counts(name: str) -> None:
    batch, _, updates, checkpoints = SUBMISSIONS[name]
    result = simulate(name)
    assert result.throughput_samples_per_s * result.weight_update_s == pytest.approx(batch)
    assert result.run_breakdown["training"] == pytest.approx(updates * result.weight_update_s)
    # 2.46 s each, and 102 MB over 12.5 GB/s at 0.9.
    one_s = 2.46 + 25_557_032 * 4 / (0.9 * 12.5e9)
    assert result.run_breakdown["checkpoint"] == pytest.approx(checkpoints * one_s, rel=1e-6)


def test_the_last_session_call_is_a_whole_one() -> None:
    """9 epochs of 1,050 samples are 94 updates of 100, in 24 calls of 4."""
    assert RUN.update_count == 96
    assert replace(RUN, updates_per_session_call=1).update_count == 94
    assert replace(RUN, epoch_count=0.5, updates_per_session_call=1).update_count == 5


@pytest.mark.parametrize(("epochs", "every", "count"), [(9, 4, 3), (8, 4, 2), (1, 4, 1), (38, 4, 10), (3, 1, 3)])
def test_checkpoints_follow_epochs_1_5_9(epochs: int, every: int, count: int) -> None:
    assert replace(RUN, epoch_count=epochs, checkpoint_every_epochs=every).checkpoint_count == count


def test_parts_of_the_time_by_hand() -> None:
    """96 updates; 3 checkpoints; a validation of 3, the first of which is loaded with the program."""
    assert RUN.breakdown == {
        "setup": 7.0,
        "training": 48.0,
        "checkpoint": 6.0,
        "evaluation": 20.0 + 3 * 1.5 + 2 * 0.25,
    }
    assert RUN.time_to_train_s == 7.0 + 48.0 + 6.0 + 25.0


def test_throughput_counts_checkpoints() -> None:
    assert RUN.throughput_samples_per_s == 96 * 100 / (48.0 + 6.0)


def test_without_checkpoints_nothing_is_validated() -> None:
    run = replace(RUN, checkpoint_every_epochs=0)
    assert run.checkpoint_count == 0
    assert run.breakdown == {"setup": 7.0, "training": 48.0, "checkpoint": 0.0, "evaluation": 0.0}


def test_a_run_without_validation_has_no_evaluation() -> None:
    """What loading a checkpoint would take does not count."""
    assert replace(RUN, validation_setup_s=0.0, evaluation_s=0.0).breakdown["evaluation"] == 0.0


def test_an_evaluation_is_the_forward_pass_over_all_replicas() -> None:
    """100 images, 4 at a time on 2 replicas: 13 rounds, and one more for the second stage; then restores.

    The first of 3 checkpoints comes with the program; the others are sent to the one process of both replicas.
    """
    scenario = small_cnn(small_pod(), replicas=2, splits=("conv3",))
    run = {"epochs": 9, "checkpoint": {"every_epochs": 4}, "validation": {"samples": 100, "setup": "20 s"}}
    plan = plan_of(scenario | {"run": run})
    outcome = train(load_scenario(scenario | {"run": run}).spec, plan, 1.0)
    slowest = max(stage.forward.cycles for stage in plan.stages)
    restore_s = 4 * plan.workload.parameter_count / (0.9 * 12.5e9)
    evaluation_s = (13 + 1) * slowest / 1.33e9
    assert outcome.breakdown["evaluation"] == pytest.approx(20 + 3 * evaluation_s + 2 * restore_s, rel=1e-9)


def test_a_session_call_is_shared_by_its_updates() -> None:
    """56 ms, five times in an epoch of 1,281,167 images, 3,200 of them in an update, on POD16."""
    result = simulate("resnet50_v1.1_pod16")
    (call,) = (phase for phase in result.phases if phase.name == "host call")
    assert call.seconds == pytest.approx(0.056 * 5 * 3_200 / IMAGENET, rel=1e-6)


def test_a_sample_bears_the_same_part_of_a_call_whatever_the_batch() -> None:
    """1,000 images in one call: 3.9 updates of 256, 1.95 of 512; each sample bears a thousandth of it."""
    for replicas in (2, 4):
        scenario = small_cnn("ipu_pod4", replicas=replicas, accumulation=32)
        (call,) = (phase for phase in simulate(scenario).phases if phase.name == "host call")
        host_call_s = plan_of(scenario).software.host_call_s
        assert call.seconds == pytest.approx(host_call_s * 4 * 32 * replicas / 1_000, rel=1e-6)


def test_a_run_may_need_no_set_up() -> None:
    overrides = ["run={weight_updates: 10, samples_to_converge: null, setup: 0 s}"]
    result = simulate("bert_v1.1_pod16_open", overrides=overrides)
    assert result.time_to_train_s == pytest.approx(10 * result.weight_update_s)
