"""Both engines on random programs: they agree to the picosecond, with everything that a program can have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.engine import Trace, execute
from podsim.engine.compiled import is_available, run_compiled
from podsim.engine.sharing import Channel, Load, Sharer, fair_times, weight_of
from podsim.program.task import Acquire, Group, Jitter, Phase, Program, Release, Slowdown, Step, Work
from tests.property.test_engine_property import CHANNELS, programs

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


@st.composite
def everything(draw: st.DrawFn) -> Program:
    """Random programs with jitter, slow parts, turns, and a pair of lanes that hand on tokens."""
    program = draw(programs())
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
                    lane: with_jitter(steps, names[len(lane) % len(names)]) if lane in jittered else steps
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
    yield from (trace.makespan_ps, trace.lanes, trace.helpers, trace.phases, trace.turns, trace.event_count)


@needs_compiled
@settings(max_examples=100, deadline=None)
@given(everything(), st.booleans())
def test_both_engines_find_the_same(program: Program, explicit: bool) -> None:
    simpy = execute(program, explicit=explicit, engine="simpy")
    compiled = run_compiled(program, explicit=explicit)
    assert compiled is not None
    assert list(found(compiled)) == list(found(simpy))
    assert (simpy.engine, compiled.engine) == ("simpy", "compiled")


@settings(max_examples=40, deadline=None)
@given(everything(), st.integers(0, 2**31))
def test_shuffled_ties_change_nothing_with_jitter_and_slow_parts(program: Program, seed: int) -> None:
    first, other = execute(program, engine="simpy"), execute(program, tie_seed=seed, engine="simpy")
    assert list(found(other)) == list(found(first))


class Flow(Sharer):
    """A transfer of a size, with its time on each of some channels."""

    def __init__(self, size: int, times: dict[Channel, int]) -> None:
        self.size = size
        self.loads = tuple(Load(channel, time, weight_of(time, size)) for channel, time in times.items())
        for channel in times:
            channel.users.add(self)


@st.composite
def sharers(draw: st.DrawFn) -> list[tuple[int, dict[int, int]]]:
    """(size, time on each channel) of transfers over channels of given bandwidths. [ps]"""
    per_unit = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    sizes = st.integers(10**3, 10**6)
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
    channels = [Channel() for _ in range(4)]
    flows = [Flow(size, {channels[place]: time for place, time in times.items()}) for size, times in drawn]
    times = fair_times(flows)
    for flow, speed in zip(flows, speeds_by_hand(drawn), strict=True):
        assert times[flow] == pytest.approx(flow.size / speed, rel=1e-5, abs=1)
