"""A ring of machines without torus: routes by hand, and all-reduces against their closed form."""

from __future__ import annotations

import pytest

import podsim
from podsim.placement.topologies import machine_ring
from podsim.placement.topology import route
from tests.analytic.test_closed_forms_of_plans import LARGE_TENSORS, LAYER, RAIL, plan_of, run, time_of
from tests.collectives import collective_s
from tests.examples import small_bert, small_pod, system_of

FOUR = system_of(small_pod(4, topology="machine_ring"))


def names(source: int, target: int) -> list[str]:
    return [channel.id.removeprefix("domain0/") for channel in route(FOUR, source, target).channels]


def test_both_sides_share_what_joins_two_machines() -> None:
    assert names(2, 4) == names(3, 5) == ["machine0-1/up"]
    assert names(4, 2) == ["machine0-1/down"]


def test_inside_a_machine_it_is_a_ladder() -> None:
    assert names(0, 3) == ["rung0/to1", "rail1/rung0-1/up"]


def test_the_last_machine_is_next_to_the_first() -> None:
    """Rung 7 of 16 IPUs is joined to rung 0; from machine 0 to machine 2 both ways are as long, so up."""
    assert names(14, 0) == ["machine3-0/up"]
    assert names(0, 8) == ["rail0/rung0-1/up", "machine0-1/up", "rail0/rung2-3/up", "machine1-2/up"]


def test_a_single_machine_has_no_neighbour() -> None:
    alone = system_of(small_pod(1, topology="machine_ring"))
    assert [channel.id for channel in route(alone, 2, 0).channels] == ["domain0/rail0/rung0-1/down"]


def test_the_ring_passes_each_connection_once() -> None:
    members = machine_ring.ring(range(16))
    passed = [
        name for here, there in zip(members, (*members[1:], members[0]), strict=True) for name in names(here, there)
    ]
    assert sorted(passed) == sorted(set(passed))
    assert {f"machine{n}-{(n + 1) % 4}/up" for n in range(4)} <= set(passed)


def ring_s(topology: str, machines: int) -> float:
    """One replica per machine, an all-reduce of IPUs 1 to 3, one layer each in half precision. [s]"""
    scenario = small_bert(small_pod(machines, topology=topology), [1] * 4, replicas=machines)
    trace = run(plan_of(scenario))
    return time_of(trace, ["update IPUs 1-3: reduce-scatter", "update IPUs 1-3: all-gather"]) / 1e12


@pytest.mark.parametrize(("topology", "rings"), [("machine_ring", 3), ("torus", 2)])
@pytest.mark.parametrize("machines", [4, 8])
def test_rings_that_share_a_connection(topology: str, rings: int, machines: int) -> None:
    """r·V/B for r IPUs that send two nths in n/2 steps and back, one each way, on one of two links in each direction.

    Three IPUs of a machine send to the next machine: over one connection in a ring of machines, over that of
    their side in a torus, where the two IPUs of side 1 share one. Two hops take 0.57 + 0.16 us,
    and a sync 600 cycles. The two IPUs of each side of the four of a replica take turns.
    """
    exchange_s = 0.73e-6 + 600 / 1.33e9
    expected_s = collective_s(LAYER * 2, machines, exchange_s, RAIL / rings, tensors=LARGE_TENSORS, exchanges=2)
    assert ring_s(topology, machines) == pytest.approx(expected_s, rel=1e-6)


def test_shards_on_a_ring_of_machines_sum_as_fast_as_on_a_ladder() -> None:
    """Their ring takes one way in each direction between machines: half the cables, the same 2(n - 1) steps."""
    decode = [
        podsim.generate("llama2_7b_pods", overrides=["model.layer_count=2", f"system.topology={topology}"]).decode
        for topology in ("ladder", "machine_ring")
    ]
    sums = [each.breakdown["all_reduce"] for each in decode]
    assert sums[1] == pytest.approx(sums[0], rel=0.02)
