"""The engine on random programs: lanes, barriers and shared channels, free of deadlock by construction."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.engine import Chunks, execute, expand
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Step, Transfer, Work

CHANNELS = ("p", "q", "r")
KINDS = ("compute", "other")
EVERYONE = Barrier("everyone", "wait")
durations = st.one_of(st.integers(0, 12), st.integers(0, 10**9))

works = st.builds(
    Work,
    st.just("work"),
    st.lists(st.tuples(st.sampled_from(KINDS), durations), min_size=1, max_size=3).map(tuple),
)
transfers = st.builds(
    Transfer,
    st.sampled_from(["x", "y"]),
    st.sampled_from(["link", "stream"]),
    st.dictionaries(st.sampled_from(CHANNELS), durations, max_size=2).map(lambda loads: tuple(loads.items())),
    st.one_of(st.just(0), durations),
)
exchanges = st.builds(Exchange, st.lists(transfers, max_size=3).map(tuple))
stretches = st.lists(st.one_of(works, exchanges), max_size=3).map(tuple)


@st.composite
def programs(draw: st.DrawFn, *, together: bool = False) -> Program:
    """Groups of lanes that go through the same number of phases.

    In each phase some lanes meet at a barrier. All lanes know the same order of meetings, so none waits for ever.

    Args:
        draw: Hypothesis.
        together: Every repetition of every phase ends with all lanes of all groups at one barrier.
    """
    groups = [
        tuple(f"{name}{number}" for number in range(draw(st.integers(1, 3))))
        for name in "abc"[: draw(st.integers(1, 3))]
    ]
    everyone = [lane for lanes in groups for lane in lanes]
    parties = {key: draw(st.sets(st.sampled_from(everyone), min_size=1)) for key in ("b0", "b1")}
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    meetings = [draw(st.sampled_from([None, *parties])) for _ in counts]

    def steps(lane: str, key: str | None) -> tuple[Step, ...]:
        meet = (Barrier(key, "wait"),) if key is not None and lane in parties[key] else ()
        end = (EVERYONE,) if together else ()
        return (*draw(stretches), *meet, *draw(stretches), *end)

    return Program(
        tuple(
            Group(
                lanes[0],
                lanes,
                tuple(
                    Phase(f"phase {number}", count, {lane: steps(lane, key) for lane in lanes}, "join")
                    for number, (count, key) in enumerate(zip(counts, meetings, strict=True))
                ),
            )
            for lanes in groups
        )
    )


def steps_of(program: Program) -> Iterator[tuple[str, int, Step]]:
    """(lane, repetitions, step) of the whole program."""
    for group in program.groups:
        for phase in group.phases:
            for lane, steps in phase.steps.items():
                for step in steps:
                    yield lane, phase.count, step


def alone_ps(step: Step) -> int:
    """What a step takes on an idle machine."""
    if isinstance(step, Work):
        return sum(duration for _, duration in step.parts)
    if isinstance(step, Exchange):
        return max((t.latency_ps + max((load for _, load in t.channels), default=0) for t in step.transfers), default=0)
    return 0


@settings(max_examples=80, deadline=None)
@given(programs(), st.integers(0, 2**31))
def test_shuffled_ties_change_nothing(program: Program, tie_seed: int) -> None:
    first = execute(program, record=True)
    for seed in (tie_seed, tie_seed + 1, tie_seed + 2):
        other = execute(program, record=True, tie_seed=seed)
        assert (other.makespan_ps, other.lanes, other.records) == (first.makespan_ps, first.lanes, first.records)


@settings(max_examples=80, deadline=None)
@given(programs(together=True), st.integers(0, 2**31))
def test_repetitions_that_are_alike_may_be_run_once(program: Program, tie_seed: int) -> None:
    explicit, folded = execute(program, record=True), execute(program, explicit=False, record=True, tie_seed=tie_seed)
    assert (folded.makespan_ps, folded.lanes, folded.phases) == (explicit.makespan_ps, explicit.lanes, explicit.phases)
    assert sorted(map(repr, expand(folded.records))) == sorted(map(repr, expand(explicit.records)))


@settings(max_examples=50, deadline=None)
@given(programs())
def test_accounts_add_up_to_the_makespan(program: Program) -> None:
    trace = execute(program)
    assert set(trace.lanes) == {lane for group in program.groups for lane in group.lanes}
    assert {sum(account.values()) for account in trace.lanes.values()} == {trace.makespan_ps}
    assert min((time for account in trace.lanes.values() for time in account.values()), default=0) >= 0


@settings(max_examples=50, deadline=None)
@given(programs())
def test_work_is_never_stretched(program: Program) -> None:
    """A lane's time of a kind of work is what its program says, whatever the others do."""
    wanted: dict[tuple[str, str], int] = {}
    for lane, count, step in steps_of(program):
        for kind, duration in step.parts if isinstance(step, Work) else ():
            wanted[lane, kind] = wanted.get((lane, kind), 0) + count * duration
    trace = execute(program)
    assert {key: trace.lanes[key[0]].get(key[1], 0) for key in wanted} == wanted


@settings(max_examples=50, deadline=None)
@given(programs())
def test_nothing_is_faster_than_alone_and_no_channel_carries_more_than_it_can(program: Program) -> None:
    own: dict[str, int] = {}
    carried: dict[str, int] = {}
    for lane, count, step in steps_of(program):
        own[lane] = own.get(lane, 0) + count * alone_ps(step)
        for transfer in step.transfers if isinstance(step, Exchange) else ():
            for channel, load in transfer.channels:
                carried[channel] = carried.get(channel, 0) + count * load
    makespan = execute(program).makespan_ps
    assert max((*own.values(), *carried.values()), default=0) <= makespan


@settings(max_examples=60, deadline=None)
@given(st.lists(durations, min_size=1, max_size=6))
def test_a_shared_channel_is_never_idle_while_somebody_sends(sizes: list[int]) -> None:
    """All start together on one channel: the last ends when the channel has carried them all, exactly."""
    wire = [Exchange((Transfer("x", "link", (("p", size),)),)) for size in sizes]
    groups = tuple(
        Group(f"l{n}", (f"l{n}",), (Phase("phase", 1, {f"l{n}": (each,)}, "join"),)) for n, each in enumerate(wire)
    )
    assert execute(Program(groups)).makespan_ps == sum(sizes)


@given(st.lists(programs(), min_size=1, max_size=2))
def test_pieces_come_to_what_the_engine_makes_of_the_whole(drawn: list[Program]) -> None:
    """One memory for all of them: what one has left behind must not change another."""
    pieces = Chunks()
    for group in [group for program in drawn for group in program.groups]:
        alone = Program((group,))
        trace, whole = pieces.trace(alone), execute(alone, explicit=False)
        assert trace is None or (trace.makespan_ps, trace.lanes) == (whole.makespan_ps, whole.lanes)
