"""Breakdowns add up exactly, whatever the numbers."""

import random

from hypothesis import given
from hypothesis import strategies as st

from podsim.result.breakdown import apportion, exact_seconds, mean_account
from podsim.units import ps_to_seconds

KINDS = ("matmul", "vector", "exchange", "all_reduce", "bubble", "custom")
HOUR_PS = 3600 * 10**12
durations_ps = st.integers(min_value=0, max_value=HOUR_PS // len(KINDS))
accounts_ps = st.dictionaries(st.sampled_from(KINDS), durations_ps)


@given(st.lists(accounts_ps, min_size=1, max_size=9))
def test_the_mean_account_adds_up_to_the_makespan(accounts: list[dict[str, int]]) -> None:
    makespan = max(sum(account.values()) for account in accounts)
    lanes = {
        f"ipu{number}": {**account, "idle": makespan - sum(account.values())} for number, account in enumerate(accounts)
    }
    mean = mean_account(lanes)
    assert sum(mean.values()) == makespan
    for kind, value in mean.items():
        assert abs(value * len(lanes) - sum(account.get(kind, 0) for account in lanes.values())) < len(lanes)


@given(st.integers(min_value=0, max_value=10**18), st.dictionaries(st.text(), st.integers(1, 10**15), min_size=1))
def test_parts_add_up_and_none_is_off_by_a_unit(total: int, weights: dict[str, int]) -> None:
    parts = apportion(total, weights)
    weight_sum = sum(weights.values())
    assert sum(parts.values()) == total
    assert all(abs(parts[name] * weight_sum - total * weights[name]) < weight_sum for name in weights)


@given(accounts_ps, st.randoms(use_true_random=False))
def test_seconds_add_up_in_any_order(account: dict[str, int], order: random.Random) -> None:
    seconds = list(exact_seconds(account).values())
    order.shuffle(seconds)
    total = 0.0
    for value in seconds:
        total += value
    assert total == ps_to_seconds(sum(account.values()))


@given(accounts_ps)
def test_seconds_are_within_a_picosecond_of_the_account(account: dict[str, int]) -> None:
    seconds = exact_seconds(account)
    assert all(abs(seconds[kind] - ps_to_seconds(account[kind])) < 1e-12 for kind in account)
