"""Routes, by hand: IPU i sits on rung i // 2, side i % 2, of its link domain."""

from dataclasses import replace
from pkgutil import iter_modules
from typing import get_args

import pytest

from podsim.engine import execute
from podsim.placement import topologies
from podsim.placement.topologies import topology_of
from podsim.placement.topology import gw_hops, route, streaming_channels
from podsim.program.task import Exchange, Group, Phase, Program
from podsim.program.transfers import first_fragments_bytes, streaming_transfer
from podsim.program.transfers import gw_hops as gw_transfers
from podsim.scenario import System
from podsim.scenario.assumptions import with_value
from tests.examples import small_pod, system_of

POD16, POD64, POD128 = (system_of(name) for name in ("ipu_pod16", "ipu_pod64", "ipu_pod128"))
LINK_BYTES_PER_S = 16e9 * 0.85
RUNG_BYTES_PER_S, RAIL_BYTES_PER_S = 6 * LINK_BYTES_PER_S, 2 * LINK_BYTES_PER_S


def ids(path: object) -> list[str]:
    return [channel.id for channel in path.channels]  # type: ignore[attr-defined]


def test_partners_of_a_rung() -> None:
    path = route(POD16, 0, 1)
    assert ids(path) == ["domain0/rung0/to1"]
    assert path.channels[0].bandwidth_bytes_per_s == pytest.approx(RUNG_BYTES_PER_S)
    assert path.latency_s == pytest.approx(0.57e-6)


def test_the_two_directions_of_a_rung_are_two_channels() -> None:
    assert ids(route(POD16, 1, 0)) == ["domain0/rung0/to0"]


def test_neighbours_on_a_rail() -> None:
    path = route(POD16, 2, 4)
    assert ids(path) == ["domain0/rail0/rung1-2/up"]
    assert path.channels[0].bandwidth_bytes_per_s == pytest.approx(RAIL_BYTES_PER_S)
    assert ids(route(POD16, 4, 2)) == ["domain0/rail0/rung1-2/down"]


def test_the_rung_is_crossed_first() -> None:
    """From rung 0, side 0 to rung 2, side 1: the rung, then two rails of side 1. 0.57 + 2·0.16 us."""
    path = route(POD16, 0, 5)
    assert ids(path) == ["domain0/rung0/to1", "domain0/rail1/rung0-1/up", "domain0/rail1/rung1-2/up"]
    assert path.latency_s == pytest.approx(0.89e-6)


def test_a_ladder_is_walked_from_end_to_end() -> None:
    """POD16 has rungs 0-7: seven rails from rung 7 back to rung 0."""
    assert ids(route(POD16, 14, 0)) == [f"domain0/rail0/rung{low}-{low + 1}/down" for low in range(6, -1, -1)]


def test_a_torus_takes_the_shorter_way_round() -> None:
    """POD64 has rungs 0-31: from 31 to 0 and from 1 to 31 over the joined ends."""
    assert ids(route(POD64, 62, 0)) == ["domain0/rail0/rung31-0/up"]
    assert ids(route(POD64, 2, 62)) == ["domain0/rail0/rung0-1/down", "domain0/rail0/rung31-0/down"]


def test_half_way_round_a_torus_goes_up() -> None:
    path = route(POD64, 0, 32)
    assert ids(path) == [f"domain0/rail0/rung{low}-{low + 1}/up" for low in range(16)]
    assert path.latency_s == pytest.approx(0.57e-6 + 15 * 0.16e-6)


def test_every_ipu_of_a_torus_is_at_most_a_rung_and_half_the_rails_away() -> None:
    lengths = {len(route(POD64, 0, target).channels) for target in range(1, 64)}
    assert max(lengths) == 1 + 16


def test_the_second_link_domain_has_channels_of_its_own() -> None:
    assert ids(route(POD128, 64, 66)) == ["domain1/rail0/rung0-1/up"]


@pytest.mark.parametrize("name", get_args(get_args(System.model_fields["topology"].annotation)[0]))
def test_each_topology_is_a_module_of_its_name(name: str) -> None:
    topology = topology_of(POD16.model_copy(update={"topology": name}))
    assert set(topology.ring(range(8))) == set(range(8))
    assert [each.bytes_per_s for each in topology.connections(POD16, 0, 1)] == pytest.approx([RUNG_BYTES_PER_S])


def test_each_module_of_a_topology_has_a_key() -> None:
    keys = get_args(get_args(System.model_fields["topology"].annotation)[0])
    assert sorted(keys) == [module.name for module in iter_modules(topologies.__path__)]


@pytest.mark.parametrize(("source", "target"), [(3, 3), (0, 64)])
def test_no_route_to_oneself_or_to_another_domain(source: int, target: int) -> None:
    with pytest.raises(ValueError, match=rf"no IPU-Link route from IPU {source} to IPU {target}"):
        route(POD128, source, target)


def test_a_domain_is_no_larger_than_the_pod() -> None:
    """One machine of at most 16 per domain: 4 IPUs."""
    system = system_of(small_pod(1))
    assert (system.domain_ipu_count, system.domain_count) == (4, 1)
    two = system_of(small_pod(2, domain_machines=1))
    assert (two.domain_ipu_count, two.domain_count) == (4, 2)


def test_between_domains_over_the_gateways() -> None:
    """IPU 5 is in machine 1, IPU 69 in machine 17. 30 Gb/s in, 2 ports of 12.5 GB/s at 0.85, 26.4 Gb/s out.

    The links to the gateways carry 16 GB/s at 0.85.
    """
    hops = gw_hops(POD128, 5, 69)
    assert [[channel.id for channel in hop] for hop in hops] == [
        ["ipu5/gw/up", "ipu5/gateway/write"],
        ["machine1-17/gw_link"],
        ["ipu69/gw/down", "ipu69/gateway/read"],
    ]
    rates = [channel.bandwidth_bytes_per_s for hop in hops for channel in hop]
    assert rates == pytest.approx([30e9 / 8, 13.6e9, 2 * 12.5e9 * 0.85, 26.4e9 / 8, 13.6e9])


def test_a_gateway_passes_on_fragments() -> None:
    """Of 5 MB in two collectives the first 1.12 MB of each take one hop after the other, with 1, 3 and 1 us.

    The latencies are those of three tensors.
    The other 2.76 MB go up at 3.75 GB/s and over at 21.25 GB/s while all 5 MB come down at 3.3 GB/s.
    """
    up, over, down = gw_transfers(POD128, 5, 69, 5e6, 2.24e6, 3)
    assert [each.latency_ps for each in (up, over, down)] == [3_000_000, 9_000_000, 3_000_000]
    times = [{name: time / 1e12 for name, time in each.channels} for each in (up, over, down)]
    assert times[0] == pytest.approx({"ipu5/gw/up": 2.24e6 / 3.75e9, "ipu5/gateway/write": 2.24e6 / 13.6e9})
    assert times[1] == pytest.approx({"machine1-17/gw_link": 2.24e6 / 21.25e9})
    assert times[2] == pytest.approx(
        {
            "ipu69/gw/down": 5e6 / 3.3e9,
            "ipu69/gateway/read": 5e6 / 13.6e9,
            "ipu5/gw/up": 2.76e6 / 3.75e9,
            "ipu5/gateway/write": 2.76e6 / 13.6e9,
            "machine1-17/gw_link": 2.76e6 / 21.25e9,
        }
    )


@pytest.mark.parametrize("collectives", [1, 4])
def test_what_is_smaller_than_a_fragment_is_stored_and_forwarded(collectives: int) -> None:
    """1 MB, or 4 MB in four collectives."""
    staged = first_fragments_bytes(POD128, {10**6: collectives})
    hops = gw_transfers(POD128, 5, 69, collectives * 1e6, staged, collectives)
    assert [[name for name, _ in hop.channels] for hop in hops] == [
        ["ipu5/gw/up", "ipu5/gateway/write"],
        ["machine1-17/gw_link"],
        ["ipu69/gw/down", "ipu69/gateway/read"],
    ]
    assert {hop.size for hop in hops} == {collectives * 10**6}


def test_each_collective_has_a_first_fragment_of_its_own() -> None:
    """Of a quarter of 8 MB 1.12 MB; of quarters of 4 MB and 2 kB, which are smaller, all of both, twice."""
    assert first_fragments_bytes(POD128, {8 * 10**6: 1, 4 * 10**6: 1, 2000: 2}, 4) == 1.12e6 + 1e6 + 2 * 500
    endless = system_of(small_pod(2, domain_machines=1, gw_link={"fragment_size": None}))
    assert first_fragments_bytes(endless, {8 * 10**6: 1, 2000: 2}, 4) == 2e6 + 2 * 500


def test_ipus_of_a_machine_share_the_gw_link_only() -> None:
    first, second, other = (
        {channel.id for hop in gw_hops(POD128, ipu, 64 + ipu) for channel in hop} for ipu in (0, 3, 4)
    )
    assert first & second == {"machine0-16/gw_link"}
    assert not first & other


def test_ipus_of_a_machine_share_its_streaming_memory_in_both_directions() -> None:
    read, write = streaming_channels(POD16, 4, "read"), streaming_channels(POD16, 7, "write")
    assert [channel.id for channel in read] == ["ipu4/streaming/read", "ipu4/gateway/read", "machine1/streaming"]
    assert [channel.id for channel in write] == ["ipu7/streaming/write", "ipu7/gateway/write", "machine1/streaming"]
    rates = [channel.bandwidth_bytes_per_s for channel in (*read, *write)]
    assert rates == pytest.approx([6.64e9, 13.6e9, 19.2e9, 7.5e9, 13.6e9, 19.2e9])


def test_what_streams_and_what_comes_over_gw_links_share_the_link_to_the_gateway() -> None:
    """2.2 GB from memory at 11 GB/s take 200 ms alone, and 0.66 GB over GW-Links at 3.3 GB/s as long.

    Both ask for 14.3 GB/s of 13.6. Fair is 3.3 for the GW-Link, which cannot use half, and 10.3 for the memory.
    After 200 ms the GW-Link is done and 2.2 - 2.06 = 0.14 GB are left, at 11 GB/s: 12.7 ms.
    """
    faster = with_value(POD128, "machine.streaming_memory.read_bandwidth_per_ipu", 11e9)
    streamed = streaming_transfer(faster, "weights", 69, "read", 2.2e9)
    *_, received = gw_transfers(POD128, 5, 69, 0.66e9, 1, 1)
    lanes = {"a": streamed, "b": received}
    phases = {
        name: Phase("p", 1, {name: (Exchange((replace(lane, latency_ps=0),)),)}, "w") for name, lane in lanes.items()
    }
    trace = execute(Program(tuple(Group(name, (name,), (phase,)) for name, phase in phases.items())))
    assert trace.lanes["b"]["gw_link"] == pytest.approx(200e9, rel=1e-6)
    assert trace.lanes["a"]["streaming"] == pytest.approx(200e9, rel=1e-6)
    assert trace.lanes["a"]["contention"] == pytest.approx(0.14e9 / 11e9 * 1e12, rel=1e-6)
