"""Arithmetic on a tape gives what plain arithmetic gives, or nothing where the code would have branched."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.tape import Tape

NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-1e6, 1e6))


def time_ps(size: Any, rate: Any, latency: Any) -> Any:
    """A time as the compiler computes one: with a branch, a maximum and roundings."""
    sent = math.ceil(size) / (rate or 1.0)
    return round(max(sent, latency) * 1000) + (7 if size > 10 else round(latency) // 3)


def recorded(code: Callable[..., Any], *first: float) -> Callable[..., Any]:
    """The code as a tape repeats it that recorded it with the first numbers; None where it may not."""
    tape = Tape()
    result = code(*map(tape.number, first))

    def repeat(*others: float) -> Any:
        values = tape.repeat(others)
        return None if values is None else values[result.place]

    return repeat


@given(st.tuples(NUMBERS, NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS, NUMBERS))
def test_repeated_arithmetic_is_plain_arithmetic(
    first: tuple[float, float, float], others: tuple[float, float, float]
) -> None:
    repeat = recorded(time_ps, *first)
    assert repeat(*first) == time_ps(*first)
    assert repeat(*others) in (None, time_ps(*others))


def test_numbers_change_until_the_code_would_have_branched() -> None:
    """4/2 s against 1 s: 2000 and a third of 1; 6/2 s likewise. Above 10 the code adds 7 instead."""
    repeat = recorded(time_ps, 4, 2.0, 1.0)
    assert repeat(4, 2.0, 1.0) == 2000
    assert repeat(6, 2.0, 1.0) == 3000
    assert repeat(12, 2.0, 1.0) is None
    assert repeat(4, 2.0, 5.0) is None  # another maximum
    assert repeat(4, 0.0, 1.0) is None  # another rate where there is none


OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "sum": (lambda one, other: sum([one, other, 3]), 3 + 5 + 3),
    "difference": (lambda one, other: 20 - one - other, 12),
    "quotient": (lambda one, other: one / other, 0.6),
    "quotient and rest": (lambda one, other: divmod(17, one)[0] + divmod(other, 3)[1], 5 + 2),
    "power": (lambda one, other: one**2 + 2**other, 9 + 32),
    "shift": (lambda one, other: (one << 4) // other, 9),
    "sign": (lambda one, other: -abs(-one) - other, -8),
    "digits": (lambda one, other: round(one / other, 1), 0.6),
    "floor": (lambda one, other: math.floor(other / one), 1),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    """Of 3 and 5, recorded with 4 and 9."""
    code, expected = OPERATIONS[name]
    assert recorded(code, 4, 9)(3, 5) == expected


def test_a_plain_number_has_to_stay() -> None:
    """A number that became a length or an argument of a function in C says nothing about another."""
    codes: list[Callable[[Any, Any], Any]] = [
        lambda x, y: y * math.sqrt(x),
        lambda x, y: y * len(range(x)),
        lambda x, y: y + float(f"{x}"),
    ]
    for code in codes:
        repeat = recorded(code, 4, 2.0)
        assert repeat(4, 3.0) == code(4, 3.0)
        assert repeat(9, 2.0) is None


def test_a_failing_step_is_one_of_another_branch() -> None:
    repeat = recorded(lambda x, y: y / x if x else y + x, 4, 2.0)
    assert repeat(2, 2.0) == 1
    assert repeat(0, 2.0) is None


def test_equal_operations_are_one() -> None:
    tape = Tape()
    one, other = tape.number(2), tape.number(3)
    assert one * other is one * other
    assert one * other is not other * one
    assert {one + 1: "found"}[one + 1] == "found"
    with pytest.raises(ZeroDivisionError):
        one // 0
