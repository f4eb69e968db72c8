"""The engine on programs of a few steps, every time worked out by hand."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from podsim.engine import Engine, Record, Trace, execute, expand
from podsim.engine.trace import CONTENTION
from podsim.errors import DeadlockError
from podsim.program.task import Acquire, Barrier, Exchange, Group, Phase, Program, Release, Step, Transfer, Work


def group(name: str, count: int = 1, **steps: Sequence[Step]) -> Group:
    """Lanes that go through one phase `count` times."""
    phase = Phase("phase", count, {lane: tuple(step) for lane, step in steps.items()}, "join")
    return Group(name, tuple(steps), (phase,))


def alone(**steps: Sequence[Step]) -> Program:
    """Every lane a group of its own, so that nothing but channels and barriers joins them."""
    return Program(tuple(group(f"group of {lane}", **{lane: step}) for lane, step in steps.items()))


def work(duration: int, kind: str = "compute") -> Work:
    return Work("work", ((kind, duration),))


def send(duration: int, latency: int = 0, channel: str = "wire") -> Exchange:
    return Exchange((Transfer("data", "link", ((channel, duration),), latency),))


def link_time(trace: Trace) -> dict[str, int]:
    """How long each lane's exchange took."""
    return {lane: account.get("link", 0) for lane, account in trace.lanes.items()}


def test_work_takes_its_parts_one_after_the_other() -> None:
    trace = execute(alone(a=[Work("step", (("matmul", 7), ("vector", 5))), work(3, "matmul")]))
    assert trace.makespan_ps == 7 + 5 + 3
    assert trace.lanes == {"a": {"matmul": 10, "vector": 5}}


def test_a_program_without_steps_takes_no_time() -> None:
    trace = execute(alone(a=[]))
    assert (trace.makespan_ps, trace.lanes) == (0, {"a": {}})


def test_a_transfer_pays_its_latency_first() -> None:
    assert execute(alone(a=[send(10, latency=4)])).lanes == {"a": {"link": 14}}


def test_latency_occupies_no_channel() -> None:
    """b's latency of 10 ends just when a's transfer does: neither sees the other."""
    assert link_time(execute(alone(a=[send(10)], b=[send(10, latency=10)]))) == {"a": 10, "b": 20}


def test_an_exchange_ends_with_its_last_transfer() -> None:
    """Together: 5 + 20 on one channel, 12 + 9 on the other. The longer one, 25, is named in the account."""
    transfers = (Transfer("x", "first", (("p", 20),), 5), Transfer("y", "second", (("q", 9),), 12))
    assert execute(alone(a=[Exchange(transfers)])).lanes == {"a": {"first": 25}}


@pytest.mark.parametrize("engine", ["simpy", "auto"])
@pytest.mark.parametrize(
    "transfers",
    [
        # each on a channel of its own
        [("first", 0, "p", 10), ("second", 0, "q", 10), ("third", 0, "r", 10)],
        # on one channel, which each has a third of
        [("first", 0, "p", 10), ("second", 0, "p", 10), ("third", 0, "p", 10)],
        # the one that starts first is the one with the least latency, wherever it stands
        [("third", 7, "r", 3), ("first", 0, "p", 10), ("second", 5, "q", 5)],
        [("second", 4, "p", 0), ("third", 4, "q", 0), ("first", 1, "r", 3)],
    ],
)
def test_of_transfers_that_end_together_the_first_one_names_the_exchange(
    engine: Engine, transfers: list[tuple[str, int, str, int]]
) -> None:
    exchange = Exchange(
        tuple(Transfer(kind, kind, ((channel, time),), latency) for kind, latency, channel, time in transfers)
    )
    (account,) = execute(alone(a=[exchange]), engine=engine).lanes.values()
    assert set(account) - {CONTENTION} == {"first"}


def to(kind: str, duration: int, *, latency: int = 0, channel: str = "wire", size: int = 0) -> Exchange:
    """An exchange of one transfer of a kind."""
    return Exchange((Transfer(kind, kind, ((channel, duration),), latency, size),))


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_what_another_kind_slows_is_contention(engine: Engine) -> None:
    """Both have half of the wire: `a` ends at 20 instead of 10; `b` has the wire alone from there to 40."""
    trace = execute(alone(a=[to("sum", 10)], b=[to("gather", 30)]), engine=engine)
    assert trace.lanes["a"] == {"sum": 10, CONTENTION: 10, "idle": 20}
    assert trace.lanes["b"] == {"gather": 30, CONTENTION: 10}
    assert trace.shared == {"a": {("sum", "gather"): 10}, "b": {("gather", "sum"): 10}}


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_sharing_with_ones_own_kind_is_no_contention(engine: Engine) -> None:
    """Three thirds of a wire until 30: without the third, two of a kind would have ended at 20."""
    trace = execute(alone(a=[to("sum", 10)], b=[to("sum", 10)], c=[to("gather", 10)]), engine=engine)
    assert trace.lanes["a"] == trace.lanes["b"] == {"sum": 20, CONTENTION: 10}
    assert trace.lanes["c"] == {"gather": 10, CONTENTION: 20}


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_contention_is_lost_to_the_kind_that_takes_most(engine: Engine) -> None:
    """`a` has a quarter of the wire until 40; of the rest, gathers have two thirds. Repeated, all is double."""
    lanes = {"a": [to("sum", 10)], "b": [to("gather", 10)], "c": [to("gather", 10)], "d": [to("load", 10)]}
    program = Program((group("g", 2, **lanes),))
    for explicit in (False, True):
        trace = execute(program, engine=engine, explicit=explicit)
        assert trace.lanes["a"] == {"sum": 20, CONTENTION: 60}
        assert trace.shared["a"] == {("sum", "gather"): 60}


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_an_exchange_is_only_slowed_as_far_as_its_other_transfers_end_sooner(engine: Engine) -> None:
    """On the wire the exchange of `a` would end at 10 and ends at 20; on its other channel it ends at 14 anyway."""
    both = Exchange((*to("sum", 10).transfers, *to("sum", 14, channel="other").transfers))
    trace = execute(alone(a=[both], b=[to("gather", 10)]), engine=engine)
    assert trace.lanes["a"] == {"sum": 14, CONTENTION: 6}


def test_the_timeline_shows_contention_and_how_full_channels_are() -> None:
    """`b` starts at 4: `a` has sent 4 of 10, and takes 12 for the rest; `b` then has the wire alone for 4 of 10."""
    trace = execute(alone(a=[to("sum", 10)], b=[to("gather", 10, latency=4)]), record=True)
    slowed = [record for record in trace.records if record.kind == CONTENTION]
    assert [(each.lane, each.name, each.start_ps, each.end_ps) for each in slowed] == [
        ("a", "sum: slowed by gather", 10, 16),
        ("b", "gather: slowed by sum", 14, 20),
    ]
    uses = [(use.start_ps, use.end_ps, use.share) for use in trace.uses]
    assert sorted(uses) == [(0, 4, 1.0), (4, 16, 0.5), (4, 16, 0.5), (16, 20, 1.0)]


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_shorter_work_can_make_all_of_it_later(engine: Engine) -> None:
    """A scheduling anomaly: `b`, which nobody waits for, comes sooner and takes half of what `a` is waited for.

    With work of 10 the wire is free when `b` comes: `a` sends until 10 and works until 30. With work of 5, `a` has 5
    left when `b` comes, sends until 15 and works until 35.
    """
    for duration, end in ((10, 30), (5, 35)):
        program = alone(a=[send(10), work(20)], b=[work(duration), send(10)])
        assert execute(program, engine=engine).makespan_ps == end


def test_an_exchange_of_nothing_takes_no_time() -> None:
    assert execute(alone(a=[work(3), Exchange(()), work(4)])).lanes == {"a": {"compute": 7}}


def test_two_equal_transfers_share_a_channel() -> None:
    assert link_time(execute(alone(a=[send(10)], b=[send(10)]))) == {"a": 20, "b": 20}


def test_two_transfers_of_different_size() -> None:
    """Half speed each until a's 10 are done at 20; b has 30 - 10 = 20 left and ends at 40."""
    assert link_time(execute(alone(a=[send(10)], b=[send(30)]))) == {"a": 20, "b": 40}


def test_two_transfers_one_late() -> None:
    """b comes at 50, when a has 50 of 100 left: a ends at 50 + 2·50 = 150, b, half done by then, at 200."""
    assert link_time(execute(alone(a=[send(100)], b=[work(50), send(100)]))) == {"a": 150, "b": 150}


def test_three_transfers_of_different_size() -> None:
    """A third each until 30, when 0, 10 and 20 are left; a half each until 50; the last 10 alone until 60."""
    trace = execute(alone(a=[send(10)], b=[send(20)], c=[send(30)]))
    assert link_time(trace) == {"a": 30, "b": 50, "c": 60}


def test_three_transfers_that_come_one_after_the_other() -> None:
    """60 each, at 0, 30 and 60.

    At 30 a has 30 left; at 60 a has 15 and b 45. Thirds: a ends at 60 + 3·15 = 105, when b has 30 and c 45
    left. Halves: b ends at 165, when c has 15 left, alone until 180: the channel carried 3·60 without a gap.
    """
    trace = execute(alone(a=[send(60)], b=[work(30), send(60)], c=[work(60), send(60)]))
    assert link_time(trace) == {"a": 105, "b": 165 - 30, "c": 180 - 60}


def test_ends_are_rounded_up_and_progress_is_not() -> None:
    """10 each, at 0, 1 and 2.

    At 2 there is 8.5, 9.5 and 10 left. Thirds: a ends at 2 + 25.5, so at 28; b has 9.5 - 26/3 = 5/6 left,
    c 4/3. Halves: b ends at 28 + 5/3, so at 30; c has 4/3 - 1 = 1/3 left and ends at 31.
    """
    trace = execute(alone(a=[send(10)], b=[work(1), send(10)], c=[work(2), send(10)]))
    assert link_time(trace) == {"a": 28, "b": 30 - 1, "c": 31 - 2}


def test_a_transfer_over_two_channels_runs_at_the_slower_one() -> None:
    both = Exchange((Transfer("data", "link", (("p", 10), ("q", 20))),))
    assert link_time(execute(alone(a=[both]))) == {"a": 20}


def test_sharing_the_faster_of_two_channels_costs_nothing_until_it_is_the_slower() -> None:
    """a needs 10 of p and 20 of q, which is half as fast; b and c move as much, over p alone.

    At full speed on q, a takes half of p, and b the other half: 20 each. Three on p have a third of it each: 30.
    """
    both = Exchange((Transfer("data", "link", (("p", 10), ("q", 20)), size=10),))
    assert link_time(execute(alone(a=[both], b=[send(10, channel="p")]))) == {"a": 20, "b": 20}
    trace = execute(alone(a=[both], b=[send(10, channel="p")], c=[send(10, channel="p")]))
    assert link_time(trace) == {"a": 30, "b": 30, "c": 30}


def test_sharing_the_slower_of_two_channels() -> None:
    """On q both need 2·20 = 40; the end of both frees p and q at once."""
    both = Exchange((Transfer("data", "link", (("p", 10), ("q", 20))),))
    assert link_time(execute(alone(a=[both], b=[send(20, channel="q")]))) == {"a": 40, "b": 40}


@pytest.mark.parametrize("channels", [(), (("wire", 0),)])
def test_a_transfer_of_nothing_takes_its_latency_only(channels: tuple[tuple[str, int], ...]) -> None:
    nothing = Exchange((Transfer("nothing", "link", channels, 6),))
    assert link_time(execute(alone(a=[nothing]))) == {"a": 6}


def test_a_transfer_of_nothing_does_not_slow_another() -> None:
    assert link_time(execute(alone(a=[send(10)], b=[send(0)], c=[work(5), send(0)]))) == {"a": 10, "b": 0, "c": 0}


def test_a_barrier_is_there_again_each_time() -> None:
    """Each of three times a waits 20 - 5 = 15 for b, across groups; nobody waits at a join."""
    meet = Barrier("meet", "wait")
    program = Program((group("left", 3, a=[work(5), meet]), group("right", 3, b=[work(20), meet])))
    trace = execute(program)
    assert trace.makespan_ps == 60
    assert trace.lanes == {"a": {"compute": 15, "wait": 45}, "b": {"compute": 60}}


def test_waiting_at_the_join_has_the_kind_of_the_phase() -> None:
    """a and c wait for b; c has no steps at all."""
    trace = execute(Program((group("all", a=[work(10)], b=[work(30)], c=[]),)))
    assert trace.lanes == {"a": {"compute": 10, "join": 20}, "b": {"compute": 30}, "c": {"join": 30}}


def test_a_lane_that_has_ended_is_idle() -> None:
    trace = execute(alone(a=[work(10)], b=[work(30)]))
    assert trace.lanes == {"a": {"compute": 10, "idle": 20}, "b": {"compute": 30}}


def mixed() -> Program:
    """Two groups of two lanes that share a channel and end each of four repetitions at one barrier."""
    meet = Barrier("meet", "wait")
    return Program(
        (
            group("left", 4, a=[work(5), send(12), meet], b=[send(7, 3), work(9), meet]),
            group("right", 4, c=[send(4), work(2), meet], d=[meet]),
        )
    )


def test_accounts_add_up_to_the_makespan() -> None:
    trace = execute(mixed())
    assert {sum(account.values()) for account in trace.lanes.values()} == {trace.makespan_ps}


def test_a_repeated_phase_may_be_run_once() -> None:
    explicit, folded = execute(mixed()), execute(mixed(), explicit=False)
    assert (folded.makespan_ps, folded.lanes, folded.phases) == (explicit.makespan_ps, explicit.lanes, explicit.phases)
    assert folded.event_count < explicit.event_count


def test_shuffled_ties_change_nothing() -> None:
    first = execute(mixed(), record=True)
    for seed in range(20):
        other = execute(mixed(), record=True, tie_seed=seed)
        assert (other.makespan_ps, other.lanes, other.records) == (first.makespan_ps, first.lanes, first.records)


def test_records_of_work_waiting_and_transfers() -> None:
    """a works 0-5, sends 5-15 after a latency of 1; b joins at 15. The channel is occupied 6-15."""
    trace = execute(Program((group("all", a=[work(5), send(9, latency=1)], b=[work(8)]),)), record=True)
    assert trace.records == (
        Record("a", "compute", "work", 0, 5, 1, 15),
        Record("b", "compute", "work", 0, 8, 1, 15),
        Record("a", "link", "data", 5, 15, 1, 15),
        Record("wire", "link", "a: data", 6, 15, 1, 15),
        Record("b", "join", "join", 8, 15, 1, 15),
    )
    assert trace.channels == {"wire"}


def test_nothing_is_recorded_unless_asked() -> None:
    assert execute(mixed()).records == ()


def test_a_repeated_phase_is_one_record_that_expands() -> None:
    program = Program((group("all", 3, a=[work(5), work(2, "other")]),))
    (first, second) = execute(program, explicit=False, record=True).records
    assert first == Record("a", "compute", "work", 0, 5, repeat_count=3, repeat_period_ps=7)
    assert [(each.start_ps, each.end_ps) for each in expand([second])] == [(5, 7), (12, 14), (19, 21)]


def test_folded_records_expand_to_the_explicit_ones() -> None:
    folded = execute(mixed(), explicit=False, record=True).records
    explicit = execute(mixed(), record=True).records
    assert sorted(map(repr, expand(folded))) == sorted(map(repr, expand(explicit)))
    assert len(folded) < len(explicit)


def test_phases_are_listed_with_their_times() -> None:
    """10 once, then 3 four times."""
    phases = tuple(Phase(f"p{n}", n, {"a": (work(d),)}, "join") for n, d in ((1, 10), (4, 3)))
    trace = execute(Program((Group("g", ("a",), phases),)), explicit=False)
    assert [(p.group, p.name, p.count, p.start_ps, p.end_ps) for p in trace.phases] == [
        ("g", "p1", 1, 0, 10),
        ("g", "p4", 4, 10, 22),
    ]


def test_a_deadlock_names_who_waits_where() -> None:
    meet = Barrier("meet", "wait")
    with pytest.raises(DeadlockError) as caught:
        execute(alone(a=[meet], b=[meet, work(1), meet]))
    assert str(caught.value) == (
        "lanes wait for ever: b at `meet`\n  do: give all lanes of a barrier the same number of passes through it"
    )


def test_a_deadlock_of_many_lanes_names_five() -> None:
    """Seven lanes come a second time, the eighth does not."""
    meet = Barrier("meet", "wait")
    late: dict[str, Sequence[Step]] = {name: [meet, meet] for name in "abcdefg"}
    with pytest.raises(DeadlockError, match=r"a at `meet`, b at `meet`, .*, e at `meet` and 2 more"):
        execute(alone(**late, h=[meet]))


def test_event_count_of_work() -> None:
    """Work in a row is one step; the lane joins."""
    assert execute(alone(a=[work(1), work(2)])).event_count == 1 + 1


def test_event_count_of_a_join() -> None:
    """Two lanes work, and both join."""
    assert execute(Program((group("all", a=[work(1)], b=[work(2)]),))).event_count == 2 + 2


def test_event_count_of_a_transfer() -> None:
    """The exchange, its transfer and the join."""
    assert execute(alone(a=[send(10)])).event_count == 3


def test_repetitions_are_counted_where_they_are_run() -> None:
    program = Program((group("all", count=5, a=[work(1)]),))
    assert execute(program).event_count == 5 * 2
    assert execute(program, explicit=False).event_count == 2


def test_a_semaphore_makes_the_taker_wait_for_the_giver() -> None:
    """Items appear at 5 and 10; the taker works 3 for each: waits 5, works to 8, waits 2, works to 13."""
    give: list[Step] = [Work("make", (("work", 5),)), Release("items")] * 2
    take: list[Step] = [Acquire("items", "hunger"), Work("use", (("work", 3),))] * 2
    program = replace(alone(giver=give, taker=take), semaphores={"items": 0})
    trace = execute(program)
    assert trace.makespan_ps == 13
    assert trace.lanes["taker"] == {"work": 6, "hunger": 7}


def test_tokens_at_hand_are_taken_without_waiting() -> None:
    take: list[Step] = [Acquire("items", "hunger"), Work("use", (("work", 3),))] * 2
    trace = execute(replace(alone(taker=take), semaphores={"items": 2}))
    assert trace.makespan_ps == 6
    assert trace.lanes["taker"] == {"work": 6}


def test_a_taker_without_giver_is_named() -> None:
    program = replace(alone(taker=[Acquire("items", "hunger")]), semaphores={"items": 0})
    with pytest.raises(DeadlockError, match="taker at `items`"):
        execute(program)


def test_warm_up_is_run_but_not_accounted() -> None:
    """7 of warm-up, 4 of what counts; the helper's time is kept by nobody."""
    phases = tuple(
        Phase(name, 1, {"a": (Work(name, (("work", time),)),)}, "wait") for name, time in [("x", 7), ("y", 4)]
    )
    helper = Group("helper", ("h",), (Phase("z", 1, {"h": (Work("z", (("work", 2),)),)}, "wait"),), accounted=False)
    trace = execute(Program((Group("g", ("a",), phases, warm_up=1), helper)), record=True)
    assert trace.makespan_ps == 4
    assert trace.lanes == {"a": {"work": 4}}
    assert [(record.name, record.start_ps, record.end_ps) for record in trace.records] == [("y", 0, 4)]
    assert [(phase.name, phase.start_ps) for phase in trace.phases] == [("y", 0)]


def test_what_goes_on_when_the_warm_up_ends_is_recorded_from_there_on() -> None:
    """7 of warm-up; the helper works from 5 to 10, so that 3 of its 5 are seen, from the start."""
    phases = tuple(
        Phase(name, 1, {"a": (Work(name, (("work", time),)),)}, "wait") for name, time in [("x", 7), ("y", 4)]
    )
    steps = (Work("before", (("work", 5),)), Work("across", (("work", 5),)))
    helper = Group("helper", ("h",), (Phase("z", 1, {"h": steps}, "wait"),), accounted=False)
    trace = execute(Program((Group("g", ("a",), phases, warm_up=1), helper)), record=True)
    assert [(record.name, record.start_ps, record.end_ps) for record in trace.records] == [
        ("y", 0, 4),
        ("across", 0, 3),
    ]
