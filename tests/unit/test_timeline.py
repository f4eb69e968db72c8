"""A run part by part: where its evaluations and epochs end, and that nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.result.training_times import EpochRun, Schedule, TrainingRun
from podsim.runs.training.outcome import run_of_updates, runs_to_convergence
from podsim.runs.training.timeline import parts_of_epochs, parts_of_samples

SCHEDULE = Schedule(
    update_s=2.0, samples_per_update=300, setup_s=5.0, evaluation_every_samples=1000, evaluation_samples=700
)
EPOCHS = EpochRun(
    update_s=2.0,
    samples_per_update=10,
    samples_per_epoch=100,
    epoch_count=3,
    updates_per_session_call=4,
    setup_s=1.0,
    checkpoint_every_epochs=2,
    checkpoint_s=0.5,
    validation_setup_s=7.0,
    restore_s=0.25,
    evaluation_s=3.0,
)


def converged(schedule: Schedule, samples: float) -> TrainingRun:
    (run,) = runs_to_convergence(schedule, [samples])
    return run


def test_a_block_ends_with_the_update_that_passes_the_mark() -> None:
    """1000, 2000 and 3000 samples of 300 per update: 3.3, 6.7 and 10 updates. 700 samples are 3 updates of 2 s."""
    parts = list(parts_of_samples(converged(SCHEDULE, 3000), SCHEDULE))
    assert [(part.kind, part.time_s, part.update_count) for part in parts] == [
        ("setup", 5.0, 0),
        *(("training", 8.0, 4), ("evaluation", 6.0, 4)),
        *(("training", 6.0, 7), ("evaluation", 6.0, 7)),
        *(("training", 6.0, 10), ("evaluation", 6.0, 10)),
    ]


def test_what_follows_the_last_evaluation_is_trained_too() -> None:
    parts = list(parts_of_samples(run_of_updates(SCHEDULE, 5), SCHEDULE))
    assert [(part.kind, part.update_count) for part in parts[1:]] == [
        ("training", 4),
        ("evaluation", 4),
        ("training", 5),
    ]


def test_an_epoch_ends_with_a_whole_session_call_and_the_run_with_one_more() -> None:
    """10, 20 and 30 updates are 2.5, 5 and 7.5 calls of 4: epochs end after 2 and 5 calls, the run after 8."""
    parts = list(parts_of_epochs(EPOCHS))
    assert [(part.kind, part.time_s, part.update_count, part.epoch) for part in parts] == [
        ("setup", 1.0, 0, 0),
        *(("training", 16.0, 8, 1), ("checkpoint", 0.5, 8, 1)),
        ("training", 24.0, 20, 2),
        *(("training", 24.0, 32, 3), ("checkpoint", 0.5, 32, 3)),
        *(("load", 7.0, 32, 1), ("evaluation", 3.0, 32, 1)),
        *(("load", 0.25, 32, 3), ("evaluation", 3.0, 32, 3)),
    ]


def test_epochs_take_the_calls_that_were_logged() -> None:
    """MLPerf v2.0, Bow Pod16: 5 calls per epoch, 6 in epochs 19, 37 and 38, and evaluations of epochs 2, 6, … 38."""
    bow_pod16 = replace(EPOCHS, samples_per_update=3520, samples_per_epoch=1281167, updates_per_session_call=72)
    run = replace(bow_pod16, epoch_count=38, checkpoint_every_epochs=4)
    parts = list(parts_of_epochs(run))
    calls = {part.epoch: round(part.time_s / (72 * 2.0)) for part in parts if part.kind == "training"}
    assert {epoch for epoch, count in calls.items() if count == 6} == {19, 37, 38}
    assert set(calls.values()) == {5, 6}
    assert [part.epoch for part in parts if part.kind == "evaluation"] == list(range(2, 39, 4))


@pytest.mark.parametrize("epochs", [0.5, 1, 2.5, 3, 7, 40])
@pytest.mark.parametrize("every", [0, 1, 4])
def test_the_parts_of_a_run_of_epochs_add_up_to_it(epochs: float, every: int) -> None:
    run = replace(EPOCHS, epoch_count=epochs, checkpoint_every_epochs=every)
    parts = list(parts_of_epochs(run))
    assert sum(part.time_s for part in parts) == pytest.approx(run.time_to_train_s, rel=1e-12)
    assert max(part.update_count for part in parts) == run.update_count
    assert sum(part.kind == "checkpoint" for part in parts) == run.checkpoint_count


@pytest.mark.parametrize("samples", [1, 999, 1300, 1301, 12345])
@pytest.mark.parametrize("every", [None, 100, 1000])
def test_the_parts_of_a_run_to_convergence_add_up_to_it(samples: float, every: int | None) -> None:
    schedule = replace(SCHEDULE, evaluation_every_samples=every)
    run = converged(schedule, samples)
    parts = list(parts_of_samples(run, schedule))
    assert sum(part.time_s for part in parts) == pytest.approx(run.time_to_train_s, rel=1e-12)
    assert sum(part.kind == "evaluation" for part in parts) == run.evaluation_count
