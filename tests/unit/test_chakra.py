"""Chakra execution traces: written, read by others, and read back."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import podsim
from podsim.chakra.messages import message_class, unframed
from podsim.chakra.read import read_chakra
from podsim.chakra.replay import replay
from podsim.chakra.unroll import unrolled
from podsim.chakra.write import GROUPS, write_chakra
from podsim.engine import execute
from podsim.errors import MissingDataError, OutputError, PodsimError
from podsim.program.recorded import replay_program
from podsim.program.task import Acquire, Barrier, Exchange, Group, Phase, Program, Release, Transfer, Work
from podsim.scenario import load_scenario
from tests.unit.chakra_examples import PROGRAM, SUM, US, attributes, messages, varint
from tests.unit.report_examples import make_result

COMP, LOAD, SEND, RECV, COLL = 4, 2, 5, 6, 7
REDUCE_SCATTER, BARRIER = 7, 9
PASSES = ("forward", "recompute", "backward")


def written(folder: Path, program: Program = PROGRAM) -> Path:
    write_chakra(replace(make_result(), program=lambda: program, passes=None), folder)
    return folder


def test_files_hold_the_graph_drawn_by_hand_for_a_reader_of_its_own(tmp_path: Path) -> None:
    """Type, name, dependencies, start and duration in microseconds of every node."""
    folder = written(tmp_path / "out")
    found = []
    for rank in (0, 1):
        head, *nodes = messages(folder / f"two_ipus.{rank}.et")
        assert head[0] == (1, b"0.0.4")
        rows = []
        for message in nodes:
            plain = {number: value for number, value in message if number != 5}
            packed, after, at = dict(message).get(5, b""), [], 0
            assert isinstance(packed, bytes)
            while at < len(packed):
                number, at = varint(packed, at)
                after.append(number)
            rows.append((plain.get(1, 0), plain[3], plain[2], after, plain.get(6, 0), plain.get(7, 0)))
        found.append(rows)
    end = b"end of a phase of replica0"
    assert found[0] == [
        (0, COMP, b"forward", [], 0, 10),
        (1, SEND, b"acts", [0], 10, 4),
        (2, COLL, end, [1], 14, 0),
        (3, COLL, end, [2], 14, 11),  # ipu1 loads for 6 us and works for 5
        (4, COLL, b"reduce-scatter", [3], 25, 3),
        (5, COLL, end, [4], 28, 0),
    ]
    assert found[1] == [
        (0, COLL, end, [], 0, 14),
        (1, RECV, b"acts", [], 10, 4),
        (2, LOAD, b"weights", [0, 1], 14, 6),
        (3, COMP, b"backward", [2], 20, 5),
        (4, COLL, end, [3], 25, 0),
        (5, COLL, b"reduce-scatter", [4], 25, 3),
        (6, COLL, end, [5], 28, 0),
    ]


def test_attributes_are_those_that_readers_look_for(tmp_path: Path) -> None:
    folder = written(tmp_path / "out")
    first, second = (
        [attributes(message) for message in list(messages(folder / f"two_ipus.{rank}.et"))[1:]] for rank in (0, 1)
    )
    assert {each["is_cpu_op"] for each in (*first, *second)} == {0}
    assert (first[1]["comm_dst"], first[1]["comm_size"], first[1]["comm_tag"]) == (1, 1000, 0)
    assert (second[1]["comm_src"], second[1]["comm_size"], second[1]["comm_tag"]) == (0, 1000, 0)
    assert second[2]["tensor_size"] == 600
    assert (second[3]["podsim_start_ps"], second[3]["podsim_duration_ps"]) == (20 * US, 5 * US + 1)
    assert [each["comm_type"] for each in first if "comm_type" in each] == [BARRIER, BARRIER, REDUCE_SCATTER, BARRIER]
    assert (first[4]["comm_size"], first[4]["podsim_tensor_count"]) == (2001, 2)
    whole = first[4]["podsim_whole_bytes"]
    assert isinstance(whole, bytes)
    assert struct.unpack("<d", whole) == (2001.0,)
    groups = json.loads((folder / GROUPS).read_text())
    assert {each["pg_name"].decode() for each in first if isinstance(each.get("pg_name"), bytes)} == set(groups)
    assert all(ranks == [0, 1] for ranks in groups.values())


def test_what_is_read_back_is_what_was_written(tmp_path: Path) -> None:
    """Nodes, dependencies, times to the picosecond, sizes; groups have numbers for names."""
    graph, makespan_ps = unrolled(PROGRAM)
    assert makespan_ps == 28 * US + 1
    back = read_chakra(written(tmp_path / "out"))
    numbers = {name: str(number) for number, name in enumerate(graph.groups)}
    for ours, theirs in zip(graph.ranks, back.ranks, strict=True):
        assert list(theirs) == [replace(our, group=numbers.get(our.group, "")) for our in ours]
    assert {numbers[name]: ranks for name, ranks in graph.groups.items()} == {
        name: ranks for name, ranks in back.groups.items() if name
    }


@pytest.mark.parametrize(
    ("name", "pod", "stack"),
    [
        ("conductivity_cnn_pod4", "ipu_pod4", "tensorflow1_sdk_2.3"),
        ("e5_large_pod4", "ipu_pod4", "pytorch_sdk_3.1"),
        ("gemma_2b_pod4", "ipu_pod4", "popxl_sdk_3.3"),  # whose shards have other rings than replicas
        ("resnet50_v1.1_pod16", "ipu_pod16", "tensorflow1_sdk_2.3"),
    ],
)
def test_a_run_replayed_on_its_own_pod_takes_as_long_to_the_picosecond(
    name: str, pod: str, stack: str, tmp_path: Path
) -> None:
    """Training, forward passes and generation with shards: out, in, and run again."""
    result = podsim.run(name, record=True)
    assert result.trace is not None
    write_chakra(result, tmp_path / "out")
    assert replay(tmp_path / "out", pod, stack).trace.makespan_ps == result.trace.makespan_ps


@pytest.mark.slow
def test_rings_that_no_longer_wait_for_one_another_lose_less_than_two_thousandths() -> None:
    """BERT-Base on IPU-POD16: the rings of the IPUs of a replica meet after each step, and collectives do not."""
    result = podsim.run("bert_base_clue_pod16", record=True)
    assert result.trace is not None
    assert result.program is not None
    spec = load_scenario("bert_base_clue_pod16").spec
    graph, makespan_ps = unrolled(result.program(), result.passes)
    assert makespan_ps == result.trace.makespan_ps
    again_ps = execute(replay_program(graph, spec.system, int(spec.software.collective_rings))).makespan_ps
    assert again_ps < makespan_ps
    assert again_ps == pytest.approx(makespan_ps, rel=2e-3)


def test_what_works_beside_a_rank_is_in_its_file_on_a_lane_of_its_own() -> None:
    """I/O tiles give a token after 5 us, of which the rank takes two: one that was there, and theirs at 5 us."""
    program = Program(
        (
            Group(
                "replica0",
                ("ipu0",),
                (
                    Phase(
                        "",
                        1,
                        {"ipu0": (Acquire("room", "w"), Work("a", (("k", US),)), Acquire("room", "w"))},
                        "w",
                    ),
                    Phase("", 1, {"ipu0": (Work("b", (("k", US),)), Barrier("io", "w"))}, "w"),
                ),
            ),
            Group(
                "io",
                ("ipu0/io",),
                (
                    Phase(
                        "",
                        1,
                        {"ipu0/io": (Work("c", (("k", 5 * US),)), Release("room"), Barrier("io", "w"))},
                        "w",
                    ),
                    Phase("", 1, {"ipu0/io": (Work("d", (("k", US),)),)}, "w"),
                ),
                accounted=False,
            ),
        ),
        {"room": 1},
    )
    graph, makespan_ps = unrolled(program)
    assert makespan_ps == 7 * US
    names = {each.number: each.name for each in graph.ranks[0]}
    told = {each.name: (each.lane, {names[one] for one in each.after}) for each in graph.ranks[0]}
    assert told == {
        "a": ("", set()),
        "c": ("io", set()),
        "b": ("", {"a", "c"}),
        "d": ("io", {"b", "c"}),
    }
    again = execute(replay_program(graph, load_scenario("conductivity_cnn_pod4").spec.system, 2))
    assert again.makespan_ps == 7 * US


def test_steps_of_a_ring_are_one_collective() -> None:
    """Three steps of 3 us, after each of which both lanes join, and one barrier behind them."""
    assert SUM.collective is not None
    thrice = replace(SUM, collective=replace(SUM.collective, exchanges=3))
    steps = dict.fromkeys(("ipu0", "ipu1"), (thrice, Barrier("ring", "all_reduce")))
    graph, _ = unrolled(Program((Group("replica0", ("ipu0", "ipu1"), (Phase("ring", 3, steps, "w"),)),)))
    for nodes in graph.ranks:
        assert [(node.collective, node.start_ps, node.duration_ps) for node in nodes] == [
            ("reduce_scatter", 0, 9 * US),
            ("barrier", 9 * US, 0),
        ]


def test_a_transfer_of_the_host_takes_its_time_beside_others() -> None:
    """What is neither of an IPU nor of streaming memory has no node type of its own."""
    both = Exchange(
        (
            Transfer("micro-batch", "host", (("machine0/host_link", 5 * US),)),
            Transfer("input", "streaming", (("ipu0/streaming/read", 4 * US),), size=7),
        )
    )
    graph, _ = unrolled(Program((Group("replica0", ("ipu0",), (Phase("", 1, {"ipu0": (both,)}, "w"),)),)))
    assert [(each.name, each.kind, each.lane, each.after) for each in graph.ranks[0]] == [
        ("micro-batch", "compute", "host", ()),
        ("input", "load", "", ()),
    ]


def test_too_many_nodes_are_refused_before_they_are_made() -> None:
    many = Phase("main", 10**9, {"ipu0": (Work("a", (("k", 1),)),)}, "w")
    with pytest.raises(PodsimError, match="2,000,000,000 steps of all IPUs are more than the 2,000,000"):
        unrolled(Program((Group("replica0", ("ipu0",), (many,)),)))


def test_a_result_without_timeline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="this result has no timeline\n  do: simulate with `record=True`"):
        write_chakra(make_result(), tmp_path / "out")


def test_without_protobuf_a_reader_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "out")
    message_class.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    for use in (lambda: written(tmp_path / "more"), lambda: read_chakra(folder)):
        with pytest.raises(
            PodsimError, match="need the package `protobuf`, which is not installed\n  do: pip install 'podsim"
        ):
            use()
    assert not (tmp_path / "more").exists()


def test_a_pod_with_a_slow_ipu_is_written_as_it_ran() -> None:
    """IPU 3 works at half its speed: its passes take twice as long as those of IPU 7, which is its like."""
    result = podsim.run("bert_base_clue_pod16", record=True, overrides=["faults=[{ipu: 3, clock: 50 %}]"])
    assert result.trace is not None
    assert result.program is not None
    graph, makespan_ps = unrolled(result.program(), result.passes)
    assert makespan_ps == result.trace.makespan_ps
    slow_ps, sound_ps = (
        sum(each.duration_ps or 0 for each in graph.ranks[rank] if each.name.split()[0] in PASSES) for rank in (3, 7)
    )
    assert slow_ps == pytest.approx(2 * sound_ps, rel=1e-9)


def test_traces_of_another_run_are_not_mixed_in(tmp_path: Path) -> None:
    folder = written(tmp_path / "out")
    with pytest.raises(OutputError, match="has execution traces already\n  do: give another folder"):
        written(folder)
    with pytest.raises(OutputError, match="does not exist"):
        written(tmp_path / "no" / "out")


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = (written(tmp_path / name) for name in ("a", "b"))
    assert [each.read_bytes() for each in sorted(first.iterdir())] == [
        each.read_bytes() for each in sorted(second.iterdir())
    ]


def test_every_kind_of_value_has_the_number_of_the_schema() -> None:
    """Field numbers of AttributeProto: 3 for a double, then by twos, the odd ones."""
    attribute = message_class("AttributeProto")
    numbers = {field.name: field.number for field in attribute.DESCRIPTOR.fields}
    kinds = (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string"),
    )
    assert numbers == {"name": 1} | {f"{kind}_val": 3 + 2 * place for place, kind in enumerate(kinds)}


def test_messages_are_found_by_their_lengths() -> None:
    assert list(unframed(b"\x02ab\x00\x01c")) == [(0, b"ab"), (3, b""), (4, b"c")]
    for data, told in {
        b"\x05ab": "the message of 5 bytes from byte 0 on is cut off",
        b"\x80": "byte 0 begins no length",
        b"\xff\xff\xff\xff\xff\x01": "byte 0 begins no length",
        b"\xff\xff\xff\x7f": "byte 0 begins a message of 268,435,455 bytes",
    }.items():
        with pytest.raises(ValueError, match=told):
            list(unframed(data))
