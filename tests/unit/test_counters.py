"""What a timeline counts, and the arrows from those who send to those who receive."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

import podsim
from podsim.engine import execute
from podsim.engine.trace import Record, Trace
from podsim.models.op import Elementwise
from podsim.program.passes_in_order import Passes, Repeat
from podsim.result.perfetto import Event, Steps, build_timeline, gauges_of_result
from podsim.result.result import RunResult
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport, MemoryRow
from podsim.tiles.account import Account
from podsim.tiles.model import OpCost
from tests.unit.chakra_examples import PROGRAM, US
from tests.unit.report_examples import make_result

COST = OpCost(Elementwise(name="a", shape=(1,), function="add"), Account(matmul=1.0))


def passes(*names: str) -> Passes:
    return dict.fromkeys(names, (Repeat(1, (("layer", COST),)),))


def one_lane(*records: Record) -> Trace:
    end = max(record.end_ps + (record.repeat_count - 1) * record.repeat_period_ps for record in records)
    return Trace(end, {"ipu0": {"matmul": end}}, records, frozenset(), (), 1)


def test_power_of_two_ipus_is_the_mean_of_each_pass() -> None:
    """100 W, and 10 W for an activity of 1 of both IPUs.

    0..10 us forward on ipu0: 7 us at 1 and 3 us at 0.5 are 0.85, of two IPUs 0.425. 10..20 a transfer on one of them,
    at 0.25. 20..25 backward at 1, and 1 ps.
    """
    activity = {"matmul": 1.0, "vector": 0.5, "inter_ipu": 0.25, "streaming": 0.25}
    energy = SimpleNamespace(dynamic_in_w=lambda kind: activity.get(kind, 0.0), power_w=lambda watts: 100 + 10 * watts)
    trace = execute(PROGRAM, record=True)
    result = SimpleNamespace(trace=trace, passes=passes("forward"), energy=energy)
    ((name, steps, _),) = gauges_of_result(cast(RunResult, result), 100)
    assert name == "power (W)"
    assert steps == [
        (0, pytest.approx(104.25)),
        (10 * US, pytest.approx(101.25)),
        (20 * US, pytest.approx(105)),
        (25 * US + 1, 100),
    ]


def test_memory_follows_what_passes_need_and_leave() -> None:
    """100 MB of weights; a pass needs 20 MB; each of two forward passes leaves 10 MB until its backward pass ends."""
    rows = (
        MemoryRow(0, "weights", 100_000_000, IN_PROCESSOR),
        MemoryRow(0, "temporaries", 20_000_000, IN_PROCESSOR),
        MemoryRow(0, "stash", 20_000_000, IN_PROCESSOR),
        MemoryRow(0, "optimizer_state", 500_000_000, STREAMING),
    )
    trace = one_lane(
        Record("ipu0", "matmul", "forward 0", 0, 10 * US, 2, 10 * US),
        Record("ipu0", "matmul", "backward 0", 20 * US, 40 * US, 2, 20 * US),
        Record("ipu0", "optimizer", "optimizer", 60 * US, 70 * US),
    )
    result = make_result(
        trace=trace,
        memory=MemoryReport(rows, 900_000_000, 10**12),
        stash={"forward 0": 10_000_000},
        passes=passes("forward 0", "backward 0"),
    )
    (gauge,) = gauges_of_result(result, 100)
    assert gauge.name == "memory of ipu0 in use (MB)"
    assert gauge.steps == [
        (0, pytest.approx(130)),
        (10 * US, pytest.approx(140)),
        (40 * US, pytest.approx(130)),
        (60 * US, pytest.approx(100)),
    ]
    assert list(gauges_of_result(result, 4)) == []  # five stretches are too many


def mean(steps: Steps, end_ps: int) -> float:
    return sum(v * (b - a) for (a, v), (b, _) in zip(steps, [*steps[1:], (end_ps, 0)], strict=True)) / end_ps


@pytest.mark.parametrize("name", ["conductivity_cnn_pod4", "bert_v1.1_pod16_open"])
def test_counters_agree_with_the_result(name: str) -> None:
    """The mean of the power is that of the result, and the most memory is what the report says is used."""
    result = podsim.run(name, record=True)
    assert isinstance(result, RunResult)
    assert result.trace is not None
    gauges = {each.name: each.steps for each in gauges_of_result(result, 10**6)}
    assert mean(gauges["power (W)"], result.trace.makespan_ps) == pytest.approx(result.mean_power_w, rel=1e-6)
    memories = {name: steps for name, steps in gauges.items() if name.startswith("memory")}
    assert len(memories) == len({row.ipu for row in result.memory.rows})
    for ipu in range(len(memories)):
        most = max(value for _, value in memories[f"memory of ipu{ipu} in use (MB)"])
        assert most == pytest.approx(result.memory.used_bytes(ipu) / 1e6)


def arrows(events: tuple[Event, ...]) -> list[tuple[Any, ...]]:
    """(slice that an arrow leaves, slice that it leads to), by the rules of the viewer.

    Events are taken by time, those of one instant in the order of the file. What starts an arrow binds to the slice
    that is open on its track, what ends one to the slice that begins next.
    """
    found: dict[object, list[Any]] = {}
    waiting: dict[object, list[object]] = {}
    last: dict[object, Event] = {}
    for event in sorted((each for each in events if each["ph"] in "Xsf"), key=lambda each: float(str(each["ts"]))):
        track = event["pid"], event["tid"]
        match event["ph"]:
            case "X":
                last[track] = event
                for number in waiting.pop(track, []):
                    found[number].append(event["name"])
            case "s":
                around = last[track]
                assert float(str(event["ts"])) < float(str(around["ts"])) + float(str(around["dur"]))
                found.setdefault(event["id"], []).insert(0, around["name"])
            case "f":
                found.setdefault(event["id"], [])
                waiting.setdefault(track, []).append(event["id"])
    return [tuple(each) for each in found.values()]


def test_an_arrow_leads_from_what_sends_to_what_goes_on_with_it() -> None:
    """ipu0 sends from 10 to 14 us, when ipu1 begins to load its weights."""
    trace = execute(PROGRAM, record=True)
    assert [(message.lane, message.receiver, message.start_ps, message.end_ps) for message in trace.messages] == [
        ("ipu0", "ipu1", 10 * US, 14 * US)
    ]
    events = build_timeline(trace).events
    flows = [(event["ph"], event["tid"], event["id"], event["ts"]) for event in events if event["ph"] in "sf"]
    assert flows == [("f", 2, 1, pytest.approx(14)), ("s", 1, 1, pytest.approx(10))]
    assert arrows(events) == [("acts", "weights")]


def test_every_arrow_of_a_run_has_two_ends_in_the_viewer() -> None:
    result = podsim.run("bert_v1.1_pod16_open", record=True)
    assert result.trace is not None
    found = arrows(build_timeline(result.trace).events)
    assert len(found) > 50
    assert {len(each) for each in found} == {2}
    assert {each[0].split()[0] for each in found} == {"activations", "gradients"}


def test_arrows_of_cycles_are_shown_as_often_as_their_slices() -> None:
    sent = Record("ipu0", "inter_ipu", "acts", 0, 5, 3, 10, "ipu1")
    slices = tuple(replace(sent, lane=lane, receiver="") for lane in ("ipu0", "ipu1"))
    lanes = {"ipu0": {"inter_ipu": 30}, "ipu1": {"inter_ipu": 30}}
    trace = Trace(30, lanes, slices, frozenset(), (), 1, messages=(sent, replace(sent, receiver="ipu7")))
    counts = [
        sum(event["ph"] == "s" for event in build_timeline(trace, event_limit=limit).events) for limit in (100, 2)
    ]
    assert counts == [3, 1]  # ipu7 is not shown


def test_steps_are_in_the_order_of_time() -> None:
    result = podsim.run("conductivity_cnn_pod4", record=True)
    for gauge in gauges_of_result(result, 10**6):
        times = [at for at, _ in gauge.steps]
        assert all(bisect_right(times, at) == place + 1 for place, at in enumerate(times))
