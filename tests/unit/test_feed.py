"""Training data on its way from hosts to IPUs: rates by hand, waiting, buffers, I/O tiles."""

from __future__ import annotations

import pytest

from podsim import RunResult, simulate
from podsim.engine import execute
from podsim.placement import Plan
from podsim.program.compile import compile_program, replicas_of
from podsim.program.feed import Feed
from podsim.program.task import Acquire, Exchange, Release, Work
from podsim.scenario.faults import FaultSpec
from tests.examples import Mapping, plan_of, small_cnn, small_pod

POD16, POD64 = "resnet50_v1.1_pod16", "resnet50_v1.1_pod64"
CORES, DECODE_S = 128, 2.5e-3
"""Of the shipped server: two processors of 64 cores; time of one core for one image."""
IMAGES, IMAGE_BYTES = 20, 3 * 224 * 224
"""Of a micro-batch; an image has a byte per value."""
HOST_LINK = 0.9 * 12.5e9
"""One port of 100 GbE, 90 % of it left for data. [B/s]"""
READ = 19.2e9 / 4
"""What each IPU of a machine reads through its gateway, while all four do. [B/s]"""


def feed_of(plan: Plan) -> Feed:
    return Feed(plan, replicas_of(plan))


def hosts(count: int) -> list[str]:
    return [f"system.host_count={count}"]


@pytest.fixture(scope="module")
def fed() -> RunResult:
    return simulate(POD64, overrides=hosts(4))


@pytest.fixture(scope="module")
def starved() -> RunResult:
    return simulate(POD64, overrides=hosts(1))


# Rates


@pytest.mark.parametrize(("servers", "replicas_each"), [(1, 64), (2, 32), (4, 16)])
def test_the_cores_of_a_server_are_shared_by_its_replicas(servers: int, replicas_each: int) -> None:
    feed = feed_of(plan_of(POD64, *hosts(servers)))
    assert feed.interval_ps() == pytest.approx(replicas_each * IMAGES * DECODE_S / CORES * 1e12, rel=1e-6)
    assert feed.slowest_channel == "host0/decode"


def test_images_that_nobody_decodes_cost_the_link_alone() -> None:
    """Four replicas of a machine share its link; with a server for each machine, its cards are faster."""
    feed = feed_of(plan_of(POD64, *hosts(16), "data.decoded_by_host=false"))
    assert feed.interval_ps() == pytest.approx(4 * IMAGES * IMAGE_BYTES / HOST_LINK * 1e12, rel=1e-6)
    assert feed.slowest_channel == "machine0/host_link"
    assert not feed.is_live


def test_with_io_tiles_streaming_memory_is_shared_too() -> None:
    """20 GB/s of a machine among four IPUs are slower than a host link of twenty ports, and than each IPU reads."""
    link = "system.machine.host_link.bandwidth_per_direction=250 GB/s"
    cards = "system.host.network.port_count=100"
    memory = "system.machine.streaming_memory.bandwidth_per_machine=20 GB/s"
    feed = feed_of(plan_of(POD64, "data.decoded_by_host=false", "memory.io_tiles=32", link, cards, memory))
    assert feed.interval_ps() == pytest.approx(4 * IMAGES * IMAGE_BYTES / 20e9 * 1e12, rel=1e-6)
    assert feed.slowest_channel == "machine0/streaming"


FAULTS: dict[str, tuple[dict[str, object], float]] = {
    "a link at a quarter": ({"machine": 0, "part": "host_link", "bandwidth": "25 %"}, 4.0),
    "a link at three quarters": ({"machine": 3, "part": "host_link", "bandwidth": "75 %"}, 4 / 3),
    "a server that is not what all wait for": ({"host": 0, "cores": "50 %"}, 1.0),
}


@pytest.mark.parametrize(("fault", "slower"), FAULTS.values(), ids=FAULTS)
def test_a_slower_channel_sets_a_slower_pace(fault: dict[str, object], slower: float) -> None:
    """The link of one machine keeps a share of its rate, and nobody decodes."""
    plan = plan_of(POD64, *hosts(16), "data.decoded_by_host=false")
    feed = Feed(plan, replicas_of(plan, explicit=True), [FaultSpec.model_validate(fault)])
    one_link_s = 4 * IMAGES * IMAGE_BYTES / HOST_LINK
    assert feed.interval_ps() == pytest.approx(slower * one_link_s * 1e12, rel=1e-6)
    if slower > 1:
        assert feed.slowest_channel == f"machine{fault['machine']}/host_link"


# Waiting


def test_four_servers_feed_a_pod64(fed: RunResult) -> None:
    """16 replicas x 20 images in 8.75 ms, less than a micro-batch takes."""
    assert "host_wait" not in fed.breakdown
    assert fed.warnings == ()
    cycle_s = next(p for p in fed.phases if p.name == "main").seconds / 3
    assert cycle_s > 16 * IMAGES * DECODE_S / CORES


@pytest.mark.parametrize("servers", [1, 2])
def test_too_few_servers_set_the_pace(servers: int) -> None:
    starved = simulate(POD64, overrides=hosts(servers))
    assert starved.breakdown["host_wait"] > 0
    assert starved.throughput_samples_per_s == pytest.approx(servers * CORES / DECODE_S, rel=0.01)


def test_a_warning_names_the_server(fed: RunResult, starved: RunResult) -> None:
    """The IPUs wait for all that the update takes longer."""
    share = 1 - fed.weight_update_s / starved.weight_update_s
    assert starved.warnings == (
        f"host servers set the pace: IPUs wait for data {100 * share:.1f} % of the time; "
        "more servers or faster decoding would help",
    )


def test_a_warning_names_the_host_link() -> None:
    """4 images of 16x16 pixels with 3 bytes each: 3 kB at 0.09 MB/s take 34 ms, far more than the IPU needs."""
    pod = small_pod(host_link={"bandwidth_per_direction": "0.1 MB/s"})
    *_, warning = simulate(small_cnn(pod, decoded=False)).warnings
    assert warning.startswith("host links set the pace: IPUs wait for data 9")
    assert warning.endswith(" % of the time; faster host links or smaller samples would help")


def test_one_network_card_feeds_a_pod_at_its_own_rate() -> None:
    """A server that decodes in no time sends 11.25 GB/s through one port; an image has 150,528 bytes."""
    fast = ["system.host.image_decode_time=1 us", "system.host.network.port_count=1"]
    result = simulate(POD64, overrides=[*hosts(1), *fast])
    assert result.throughput_samples_per_s == pytest.approx(HOST_LINK / IMAGE_BYTES, rel=0.01)
    assert any("network cards of host servers set the pace" in warning for warning in result.warnings)


def test_a_pipeline_that_waits_is_warned_about_by_its_first_ipu() -> None:
    """Only it takes data; the mean over the IPUs would hide a half of the waiting."""
    pod = small_pod() | {"host": {"image_decode_time": "1 s"}}
    result = simulate(small_cnn(pod, splits=("conv2",)))
    first, second = (account.seconds for account in result.ipus)
    assert first["host_wait"] / result.weight_update_s > 0.9
    assert "host_wait" not in second
    assert sum("set the pace" in warning for warning in result.warnings) == 1


def test_a_short_wait_is_not_worth_a_warning() -> None:
    """A batch of 3,200 images in 110 ms, 1 % more than the IPUs need: 128 cores with 4.4 ms each."""
    result = simulate(POD16, overrides=["system.host.image_decode_time=4.4 ms"])
    assert result.weight_update_s == pytest.approx(3200 * 4.4e-3 / CORES, rel=1e-6)
    assert 0 < result.breakdown["host_wait"] / result.weight_update_s < 0.05
    assert result.warnings == ()


def test_one_server_feeds_bert_on_a_pod64() -> None:
    result = simulate("bert_v1.1_pod64_open", overrides=hosts(1))
    assert "host_wait" not in result.breakdown
    assert result.weight_update_ps == simulate("bert_v1.1_pod64_open").weight_update_ps


# The buffer


def test_a_buffer_of_one_makes_server_and_ipu_take_turns() -> None:
    """4 ms per image: 10 ms from the end of one load to the next micro-batch; the last is computed without waiting.

    Four IPUs load at once, each at a quarter of the 19.2 GB/s of their machine, after 1.5 us.
    """
    plain = simulate(POD16)
    cycle_s = next(p.seconds for p in plain.phases if p.name == "main") / 10
    result = simulate(POD16, overrides=["system.host.image_decode_time=4 ms", "data.prefetch_depth=1"])
    load_s = IMAGES * IMAGE_BYTES / READ + 1.5e-6
    interval_s = 16 * IMAGES * 4e-3 / CORES
    main_s = 9 * (interval_s + load_s) + cycle_s
    waited_s = main_s - 10 * cycle_s
    assert result.weight_update_s - plain.weight_update_s == pytest.approx(waited_s, rel=1e-6)
    assert result.breakdown["host_wait"] == pytest.approx(waited_s, rel=1e-6)


def test_a_deeper_buffer_bridges_the_weight_update() -> None:
    """At 4.1 ms a micro-batch is due every 10.25 ms, and ten are in less than the whole update of 104.5 ms."""
    decode = "system.host.image_decode_time=4.1 ms"
    times = [
        simulate(POD16, overrides=[decode, f"data.prefetch_depth={depth}"]).weight_update_ps for depth in (1, 2, 3, 8)
    ]
    assert times == sorted(times, reverse=True)
    assert times[-1] == simulate(POD16).weight_update_ps


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_buffers_start_empty(depth: int) -> None:
    plan = plan_of(POD64, *hosts(1), f"data.prefetch_depth={depth}")
    tokens = compile_program(plan).semaphores
    assert {key.rpartition("/")[2]: count for key, count in tokens.items()} == {"room": depth, "ready": 0}


def test_a_program_that_never_waits_leaves_the_feed_out() -> None:
    program = compile_program(plan_of(POD64, *hosts(4)))
    assert program.semaphores == {}
    assert not any(group.name.startswith("feed") for group in program.groups)


def test_a_micro_batch_is_taken_loaded_and_given_back() -> None:
    take, load, give = feed_of(plan_of(POD64, *hosts(1))).input_steps(2)
    assert take == Acquire("feed2/ready", "host_wait")
    assert isinstance(load, Exchange)
    assert give == Release("feed2/room")


@pytest.mark.parametrize(("depth", "decode_ms"), [(1, 3.9), (3, 4.2), (20, 4.2), (20, 5.0)])
def test_the_accounted_update_is_in_a_steady_state(
    depth: int, decode_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = [f"data.prefetch_depth={depth}", f"system.host.image_decode_time={decode_ms} ms"]
    plan = plan_of(POD16, *overrides)
    times = set()
    for updates in (3, 4, 9):
        monkeypatch.setattr("podsim.program.feed._UPDATES", updates)
        times.add(execute(compile_program(plan), explicit=False).makespan_ps)
    assert len(times) == 1


# I/O tiles


def test_io_tiles_hand_over_what_they_fetched() -> None:
    """32 tiles send 4 B per cycle each, in one superstep of 275 cycles, at 1.33 GHz."""
    (copy,) = feed_of(plan_of(POD16, "memory.io_tiles=32")).input_steps(0)
    assert isinstance(copy, Work)
    cycles = {"exchange": IMAGES * IMAGE_BYTES / 32 / 4, "superstep": 275}
    assert dict(copy.parts) == {kind: pytest.approx(count / 1.33e9 * 1e12, rel=1e-6) for kind, count in cycles.items()}


def test_io_tiles_do_not_compute() -> None:
    """32 of 1472 tiles less: element-wise passes of all others take 1472/1440 of the time, no less and little more."""
    plain, with_tiles = (plan_of(POD16, f"memory.io_tiles={count}") for count in (0, 32))
    slower = with_tiles.stages[0].forward.vector / plain.stages[0].forward.vector
    assert 1.005 < slower < 1.04
    capacity = with_tiles.memory[0].capacity_bytes / plain.memory[0].capacity_bytes
    assert capacity == pytest.approx(1440 / 1472)


def test_with_io_tiles_the_load_is_hidden() -> None:
    """What was `host` beside the session call was the load of ten micro-batches."""
    plain, hidden = (simulate(POD16, overrides=[f"memory.io_tiles={count}"]) for count in (0, 32))
    loads_s = 10 * (IMAGES * IMAGE_BYTES / READ + 1.5e-6)
    assert plain.breakdown["host"] - hidden.breakdown["host"] == pytest.approx(loads_s, rel=1e-6)


# Folding


@pytest.mark.parametrize(
    "scenario",
    [
        small_cnn(small_pod(2), replicas=8),
        small_cnn(small_pod(2) | {"host_count": 2, "host": {"image_decode_time": "50 ms"}}, replicas=8),
        small_cnn(small_pod(2) | {"host": {"image_decode_time": "50 ms"}}, replicas=4, splits=("conv3",)),
        small_cnn(small_pod(1) | {"host_count": 4, "host": {"image_decode_time": "50 ms"}}, replicas=2, io_tiles=32),
        small_cnn(small_pod(2, host_link={"bandwidth_per_direction": "3 MB/s"}), replicas=3, splits=("conv2",)),
    ],
    ids=["no waiting", "two servers", "two IPUs per replica", "more servers than replicas", "machines unlike"],
)
def test_folded_is_explicit(scenario: Mapping) -> None:
    plan = plan_of(scenario)
    short = execute(compile_program(plan), explicit=False)
    full = execute(compile_program(plan, explicit=True), explicit=True)
    assert short.makespan_ps == full.makespan_ps
    assert short.lanes == {lane: full.lanes[lane] for lane in short.lanes}


@pytest.mark.parametrize(("each", "crowded"), [(2, False), (1, True)])
def test_processes_beyond_numa_nodes_share_them(each: int, crowded: bool) -> None:
    """Sixteen replicas of a server of eight nodes: eight processes have one each, sixteen leave four fifths."""
    nodes = ("system.host.numa_node_count=8", "system.host.crowded_share=80 %")
    feed = feed_of(plan_of(POD16, *nodes, f"parallelism.replicas_per_process={each}"))
    whole_s = 16 * IMAGES * DECODE_S / CORES
    assert feed.interval_ps() == pytest.approx(whole_s / (0.8 if crowded else 1) * 1e12, rel=1e-6)
