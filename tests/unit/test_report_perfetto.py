"""The timeline for ui.perfetto.dev."""

import gzip
import json
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest

import podsim
from podsim.engine.trace import ChannelUse, PhaseRecord, Record, Trace
from podsim.errors import MissingDataError, OutputError
from podsim.models.op import Elementwise
from podsim.program.passes_in_order import Repeat
from podsim.result.base import Result
from podsim.result.perfetto import Event, build_timeline, write_trace
from podsim.tiles.account import Account
from podsim.tiles.model import OpCost
from tests.unit.report_examples import MAKESPAN_PS, US, make_result, make_trace

IPUS, LINKS = 2, 3


def slices(events: Iterable[Event], process: int) -> list[Event]:
    return [event for event in events if event["ph"] == "X" and event["pid"] == process]


def tracks(events: Iterable[Event], process: int) -> dict[object, object]:
    return {
        event["tid"]: event["args"]["name"]  # type: ignore[index]
        for event in events
        if event["name"] == "thread_name" and event["pid"] == process
    }


def test_one_track_per_ipu_and_link() -> None:
    events = build_timeline(make_trace()).events
    assert list(tracks(events, IPUS).values()) == ["ipu0", "ipu1"]
    # Three transfers, two at a time: the link needs two rows.
    assert list(tracks(events, LINKS).values()) == ["rail0/up", "rail0/up (2)"]


def test_every_cycle_of_a_folded_trace_is_shown() -> None:
    timeline = build_timeline(make_trace())
    first = [event for event in slices(timeline.events, IPUS) if event["tid"] == 1]
    assert [event["name"] for event in first] == ["forward 0", *["backward 0"] * 3, "chunk"]
    assert [event["ts"] for event in first] == pytest.approx([0, 10, 30, 50, 70])
    assert [event["dur"] for event in first] == [10.0, 20.0, 20.0, 20.0, 30.0]
    assert not timeline.is_folded
    # 5 of ipu0, 7 of ipu1 (1 + 3 + 3), 3 of the link, 3 phases.
    assert timeline.slice_count == 18


def test_durations_of_a_track_add_up_to_the_makespan() -> None:
    events = slices(build_timeline(make_trace()).events, IPUS)
    for track in (1, 2):
        total_us = sum(float(str(event["dur"])) for event in events if event["tid"] == track)
        assert total_us == pytest.approx(MAKESPAN_PS / US)


def test_phases_say_how_often_they_repeat() -> None:
    names = [event["name"] for event in slices(build_timeline(make_trace()).events, 1)]
    assert names == ["fill 0", "main x 3", "update IPUs 0-1: reduce"]


def test_beyond_the_limit_cycles_are_shown_once_with_their_count() -> None:
    timeline = build_timeline(make_trace(), event_limit=12)
    first = [event for event in slices(timeline.events, IPUS) if event["tid"] == 1]
    assert timeline.is_folded
    assert [event["name"] for event in first] == ["forward 0", "backward 0", "2 more like this", "chunk"]
    assert [event["dur"] for event in first] == [10.0, 20.0, 40.0, 30.0]


def test_no_two_events_of_a_track_overlap_in_whole_nanoseconds() -> None:
    """The viewer cuts to nanoseconds and drops an event that overlaps the one before."""
    edges = [*range(0, 3_000_000, 1_000), 3_000_500]
    records = tuple(Record("ipu0", "matmul", "step", start, end, 1, 0) for start, end in pairwise(edges))
    trace = Trace(
        makespan_ps=edges[-1],
        lanes={"ipu0": {"matmul": edges[-1]}},
        records=records,
        channels=frozenset(),
        phases=(PhaseRecord("replica0", "main", 1, 0, edges[-1]),),
        event_count=len(records),
    )
    events = slices(build_timeline(trace).events, IPUS)
    cut = [(int(float(str(event["ts"])) * 1000), int(float(str(event["dur"])) * 1000)) for event in events]
    assert len({event["tid"] for event in events}) == 1
    assert all(start + length <= later for (start, length), (later, _) in pairwise(cut))


def test_events_without_length_are_left_out() -> None:
    trace = Trace(
        makespan_ps=5,
        lanes={"ipu0": {"matmul": 5}, "ipu1": {"idle": 5}},
        records=(Record("ipu0", "sync", "sync", 0, 0, 1, 0), Record("ipu0", "matmul", "step", 0, 5, 1, 0)),
        channels=frozenset(),
        phases=(),
        event_count=2,
    )
    timeline = build_timeline(trace)
    assert timeline.slice_count == 1
    assert list(tracks(timeline.events, IPUS).values()) == ["ipu0", "ipu1"]


def test_the_file_is_chrome_trace_json(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    timeline = write_trace(make_result(), path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["displayTimeUnit"] == "ms"
    assert stored["otherData"]["scenario"] == "two_ipus"
    assert stored["otherData"]["cycles"] == "every cycle is shown"
    assert stored["traceEvents"] == list(timeline.events)
    processes = [event["args"]["name"] for event in stored["traceEvents"] if event["name"] == "process_name"]
    assert processes == ["phases", "IPUs", "links"]


def test_a_result_without_timeline_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    with pytest.raises(MissingDataError) as caught:
        write_trace(make_result(trace=None), path)
    assert str(caught.value) == (
        f"{path}: this result has no timeline\n  do: simulate with `record=True` and write that result"
    )


def test_a_missing_folder_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist"):
        write_trace(make_result(), tmp_path / "no" / "trace.json")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_ends_in_gz_is_compressed_with_the_same_bytes_each_time(tmp_path: Path) -> None:
    plain, first, second = tmp_path / "t.json", tmp_path / "a.json.gz", tmp_path / "b.json.gz"
    for path in (plain, first, second):
        write_trace(make_result(), path)
    assert gzip.decompress(first.read_bytes()) == plain.read_bytes()
    assert first.read_bytes() == second.read_bytes()


def test_a_pass_holds_its_operations_in_order_with_repeats_marked() -> None:
    """`backward 0` takes 20 us: a (1 part of matmul), b (3 parts), then both once more."""
    costs = [
        OpCost(Elementwise(name=name, shape=(2, 3), function="add"), Account(matmul=n))
        for name, n in (("a", 1.0), ("b", 3.0))
    ]
    passes = {"backward 0": (Repeat(2, tuple(("layer", cost) for cost in costs)),)}
    first = [event for event in slices(build_timeline(make_trace(), passes=passes).events, IPUS) if event["tid"] == 1]
    shown = [(event["name"], event["cat"], event["ts"], event["dur"]) for event in first if event["cat"] != "matmul"][
        :4
    ]
    assert shown == [
        ("backward 0", "pass", pytest.approx(10), pytest.approx(20)),
        ("a", "operation", pytest.approx(10), pytest.approx(2.5)),
        ("b", "operation", pytest.approx(12.5), pytest.approx(7.5)),
        ("1 more like this: layer", "repeated", pytest.approx(20), pytest.approx(10)),
    ]
    (args,) = {json.dumps(event["args"]) for event in first if event["name"] == "b"}
    assert json.loads(args) == {
        "block": "layer",
        "operation": "Elementwise",
        "shape": [2, 3],
        "dtype": "fp16",
        "cycles": 3,
        "runs in this pass": 2,
    }
    # Kinds still add up: 70 us of matmul in ipu0.
    assert sum(float(str(event["dur"])) for event in first if event["cat"] == "matmul") == pytest.approx(70)


def test_operations_are_left_out_where_there_are_too_many() -> None:
    cost = OpCost(Elementwise(name="a", shape=(1,), function="add"), Account(matmul=1.0))
    passes = {"backward 0": (Repeat(1, (("layer", cost),) * 50),)}
    assert build_timeline(make_trace(), 200, passes).is_detailed
    assert not build_timeline(make_trace(), 50, passes).is_detailed


@pytest.mark.parametrize("make", [podsim.simulate, podsim.generate, podsim.infer])
def test_what_is_inside_lies_inside_in_whole_nanoseconds(make: Callable[..., Result]) -> None:
    """In every kind of run: no slice of a track begins before, or ends after, the one that it is in."""
    name = {podsim.simulate: "bert_v1.1_pod16_open", podsim.generate: "llama2_7b_pods", podsim.infer: "e5_large_pod4"}[
        make
    ]
    result = make(name, record=True)
    assert result.trace is not None
    events = slices(build_timeline(result.trace, passes=result.passes).events, IPUS)
    assert {"pass", "operation"} <= {event["cat"] for event in events}
    around: list[tuple[object, int]] = []
    for event in events:
        start, length = (int(float(str(event[key])) * 1000) for key in ("ts", "dur"))
        while around and (around[-1][0] != event["tid"] or around[-1][1] <= start):
            around.pop()
        assert not around or start + length <= around[-1][1]
        around.append((event["tid"], start + length))


def test_counters_say_how_many_work_and_how_many_links_are_in_use() -> None:
    """Two IPUs, of which one waits from 20 to 30 us; two transfers that share a link, and a third after them."""
    records = (
        Record("ipu0", "matmul", "step", 0, 20 * US, 1, 0),
        Record("ipu0", "bubble", "wait", 20 * US, 30 * US, 1, 0),
        Record("ipu0", "matmul", "step", 30 * US, 40 * US, 1, 0),
        Record("ipu1", "matmul", "step", 10 * US, 20 * US, 3, 10 * US),
        Record("rail", "inter_ipu", "send", 5 * US, 9 * US, 1, 0),
        Record("rail", "inter_ipu", "send", 7 * US, 12 * US, 1, 0),
        Record("rail", "inter_ipu", "send", 30 * US, 31 * US, 1, 0),
    )
    trace = Trace(
        makespan_ps=40 * US,
        lanes={"ipu0": {"matmul": 30 * US, "bubble": 10 * US}, "ipu1": {"matmul": 30 * US, "bubble": 10 * US}},
        records=records,
        channels=frozenset({"rail"}),
        phases=(PhaseRecord("replica0", "main", 3, 10 * US, 40 * US),),
        event_count=len(records),
    )

    def counted(event_limit: int) -> dict[str, list[tuple[float, int]]]:
        found: dict[str, list[tuple[float, int]]] = {}
        for event in build_timeline(trace, event_limit).events:
            if event["ph"] == "C":
                (name, count), *_ = event["args"].items()  # type: ignore[attr-defined]
                found.setdefault(name, []).append((round(float(str(event["ts"])), 6), count))
        return found

    # ipu1 works from 10 to 40 us, three times 10 us without a gap.
    wanted = {
        "IPUs at work": [(0, 1), (10, 2), (20, 1), (30, 2), (40, 0)],
        "links in use": [(5, 1), (12, 0), (30, 1), (31, 0)],
    }
    assert counted(100) == wanted
    assert counted(8) == wanted  # cycles are shown once, and counted as they are
    assert counted(7) == {}  # eight stretches are too many


def test_each_link_has_a_counter_of_its_use() -> None:
    """Half of a rail from 0 to 4 us, all of it from 2 to 4 with a second transfer, twice; a quarter of a rung once."""
    trace = Trace(
        makespan_ps=20 * US,
        lanes={"ipu0": {"inter_ipu": 20 * US}},
        records=(),
        channels=frozenset({"rail", "rung"}),
        phases=(),
        event_count=1,
        uses=(
            ChannelUse("rail", 0.5, 0, 4 * US, 2, 10 * US),
            ChannelUse("rail", 0.5, 2 * US, 4 * US, 2, 10 * US),
            ChannelUse("rung", 0.25, US, 2 * US),
        ),
    )

    def counted(event_limit: int) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {}
        for event in build_timeline(trace, event_limit).events:
            if event["ph"] == "C":
                ((name, share),) = event["args"].items()  # type: ignore[attr-defined]
                found.setdefault(name, []).append((round(float(str(event["ts"])), 6), share))
        return found

    rail, rung = "use of rail (%)", "use of rung (%)"
    once = [(0, 50), (2, 100), (4, 0)]
    assert counted(5) == {rail: [*once, *((at + 10, share) for at, share in once)], rung: [(1, 25), (2, 0)]}
    assert counted(4) == {rail: once, rung: [(1, 25), (2, 0)]}  # the first cycle stands for all
    assert counted(2) == {rail: once}  # the busiest first
