"""The matrix vertex against the formula worked by hand and against silicon."""

import numpy as np
import pytest

from podsim.result.reference_data import rows
from podsim.scenario import load_ipu
from podsim.scenario.ipu import Ipu
from podsim.tiles.amp import amp_vertex_cycles


@pytest.fixture(scope="module")
def bow() -> Ipu:
    return load_ipu("bow")


@pytest.mark.parametrize("row", rows("amp_measurements"), ids=lambda row: row["rows"])
def test_within_five_percent_of_measured_cycles(bow: Ipu, row: dict[str, str]) -> None:
    assert float(amp_vertex_cycles(bow, int(row["rows"]), 1, 1)) == pytest.approx(float(row["cycles"]), rel=0.05)


def test_one_block_by_hand(bow: Ipu) -> None:
    """64 rows: workers take 11, the last 9; the first-pass loop is 6·(37 + 4·8 - 7) = 372.

    50 + 6·7 + 13 + 11 + 18 + (7 + 64 + 372) = 577.
    """
    assert int(amp_vertex_cycles(bow, 64, 1, 1)) == 577


def test_single_precision_block_by_hand(bow: Ipu) -> None:
    """12 rows of singles: 46 + 2·1 + 16 = 64 a worker; 50 + 42 + 24 + 18 + 7 + 64 + max(384, 398)."""
    assert int(amp_vertex_cycles(bow, 12, 1, 1, dtype="fp32", partials="fp32")) == 603


def test_float_partials_take_two_passes_with_half_the_weights(bow: Ipu) -> None:
    """8 units: load 8·32/8 = 32 cycles per pass, two passes: 134 + 2·(7 + 32 + 372)."""
    assert int(amp_vertex_cycles(bow, 64, 1, 1, partials="fp32")) == 134 + 2 * (7 + 32 + 372)


def test_long_rows_approach_four_cycles_each(bow: Ipu) -> None:
    long, longer = (int(amp_vertex_cycles(bow, n, 1, 1)) for n in (6000, 12000))
    assert (longer - long) / 6000 == pytest.approx(4.0)


def test_arrays_give_arrays(bow: Ipu) -> None:
    assert amp_vertex_cycles(bow, np.array([16, 64]), 1, 1).tolist() == [385, 577]
