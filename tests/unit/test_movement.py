"""Transfers and collectives on one machine: numbers derived by hand for a Mk1 server, errors, what is printed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

import podsim as api
from podsim.errors import PodsimError
from podsim.program.movement import COLLECTIVES, Collective, TransferTime
from podsim.result.cost_movement import MovementCost, cost_collective, cost_transfer
from tests.collectives import REDUCE, collective_s

CLOCK_HZ, WORD, KB = 1.6e9, 4, 1000
SERVER = "dss8440"
LINK = 32e9 * 0.86
FIRST, HOP, RUNG = 0.5436e-6, 0.1614e-6, 0.0884e-6
START, FORWARDED = 1.592e-9, 2.684e-9
SUPERSTEP, LOADED, ALONE = 464, 264, 213
LAUNCH = SUPERSTEP - LOADED
"""What a superstep takes beside its exchange."""


def cycles(cost: MovementCost) -> float:
    return cost.time_s * CLOCK_HZ


def test_a_word_between_tiles() -> None:
    """213 cycles alone and 264 with all tiles, and one more for the word."""
    assert cycles(cost_transfer(WORD, system=SERVER)) == pytest.approx(ALONE + 1)
    assert cycles(cost_transfer(WORD, tiles=1216, system=SERVER)) == pytest.approx(LOADED + 1)


def test_a_block_between_tiles() -> None:
    """64 KiB are 16,384 words."""
    cost = cost_transfer(65536, system=SERVER)
    assert cycles(cost) == pytest.approx(ALONE + 16384)
    assert cost.bytes_per_s == pytest.approx(65536 / (ALONE + 16384) * CLOCK_HZ)


@pytest.mark.parametrize(
    ("target", "latency_s"),
    [
        ("ipu1", FIRST + RUNG),
        ("ipu2", FIRST),
        ("ipu3", FIRST + HOP + RUNG),
        ("ipu14", FIRST + 6 * HOP),
        ("ipu15", FIRST + 7 * HOP + RUNG),
    ],
)
def test_a_word_between_chips(target: str, latency_s: float) -> None:
    """Rung, rails, and a word that leaves its tile before it enters the link."""
    link = 2 * LINK if target == "ipu1" else LINK
    word_s = WORD / 6.4e9 + WORD / (link if target == "ipu1" else LINK)
    assert cost_transfer(WORD, "ipu0", target, tiles=1, system=SERVER).time_s == pytest.approx(latency_s + word_s)


def test_words_of_all_tiles_wait_for_each_other() -> None:
    """1,215 starts after the first; a chip between makes each of them longer."""
    direct = cost_transfer(WORD, "ipu0", "ipu2", system=SERVER)
    assert direct.time_s == pytest.approx(FIRST + 1215 * START)
    indirect = cost_transfer(WORD, "ipu0", "ipu3", system=SERVER)
    assert indirect.time_s == pytest.approx(FIRST + HOP + RUNG + 1215 * (START + FORWARDED))
    assert direct.movement.bound == "messages"


def test_large_blocks_of_all_tiles_fill_the_links() -> None:
    """Two links on a rung, one on a rail, each way for itself."""
    moved = 1216 * 40 * KB
    for target, both, links in (("ipu1", False, 2), ("ipu2", False, 1), ("ipu2", True, 1)):
        cost = cost_transfer(40 * KB, "ipu0", target, both_ways=both, system=SERVER)
        latency_s = FIRST + (RUNG if links > 1 else 0)
        assert cost.time_s == pytest.approx(latency_s + moved / (links * LINK))
        assert cost.movement.moved_bytes == moved * (1 + both)


def test_traffic_between_the_halves_fills_the_rails_between_them() -> None:
    """Two rails of one link, both ways: 4 x 27.5 GB/s, however many chips there are."""
    for ipus in (4, 8, 16):
        cost = cost_transfer(40 * KB, target="random", ipus=ipus, system=SERVER)
        assert cost.bytes_per_s == pytest.approx(4 * LINK, rel=2e-3)


def test_the_host_sends_over_a_link_of_each_chip_and_one_of_each_branch() -> None:
    """8.81 us, then 5.86 GB/s to one chip and 13.78 GB/s to the four of a branch."""
    one = cost_transfer(40 * KB, "host", "ipus", tiles=1, system=SERVER)
    assert one.time_s == pytest.approx(8.81e-6 + 40 * KB / (7.88e9 * 0.744))
    for ipus, branches in ((4, 1), (16, 4)):
        cost = cost_transfer(40 * KB, "host", "ipus", ipus=ipus, system=SERVER)
        moved = ipus * 1216 * 40 * KB
        assert cost.time_s == pytest.approx(8.81e-6 + moved / (branches * 15.75e9 * 0.875))
        assert cost.movement.bound == "host link"


def test_one_ipu_reads_streaming_memory_as_measured() -> None:
    """SPARQ-001: 268,435,456 B of keys and values in 40.4 ms, on one IPU of a Bow Pod16."""
    cost = cost_transfer(268_435_456 // 1472, "memory", "tile", system="bow_pod16")
    assert cost.time_s == pytest.approx(40.4e-3, rel=1e-3)


def test_ipus_of_a_machine_read_streaming_memory_side_by_side() -> None:
    """Each reads 6.64 GB/s, but four of them the 19.2 GB/s of their machine; one writes 7.5 GB/s."""
    for ipus, rate in ((1, 6.64e9), (2, 13.28e9), (4, 19.2e9), (8, 38.4e9)):
        cost = cost_transfer(KB, "memory", "tile", ipus=ipus, system="ipu_pod16")
        assert cost.time_s == pytest.approx(1.5e-6 + ipus * 1472 * KB / rate)
    assert cost_transfer(KB, "tile", "memory", system="ipu_pod16").time_s == pytest.approx(1.5e-6 + 1472 * KB / 7.5e9)


def test_loads_of_a_tile_from_its_own_memory() -> None:
    """16 B per cycle and tile: 1,216 x 16 x 1.6 GHz."""
    assert cost_transfer(KB, "local", tiles=1216, system=SERVER).bytes_per_s == pytest.approx(31.1296e12)


def test_collectives_with_one_root() -> None:
    """A broadcast is heard by pairs of tiles at double width; 1,215 pieces leave or arrive in a row.

    A piece from afar is sent before its turn, so that a gather waits as long as a tile for its neighbour.
    """
    expected = {"broadcast": LOADED + 125, "scatter": LOADED + 1215 * 250, "gather": ALONE + 1215 * 250}
    name: Collective
    for name in ("broadcast", "scatter", "gather"):
        assert cycles(cost_collective(name, KB, system=SERVER)) == pytest.approx(expected[name])


def test_few_tiles_lie_closer_together() -> None:
    """Of 609 tiles 608 of 1,215 are others, so that half of the 51 cycles between a pair and all come to it."""
    assert cycles(cost_collective("broadcast", WORD, tiles=609, system=SERVER)) == pytest.approx(
        ALONE + (LOADED - ALONE) * 608 / 1215 + 1
    )


def test_all_to_all_and_all_gather_fill_each_port_alike() -> None:
    """1,215 pieces arrive at each tile."""
    name: Collective
    for name in ("all-to-all", "all-gather"):
        cost = cost_collective(name, KB, system=SERVER)
        assert cycles(cost) == pytest.approx(LOADED + 1215 * 250)
        assert cost.movement.moved_bytes == 1216 * 1215 * KB


def test_of_two_movements_the_longer_one_sets_the_bound() -> None:
    """4 s of loads and 1 s of sums; what arrives is what the second brings."""
    loads, sums = (
        TransferTime((("loads", 3.0),), 10.0, "loads"),
        TransferTime((("sums", 1.0), ("loads", 1.0)), 20.0, "sums"),
    )
    assert loads.then(sums) == TransferTime((("loads", 4.0), ("sums", 1.0)), 20.0, "loads")
    assert sums.then(loads) == TransferTime((("sums", 1.0), ("loads", 4.0)), 10.0, "loads")


def test_a_small_reduction_goes_in_pieces_of_64() -> None:
    """Of one word of 1,216 tiles: 19 pieces of 64, whose sums the root adds up.

    A stage: 264 cycles of latency, a word of each but one, 200 to launch, and 33 + 6·(20 + 2·n + 8) of sum.
    """
    first = LOADED + 63 + LAUNCH + 33 + 6 * (20 + 2 * 64 + 8)
    second = LOADED + 19 + LAUNCH + 33 + 6 * (20 + 2 * 19 + 8)
    assert cycles(cost_collective("reduce", WORD, system=SERVER)) == pytest.approx(first + second)


def test_a_tile_sums_what_it_holds() -> None:
    """A whole superstep, as nothing is exchanged before, and a sum of one partial."""
    cost = cost_collective("reduce", WORD, tiles=1, system=SERVER)
    assert cycles(cost) == pytest.approx(SUPERSTEP + 33 + 6 * (20 + 2 + 8))


def test_a_small_reduction_over_chips_brings_all_words_to_one() -> None:
    """2,432 tiles are 38 pieces of 64 on the first chip: half of their words come over the rail, as of other tiles.

    A sum behind links has a superstep of its own.
    """
    gathered_s = FIRST + 1215 * START
    first = SUPERSTEP + 33 + 6 * (20 + 2 * 64 + 8)
    second = LOADED + 38 + LAUNCH + 33 + 6 * (20 + 2 * 38 + 8)
    cost = cost_collective("reduce", WORD, between=(0, 2), system=SERVER)
    assert cost.time_s == pytest.approx(gathered_s + (first + second) / CLOCK_HZ)


def test_a_gather_from_another_chip_passes_one_link_and_then_the_port() -> None:
    """A rung has two links, of which one tile has one; a chip between holds up what it hands on."""
    words_s = 1216 * WORD / 6.4e9
    for other, latency_s, each_s in ((1, FIRST + RUNG, 2 * START), (2, FIRST, START)):
        cost = cost_collective("gather", WORD, between=(0, other), others=True, system=SERVER)
        assert cost.time_s == pytest.approx(latency_s + 1215 * each_s + words_s)
        assert cost.movement.moved_bytes == 1216 * WORD
    indirect = cost_collective("gather", WORD, between=(0, 3), others=True, system=SERVER)
    assert indirect.time_s == pytest.approx(FIRST + HOP + RUNG + 1215 * (START + FORWARDED) + words_s)
    both = cost_collective("gather", WORD, between=(0, 2), system=SERVER)
    assert both.time_s == pytest.approx(FIRST + 1215 * START + words_s + 1215 * WORD / 6.4e9)


def test_a_sum_over_chips_takes_rings_of_the_stack() -> None:
    """Two rings share the one link of a rail, or have one each where there are two.

    On 16 IPUs a pair of rings reduces from 39.8 MB on, in n - 1 steps of V / n / 2 each way.
    """
    count, whole = 16, 1216 * 40 * KB
    sync_s = 571 / CLOCK_HZ
    cost = cost_collective("reduce-scatter", 40 * KB, ipus=count, system=SERVER)
    latency_s = sync_s + FIRST + RUNG  # the slowest of the ring crosses a rung
    chip = {"clock": CLOCK_HZ, "tiles": 1216, "overhead": SUPERSTEP}
    assert cost.time_s == pytest.approx(
        collective_s(whole, count, latency_s, 2 * LINK, "pair", [REDUCE], **chip)  # type: ignore[arg-type]
    )
    for software, links in (("popart_sdk_2.1", 1), ("popart_sdk_2.5", 2), ("popart_sdk_3.1", 4)):
        found = cost_collective("reduce-scatter", 40 * KB, ipus=16, system="bow_pod64", software=software)
        carried_s = 15 / 16 * 1472 * 40 * KB / (min(links, 4) * 13.6e9)
        assert dict(found.movement.parts)["IPU-Link"] == pytest.approx(carried_s)


def test_chosen_chips_lie_where_they_are() -> None:
    """Of IPU 0 and IPU 5 a rung and two rails; of IPU 5 and IPU 60 as many rails as the torus has between them.

    Two go around one ring: a step of four supersteps and back, with four and five before these.
    """
    near, far = (cost_collective("all-reduce", WORD, between=chips, system="bow_pod64") for chips in ((0, 5), (5, 60)))
    assert dict(near.movement.parts)["latency"] == pytest.approx(
        2 * (600 / 1.85e9 + 0.57e-6 + 2 * 0.16e-6) + 17 * 275 / 1.85e9
    )
    assert far.time_s > near.time_s


def test_an_all_reduce_over_chips_is_both_halves() -> None:
    halves = (("reduce-scatter", 40 * KB), ("all-gather", 40 * KB // 8))
    apart = [cost_collective(name, size, ipus=8, system=SERVER).time_s for name, size in halves]  # type: ignore[arg-type]
    assert cost_collective("all-reduce", 40 * KB, ipus=8, system=SERVER).time_s == pytest.approx(sum(apart))


SIZES = (4, 40, 400, 4000, 40_000)


def seconds(name: Collective, size: int, ipus: int, over: str = "tiles") -> float:
    return cost_collective(name, size, ipus=ipus, over=over, system=SERVER).time_s


@pytest.mark.parametrize("ipus", [1, 2, 4, 8, 16])
def test_no_sum_is_slower_than_its_parts(ipus: int) -> None:
    """A sum for all tiles may be summed by shares, or at the root and sent."""
    for size in SIZES:
        share = 4 * math.ceil(size / 4 / 1216 / ipus)
        one, whole, shares = (seconds(name, size, ipus) for name in ("reduce", "all-reduce", "reduce-scatter"))
        gathered = seconds("all-gather", share, ipus)
        assert whole <= min(one + seconds("broadcast", size, ipus), shares + gathered) * (1 + 1e-9)
        assert shares <= one + seconds("scatter", share, ipus)


@pytest.mark.parametrize("ipus", [1, 2, 4, 8, 16])
def test_times_grow_with_bytes_and_chips(ipus: int) -> None:
    for name in COLLECTIVES:
        for over in ("tiles", "ipus") if ipus > 1 else ("tiles",):
            times = [seconds(name, size, ipus, over) for size in SIZES]
            assert times == sorted(times), (name, over)
            assert times[0] < times[-1], (name, over)
            if over == "tiles" and ipus < 16:
                assert times[2] < seconds(name, SIZES[2], 2 * ipus), name


def test_a_sum_of_fewer_elements_than_tiles_is_shared_too() -> None:
    """1,000 words: 36 pieces of 34 tiles, each cut into 33 of 31 words; each word then has 36 sums to be added up.

    A tile adds up those of a cut, 8 vectors of 4 for 6 workers, and the root collects the words.
    """

    def summed(depth: int) -> int:
        return LAUNCH + 33 + 6 * (20 + 2 * (2 * depth + 8))

    first = LOADED + 31 * 33 + summed(34)
    second = LOADED + 31 * 36 + summed(36) + LOADED + 1000
    assert cycles(cost_collective("reduce", 4 * KB, system=SERVER)) == pytest.approx(first + second)


def test_what_a_root_sends_over_links_leaves_its_port_first() -> None:
    """1,216 pieces of 4 kB to the other chip at 1 / (1/6.4 + 1/55) GB/s, 1,215 at 6.4 GB/s to its own."""
    cost = cost_collective("scatter", 4 * KB, ipus=2, system=SERVER)
    away_s = 1216 * 4 * KB * (1 / 6.4e9 + 1 / (2 * LINK))
    assert cost.time_s == pytest.approx(FIRST + RUNG + away_s + 1215 * 4 * KB / 6.4e9)


def test_gathering_a_word_is_sending_it() -> None:
    """Over two chips an all-gather of a word of each tile is the transfer that was measured, both ways."""
    sent = cost_transfer(WORD, "ipu0", "ipu1", both_ways=True, system=SERVER)
    assert seconds("all-gather", WORD, 2) == pytest.approx(sent.time_s)


WRONG = {
    "no such collective": (lambda: cost_collective("sum", 4), "`sum` is no collective"),  # type: ignore[arg-type]
    "no such format": (lambda: cost_collective("reduce", 4, dtype="fp8"), "`fp8` cannot be summed"),
    "over machines": (lambda: cost_collective("reduce", 4, over="machines"), "`machines` is not known"),
    "too many chips": (
        lambda: cost_collective("reduce", 4, ipus=17, system=SERVER),
        "IPUs 0 to 16 are not so many different ones of the 16 that IPU-Links join",
    ),
    "too many tiles": (lambda: cost_collective("reduce", 4, tiles=1217, system=SERVER), "1217 tiles are not from 1"),
    "no bytes": (lambda: cost_transfer(0), "`0` bytes are not from 1 to 1e9"),
    "a chip and itself": (lambda: cost_transfer(4, "ipu1", "ipu1"), "IPU 1 and IPU 1 are not two of the 16"),
    "an end that is not known": (lambda: cost_transfer(4, "tile", "moon"), "nothing is known of a transfer"),
    "to no random tile": (lambda: cost_transfer(4, "moon", "random", ipus=2), "nothing is known of a transfer"),
    "host to memory": (lambda: cost_transfer(4, "host", "memory"), "nothing is known of a transfer"),
    "memory to one chip": (lambda: cost_transfer(4, "memory", "ipu3"), "nothing is known of a transfer"),
    "memory that is not there": (
        lambda: cost_transfer(4, "memory", system=SERVER),
        "an IPU moves 4.75 KiB; its streaming memory on .* holds 0.977 KiB",
    ),
    "tiles both ways": (lambda: cost_transfer(4, both_ways=True), "only two chips send both ways"),
    "a load of seven": (lambda: cost_transfer(4, "local", load_bytes=7), "a load of `7` bytes is not known"),
    "no chips": (lambda: cost_collective("reduce", 4, ipus=0), "no IPUs are not so many different ones of the 16"),
    "chips by name": (lambda: cost_collective("gather", 4, between="ipu0,5"), "`ipu0,5` are no numbers of chips"),
    "a chip twice": (lambda: cost_collective("gather", 4, between=(1, 1)), "are not so many different ones"),
    "no root": (lambda: cost_collective("reduce", 4, ipus=2, others=True), "a reduce of 2 IPUs has no root"),
    "half of a link domain": (
        lambda: cost_collective("all-reduce", 4, ipus=100, system="bow_pod256"),
        "100 IPUs do not lie evenly in 2 link domains of 64",
    ),
    "one tile": (lambda: cost_collective("broadcast", 4, tiles=1), "`4` bytes of 1 tile are no broadcast"),
    "half a byte": (lambda: cost_collective("reduce", 4.5), "`4.5` bytes of 1472 tiles are no reduce"),  # type: ignore[arg-type]
    "random with one chip": (lambda: cost_transfer(4, "tile", "random"), "nothing is known of a transfer"),
}


@pytest.mark.parametrize(("ask", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked(ask: Callable[[], MovementCost], message: str) -> None:
    with pytest.raises(PodsimError, match=message) as error:
        ask()
    assert error.value.do


def test_json_says_what_python_says() -> None:
    cost = api.cost_transfer(4, "ipu0", "ipu1", tiles=1, system=SERVER)
    said = json.loads(json.dumps(cost.to_dict()))
    assert said["time_s"] == cost.time_s == pytest.approx(sum(said["breakdown_s"].values()))
    assert (said["ipu"], said["ipus"], said["tiles"], said["moved_bytes"]) == ("GC2", 2, 1, 4)
    assert said["ranges"]["time_s"]["low"] < said["time_s"] < said["ranges"]["time_s"]["high"]


def test_bytes_are_shown_as_they_were_asked_for() -> None:
    title = "transfer from tile to tile, 40,000 B of a tile, 1 tile of one GC2"
    assert cost_transfer(40 * KB, system=SERVER).report().title == title


def test_the_title_says_what_took_part() -> None:
    """Only sums and all-gathers of several chips are over chips; a format is that of a sum."""
    asked: list[tuple[Collective, int, str]] = [
        ("all-reduce", 2, "all-reduce of fp16 over chips with PopART, SDK 2.5"),
        ("all-reduce", 1, "all-reduce of fp16 over tiles"),
        ("gather", 2, "gather over tiles"),
    ]
    for name, ipus, title in asked:
        assert cost_collective(name, 4, ipus=ipus, over="ipus", dtype="fp16").what == title


def test_the_host_receives_over_the_links_it_sends_over() -> None:
    """PCIe carries as much either way; only what it sends was measured."""
    sent, received = cost_transfer(4, "host", "ipus", system=SERVER), cost_transfer(4, "ipus", "host", system=SERVER)
    assert sent.time_s == received.time_s
    assert sent.sigma < received.sigma


def test_what_no_tile_can_hold_is_said() -> None:
    """1,216 blocks of 40 kB at the root are 46.4 MiB, and a tile has 256 KiB."""
    cost = cost_collective("gather", 40 * KB, system=SERVER)
    assert cost.to_dict()["fullest_tile_bytes"] == 1216 * 40 * KB
    assert cost.notes == ["does not fit: a tile would hold 46.4 MiB; it has 256 KiB"]
    for fits in (cost_collective("gather", 200, system=SERVER), cost_collective("all-gather", 10 * KB, ipus=16)):
        assert fits.notes == []


def test_ranges_are_wider_where_nothing_was_measured() -> None:
    measured = cost_transfer(4, system=SERVER).sigma
    assert measured < cost_transfer(4, system="ipu_pod16").sigma == cost_collective("reduce", 4).sigma
    assert cost_collective("reduce", 4, system=SERVER).sigma <= cost_collective("reduce", 4).sigma
