"""Breakdowns that add up, and the phases they belong to."""

import pytest

from podsim.engine.trace import PhaseRecord
from podsim.result.breakdown import apportion, exact_seconds, mean_account
from podsim.result.kinds import FAMILIES, KINDS, in_kind_order, is_waiting, kind_of
from podsim.result.rows import PhaseTime, part_of, phase_times

MS = 10**9


def test_equal_shares_give_the_left_over_units_to_the_first() -> None:
    # 11 / 4 = 2.75 each: 2 each makes 8, three units are left.
    assert apportion(11, dict.fromkeys("abcd", 5)) == {"a": 3, "b": 3, "c": 3, "d": 2}


def test_largest_remainder_gets_the_left_over_unit() -> None:
    # 10 in the ratio 1 : 2 : 4 is 1.43, 2.86, 5.71; 1 + 2 + 5 = 8, the remainders .86 and .71 get one each.
    assert apportion(10, {"a": 1, "b": 2, "c": 4}) == {"a": 1, "b": 3, "c": 6}


def test_nothing_is_divided_into_nothing() -> None:
    assert apportion(0, {"a": 0}) == {"a": 0}
    assert apportion(0, {}) == {}


def test_something_is_not_divided_into_nothing() -> None:
    with pytest.raises(ValueError, match="5 cannot be divided among weights that are all zero"):
        apportion(5, {"a": 0})


def test_mean_of_lanes_in_the_order_of_the_kinds() -> None:
    account = mean_account({"ipu1": {"bubble": 4, "matmul": 6}, "ipu0": {"matmul": 10}})
    assert account == {"matmul": 8, "bubble": 2}
    assert list(account) == ["matmul", "bubble"]


def test_lanes_of_different_length_have_no_mean() -> None:
    with pytest.raises(ValueError, match=r"one makespan, these add up to \[9, 10\]"):
        mean_account({"ipu0": {"matmul": 10}, "ipu1": {"matmul": 9}})


def test_seconds_add_up_where_rounded_ones_do_not() -> None:
    seconds = exact_seconds({"matmul": 100 * MS, "vector": 200 * MS, "bubble": 400 * MS})
    assert 0.1 + 0.2 + 0.4 != 0.7
    assert sum(seconds.values()) == 0.7
    assert seconds == pytest.approx({"matmul": 0.1, "vector": 0.2, "bubble": 0.4}, abs=1e-15)


def test_no_time_is_no_seconds() -> None:
    assert exact_seconds({"matmul": 0}) == {"matmul": 0.0}


def test_numbered_phases_of_the_first_group_are_one() -> None:
    phases = [
        PhaseRecord("replica1", "fill 0", 1, 0, 10 * MS),
        PhaseRecord("replica0", "main", 4, 30 * MS, 70 * MS),
        PhaseRecord("replica0", "fill 0", 1, 0, 10 * MS),
        PhaseRecord("replica0", "fill 1", 1, 10 * MS, 30 * MS),
    ]
    ordered = sorted(phases, key=lambda phase: phase.group)
    assert phase_times(ordered) == (PhaseTime("fill", 2, 0.03), PhaseTime("main", 4, 0.04))


def test_a_phase_belongs_to_the_part_of_its_first_word() -> None:
    assert part_of("update IPU 0: optimizer") == "update"


def test_kinds_have_names_looks_and_families_of_their_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)
    assert len({kind.colour for kind in KINDS}) == len(KINDS)
    assert {kind.family for kind in KINDS} == set(FAMILIES)
    assert max(len(kind.meaning) for kind in KINDS) <= 28


def test_an_unknown_kind_gets_a_default_and_comes_last() -> None:
    assert kind_of("print_tensor").label == "print tensor"
    assert kind_of("print_tensor").meaning == "not described"
    assert not is_waiting("print_tensor")
    assert in_kind_order(["print_tensor", "idle", "matmul"]) == ["matmul", "idle", "print_tensor"]
