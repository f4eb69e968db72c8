"""Quantities: what is read, and what is refused with which words."""

from __future__ import annotations

import math

import pytest

from podsim.units import (
    EXAMPLES,
    UNITS,
    QuantityError,
    cycles_to_ps,
    parse_price,
    parse_quantity,
    ps_to_seconds,
    seconds_to_ps,
)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("624 KiB", "bytes", 624 * 1024),
        ("624KiB", "bytes", 624 * 1024),
        ("  1.5 kB ", "bytes", 1500),
        ("8 Gb", "bytes", 1e9),
        ("16 GB/s", "bytes_per_s", 16e9),
        ("100 Gb/s", "bytes_per_s", 12.5e9),
        ("1 GiB/s", "bytes_per_s", 2**30),
        ("1.85 GHz", "hz", 1.85e9),
        ("1.5 us", "s", 1.5e-6),
        ("1.5 µs", "s", 1.5e-6),
        ("2 min", "s", 120),
        ("300 W", "w", 300),
        ("250", "cycles", 250),
        ("250 cycles", "cycles", 250),
        ("85 %", "ratio", 0.85),
        ("1e3 B", "bytes", 1000),
        ("1_000 B", "bytes", 1000),
        (".5 s", "s", 0.5),
        (4, "count", 4),
        (0.85, "share", 0.85),
    ],
)
def test_a_quantity_in_its_base_unit(text: str | float, dimension: str, value: float) -> None:
    assert math.isclose(parse_quantity(text, dimension), value, rel_tol=1e-12)


@pytest.mark.parametrize("dimension", UNITS)
def test_the_example_of_every_dimension_is_one(dimension: str) -> None:
    assert parse_quantity(EXAMPLES[dimension], dimension) > 0


@pytest.mark.parametrize(
    ("text", "dimension", "what", "example"),
    [
        ("16 GB", "bytes_per_s", "unit `GB` does not fit here", "16 GB/s"),
        ("16 gb/s", "bytes_per_s", "unit `gb/s` does not fit here", "16 GB/s"),
        ("1.85 GiHz", "hz", "unit `GiHz` does not fit here", "1.85 GHz"),
        ("16", "bytes", "`16` has no unit", "624 KiB"),
        (16, "bytes", "`16` has no unit", "624 KiB"),
        (1.5, "s", "`1.5` has no unit", "1.5 us"),
        ("", "bytes", "`` is not a quantity", "624 KiB"),
        ("many", "count", "`many` is not a quantity", "4"),
        ("1.2.3 B", "bytes", "`1.2.3 B` is not a quantity", "624 KiB"),
        ("1 000 B", "bytes", "`1 000 B` is not a quantity", "624 KiB"),
        ("- 1 B", "bytes", "`- 1 B` is not a quantity", "624 KiB"),
        (True, "count", "`True` is not a quantity", "4"),
        ("9" * 70, "count", f"`{'9' * 60}…` is not a quantity", "4"),
        (10**70, "count", f"`1{'0' * 59}…` is not a quantity", "4"),
    ],
)
def test_what_is_no_quantity_says_why_and_what_to_write(
    text: str | float, dimension: str, what: str, example: str
) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text, dimension)
    assert (str(caught.value), caught.value.do) == (what, f"write for example `{example}`")


def test_digits_without_end_are_refused_at_once() -> None:
    with pytest.raises(QuantityError):
        parse_quantity("1" * 1_000_000 + " B B", "bytes")


def test_time_is_whole_picoseconds() -> None:
    assert seconds_to_ps(1.5e-6) == 1_500_000
    assert cycles_to_ps(1.85e9, 1.85e9) == 10**12
    assert cycles_to_ps(1, 1.5e9) == 667
    assert ps_to_seconds(seconds_to_ps(0.25)) == 0.25


@pytest.mark.parametrize("text", ["nan s", "inf s", "-.inf s", "1e999 s", "1e308 h"])
def test_a_quantity_is_finite(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a finite number"):
        parse_quantity(text, "s")


def test_a_price_is_finite() -> None:
    with pytest.raises(QuantityError, match="is not a finite number"):
        parse_price("1e999 USD", {"": 1.0}, "1 USD")
