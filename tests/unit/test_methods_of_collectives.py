"""Which method a collective takes, how often its IPUs exchange, and in which order they lie."""

from __future__ import annotations

import pytest

from podsim.placement.rings import CLOCKWISE, MEET_IN_MIDDLE, PAIR, RingLayout, ring_of
from podsim.placement.topology import Routes
from podsim.scenario.hardware import System
from podsim.scenario.load import load_hardware
from podsim.tiles.collective import ALL_GATHER, REDUCE_SCATTER


def ring(count: int, stride: int = 1, pod: str = "ipu_pod64", rings: int = 2) -> RingLayout:
    system, _ = load_hardware(pod, "pod")
    assert isinstance(system, System)
    members = ring_of(system, range(0, count * stride, stride))
    return RingLayout.from_members(system, Routes(system), rings, members)


@pytest.mark.parametrize(
    ("count", "gathered", "reduced"),
    [
        (3, 622_592, 1_245_184),
        (4, 622_592, 1_245_184),
        (5, 2_490_368, 4_980_736),
        (8, 2_490_368, 4_980_736),
        (9, 19_922_944, 39_845_888),
        (16, 19_922_944, 39_845_888),
    ],
)
def test_single_ipus_take_a_pair_of_rings_for_much_data(count: int, gathered: int, reduced: int) -> None:
    """The limit of a gather counts a shard, that of a reduce-scatter the whole tensor."""
    found = ring(count)
    for name, least in ((ALL_GATHER, gathered * count), (REDUCE_SCATTER, reduced)):
        assert found.method(name, least - 1) is MEET_IN_MIDDLE
        assert found.method(name, least) is PAIR


def test_more_than_16_single_ipus_always_meet_in_the_middle() -> None:
    assert ring(17).method(REDUCE_SCATTER, 10**12) is MEET_IN_MIDDLE
    assert ring(2).method(REDUCE_SCATTER, 10**12) is CLOCKWISE


@pytest.mark.parametrize(
    ("pod", "count", "stride", "method", "exchanges"),
    [
        ("ipu_pod64", 32, 2, MEET_IN_MIDDLE, 1),
        ("ipu_pod64", 16, 4, MEET_IN_MIDDLE, 2),
        ("ipu_pod64", 8, 8, MEET_IN_MIDDLE, 4),
        ("ipu_pod64", 2, 32, CLOCKWISE, 16),
        ("ipu_pod64", 4, 4, CLOCKWISE, 1),  # a quarter of the torus does not close
        ("ipu_pod16", 4, 4, CLOCKWISE, 1),
    ],
)
def test_replicas_of_several_ipus(pod: str, count: int, stride: int, method: object, exchanges: int) -> None:
    """Around a torus they meet in the middle, and the IPUs of each side take turns; elsewhere one ring goes around."""
    found = ring(count, stride, pod)
    assert found.method(REDUCE_SCATTER, 1.0) is found.method(REDUCE_SCATTER, 1e12) is method
    (reduced,) = found.passes(REDUCE_SCATTER, 1.0)
    before, each = (4, 4) if method is CLOCKWISE else (3, 12)
    supersteps_s = (before / reduced.step_count + each) * 275 / 1.33e9
    assert reduced.latency_s - supersteps_s == pytest.approx(exchanges * found.exchange_latency_s)
    assert reduced.step_count == (count // 2 if method is MEET_IN_MIDDLE else count - 1)


def test_one_ring_sends_one_way_and_then_the_other() -> None:
    one, two = (ring(8, rings=each).passes(ALL_GATHER, 1.0)[0] for each in (1, 2))
    assert one.latency_s - two.latency_s == pytest.approx(600 / 1.33e9 + 0.57e-6)


def test_order_of_replicas_along_a_ladder_and_around_a_torus() -> None:
    """Up with every other one and down with the rest, so that no hop is longer than two replicas."""
    assert ring(4, 4, "ipu_pod16").members == (0, 8, 12, 4)
    assert ring(8, 8).members == (0, 8, 16, 24, 32, 40, 48, 56)


@pytest.mark.parametrize("count", range(3, 17))
def test_whole_fragments_half_of_the_way_move_each_other_fragment_once(count: int) -> None:
    """n/2 steps of two nths: n - 1 nths are needed, and for an even n one transfer is useless."""
    (found,) = ring(count).passes(ALL_GATHER, 1.0)
    assert found.step_count * found.share == pytest.approx((count - 1 + (count % 2 == 0)) / count)
