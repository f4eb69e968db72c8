"""Programs in pieces come to what the engine makes of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.engine import Chunks, execute
from podsim.program.compile import compile_program
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Step, Transfer, Work
from tests.examples import plan_of


def group(*phases: Phase) -> Program:
    return Program((Group("g", ("a", "b", "c"), phases),))


def work(duration: int, kind: str = "matmul") -> Work:
    return Work("w", ((kind, duration), ("vector", 1)))


def send(channel: str, duration: int, latency: int = 0) -> Exchange:
    return Exchange((Transfer("t", "link", ((channel, duration),), latency),))


MEET = Barrier("all", "imbalance")
PHASES = {
    "work alone": {"a": (work(5),), "b": (work(7),), "c": ()},
    "meetings": {"a": (work(5), MEET, work(2)), "b": (work(7), MEET), "c": (MEET, work(9))},
    "a shared channel": {"a": (send("x", 10),), "b": (work(3), send("x", 10)), "c": (send("y", 2, 4), work(1))},
    "some meet": {"a": (work(1), Barrier("two", "sync")), "b": (send("x", 3), Barrier("two", "sync")), "c": (work(9),)},
    "one lane": {"b": (send("x", 4), work(2)), "c": ()},
    "nobody": {},
    "a ring beside one at work": {
        "a": (send("x", 4), Barrier("ring", "sync"), send("x", 4), Barrier("ring", "sync")),
        "b": (send("x", 6), Barrier("ring", "sync"), send("y", 6), Barrier("ring", "sync"), work(1)),
        "c": (work(50),),
    },
    "shared by way of another": {"a": (send("x", 5),), "b": (send("x", 5), send("y", 5)), "c": (send("y", 9),)},
    "its own transfers share": {"a": (Exchange((*send("x", 4).transfers, *send("x", 4, 1).transfers)),)},
    "repeated": {lane: (send("x", 4), MEET) * 3 for lane in "abc"},
}


def agrees(program: Program) -> bool:
    whole, pieces = execute(program, explicit=False), Chunks().trace(program)
    return pieces is not None and (pieces.makespan_ps, pieces.lanes) == (whole.makespan_ps, whole.lanes)


@pytest.mark.parametrize("name", PHASES)
def test_a_phase_in_pieces(name: str) -> None:
    assert agrees(group(Phase(name, 3, PHASES[name], "bubble")))


def test_all_phases_in_pieces_and_what_is_known_serves_again() -> None:
    program = group(*(Phase(name, 2, steps, "bubble") for name, steps in PHASES.items()))
    assert agrees(program)
    pieces = Chunks()
    assert pieces.trace(program) == pieces.trace(program)


def test_by_hand() -> None:
    """Lane a works 5 + 1, lane b 7 + 1, lane c waits for b; then both transfers share a channel: 2 x 10."""
    steps: dict[str, tuple[Step, ...]] = {
        "a": (work(5), MEET, send("x", 10)),
        "b": (work(7), MEET, send("x", 10)),
        "c": (MEET,),
    }
    trace = Chunks().trace(group(Phase("p", 1, steps, "bubble")))
    assert trace is not None
    assert trace.makespan_ps == 8 + 20
    assert trace.lanes["a"] == {"matmul": 5, "vector": 1, "imbalance": 2, "link": 20}
    assert trace.lanes["c"] == {"imbalance": 8, "bubble": 20}


def test_what_cannot_be_cut_is_left_to_the_engine() -> None:
    (one,) = group(Phase("p", 1, PHASES["meetings"], "bubble")).groups
    assert Chunks().trace(Program((one, replace(one, name="h")))) is None
    assert Chunks().trace(Program((one,), {"token": 1})) is None
    partly = {"a": (MEET,), "b": (MEET,)}
    assert Chunks().trace(group(Phase("p", 1, PHASES["meetings"], ""), Phase("q", 1, partly, ""))) is None


@pytest.mark.parametrize("name", ["bert_v1.1_pod16_open", "gpt2_small_pod16"])
def test_shipped_programs_in_pieces(name: str) -> None:
    assert agrees(compile_program(plan_of(name)))


def test_lanes_that_share_nothing_with_others_need_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: the later of two transfers starts after 7 and needs 1, the other one is there after 2 + 5."""
    monkeypatch.setattr("podsim.engine.chunks.execute", None)
    late, long = Transfer("late", "host", (("x", 1),), 7), Transfer("long", "link", (("y", 5), ("z", 3)), 2)
    steps: dict[str, tuple[Step, ...]] = {"a": (work(3), Exchange((late, long))), "b": (send("q", 20),)}
    trace = Chunks().trace(group(Phase("p", 2, steps, "bubble")))
    assert trace is not None
    assert trace.makespan_ps == 2 * 20
    assert trace.lanes["a"] == {"matmul": 2 * 3, "vector": 2, "host": 2 * 8, "bubble": 2 * (20 - 4 - 8)}


def test_a_piece_of_the_first_program_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    program, pieces = group(Phase("p", 3, PHASES["a shared channel"], "bubble")), Chunks()
    first = pieces.trace(program)
    monkeypatch.setattr("podsim.engine.chunks.execute", None)
    assert pieces.trace(program) == first
