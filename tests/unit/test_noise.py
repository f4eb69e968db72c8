"""Tables of noise against quantiles and moments that are derived by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from podsim.errors import SpecError
from podsim.program.host import CALL
from podsim.program.noise import (
    ENTRIES,
    NoisyCall,
    Table,
    log_normal_table,
    maximum_moments,
    maximum_table,
    rare_delay_table,
    run_table,
)
from podsim.program.task import Jitter, Work
from podsim.scenario import load_scenario
from podsim.scenario.assumptions import assumptions
from podsim.scenario.software import Noise
from podsim.validation.identifiability import MOST_OF_NOISE
from tools.noise import LoggedRun, logged_runs, spread_of, updates_at_nominal_marks, updates_of_samples
from tools.noise_fit import fitted_drift, fitted_late_calls, fitted_run_s, noise_fits

MS = 10**9
POD64 = "bert_v1.1_pod64_open"


def test_a_table_keeps_the_mean_to_the_picosecond() -> None:
    assert int(log_normal_table(136 * MS, 5 * MS).sum()) == 0
    # 0.2 % of 100 ms
    assert int(rare_delay_table(0.002, 100 * MS).sum()) == pytest.approx(0.2 * MS * ENTRIES, rel=1e-12)


def test_steady_calls_are_distributed_log_normally() -> None:
    """With mean m and standard deviation d = m, the variance of the logarithm is ln 2 and the median m / sqrt 2."""
    table = log_normal_table(100 * MS, 100 * MS)
    assert table[len(table) // 2] + 100 * MS == pytest.approx(100 * MS / math.sqrt(2), rel=1e-3)
    # One normal standard deviation above the median, at the quantile 0.8413447: the median x e^sqrt(ln 2)
    assert table[round(0.8413447 * len(table))] + 100 * MS == pytest.approx(
        100 * MS / math.sqrt(2) * math.exp(math.sqrt(math.log(2))), rel=1e-3
    )
    assert np.std(log_normal_table(136 * MS, 5 * MS)) == pytest.approx(5 * MS, rel=1e-3)


@pytest.mark.parametrize("deviation_ms", [0.1, 3, 30, 300])
def test_no_call_is_shorter_than_nothing(deviation_ms: float) -> None:
    table = log_normal_table(3 * MS, deviation_ms * MS)
    assert table.min() >= -3 * MS
    assert (np.diff(table) >= -1).all()


def test_late_calls_are_rare_and_exponential() -> None:
    """With a share of 1/8, an eighth of the entries; half of these are later than ln 2 times the mean."""
    table = rare_delay_table(1 / 8, 100 * MS)
    assert np.count_nonzero(table) == ENTRIES // 8
    assert table[ENTRIES - ENTRIES // 16] == pytest.approx(100 * MS * math.log(2), rel=1e-3)


def test_delays_of_minutes_add_up_to_more_than_64_bits() -> None:
    """Half of all calls late by 1000 s on average: 65,536 entries of 5·10^14 ps are 3.3·10^19 ps, beyond 2^63."""
    table = rare_delay_table(0.5, 1000 * 1000 * MS)
    assert table.min() >= 0
    assert float(table.mean()) == pytest.approx(500 * 1000 * MS, rel=1e-9)
    # With mean m and deviation m the median is m / sqrt 2, as above.
    wide = log_normal_table(1000 * 1000 * MS, 1000 * 1000 * MS)
    assert float(wide.astype(float).mean()) == pytest.approx(0, abs=1e5)
    assert wide[len(wide) // 2] == pytest.approx((1 / math.sqrt(2) - 1) * 1000 * 1000 * MS, rel=1e-3)


def test_the_last_entry_is_the_mean_of_its_share() -> None:
    """Four entries of an exponential distribution: beyond its upper quartile the mean is 1 + ln 4."""
    last = rare_delay_table(1.0, 1_000_000, 4)[-1]
    assert last == round(1_000_000 * (1 + math.log(4)))


@pytest.mark.parametrize("count", [1, 2, 4, 16, 64])
def test_the_latest_of_some_waits_for_the_harmonic_number(count: int) -> None:
    """The largest of n exponential delays has the mean 1 + 1/2 + ... + 1/n and the variance 1 + 1/4 + ... + 1/n^2."""
    mean, deviation = maximum_moments(rare_delay_table(1.0, 100 * MS), count)
    assert mean == pytest.approx(100 * MS * sum(1 / k for k in range(1, count + 1)), rel=1e-4)
    assert deviation == pytest.approx(100 * MS * math.sqrt(sum(1 / k**2 for k in range(1, count + 1))), rel=0.01)


def test_rare_delays_of_several_machines_add_up() -> None:
    """One in 10,000 calls: 16 machines are hardly ever late together, so mean and variance are 16 times as large."""
    one, many = (maximum_moments(rare_delay_table(1e-4, 100 * MS), count) for count in (1, 16))
    assert many[0] == pytest.approx(16 * one[0], rel=2e-3)
    assert many[1] ** 2 == pytest.approx(16 * one[1] ** 2, rel=2e-3)


@pytest.mark.parametrize(
    "table",
    [log_normal_table(0, 5.0), log_normal_table(5, 0.0), rare_delay_table(0.0, 5.0), rare_delay_table(0.1, 0.0)],
)
def test_what_has_no_noise_is_zero(table: Table) -> None:
    assert not table.any()


@pytest.mark.parametrize("count", [1, 2, 64])
def test_the_table_of_the_latest_is_that_of_many_draws(count: int) -> None:
    """Of 64 exponential delays, the median of the largest is -ln(1 - 2^(-1/64)) means."""
    table = rare_delay_table(1.0, 100 * MS)
    of_many = maximum_table(table, count)
    assert of_many.mean() == pytest.approx(maximum_moments(table, count)[0], rel=1e-9)
    assert of_many[ENTRIES // 2] == pytest.approx(-100 * MS * math.log(1 - 0.5 ** (1 / count)), rel=1e-3)


# What a session call draws


def noise_of(*overrides: str) -> Noise:
    noise = load_scenario(POD64, overrides=overrides).spec.software.noise
    assert noise
    return noise


def works(call: NoisyCall, machine: int) -> tuple[Work, ...]:
    """What the calling process does, and then the IPUs of a machine."""
    return *call.call.tasks, *call.call.works_of(machine)


def drawn(call: NoisyCall, machine: int = 0, level_ps: int = 0) -> list[tuple[int, Jitter]]:
    """The stretches of a call, each with what it draws from."""
    jitters = call.jitters(level_ps)
    return [(sum(time for _, time in work.parts), jitters[work.jitter]) for work in works(call, machine)]


def test_the_stretches_of_a_call_add_up_to_it() -> None:
    """0.2 % of 100 ms is what a machine is late on average; so much less the rest of the call takes."""
    noise = noise_of("software.noise.late_call_share=0.2 %", "software.noise.late_call_time=100 ms")
    call = NoisyCall(noise, 136 * MS, 1.0, machines=5, apart=True)
    stretches = drawn(call, machine=3)
    assert [time for time, _ in stretches] == [136 * MS - MS // 5, MS // 5]
    for time, jitter in stretches:
        assert time + min(jitter.table) >= 0
        assert abs(np.mean(jitter.table)) <= 1
    assert [work.jitter for work in works(call, 3)] == [CALL, "machine3"]


def test_a_call_is_late_by_no_more_than_it_takes() -> None:
    """An eighth of 80 ms is 10 ms, twice the call: all 5 ms of it are what a machine is late, and nothing is left."""
    noise = noise_of("software.noise.late_call_share=12.5 %", "software.noise.late_call_time=80 ms")
    call = NoisyCall(noise, 5 * MS, 1.0, machines=4, apart=True)
    (steady_ps, _), (late_ps, jitter) = drawn(call)
    assert (steady_ps, late_ps) == (0, 5 * MS)
    assert min(jitter.table) == -5 * MS
    # On average it is still 10 ms late, so that such a call takes 5 ms more than without noise.
    assert np.mean(jitter.table) == pytest.approx(5 * MS, abs=1)


def test_one_machine_waits_for_nobody() -> None:
    assert NoisyCall(noise_of(), 136 * MS, 1.0, machines=1, apart=False).wait_s == 0


def test_machines_have_streams_of_their_own_and_one_table() -> None:
    call = NoisyCall(noise_of(), 136 * MS, 1.0, machines=5, apart=True)
    jitters = list(call.jitters(0).values())
    assert len({jitter.stream for jitter in jitters}) == 6
    assert len({id(jitter.table) for jitter in jitters}) == 2


@pytest.mark.parametrize("level_ms", [-40, 40])
def test_a_level_moves_the_mean_alone(level_ms: int) -> None:
    noise = noise_of("software.noise.call_spread=6 ms", "software.noise.late_call_share=0 %")
    ((time, jitter),) = drawn(NoisyCall(noise, 50 * MS, 1.0, machines=4, apart=False), level_ps=level_ms * MS)
    assert np.mean(jitter.table) == level_ms * MS
    assert np.std(jitter.table) == pytest.approx(6 * MS, rel=2e-3)
    assert time + min(jitter.table) >= 0


def test_updates_that_share_a_call_have_its_variance_together() -> None:
    noise = noise_of("software.noise.call_spread=6 ms", "software.noise.late_call_share=0 %")
    ((_, alone),) = drawn(NoisyCall(noise, 400 * MS, 1.0, machines=4, apart=True))
    ((_, shared),) = drawn(NoisyCall(noise, 100 * MS, 4.0, machines=4, apart=True))
    assert np.std(alone.table) == pytest.approx(6 * MS, rel=1e-3)
    assert np.std(shared.table) == pytest.approx(3 * MS, rel=1e-3)


def test_updates_of_a_run_bear_its_level_alike() -> None:
    """A call that takes 4 ms longer throughout a run takes 1 ms of each of the four updates that share it."""
    noise = noise_of("software.noise.run_spread=4 ms")
    assert np.std(run_table(noise, 100 * MS, 4.0)) == pytest.approx(MS, rel=1e-3)
    assert not run_table(noise_of("software.noise={call_spread: 5 ms, run_spread: null}"), MS, 1.0).any()


def test_a_lane_that_stands_for_all_waits_for_the_latest_machine() -> None:
    """1 - (1 - 1/8)^2 of its draws are late, and the mean is that of the larger of two."""
    noise = noise_of("software.noise.late_call_share=12.5 %", "software.noise.late_call_time=80 ms")
    (_, one), (_, two) = (drawn(NoisyCall(noise, 136 * MS, 1.0, count, apart=False)) for count in (1, 2))
    assert one[0] == two[0] == 10 * MS
    late_by = np.array(two[1].table) + 10 * MS
    assert np.mean(late_by > 0) == pytest.approx(1 - (7 / 8) ** 2, abs=1e-4)
    # Late alone with 2 x 1/8 x 7/8, both with 1/64: then 1 + 1/2 means.
    assert np.mean(late_by) == pytest.approx(80 * MS * (2 * 7 / 64 + 1.5 / 64), rel=1e-3)


# Specifications


def test_noise_is_no_assumption_of_a_run_without() -> None:
    assert not [assumption.key for assumption in assumptions(load_scenario(POD64).spec) if ".noise." in assumption.key]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["software.noise={call_spread: 5 ms, late_call_share: 1 %, late_call_time: null}"], "not how late"),
        (["software.noise.late_call_share=60 %"], "late_call_share"),
        (["software.noise.call_spread=-1 ms"], "call_spread"),
        (["software.noise.colour=red"], "colour"),
    ],
)
def test_impossible_noise_is_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_scenario(POD64, overrides=overrides)


def test_tensorflow_has_no_late_calls() -> None:
    noise = load_scenario("resnet50_v1.1_pod256").spec.software.noise
    assert noise and not noise.late_call_share
    assert noise.call_spread_s == noise_of().call_spread_s


# Logged runs


def test_blocks_of_several_processes_end_behind_nominal_marks() -> None:
    """Marks of 200,000 at 6,144 per update: 32.6, 65.1 and 97.7 updates, so 33, 66 and 98."""
    assert updates_at_nominal_marks(np.array([200e3, 400e3, 600e3]), 6144).tolist() == [33, 33, 32]


def test_blocks_with_the_sequences_trained_need_no_guess() -> None:
    counted = updates_of_samples(np.array([9.0, 9.0, 9.0]), np.array([101.0, 198.0, 310.0]), 10.0)
    assert counted.tolist() == [10, 10, 11]


def test_blocks_between_marks_are_counted_by_their_time() -> None:
    """Marks 9.8 updates apart: five blocks of 10 would be one too many, and the short one is seen at its time."""
    times = np.array([12.0, 10.0, 10.01, 9.0, 9.99, 10.0, 10.0])
    counted = updates_of_samples(times, np.arange(98.0, 700.0, 98.0), 10.0)
    assert counted.tolist()[1:] == [10, 10, 9, 10, 10, 10]


def test_late_calls_are_found_again() -> None:
    """Delays with a share of 1 % and a mean of 100 ms, met by 4 and by 16 machines."""
    row = spread_of(next(logged_runs("calibration")))
    seen = [
        replace(
            row,
            machines=machines,
            evaluation_calls=10**6,
            late_calls=round(10**6 * machines * 0.01 * math.exp(-0.4)),
            call_s=math.sqrt(0.005**2 + machines * 0.01 * 2 * 0.1**2),
        )
        for machines in (4, 16)
    ]
    found = fitted_late_calls(seen, 0.005)
    assert found.share == pytest.approx(0.01, rel=1e-3)
    assert found.mean_s == pytest.approx(0.1, rel=1e-3)


def test_the_spread_of_runs_is_that_of_their_medians() -> None:
    """Runs of which updates take 100, 110 and 120 ms: 10 ms apart, each counted against the mean of all three.

    The squares, 100 and 0 and 100 (ms)², are divided by the runs less one: 10 ms, of a median of 110 ms.
    """
    logged = next(logged_runs("calibration"))
    updates = np.full(12, 40.0)
    uneven = np.array([1.5, *[0.99, 1.0, 1.01, 1.0] * 2, 0.99, 1.0, 1.01])  # the first block is left out
    runs = [LoggedRun(updates * base_s * uneven, updates, np.array([])) for base_s in (0.1, 0.11, 0.12)]
    runs = [replace(run, evaluation_s=logged.runs[0].evaluation_s) for run in runs]
    row = spread_of(replace(logged, runs=tuple(runs), updates_per_call=4.0))
    assert row.between_runs == pytest.approx(0.01 / 0.11)
    assert (row.updates, row.calls) == (40, 10)


def test_the_spread_of_runs_is_one_of_calls() -> None:
    """Four updates of 100 ms share a call: a spread of 1 % is 4 ms of a call, and with another of 3 ms, 3.54 ms."""
    row = spread_of(next(logged_runs("calibration")))
    one = replace(row, between_runs=0.01, update_s=0.1, updates=40, calls=10)
    other = replace(row, between_runs=0.02, update_s=0.15, updates=10, calls=10)
    assert fitted_run_s([one]) == pytest.approx(0.004)
    assert fitted_run_s([other]) == pytest.approx(0.003)
    assert fitted_run_s([one, other]) == pytest.approx(math.sqrt((0.004**2 + 0.003**2) / 2))


def test_drift_is_that_of_runs_on_many_machines() -> None:
    """Thirds of an even rise of 3 % lie 2 % apart, from middle to middle; 4 machines count where they slow as well."""
    row = spread_of(next(logged_runs("calibration")))
    few, many = (replace(row, machines=count, drift=drift) for count, drift in ((4, 0.0), (16, 0.02)))
    assert fitted_drift([few, many], noise_of()) == pytest.approx(0.03)
    assert fitted_drift([few, many], noise_of("software.noise.drift_machine_count=4")) == pytest.approx(0.015)


def test_committed_constants_of_noise_are_those_of_calibration_rows() -> None:
    fits = noise_fits()
    assert len(fits) == MOST_OF_NOISE
    for fit in fits:
        assert fit.fitted == pytest.approx(fit.committed, rel=0.01), fit.key
