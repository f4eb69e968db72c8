"""Tables of noise against quantiles and moments that are derived by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from podsim.cost.noise import ENTRIES, late, latest_of, steady

MS = 10**9


def test_a_table_keeps_the_mean_to_the_picosecond() -> None:
    assert int(steady(136 * MS, 5 * MS).sum()) == 0
    # 0.2 % of 100 ms
    assert int(late(0.002, 100 * MS).sum()) == pytest.approx(0.2 * MS * ENTRIES, rel=1e-12)


def test_steady_calls_are_distributed_log_normally() -> None:
    """With mean m and standard deviation d = m, the variance of the logarithm is ln 2 and the median m / sqrt 2."""
    table = steady(100 * MS, 100 * MS)
    assert table[ENTRIES // 2] + 100 * MS == pytest.approx(100 * MS / math.sqrt(2), rel=1e-4)
    # One normal standard deviation above the median, at the quantile 0.8413447: the median x e^sqrt(ln 2)
    assert table[round(0.8413447 * ENTRIES)] + 100 * MS == pytest.approx(
        100 * MS / math.sqrt(2) * math.exp(math.sqrt(math.log(2))), rel=1e-3
    )
    assert np.std(steady(136 * MS, 5 * MS)) == pytest.approx(5 * MS, rel=1e-3)


@pytest.mark.parametrize("deviation_ms", [0.1, 3, 30, 300])
def test_no_call_is_shorter_than_nothing(deviation_ms: float) -> None:
    table = steady(3 * MS, deviation_ms * MS)
    assert table.min() >= -3 * MS
    assert (np.diff(table) >= -1).all()


def test_late_calls_are_rare_and_exponential() -> None:
    """With a share of 1/8, an eighth of the entries; half of these are later than ln 2 times the mean."""
    table = late(1 / 8, 100 * MS)
    assert np.count_nonzero(table) == ENTRIES // 8
    assert table[ENTRIES - ENTRIES // 16] == pytest.approx(100 * MS * math.log(2), rel=1e-3)


def test_the_last_entry_is_the_mean_of_its_share() -> None:
    """Four entries of an exponential distribution: beyond its upper quartile the mean is 1 + ln 4."""
    last = late(1.0, 1_000_000, 4)[-1]
    assert last == round(1_000_000 * (1 + math.log(4)))


@pytest.mark.parametrize("count", [1, 2, 4, 16, 64])
def test_the_latest_of_some_waits_for_the_harmonic_number(count: int) -> None:
    """The largest of n exponential delays has the mean 1 + 1/2 + ... + 1/n and the variance 1 + 1/4 + ... + 1/n^2."""
    mean, deviation = latest_of(late(1.0, 100 * MS), count)
    assert mean == pytest.approx(100 * MS * sum(1 / k for k in range(1, count + 1)), rel=1e-4)
    assert deviation == pytest.approx(100 * MS * math.sqrt(sum(1 / k**2 for k in range(1, count + 1))), rel=0.01)


def test_rare_delays_of_several_machines_add_up() -> None:
    """One in 10,000 calls: 16 machines are hardly ever late together, so mean and variance are 16 times as large."""
    one, many = (latest_of(late(1e-4, 100 * MS), count) for count in (1, 16))
    assert many[0] == pytest.approx(16 * one[0], rel=2e-3)
    assert many[1] ** 2 == pytest.approx(16 * one[1] ** 2, rel=2e-3)


@pytest.mark.parametrize("table", [steady(0, 5.0), steady(5, 0.0), late(0.0, 5.0), late(0.1, 0.0)])
def test_what_has_no_noise_is_zero(table: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    assert not table.any()
