"""Both engines on random programs: they agree to the picosecond, with everything that a program can have."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.engine import Trace, execute
from podsim.engine.compiled import is_available, run_compiled
from podsim.engine.sharing import ChannelLoad, SharedChannel, Sharer, fair_times, weight_of
from podsim.errors import DeadlockError
from podsim.program.task import (
    Acquire,
    Barrier,
    Exchange,
    Group,
    Jitter,
    Phase,
    Program,
    Release,
    Slowdown,
    Step,
    Transfer,
    Work,
)
from tests.property.test_engine_property import CHANNELS, durations, exchanges, programs, works

needs_compiled = pytest.mark.skipif(not is_available(), reason="podsim was built without a C compiler")

tables = st.lists(st.integers(-50, 10**6), min_size=4, max_size=4).map(tuple)
jitters = st.builds(Jitter, st.integers(0, 5), tables, st.booleans())
speeds = st.fractions(Fraction(1, 50), 2, max_denominator=50)


@st.composite
def slowdowns(draw: st.DrawFn, names: tuple[str, ...]) -> tuple[Slowdown, ...]:
    """Stretches of time one after the other, some without a gap between them, some without an end."""
    found: list[Slowdown] = []
    for name in draw(st.sets(st.sampled_from(names), max_size=3)):
        start = draw(st.integers(0, 100))
        for _ in range(draw(st.integers(1, 3))):
            end = start + draw(st.integers(1, 10**6))
            found.append(Slowdown(name, draw(speeds), start, end))
            start = end + draw(st.sampled_from([0, 7]))
        if draw(st.booleans()):
            found.append(Slowdown(name, draw(speeds), start))
    return tuple(found)


def with_jitter(steps: tuple[Step, ...], name: str) -> tuple[Step, ...]:
    return tuple(replace(step, jitter=name) if isinstance(step, Work) else step for step in steps)


def some_steady(steps: tuple[Step, ...], every: int) -> tuple[Step, ...]:
    return tuple(
        replace(step, steady=True) if isinstance(step, Work) and number % every else step
        for number, step in enumerate(steps)
    )


@st.composite
def everything(draw: st.DrawFn) -> Program:
    """Random programs with jitter, slow parts, turns, and a pair of lanes that hand on tokens."""
    program = draw(programs())
    every = draw(st.integers(1, 3))
    jittered = draw(st.sets(st.sampled_from(sorted(program.lanes))))
    drawn = {f"jitter{number}": each for number, each in enumerate(draw(st.lists(jitters, min_size=1, max_size=3)))}
    names = sorted(drawn)
    groups = []
    turns = draw(st.integers(1, 3))
    for group in program.groups:
        phases = tuple(
            replace(
                phase,
                steps={
                    lane: some_steady(
                        with_jitter(steps, names[len(lane) % len(names)]) if lane in jittered else steps, every
                    )
                    for lane, steps in phase.steps.items()
                },
            )
            for phase in group.phases
        )
        groups.append(replace(group, phases=phases, turns=turns))
    make, use = (Work(name, (("compute", draw(st.integers(0, 1000))),)) for name in ("make", "use"))
    count = draw(st.integers(1, 4))
    maker = Phase("make", 1, {"maker": (Acquire("room", "wait"), make, Release("items")) * count}, "join")
    user = Phase("use", 1, {"user": (Acquire("items", "wait"), use, Release("room")) * count}, "join")
    groups.append(Group("maker", ("maker",), (maker,), accounted=False))
    groups.append(Group("user", ("user",), (user,)))
    return Program(
        tuple(groups),
        {"room": draw(st.integers(1, 3)), "items": 0},
        drawn,
        draw(slowdowns((*sorted(program.lanes), *CHANNELS))),
        draw(st.integers(0, 2**63 - 1)),
    )


def found(trace: Trace) -> Iterator[object]:
    """What both engines must agree on."""
    yield from (
        trace.makespan_ps,
        trace.lanes,
        trace.helpers,
        trace.phases,
        trace.turns,
        trace.event_count,
        trace.shared,
    )


@needs_compiled
@settings(max_examples=100, deadline=None)
@given(everything(), st.booleans())
def test_both_engines_find_the_same(program: Program, explicit: bool) -> None:
    simpy = execute(program, explicit=explicit, engine="simpy")
    compiled = run_compiled(program, explicit=explicit)
    assert compiled is not None
    assert list(found(compiled)) == list(found(simpy))
    assert (simpy.engine, compiled.engine) == ("simpy", "compiled")


@st.composite
def attended(draw: st.DrawFn) -> Program:
    """Lanes that go through repetitions together, while others wait for one of their phases, or for their tokens.

    A host answers a call; a reader takes tokens; a late lane joins a phase and sleeps through others.
    """
    lanes = tuple(f"lane{number}" for number in range(draw(st.integers(1, 4))))
    alike = draw(st.booleans())
    short = st.lists(st.one_of(works, exchanges), min_size=1, max_size=2).map(tuple)
    ask, answer, join = Barrier("ask", "host"), Barrier("answer", "host"), Barrier("join", "wait")
    everyone = Barrier("main", "wait")
    shared = (Work("work", (("compute", draw(durations)),)), everyone)
    phases, joins, calls, given = [], 0, 0, 0
    for number in range(draw(st.integers(2, 5))):
        count, kind = draw(st.integers(1, 6)), draw(st.sampled_from(["", "", "call", "join", "give"]))
        steps: dict[str, tuple[Step, ...]] = {}
        for lane in lanes:
            first: tuple[Step, ...] = ()
            if kind == "call":
                first = (ask, answer)
            elif kind == "join":
                first = (join,)
            elif kind == "give" and lane == lanes[0]:
                first = (Release("tokens"),)
            steps[lane] = (*first, *(shared if alike else (*draw(short), everyone)))
        calls, joins, given = (
            calls + count * (kind == "call"),
            joins + count * (kind == "join"),
            given + count * (kind == "give"),
        )
        phases.append(Phase(f"phase{number}", count, steps, "end"))
    host = (ask, Work("call", (("host", draw(durations)),)), answer)
    groups = [Group("main", lanes, tuple(phases), turns=draw(st.integers(1, 2)))]
    turns = groups[0].turns
    if calls:
        groups.append(Group("host", ("host",), (Phase("loop", calls, {"host": host}, "end"),), 0, False, turns))
    if joins:
        after = draw(short)
        late = Phase("late", joins, {"late": (*draw(short), join, *after)}, "end")
        groups.append(Group("late", ("late",), (late,), accounted=draw(st.booleans()), turns=turns))
    if given:
        read = Phase("read", given, {"reader": (Acquire("tokens", "wait"), *draw(short))}, "end")
        groups.append(Group("reader", ("reader",), (read,), 0, False, turns))
    draw(st.randoms()).shuffle(groups)
    return Program(tuple(groups), {"tokens": 0})


@needs_compiled
@settings(max_examples=150, deadline=None)
@given(attended())
def test_waiting_lanes_change_no_repetition_of_others(program: Program) -> None:
    """The compiled engine skips equal repetitions although others wait, and counts the events of all of them."""
    simpy = execute(program, engine="simpy")
    compiled = run_compiled(program, explicit=True)
    assert compiled is not None
    assert list(found(compiled)) == list(found(simpy))


@needs_compiled
def test_repetitions_are_skipped_while_a_host_waits() -> None:
    """10^12 repetitions of two lanes of 3 ps each, and a call of 5 ps; nobody could run them one by one.

    A repetition has for each lane its work, the barrier, and its end; the call has a barrier and its end for each lane,
    and the host waits, works, and ends.
    """
    times, lanes = 10**12, ("one", "other")
    work, ask = Work("work", (("compute", 3),)), Barrier("ask", "host")
    loop = Phase("loop", times, dict.fromkeys(lanes, (work, Barrier("main", "wait"))), "end")
    call = Phase("call", 1, dict.fromkeys(lanes, (ask, Barrier("answer", "host"))), "end")
    host = {"host": (ask, Work("call", (("host", 5),)), Barrier("answer", "host"))}
    program = Program(
        (
            Group("main", lanes, (loop, call)),
            Group("host", ("host",), (Phase("loop", 1, host, "end"),), accounted=False),
        )
    )
    trace = run_compiled(program, explicit=True)
    assert trace is not None
    assert trace.makespan_ps == 3 * times + 5
    assert trace.helpers["host"]["host"] == 3 * times + 5
    assert trace.event_count == times * 2 * 3 + 2 * 3 + 4


@settings(max_examples=40, deadline=None)
@given(everything(), st.integers(0, 2**31))
def test_shuffled_ties_change_nothing_with_jitter_and_slow_parts(program: Program, seed: int) -> None:
    first, other = execute(program, engine="simpy"), execute(program, tie_seed=seed, engine="simpy")
    assert list(found(other)) == list(found(first))


class Dice:
    """Draws programs of any size: times up to 10^18 ps, repetitions up to 10^12, with all that a program can have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.explicit = self.random.random() < 0.5
        # Lanes that come together at the end of each repetition have repetitions that are alike.
        self.together = self.explicit and self.random.random() < 0.7
        self.largest = self.random.choice([12, 10**6, 10**9, 10**12, 10**15, 10**18])
        # Most transfers are of times that the compiled engine can hold.
        self.longest_transfer = self.random.choice([self.largest, *[min(self.largest, 10**14)] * 3])
        self.most = 8 if self.explicit else self.random.choice([4, 10**3, 10**6, 10**9, 10**12])

    def up_to(self, largest: int) -> int:
        """Any order of magnitude is as likely as the others."""
        return self.random.randint(0, int(largest ** self.random.random()))

    def time(self) -> int:
        return self.up_to(self.largest)

    def happens(self, share: float) -> bool:
        return self.random.random() < share

    def work(self, jitters: tuple[str, ...]) -> Work:
        parts = tuple((self.random.choice(["compute", "other"]), self.time()) for _ in range(self.random.randint(1, 2)))
        jitter = self.random.choice(jitters) if jitters and self.happens(0.5) else ""
        return Work("work", parts, jitter, steady=self.happens(0.3))

    def exchange(self) -> Exchange:
        def transfer() -> Transfer:
            names = self.random.sample(CHANNELS, self.random.randint(0, len(CHANNELS)))
            times = [self.up_to(self.longest_transfer) for _ in names]
            latency = self.random.choice([0, self.time()])
            size = self.random.choice([0, 0, 1 + max(times, default=0) * self.up_to(1000) // 10**4])
            return Transfer(
                "x", self.random.choice(["link", "stream"]), tuple(zip(names, times, strict=True)), latency, size
            )

        return Exchange(tuple(transfer() for _ in range(self.random.randint(0, 3))))

    def jitter(self) -> Jitter:
        relative = self.happens(0.5)
        most = 1 << 33 if relative else self.largest
        table = tuple(self.up_to(most) - self.up_to(most) for _ in range(self.random.choice([1, 2, 4, 8])))
        return Jitter(self.random.randint(0, 5), table, relative)

    def slowdowns(self, names: list[str]) -> Iterator[Slowdown]:
        for name in self.random.sample(names, self.random.randint(0, min(3, len(names)))):
            start = self.random.choice([0, self.time()])
            for _ in range(self.random.randint(1, 2)):
                end = start + 1 + self.time()
                yield Slowdown(name, self.speed(), start, end)
                start = end + self.random.choice([0, 7])
            if self.happens(0.5):
                yield Slowdown(name, self.speed(), start)

    def speed(self) -> Fraction:
        speed = Fraction(self.random.randint(1, 100), 50).limit_denominator(50)
        others = Fraction(0), speed / 10**9, speed * 10**3
        return self.random.choice(others) if self.happens(0.2) else speed

    def program(self) -> Program:
        varies = not self.together or self.happens(0.2)
        jitters = {f"jitter{number}": self.jitter() for number in range(self.random.randint(0, 2) * varies)}
        turns, warm = self.random.choice([1, 1, 3]), self.happens(0.3)
        groups = [
            [f"{name}{n}" for n in range(self.random.randint(1, 3))] for name in "abc"[: self.random.randint(1, 3)]
        ]
        lanes = [lane for group in groups for lane in group]
        meetings = [set(self.random.sample(lanes, self.random.randint(1, len(lanes)))) for _ in range(3)]
        # Those who leave the warm-up together went through its last phase once.
        counts = [1 if warm and number == 0 else 1 + self.up_to(self.most - 1) for number in range(3)]

        def steps(lane: str, number: int) -> tuple[Step, ...]:
            drawn: list[Step] = []
            for _ in range(2):
                drawn += (
                    self.exchange() if self.happens(0.5) else self.work(tuple(jitters))
                    for _ in range(self.random.randint(0, 2))
                )
                if lane in meetings[number]:
                    drawn.append(Barrier(f"meeting {number}", "wait"))
            meets = self.together or (warm and number == 0)
            return (*drawn, Barrier("everyone", "wait")) if meets else tuple(drawn)

        made = [
            Group(
                name[0],
                tuple(name),
                tuple(
                    Phase(f"phase {number}", count, {lane: steps(lane, number) for lane in name}, "join")
                    for number, count in enumerate(counts)
                ),
                warm_up=int(warm),
                turns=turns,
            )
            for name in groups
        ]
        semaphores = {"room": self.random.randint(1, 3), "items": 0} if varies and self.happens(0.5) else {}
        if semaphores:
            count = self.random.randint(1, 4)
            make = (Acquire("room", "wait"), self.work(()), Release("items")) * count
            use = (Acquire("items", "wait"), self.work(()), Release("room")) * count
            made.append(Group("maker", ("maker",), (Phase("make", 1, {"maker": make}, "join"),), accounted=False))
            made.append(Group("user", ("user",), (Phase("use", 1, {"user": use}, "join"),), accounted=False))
        slow = tuple(self.slowdowns([*lanes, *CHANNELS])) if varies and self.happens(0.5) else ()
        return Program(tuple(made), semaphores, jitters, slow, self.random.getrandbits(63))


def what_comes_of(program: Program, *, explicit: bool, compiled: bool) -> list[object] | None:
    """What an engine finds, be it that lanes wait for ever; None if it cannot hold it."""
    try:
        if not compiled:
            return list(found(execute(program, explicit=explicit, engine="simpy")))
        trace = run_compiled(program, explicit=explicit)
        return None if trace is None else list(found(trace))
    except DeadlockError:
        return ["waits for ever"]


@needs_compiled
@pytest.mark.parametrize("part", range(5))
def test_both_engines_find_the_same_at_any_size(part: int) -> None:
    """What does not fit into the compiled engine is left to SimPy, and most of what is drawn fits."""
    count = 100 * int(os.environ.get("PODSIM_EXAMPLES", "1"))
    held = 0
    for seed in range(part * count, (part + 1) * count):
        dice = Dice(seed)
        program = dice.program()
        there = what_comes_of(program, explicit=dice.explicit, compiled=True)
        held += there is not None
        small = dice.largest == 12 and dice.most <= 10**6
        assert there is not None or not small or program.slowdowns or program.jitters, seed
        assert there in (None, what_comes_of(program, explicit=dice.explicit, compiled=False)), seed
    assert held > 0.5 * count


def alone(steps: tuple[Step, ...], count: int = 1, **parts: object) -> Program:
    return Program((Group("g", ("a",), (Phase("p", count, {"a": steps}, "join"),)),), **parts)  # type: ignore[arg-type]


LONG, MANY = 10**18, 10**12


@pytest.mark.parametrize("engine", ["simpy", "auto"])
@pytest.mark.parametrize(
    ("program", "makespan"),
    [
        (alone((Work("w", (("compute", LONG),)),), MANY), LONG * MANY),
        (alone((Work("w", (("compute", LONG),)),) * 10), 10 * LONG),
        (alone((Work("w", (("compute", 2**61),)),)), 2**61),
        (alone((Exchange((Transfer("t", "link", (("p", 10 * LONG),)),)),)), 10 * LONG),
        (alone((Exchange((Transfer("t", "link", (), LONG),)),), 20), 20 * LONG),
        (alone((Work("w", (("compute", 10 * LONG),)),), slowdowns=(Slowdown("a", Fraction(1, 2)),)), 20 * LONG),
        (alone((Work("w", (("compute", 5),)),), slowdowns=(Slowdown("a", Fraction(1, 2**62)),)), 5 * 2**62),
        (alone((Work("w", (("compute", 5),)),), slowdowns=(Slowdown("a", Fraction(0), 0, 2**63 - 1),)), 2**63 + 4),
        (alone((Work("w", (("c", LONG),), "j"),), jitters={"j": Jitter(0, (2**63 - 1,) * 2)}), LONG + 2**63 - 1),
        (alone((Work("w", (("c", LONG),), "j"),), jitters={"j": Jitter(0, (2**40,) * 2, relative=True)}), 257 * LONG),
        # A channel 2^16 times as fast: work for 2^20 takes 2^4.
        (
            alone((Exchange((Transfer("t", "link", (("p", 2**20),)),)),), slowdowns=(Slowdown("p", Fraction(2**16)),)),
            2**4,
        ),
    ],
)
def test_times_beyond_64_bits(engine: str, program: Program, makespan: int) -> None:
    """The lane of `alone` does nothing but its steps, so that its time is theirs."""
    trace = execute(program, explicit=False, engine=engine)  # type: ignore[arg-type]
    assert trace.makespan_ps == makespan
    assert sum(trace.lanes["a"].values()) == makespan


def ring_of_lanes(count: int, *, late: int = 0, more: tuple[Step, ...] = ()) -> Program:
    """Four lanes in two groups that exchange over two channels and meet, `count` times; one group may begin later."""
    groups = []
    for name in "ab":
        steps: dict[str, tuple[Step, ...]] = {}
        for number in range(2):
            send = Exchange((Transfer("x", "link", ((f"wire {number}", 10 + number),), 3),))
            steps[f"{name}{number}"] = (send, Barrier(f"ring {number}", "wait"), *more)
        begin = Work("begin", (("compute", late if name == "b" else 0),))
        first = Phase("begin", 1, dict.fromkeys(steps, (begin,)), "join")
        last = Phase("end", 3, {lane: (Work("end", (("compute", 2),)),) for lane in steps}, "join")
        groups.append(Group(name, tuple(steps), (first, Phase("ring", count, steps, "join"), last)))
    return Program(tuple(groups))


@needs_compiled
@pytest.mark.parametrize("late", [0, 7, 1000])
def test_a_ring_that_nothing_disturbs_is_not_stepped_through(late: int) -> None:
    """Two share each wire: 3 + 2·11 = 25 for each step on the slower one, however many there are.

    A group that comes later than the other shares the wires for a part of the first step only, or not at all, and all
    meet at the end of it.
    """
    count, more = 10**12, 1000
    few, many = (execute(ring_of_lanes(each, late=late), engine="compiled") for each in (more, count))
    assert many.makespan_ps == few.makespan_ps + 25 * (count - more)
    simpy = execute(ring_of_lanes(more, late=late), engine="simpy")
    assert list(found(few)) == list(found(simpy))
    # Each step has an exchange, its transfer, two meetings of each of four lanes: as many events as without.
    assert many.event_count == few.event_count + 4 * 4 * (count - more)


def uneven(count: int, late: int, *, ring: int = 0) -> Program:
    """Two lanes that send for 2 on one wire and work for 8 and for 3, `count` times, and do not meet.

    Args:
        count: Repetitions.
        late: Work of the second one before.
        ring: Repetitions before, at the end of which they do meet.
    """
    meet = (Work("together", (("compute", 10),)), Barrier("everyone", "wait"))
    groups = []
    for lane, own, first in (("a", 8, 0), ("b", 3, late)):
        begin = Phase("begin", 1, {lane: (Work("begin", (("compute", first),)),)}, "join")
        before = (Phase("ring", ring, {lane: meet}, "join"),) if ring else ()
        steps = Exchange((Transfer("x", "link", (("wire", 2),)),)), Work("own", (("compute", own),))
        groups.append(Group(lane, (lane,), (begin, *before, Phase("uneven", count, {lane: steps}, "join"))))
    return Program(tuple(groups))


@needs_compiled
@pytest.mark.parametrize(
    "disturbed",
    [
        # They begin apart, at 0 and 5, and together at 10, by chance; then both send at once, and are apart again.
        uneven(5, 5),
        # Repetitions that are alike are followed by others of which there are as many as are then left.
        uneven(3, 0, ring=5),
        replace(ring_of_lanes(40), slowdowns=(Slowdown("wire 1", Fraction(1, 2), 100, 300),)),
        replace(ring_of_lanes(40), slowdowns=(Slowdown("a0", Fraction(1, 2), 100, 300),)),
        replace(
            ring_of_lanes(40, more=(Work("noisy", (("compute", 5),), "j"),)), jitters={"j": Jitter(1, (0, 3, 9, 1))}
        ),
        # A lane that is busy elsewhere, and comes to use a wire of the ring after a while.
        replace(
            ring_of_lanes(40),
            groups=(
                *ring_of_lanes(40).groups,
                Group(
                    "other",
                    ("o",),
                    (
                        Phase("wait", 1, {"o": (Work("w", (("compute", 333),)),)}, "join"),
                        Phase("send", 2, {"o": (Exchange((Transfer("y", "stream", (("wire 0", 50),)),)),)}, "join"),
                    ),
                ),
            ),
        ),
        # The other group has as many repetitions, of other lengths, and meets nobody.
        replace(
            ring_of_lanes(40),
            groups=(
                *ring_of_lanes(40).groups,
                Group(
                    "other",
                    ("o",),
                    (
                        Phase("begin", 1, {"o": ()}, "join"),
                        Phase("alone", 40, {"o": (Exchange((Transfer("y", "s", (("wire 0", 7),)),)),)}, "join"),
                    ),
                ),
            ),
        ),
        # Tokens are used up, after which a lane has to wait for what the other gives.
        replace(
            ring_of_lanes(1),
            groups=(
                Group("g", ("g",), (Phase("p", 9, {"g": (Work("w", (("c", 5),)), Release("t"))}, "join"),)),
                Group("t", ("t",), (Phase("p", 9, {"t": (Acquire("t", "wait"), Work("w", (("c", 5),)))}, "join"),)),
            ),
            semaphores={"t": 3},
        ),
    ],
)
def test_a_ring_that_is_disturbed_is_stepped_through(disturbed: Program) -> None:
    simpy, compiled = (execute(disturbed, engine=engine) for engine in ("simpy", "compiled"))
    assert list(found(compiled)) == list(found(simpy))


class Flow(Sharer):
    """A transfer of a size, with its time on each of some channels."""

    def __init__(self, size: int, times: dict[SharedChannel, int]) -> None:
        self.size = size
        self.loads = tuple(ChannelLoad(channel, time, weight_of(time, size)) for channel, time in times.items())
        for channel in times:
            channel.users.add(self)


@st.composite
def sharers(draw: st.DrawFn) -> list[tuple[int, dict[int, int]]]:
    """(size, time on each channel) of transfers over channels of given bandwidths. [ps]"""
    per_unit = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    sizes = st.integers(10**6, 10**9)
    places = st.sets(st.sampled_from(range(len(per_unit))), min_size=1)
    flows = draw(st.lists(st.tuples(sizes, places), min_size=1, max_size=6))
    return [(size, {place: size * per_unit[place] for place in sorted(on)}) for size, on in flows]


def speeds_by_hand(flows: list[tuple[int, dict[int, int]]]) -> list[Fraction]:
    """Max-min fair speeds as textbooks find them: all rise together, and stop one channel at a time. [1/ps]"""
    speed = [Fraction(0)] * len(flows)
    rising = set(range(len(flows)))
    while rising:
        steps = []
        for channel in {place for number in rising for place in flows[number][1]}:
            carried = sum(speed[n] * times[channel] / size for n, (size, times) in enumerate(flows) if channel in times)
            asked = sum(Fraction(flows[n][1][channel], flows[n][0]) for n in rising if channel in flows[n][1])
            steps.append(((1 - carried) / asked, channel))
        step = min(steps)[0]
        for number in rising:
            speed[number] += step
        full = {channel for needed, channel in steps if needed == step}
        rising -= {number for number in rising if full & set(flows[number][1])}
    return speed


@settings(max_examples=100, deadline=None)
@given(sharers())
def test_speeds_are_max_min_fair(drawn: list[tuple[int, dict[int, int]]]) -> None:
    channels = [SharedChannel() for _ in range(4)]
    flows = [Flow(size, {channels[place]: time for place, time in times.items()}) for size, times in drawn]
    times = fair_times(flows)
    for flow, speed in zip(flows, speeds_by_hand(drawn), strict=True):
        assert times[flow] == pytest.approx(flow.size / speed, rel=1e-5, abs=1)
