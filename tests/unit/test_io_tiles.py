"""A tile takes four bytes per cycle: few I/O tiles bound what streams through them."""

from __future__ import annotations

import pytest

from podsim.specs import load_scenario
from podsim.system import build_system, streaming_channels


@pytest.mark.parametrize(
    ("tiles", "rate"),
    [(1, 4 * 1.33e9), (2, 8 * 1.33e9), (3, 11e9), (0, 11e9)],
)
def test_io_tiles_bound_the_rate(tiles: int, rate: float) -> None:
    """1.33 GHz x 4 B = 5.32 GB/s per tile; streaming memory gives 11 GB/s; without I/O tiles all take part."""
    system = build_system(load_scenario("llama2_7b_pod16_streamed").spec.system)
    own, shared = streaming_channels(system, 0, "read", tiles)
    assert own.bandwidth_bytes_per_s == pytest.approx(rate)
    assert shared.bandwidth_bytes_per_s == 40e9
