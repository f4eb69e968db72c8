"""Convergence, evaluations and time-to-train, by hand."""

from dataclasses import replace

import pytest

from podsim.errors import MissingDataError
from podsim.result.training_times import Schedule, TrainingRun
from podsim.runs.training.outcome import (
    ReferencePoint,
    draw_samples_to_converge,
    evaluation_interval_samples,
    mlperf_score,
    percentiles,
    run_of_updates,
    runs_to_convergence,
)

SCHEDULE = Schedule(
    update_s=2.0,
    samples_per_update=3000.0,
    setup_s=15.0,
    evaluation_every_samples=175_000,
    evaluation_samples=10_000,
)


@pytest.mark.parametrize(("batch", "interval"), [(3072, 175_000), (4608, 200_000), (6144, 200_000), (6912, 225_000)])
def test_interval_rule_gives_the_logged_intervals(batch: int, interval: int) -> None:
    assert evaluation_interval_samples(batch) == interval


def test_run_ends_at_the_first_evaluation_that_has_seen_enough() -> None:
    """400,000 samples: the third mark, 525,000 = 175 updates; 4 updates per evaluation."""
    run = next(runs_to_convergence(SCHEDULE, [400_000]))
    assert (run.update_count, run.evaluation_count) == (175, 3)
    assert run.training_s == 350.0
    assert run.evaluation_s == 3 * 4 * 2.0
    assert run.time_to_train_s == 15.0 + 350.0 + 24.0


def test_an_evaluation_of_forward_passes_takes_their_time() -> None:
    """10,000 samples are four times 3,000, rounded up; each takes 0.5 s and not the 2 s of a weight update."""
    run = next(runs_to_convergence(replace(SCHEDULE, evaluation_step_s=0.5), [400_000]))
    assert (run.training_s, run.evaluation_s) == (350.0, 3 * 4 * 0.5)


def test_logged_samples_just_above_a_mark_belong_to_it() -> None:
    assert next(runs_to_convergence(SCHEDULE, [350_000 + 2_999])).evaluation_count == 2
    assert next(runs_to_convergence(SCHEDULE, [350_000 + 3_001])).evaluation_count == 3


def test_a_run_of_updates_is_evaluated_at_every_mark_it_passes() -> None:
    """7,038 updates are 21,114,000 samples: marks of 175,000 are passed 120 times, at 4 updates each."""
    run = run_of_updates(SCHEDULE, 7038)
    assert (run.update_count, run.evaluation_count) == (7038, 120)
    assert run.time_to_train_s == 15.0 + 7038 * 2.0 + 120 * 4 * 2.0
    assert run_of_updates(SCHEDULE, 58).evaluation_count == 0  # 174,000 samples
    assert run_of_updates(SCHEDULE, 59).evaluation_count == 1  # 177,000 samples


def test_a_run_that_is_not_evaluated_has_no_evaluations() -> None:
    run = run_of_updates(replace(SCHEDULE, evaluation_every_samples=None), 7038)
    assert (run.evaluation_count, run.time_to_train_s) == (0, 15.0 + 7038 * 2.0)


def test_percentiles_are_times_of_runs() -> None:
    runs = [TrainingRun(1, 0, 0.0, float(seconds), 0.0) for seconds in range(1, 101)]
    assert percentiles(runs) == {"p10": 10.0, "p50": 50.0, "p90": 90.0}


def test_score_drops_best_and_worst() -> None:
    assert mlperf_score([5.0, 1.0, 9.0, 4.0]) == 4.5
    assert mlperf_score([3.0, 5.0]) == 4.0


def test_draws_interpolate_between_reference_points() -> None:
    points = [ReferencePoint(1000, (100,)), ReferencePoint(2000, (200,))]
    assert set(draw_samples_to_converge(points, 1500, 5, seed=1)) == {150.0}
    assert set(draw_samples_to_converge(points, 1000, 5, seed=1)) == {100.0}


def test_draws_are_seeded() -> None:
    points = [ReferencePoint(1000, (100, 200, 300)), ReferencePoint(2000, (200, 400, 500))]
    first = draw_samples_to_converge(points, 1200, 8, seed=3)
    assert first == draw_samples_to_converge(points, 1200, 8, seed=3)
    assert first != draw_samples_to_converge(points, 1200, 8, seed=4)


def test_batch_outside_the_reference_points_is_refused() -> None:
    with pytest.raises(MissingDataError, match="no reference convergence for 5,000 samples"):
        draw_samples_to_converge([ReferencePoint(1000, (100,))], 5000, 1, seed=0)
