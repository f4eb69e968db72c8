"""Numbers as people read them."""

import pytest

from podsim.format import (
    format_bytes,
    format_count,
    format_duration_s,
    format_error,
    format_percent,
    format_significant,
    natural_key,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (1e-12, "1 ps"),
        (2.5e-9, "2.5 ns"),
        (0.6e-6, "600 ns"),
        (7e-6, "7 us"),
        (0.0013, "1.3 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (12.4, "12.4 s"),
        (119.4, "119 s"),
        (120.0, "2 min"),
        (1563.0, "26.1 min"),
        (7199.0, "2 h"),
        (200_000.0, "2.31 d"),
        (-0.0013, "-1.3 ms"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration_s(seconds) == text


def test_a_headline_has_four_digits() -> None:
    assert format_duration_s(2.20939, 4) == "2.209 s"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1000, "0.977 KiB"),
        (1472 * 624 * 1024, "897 MiB"),
        (112 * 10**9, "104 GiB"),
        (1010 * 2**20, "0.986 GiB"),
        (2**60, "1,024 PiB"),
        (-13 * 2**20, "-13 MiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_counts() -> None:
    assert format_count(2171427) == "2,171,427"
    assert format_count(1413.44) == "1,413"
    assert format_count(88.3403) == "88.34"


def test_significant_digits_never_round_before_the_point() -> None:
    assert format_significant(123456.7) == "123,457"
    assert format_significant(9.996) == "10"
    assert format_significant(0.0) == "0"
    assert format_significant(-0.02139) == "-0.0214"


def test_ratios() -> None:
    assert format_percent(0.5812) == "58.1 %"
    assert format_percent(0.5812, 0) == "58 %"
    assert format_error(0.0123) == "+1.2 %"
    assert format_error(-0.2) == "-20.0 %"


def test_natural_order() -> None:
    lanes = ["ipu10/up", "ipu2/up", "gw", "ipu2/down"]
    assert sorted(lanes, key=natural_key) == ["gw", "ipu2/down", "ipu2/up", "ipu10/up"]
