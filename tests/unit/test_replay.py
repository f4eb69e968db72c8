"""Recorded traces on a pod: how long nodes take there, and what is said of files that are wrong."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from podsim.chakra.messages import framed, message_class
from podsim.chakra.read import read_chakra
from podsim.chakra.replay import Replay, replay
from podsim.cli.app import app
from podsim.engine import execute
from podsim.errors import PodsimError
from podsim.placement.topology import Routes
from podsim.program.recorded import Node, Recorded, replay_program
from podsim.scenario import System, load_hardware
from podsim.scenario.software import Software
from tests.cases import every_case
from tests.collectives import GATHER, REDUCE, collective_s

COMP, LOAD, STORE, SEND, RECV, COLL = 4, 2, 3, 5, 6, 7
US = 10**6
CLOCK_HZ, TILES = 1.33e9, 1472

Made = dict[str, Any]


def node(number: int, kind: int = COMP, *after: int, us: int = 0, **attributes: Any) -> Made:
    return {"id": number, "type": kind, "data_deps": after, "duration_micros": us, "attributes": attributes}


def write(folder: Path, *ranks: Sequence[Made], groups: object = None) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, nodes in enumerate(ranks):
        made = [message_class("GlobalMetadata")(version="0.0.4")]
        for each in nodes:
            message = message_class("Node")(**{key: value for key, value in each.items() if key != "attributes"})
            for name, value in each["attributes"].items():
                kind = "bool" if isinstance(value, bool) else "string" if isinstance(value, str) else "int64"
                message.attr.add(name=name, **{f"{kind}_val": value})
            made.append(message)
        (folder / f"job.{rank}.et").write_bytes(framed(made))
    if groups is not None:
        (folder / "comm_groups.json").write_text(json.dumps(groups))
    return folder


def on_pod4(folder: Path, *ranks: Sequence[Made], groups: object = None) -> Replay:
    return replay(write(folder / "traces", *ranks, groups=groups), "ipu_pod4")


def pod4() -> System:
    found = load_hardware("ipu_pod4", "pod")[0]
    assert isinstance(found, System)
    return found


def software() -> Software:
    found = load_hardware("popart_sdk_2.5", "software")[0]
    assert isinstance(found, Software)
    return found


def test_a_rank_does_one_thing_at_a_time_and_waits_for_what_it_depends_on(tmp_path: Path) -> None:
    """3 us, then 4 us, though no dependency orders the two."""
    found = on_pod4(tmp_path, [node(0, us=3), node(1, us=4), node(2, COMP, 0, 1, us=5)])
    assert found.trace.makespan_ps == 12 * US
    assert found.breakdown == {"compute": pytest.approx(12e-6)}
    assert found.waiting == 0


def test_without_a_duration_a_roofline_of_the_chip_holds(tmp_path: Path) -> None:
    """64 multiply-adds, or a load of 16 B, on each tile in each of a million cycles."""
    operations, size = 2 * 64 * TILES * 10**6, 16 * TILES * 10**6
    for attributes in ({"num_ops": operations}, {"tensor_size": size}, {"num_ops": operations, "tensor_size": 9}):
        found = on_pod4(tmp_path, [node(0, **attributes)])
        assert found.makespan_s == pytest.approx(10**6 / CLOCK_HZ)
    assert on_pod4(tmp_path, [node(0, us=7, num_ops=operations)]).trace.makespan_ps == 7 * US


def test_memory_nodes_go_to_streaming_memory(tmp_path: Path) -> None:
    """Latency, and 6.64 MB at 6.64 GB/s."""
    memory = pod4().machine.streaming_memory
    for kind, rate in ((LOAD, memory.read_bytes_per_s), (STORE, memory.write_bytes_per_s)):
        found = on_pod4(tmp_path, [node(0, kind, tensor_size=6_640_000)])
        assert found.makespan_s == pytest.approx(float(memory.latency_s) + 6_640_000 / rate)
        assert list(found.breakdown) == ["streaming"]


def test_what_is_received_is_waited_for_by_what_depends_on_it_alone(tmp_path: Path) -> None:
    """Rank 1 works for 2 us while a message comes that rank 0 sends after 3 us, and then for 5 us more."""
    first = [node(0, us=3), node(1, SEND, 0, comm_dst=1, comm_size=10**6, comm_tag=4)]
    second = [node(7, RECV, comm_src=0, comm_size=10**6, comm_tag=4), node(8, us=2), node(9, COMP, 7, us=5)]
    found = on_pod4(tmp_path, first, second)
    way = Routes(pod4()).between(0, 1)
    sent_s = way.latency_s + 10**6 / min(channel.bandwidth_bytes_per_s for channel in way.channels)
    assert found.makespan_s == pytest.approx(3e-6 + sent_s + 5e-6)
    assert found.ranks[1]["waiting"] == pytest.approx(1e-6 + sent_s)


def test_transfers_that_nothing_orders_start_together(tmp_path: Path) -> None:
    """A load and a store share no channel of an IPU's own; one after the other they would take both times."""
    both = [node(0, LOAD, tensor_size=10**6), node(1, STORE, tensor_size=10**6)]
    together = on_pod4(tmp_path, both).makespan_s
    each = [on_pod4(tmp_path, [one]).makespan_s for one in both]
    in_turn = on_pod4(tmp_path, [both[0], node(1, STORE, 0, tensor_size=10**6)]).makespan_s
    assert max(each) <= together < sum(each)
    assert in_turn == pytest.approx(sum(each))


@pytest.mark.parametrize(
    ("number", "turns", "put_in"),
    [(0, 2, 1), (1, 2, 1), (5, 2, 1), (2, 1, 4), (3, 1, 4), (7, 1, 1), (8, 1, 1), (4, 1, 1)],
)
def test_collectives_go_around_the_rings_of_the_pod(tmp_path: Path, number: int, turns: int, put_in: int) -> None:
    """Four IPUs and 4 MB: a pair of rings forth, back, or both; what is gathered is four times what goes in."""
    size = 4 * 10**6
    nodes = [node(0, COLL, comm_type=number, comm_size=size)]
    system = pod4()
    exchange_s = 600 / system.machine.ipu.clock_hz + 0.57e-6
    passes = [REDUCE, GATHER] if turns == 2 else [REDUCE] if number in (4, 7, 8) else [GATHER]
    rate = int(software().collective_rings) * 13.6e9  # a link for each ring
    found = on_pod4(tmp_path, nodes, nodes, nodes, nodes)
    expected_s = collective_s(size * put_in, 4, exchange_s, rate, "pair", passes)
    assert found.trace.makespan_ps == pytest.approx(expected_s * 1e12, rel=1e-6)


def test_a_barrier_takes_no_time_of_its_own_and_is_waited_at(tmp_path: Path) -> None:
    found = on_pod4(
        tmp_path,
        [node(0, us=9), node(1, COLL, 0, comm_type=9, pg_name="a"), node(2, COMP, 1, us=1)],
        [node(0, COLL, comm_type=9, pg_name="a")],
        groups={"a": [0, 1]},
    )
    assert found.trace.makespan_ps == 10 * US
    assert found.waiting == pytest.approx(10 / 20)


def test_an_all_to_all_sends_a_part_to_each_over_its_route(tmp_path: Path) -> None:
    """Of two IPUs: half of what each puts in goes to the other, both ways at once, behind a sync."""
    nodes = [node(0, COLL, comm_type=6, comm_size=2 * 10**6)]
    way = Routes(pod4()).between(0, 1)
    found = on_pod4(tmp_path, nodes, nodes)
    start_s = pod4().machine.ipu.multi_ipu_sync_s + way.latency_s
    assert found.makespan_s == pytest.approx(start_s + 10**6 / way.channels[0].bandwidth_bytes_per_s)


def test_an_all_to_all_takes_as_long_as_its_fullest_link(tmp_path: Path) -> None:
    """Of four IPUs, on two rungs: each sends a quarter to each other.

    Over a rung, an IPU sends to both of the other side; over a rail, both of a rung send to one.
    """
    nodes = [node(0, COLL, comm_type=6, comm_size=4 * 10**6)]
    routes = Routes(pod4())
    longest_s = max(routes.latency_s(0, other) for other in (1, 2, 3))
    rail = routes.between(0, 2).channels[0].bandwidth_bytes_per_s
    found = on_pod4(tmp_path, nodes, nodes, nodes, nodes)
    expected_s = pod4().machine.ipu.multi_ipu_sync_s + longest_s + 2 * 10**6 / rail
    assert found.makespan_s == pytest.approx(expected_s)


def test_an_all_reduce_over_link_domains_sums_inside_then_over_gateways_then_hands_out() -> None:
    """IPU-POD128 has two domains of 64: longer than the sums inside, and the same for all ranks."""
    system = load_hardware("ipu_pod128", "pod")[0]
    assert isinstance(system, System)

    def time_ps(ranks: Sequence[int], kind: str = "all_reduce") -> int:
        one = Node(0, "sum", "collective", size_bytes=10**6, collective=kind, group="g")
        graph = Recorded(tuple((one,) if rank in ranks else () for rank in range(128)), {"g": tuple(ranks)})
        return execute(replay_program(graph, system, 2)).makespan_ps

    inside, across = time_ps([0, 1]), time_ps([0, 1, 64, 65])
    assert across > inside
    assert across == time_ps([2, 3, 66, 67])
    with pytest.raises(PodsimError, match="no rings are known for an all_gather of 4 ranks in 2 link domains"):
        time_ps([0, 1, 64, 65], "all_gather")
    with pytest.raises(PodsimError, match="no rings are known for an all_reduce of 3 ranks in 2 link domains"):
        time_ps([0, 1, 64])


def test_work_of_a_processor_goes_on_beside_the_ipu(tmp_path: Path) -> None:
    """9 us of the host, 4 us of the IPU, then 1 us that depends on the host."""
    nodes = [node(0, us=9, is_cpu_op=True), node(1, us=4, is_cpu_op=False), node(2, COMP, 0, us=1)]
    found = on_pod4(tmp_path, nodes)
    assert found.trace.makespan_ps == 10 * US
    assert found.ranks[0] == {"compute": pytest.approx(5e-6), "waiting": pytest.approx(5e-6)}


def test_compressed_files_and_other_names_of_groups_are_read(tmp_path: Path) -> None:
    nodes = [node(0, COLL, comm_type=9, comm_group="a")]
    folder = write(tmp_path / "t", nodes, nodes)
    (folder / "my_groups.json").write_text('{"a": [0, 1]}')
    file = folder / "job.0.et"
    file.write_bytes(gzip.compress(file.read_bytes()))
    assert replay(folder, "ipu_pod4").nodes == 2


def test_the_result_says_what_ran_and_who_waited(tmp_path: Path) -> None:
    found = on_pod4(tmp_path, [node(0, us=3)], [node(0, us=1)])
    shown = found.to_dict()
    assert (shown["system"], shown["ranks"], shown["nodes"]) == ("IPU-POD4", 2, 2)
    assert (shown["makespan_s"], shown["recorded_s"]) == (3e-6, 3e-6)
    assert shown["waiting"] == pytest.approx(2 / 6)
    assert json.loads(found.to_json()) == json.loads(json.dumps(shown))
    assert found.report().sections[0].blocks[2].rows[0] == ("1", "1 us", "2 us")


def test_recorded_time_is_from_the_first_start_to_the_last_end(tmp_path: Path) -> None:
    """Of two ranks: starts at 5 and 7 us, the one from 5 us on ends last; a node without times counts for nothing."""
    early = node(0, us=9) | {"start_time_micros": 5}
    late = node(0, us=3) | {"start_time_micros": 7}
    found = on_pod4(tmp_path, [early, node(1, LOAD, tensor_size=8)], [late])
    assert found.recorded_ps == 9 * US
    assert found.to_dict()["recorded_s"] == 9e-6


def test_the_command_prints_tables_or_json(tmp_path: Path) -> None:
    folder = str(write(tmp_path / "t", [node(0, us=3)]))
    assert "makespan     3 us" in CliRunner().invoke(app, ["replay", folder, "--system", "ipu_pod4"]).output
    found = json.loads(CliRunner().invoke(app, ["replay", folder, "--system", "ipu_pod4", "--format", "json"]).output)
    assert found["makespan_s"] == 3e-6


def broken(change: Callable[[Path], object], *ranks: Sequence[Made]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        write(folder / "t", *(ranks or [[node(0, us=1)], [node(0, us=1)]]))
        change(folder / "t")
        return folder / "t"

    return make


def nothing(_: Path) -> None:
    pass


def cut(folder: Path) -> None:
    file = folder / "job.1.et"
    file.write_bytes(file.read_bytes()[:-2])


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(content)


BARRIER = {"comm_type": 9, "pg_name": "a"}
SUM = {"comm_type": 0, "comm_size": 8}
WRONG: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no folder": (lambda folder: folder / "no", r"no: is not a folder\n  do: give the folder that holds PREFIX\.0\.et"),
    "empty": (lambda folder: folder, "holds no execution trace"),
    "two runs": (broken(lambda t: (t / "other.0.et").write_bytes(b"")), "holds traces of 2 runs"),
    "rank missing": (
        broken(lambda t: (t / "job.0.et").unlink()),
        r"rank 0 is missing: there is no job\.0\.et, but one of rank 1\n  do: add it",
    ),
    "cut off": (broken(cut), r"job\.1\.et: the message of \d+ bytes from byte 8 on is cut off\n  do: record it again"),
    "no message": (broken(text("job.1.et", "\x02\x0a\x05")), r"job\.1\.et: the message from byte 0 on is no node"),
    "no nodes": (broken(text("job.1.et", "")), r"job\.1\.et: the file has no nodes"),
    "cut gzip": (
        broken(lambda t: (t / "job.1.et").write_bytes(gzip.compress(b"abc")[:-9])),
        r"job\.1\.et: cannot be read: it is cut off, or not what its first bytes say",
    ),
    "unknown type": (broken(nothing, [node(5, 77)]), r"job\.0\.et: node 5: there is no node type 77\n  do: use one of"),
    "no meaning": (broken(nothing, [node(5, 10)]), r"node 5: a node of type CHECKPOINT has no meaning on a pod"),
    "unknown collective": (
        broken(nothing, [node(5, COLL, comm_type=12, comm_size=1)]),
        r"node 5: there is no collective of type 12\n  do: use 0 to 9: ALL_REDUCE, ",
    ),
    "no size": (broken(nothing, [node(5, LOAD)]), "node 5: a node of type MEM_LOAD needs the attribute tensor_size"),
    "negative": (
        broken(nothing, [node(5, LOAD, tensor_size=-4)]),
        r"node 5: attribute tensor_size is -4\n  do: give a whole number from 0 on",
    ),
    "not a number": (broken(nothing, [node(5, LOAD, tensor_size="x")]), "node 5: attribute tensor_size is x"),
    "twice": (broken(nothing, [node(5), node(5)]), "node 5: there are two nodes 5"),
    "dependency": (
        broken(nothing, [node(5, COMP, 3)]),
        r"job\.0\.et: node 5: depends on node 3, which is not in the file\n  do: record the whole graph",
    ),
    "cycle": (
        broken(nothing, [node(1), node(5, COMP, 6), node(6, COMP, 5)]),
        r"job\.0\.et: node [56]: waits for itself, by way of what it depends on",
    ),
    "collectives in two orders": (
        broken(
            text("comm_groups.json", '{"a": [0, 1], "b": [0, 1]}'),
            [node(0, COLL, **BARRIER), node(1, COLL, 0, comm_type=9, pg_name="b")],
            [node(0, COLL, comm_type=9, pg_name="b"), node(1, COLL, 0, **BARRIER)],
        ),
        "waits for itself",
    ),
    "not listed": (
        broken(nothing, [node(0, COLL, **BARRIER)]),
        r"node 0: group `a` is not listed\n  do: list its ranks in comm_groups\.json",
    ),
    "not a member": (
        broken(text("comm_groups.json", '{"a": [1]}'), [node(0, COLL, **BARRIER)], [node(0)]),
        "node 0: rank 0 is not one of group `a`",
    ),
    "alone": (
        broken(nothing, [node(0, COLL, **SUM)], [node(0)]),
        r"job\.0\.et: node 0: rank 1 has no collective 0 of all ranks",
    ),
    "another collective": (
        broken(nothing, [node(0, COLL, **SUM)], [node(0, COLL, comm_type=0, comm_size=9)]),
        r"job\.1\.et: node 0: collective 0 of all ranks is all_reduce of 9 B here and all_reduce of 8 B on rank 0",
    ),
    "never sent": (
        broken(nothing, [node(0)], [node(3, RECV, comm_src=0, comm_size=1, comm_tag=2)]),
        r"job\.1\.et: node 3: rank 0 does not send what this receives: message 0 with tag 2",
    ),
    "no such rank": (
        broken(nothing, [node(0, SEND, comm_dst=7, comm_size=1)]),
        "node 0: the other end is rank 7, of ranks 0 to 0",
    ),
    "groups": (
        broken(text("comm_groups.json", '{"a": [0, 9]}')),
        "group `a` is not a list of different ranks",
    ),
    "no JSON": (broken(text("comm_groups.json", "{")), r"comm_groups\.json: is not valid JSON"),
    "no object": (broken(text("comm_groups.json", "[]")), "is not an object of groups"),
    "two JSON files": (
        broken(lambda t: [(t / name).write_text("{}") for name in ("a.json", "b.json")]),
        r"several JSON files, and none is called comm_groups\.json",
    ),
    "too many ranks": (
        broken(nothing, *[[node(0)]] * 5),
        r"the trace has 5 ranks, and IPU-POD4 has 4 IPUs\n  do: name a larger pod",
    ),
}


@every_case("name", lambda: WRONG)
def test_what_is_wrong_is_said_with_its_file_and_node(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    make, told = WRONG[name]
    folder = make(tmp_path_factory.mktemp("wrong"))
    with pytest.raises(PodsimError, match=told):
        replay(folder, "ipu_pod4")


def test_a_trace_beyond_reason_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of nodes and of bytes, made small here."""
    folder = write(tmp_path / "t", [node(0), node(1)], [node(0)])
    with (
        monkeypatch.context() as patched,
        pytest.raises(PodsimError, match="all files together have more than 2"),
    ):
        patched.setattr("podsim.chakra.read.MOST_NODES", 2)
        replay(folder, "ipu_pod4")
    with monkeypatch.context() as patched:
        patched.setattr("podsim.chakra.read.MOST_NODES", 3)
        assert replay(folder, "ipu_pod4").nodes == 3, "as many as may be"
    monkeypatch.setattr("podsim.chakra.read._LARGEST", 10)
    with pytest.raises(PodsimError, match=r"job\.0\.et: the file has more than 10 B\b"):
        replay(folder, "ipu_pod4")


def test_ranks_that_share_layers_have_rings_of_their_own() -> None:
    """An all-reduce of four ranks over as many rings as the stack has for them, whatever others have."""
    one = Node(0, "sum", "collective", size_bytes=10**6, collective="all_reduce", group="g")

    def time_ps(node: Node, *rings: int) -> int:
        return execute(replay_program(Recorded(((node,),) * 4, {"g": (0, 1, 2, 3)}), pod4(), *rings)).makespan_ps

    shared = replace(one, of_shards=True)
    assert time_ps(shared, 4, 1) == time_ps(one, 1, 4) == time_ps(one, 1) > time_ps(one, 4) == time_ps(shared, 4)


def test_rings_of_several_ipus_keep_the_order_of_their_group(tmp_path: Path) -> None:
    """A group that lists 0, 1, 3, 2 has the longest hop elsewhere than 0, 1, 2, 3, which goes around neighbours."""
    nodes = [node(0, COLL, comm_type=0, comm_size=4 * 10**6, pg_name="g")]
    listed = on_pod4(tmp_path, *[nodes] * 4, groups={"g": [0, 3, 1, 2]}).trace.makespan_ps
    around = on_pod4(tmp_path, *[nodes] * 4, groups={"g": [0, 1, 2, 3]}).trace.makespan_ps
    assert around < listed


def test_each_tensor_of_a_transfer_has_a_latency() -> None:
    """Transfers of tensors one after the other have a latency each."""
    system = pod4()
    one = Node(0, "weights", "load", size_bytes=1000)

    def time_s(each: Node) -> float:
        return execute(replay_program(Recorded(((each,),), {}), system, 2)).makespan_ps / 1e12

    more = time_s(replace(one, tensor_count=5)) - time_s(one)
    assert more == pytest.approx(4 * float(system.machine.streaming_memory.latency_s))


def test_damaged_files_are_refused_or_run_and_never_break_podsim(tmp_path: Path) -> None:
    """A byte or three of a sound trace are changed at random, or its end is cut off."""
    random = Random(7)
    sums = [node(2, COLL, 1, comm_type=0, comm_size=4000, pg_name="g")]
    nodes = [node(0, us=3), node(1, LOAD, 0, tensor_size=1000), *sums]
    folder = write(tmp_path / "t", nodes, nodes, groups={"g": [0, 1]})
    file = folder / "job.0.et"
    sound = file.read_bytes()
    system, refused = pod4(), 0
    for _ in range(150):
        data = bytearray(sound)
        for _ in range(random.randint(1, 3)):
            data[random.randrange(len(data))] = random.randrange(256)
        file.write_bytes(data[: random.randint(1, len(data))] if random.random() < 0.2 else data)
        try:
            assert execute(replay_program(read_chakra(folder), system, 1)).makespan_ps >= 0
        except PodsimError as error:
            refused += 1
            assert error.where
            assert error.do
    assert refused > 20
