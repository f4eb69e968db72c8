"""The engine against closed forms of queues, rings and barriers, on programs of lanes and channels."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from podsim.engine import Trace, execute
from podsim.program.task import Acquire, Barrier, Exchange, Group, Phase, Program, Release, Step, Transfer, Work

MEET = Barrier("meet", "wait")


def program(count: int = 1, **lanes: tuple[Step, ...]) -> Program:
    """Every lane a group of its own, so that only channels and barriers join them."""
    return Program(
        tuple(Group(lane, (lane,), (Phase("phase", count, {lane: steps}, "join"),)) for lane, steps in lanes.items())
    )


def work(duration: int) -> Work:
    return Work("work", (("compute", duration),))


def send(duration: int, *channels: str, latency: int = 0) -> Exchange:
    return Exchange((Transfer("data", "link", tuple((name, duration) for name in channels or ("wire",)), latency),))


def sending_ps(trace: Trace) -> list[int]:
    return [account.get("link", 0) for account in trace.lanes.values()]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
def test_k_equal_transfers_take_k_times_as_long(count: int) -> None:
    trace = execute(program(**{f"l{number}": (send(1_000),) for number in range(count)}))
    assert sending_ps(trace) == [count * 1_000] * count


def test_transfers_on_channels_of_their_own_do_not_meet() -> None:
    trace = execute(program(**{f"l{number}": (send(1_000, f"wire{number}"),) for number in range(8)}))
    assert sending_ps(trace) == [1_000] * 8


@pytest.mark.parametrize(
    "sizes", [[10, 30], [5, 5, 20], [1, 2, 4, 8, 16], [7, 100, 100, 3], [1, 10**9], list(range(1, 40))]
)
def test_processor_sharing_of_transfers_that_start_together(sizes: list[int]) -> None:
    """The transfer of size s leaves when every one has sent min(size, s): at the sum of those.

    By hand for 10 and 30: 10 + 10 = 20, and 10 + 30 = 40.
    """
    trace = execute(program(**{f"l{number}": (send(size),) for number, size in enumerate(sizes)}))
    assert sending_ps(trace) == [sum(min(size, other) for other in sizes) for size in sizes]


@pytest.mark.parametrize("gap", [0, 10, 50, 99, 100, 150])
def test_a_second_transfer_that_comes_late(gap: int) -> None:
    """Two of 100, the second `gap` later: the first has 100 - gap left, which takes it twice as long.

    Then the second has gap left and the channel to itself; the channel is busy for 200 in all, unless they never met.
    """
    trace = execute(program(a=(send(100),), b=(work(gap), send(100))))
    late = min(gap, 100)
    assert sending_ps(trace) == [late + 2 * (100 - late), 2 * (100 - late) + late]
    assert trace.makespan_ps == max(200, gap + 100)


@pytest.mark.parametrize("sizes", ["equal", "exponential"])
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_a_shared_link_as_a_queue(sizes: str, load: float) -> None:
    """Poisson arrivals at a processor-sharing server: mean stay = mean size ÷ (1 - load), whatever the sizes.

    First come, first served would give M/D/1's 1 + load ÷ 2(1 - load), which is far off: 1.75 and not 2.5 at 0.6.
    Source: Kleinrock, Queueing Systems II, section 4.4.
    """
    generator = random.Random(1)
    size, count, now = 10**6, 6_000, 0.0
    lanes: dict[str, tuple[Step, ...]] = {}
    for number in range(count):
        now += generator.expovariate(load / size)
        duration = size if sizes == "equal" else round(generator.expovariate(1 / size))
        lanes[f"l{number}"] = (work(round(now)), send(duration))
    mean = sum(sending_ps(execute(program(**lanes)))) / count
    assert mean / size == pytest.approx(1 / (1 - load), rel=0.08)


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_ring_all_reduce(count: int) -> None:
    """2(n - 1)/n·V/B + 2(n - 1)·λ: in each of 2(n - 1) steps everyone sends 1/n to the next over a link of its own."""
    whole, latency = 48_000_000, 700
    lanes = {
        f"l{place}": (send(whole // count, f"{place}→{(place + 1) % count}", latency=latency), MEET)
        for place in range(count)
    }
    trace = execute(program(2 * (count - 1), **lanes))
    assert trace.makespan_ps == 2 * (count - 1) * whole // count + 2 * (count - 1) * latency
    assert sending_ps(trace) == [trace.makespan_ps] * count


def test_two_rings_over_the_same_links_take_twice_the_bytes_and_the_same_latency() -> None:
    count, chunk, latency = 4, 1_000, 50
    lanes = {
        f"{ring}{place}": (send(chunk, f"{place}→{(place + 1) % count}", latency=latency), Barrier(ring, "wait"))
        for ring in "xy"
        for place in range(count)
    }
    assert execute(program(2 * (count - 1), **lanes)).makespan_ps == 2 * (count - 1) * (2 * chunk + latency)


def test_a_barrier_lets_all_go_when_the_last_has_come() -> None:
    """Rounds of (5, 9), (20, 1) and (3, 3): they end at 9, 29 and 32; a waits 4 + 0 + 0, b 0 + 19 + 0."""
    rounds = [(5, 9), (20, 1), (3, 3)]
    a, b = (tuple(step for each in rounds for step in (work(each[lane]), MEET)) for lane in (0, 1))
    trace = execute(program(a=a, b=b))
    assert trace.lanes == {"a": {"compute": 28, "wait": 4}, "b": {"compute": 13, "wait": 19}}


@pytest.mark.parametrize("seed", range(5))
def test_bulk_synchronous_rounds_take_the_sum_of_their_slowest(seed: int) -> None:
    """T = Σ over rounds of the longest work; each lane waits for what it does not work."""
    generator = random.Random(seed)
    rounds = [[generator.randrange(1_000) for _ in range(6)] for _ in range(10)]
    lanes = {f"l{n}": tuple(step for each in rounds for step in (work(each[n]), MEET)) for n in range(6)}
    trace = execute(program(**lanes), tie_seed=seed)
    assert trace.makespan_ps == sum(max(each) for each in rounds)
    own = {f"l{n}": sum(each[n] for each in rounds) for n in range(6)}
    waits = {lane: account.get("wait", 0) for lane, account in trace.lanes.items()}
    assert waits == {lane: trace.makespan_ps - time for lane, time in own.items()}


def test_lanes_that_do_not_name_a_barrier_pass_it_by() -> None:
    trace = execute(program(a=(work(10), MEET), b=(work(40), MEET), c=(work(1),)))
    assert {lane: account.get("wait", 0) for lane, account in trace.lanes.items()} == {"a": 30, "b": 0, "c": 0}


def test_every_pass_through_a_barrier_is_a_new_meeting() -> None:
    """Four passes, one every 7: the fast lane waits each time, and never gets a pass ahead."""
    trace = execute(program(4, a=(work(2), MEET), b=(work(7), MEET)), record=True)
    starts = [record.start_ps for record in trace.records if record.lane == "a" and record.kind == "compute"]
    assert [later - earlier for earlier, later in pairwise(starts)] == [7, 7, 7]
    assert trace.lanes["a"] == {"compute": 8, "wait": 20}


@pytest.mark.parametrize(("stages", "items"), [(1, 10), (2, 3), (4, 24), (8, 100)])
def test_a_lock_step_pipeline(stages: int, items: int) -> None:
    """Items through p equal stages in lock-step: (m + p - 1)·t, and each stage waits (p - 1)·t."""
    cycles = items + stages - 1
    lanes = {
        f"stage{s}": tuple(
            step for cycle in range(cycles) for step in (*((work(100),) if 0 <= cycle - s < items else ()), MEET)
        )
        for s in range(stages)
    }
    trace = execute(program(**lanes))
    assert trace.makespan_ps == (items + stages - 1) * 100
    assert {account.get("wait", 0) for account in trace.lanes.values()} == {(stages - 1) * 100}


@pytest.mark.parametrize(("make", "use"), [(10, 3), (3, 10), (7, 7)])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_buffer_between_two_lanes(make: int, use: int, depth: int) -> None:
    """With room for one item the lanes take turns: n(p + c). With room for more the slower one never waits again.

    The maker if p ≥ c: n·p and the last use. The user if c ≥ p: the first item's p and then n·c.
    """
    count = 20
    maker = (Acquire("room", "wait"), work(make), Release("ready")) * count
    user = (Acquire("ready", "wait"), work(use), Release("room")) * count
    trace = execute(Program(program(maker=maker, user=user).groups, {"room": depth, "ready": 0}))
    together = count * max(make, use) + min(make, use)
    assert trace.makespan_ps == (count * (make + use) if depth == 1 else together)
    assert trace.lanes["user"]["wait"] == trace.makespan_ps - count * use
