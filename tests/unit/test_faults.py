"""Parts of a pod that are slower, and who waits for them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import ModelError, PodsimError
from podsim.placement.topology import Routes
from podsim.program.compile import compile_program
from podsim.program.faults import channels_of, slow_parts
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Slowdown, Transfer, Work
from podsim.result.faults import FaultReport, StretchReport, Waiting, fault_tables
from podsim.result.result import RunResult
from podsim.runs.degraded import Stretch, stretches_of, updates_in
from podsim.scenario.faults import FaultSpec
from tests.examples import plan_of, small_bert, small_pod

BERT, IMAGES = "bert_v1.1_pod16_open", "resnet50_v1.1_pod16"


def fault(**keys: object) -> FaultSpec:
    return FaultSpec.model_validate(keys)


def with_faults(*faults: str, name: str = BERT, more: tuple[str, ...] = ()) -> RunResult:
    return podsim.simulate(name, overrides=[f"faults=[{', '.join(faults)}]", *more])


# In the engine


def two_lanes(*slowdowns: Slowdown) -> Program:
    """Both work for 100 and meet; then b sends for 60."""
    meet = Barrier("meet", "wait")
    wire = Exchange((Transfer("data", "link", (("wire", 60),)),))
    steps = {"a": (Work("work", (("compute", 100),)), meet), "b": (Work("work", (("compute", 100),)), meet, wire)}
    return Program((Group("all", ("a", "b"), (Phase("phase", 1, steps, "join"),)),), slowdowns=slowdowns)


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_a_lane_at_half_speed_from_30_to_70_does_20_in_that_time(engine: str) -> None:
    """30 until 30, 20 until 70, the other 50 until 120."""
    trace = execute(two_lanes(Slowdown("a", Fraction(1, 2), 30, 70)), engine=engine)  # type: ignore[arg-type]
    assert trace.lanes == {
        "a": {"compute": 100, "slowed": 20, "join": 60},
        "b": {"compute": 100, "wait": 20, "link": 60},
    }


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_a_channel_at_a_third_of_its_speed_from_120_on(engine: str) -> None:
    """The transfer starts at 100 and has 40 left at 120, for which it takes 120."""
    trace = execute(two_lanes(Slowdown("wire", Fraction(1, 3), 120)), engine=engine)  # type: ignore[arg-type]
    assert trace.makespan_ps == 240
    assert trace.lanes["b"] == {"compute": 100, "link": 140}


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_steady_work_keeps_its_time(engine: str) -> None:
    steps = {"a": (Work("call", (("host", 50),), steady=True), Work("work", (("compute", 10),)))}
    program = Program(
        (Group("g", ("a",), (Phase("p", 1, steps, "join"),)),), slowdowns=(Slowdown("a", Fraction(1, 2)),)
    )
    assert execute(program, engine=engine).lanes == {"a": {"host": 50, "compute": 10, "slowed": 10}}  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["simpy", "auto"])
@pytest.mark.parametrize(("name", "what"), [("a", "a at `work at no speed`"), ("wire", "b at `transfer at no speed`")])
def test_what_has_no_speed_is_named_first(engine: str, name: str, what: str) -> None:
    with pytest.raises(PodsimError, match=f"wait for ever: {what}"):
        execute(two_lanes(Slowdown(name, Fraction(0))), engine=engine)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["simpy", "auto"])
def test_a_part_without_speed_for_a_time_goes_on_where_it_stopped(engine: str) -> None:
    program = two_lanes(Slowdown("wire", Fraction(0), 130, 200))
    assert execute(program, engine=engine).makespan_ps == 160 + 70  # type: ignore[arg-type]


# Stretches of a run


def test_stretches_lie_between_the_marks() -> None:
    first, second = (
        fault(ipu=0, clock="50 %", **{"from": "10 s"}),
        fault(host=0, cores="50 %", **{"from": "5 s", "until": "20 s"}),
    )
    assert list(stretches_of([first, second])) == [
        Stretch(0.0, 5.0, ()),
        Stretch(5.0, 10.0, (second,)),
        Stretch(10.0, 20.0, (first, second)),
        Stretch(20.0, None, (first,)),
    ]


def test_updates_of_a_run_that_ends_before_the_last_stretch() -> None:
    timed = [(Stretch(0, 6, ()), 1.0), (Stretch(6, 10, ()), 2.0), (Stretch(10, None, ()), 1.0)]
    assert updates_in(timed, 7) == [6, 1, 0]


def test_stretches_add_up_to_the_whole_run_in_the_engine() -> None:
    """Eight updates at once, with the clock at 60 % from the third to the sixth; off by less than one update."""
    plan = plan_of("gpt2_small_pod16", "parallelism.accumulation_factor=16")
    program = compile_program(plan, explicit=True)
    healthy = execute(program).makespan_ps
    slow = execute(compile_program(plan, faults=[fault(ipu=2, clock="60 %")])).makespan_ps
    assert slow > 1.05 * healthy
    start, end = 2 * healthy, 2 * healthy + 4 * slow
    groups = tuple(replace(group, turns=8) for group in program.groups)
    whole = execute(replace(program, groups=groups, slowdowns=(Slowdown("ipu2", Fraction(3, 5), start, end),)))
    counts = updates_in(
        [(Stretch(0, start, ()), healthy), (Stretch(start, end, ()), slow), (Stretch(end, None, ()), healthy)], 8
    )
    assert counts == [2, 4, 2]
    assert whole.makespan_ps == pytest.approx(4 * healthy + 4 * slow, abs=0.1 * healthy)


# Scenarios


def test_the_slowest_ipu_makes_all_others_wait() -> None:
    """Half the clock of every stage's slowest IPU: its own work takes twice as long, the others wait for it."""
    result = with_faults("{ipu: 1, clock: 50 %}")
    assert result.faults is not None
    (slowed, *others) = result.faults.waiting
    assert slowed.ipus == (1,)
    longer = result.weight_update_s - result.faults.weight_update_without_s
    for each in (slowed, *others):
        assert sum(each.more_s.values()) == pytest.approx(longer, rel=1e-9)
    assert slowed.more_s["slowed"] > longer > 0.2 * result.faults.weight_update_without_s
    assert all("slowed" not in other.more_s for other in others)
    assert sorted(ipu for each in result.faults.waiting for ipu in each.ipus) == list(range(16))


def test_without_faults_the_result_is_that_of_the_folded_run() -> None:
    result, plain = with_faults("{ipu: 1, clock: 100 %}"), podsim.simulate(BERT)
    assert (result.weight_update_ps, result.time_to_train_s) == (plain.weight_update_ps, plain.time_to_train_s)
    assert result.breakdown_ps == plain.breakdown_ps


def test_a_run_with_a_fault_for_a_time_lies_between() -> None:
    always, half, never = (
        with_faults(*each).time_to_train_s or 0
        for each in (
            ["{ipu: 1, clock: 50 %}"],
            ["{ipu: 1, clock: 50 %, from: 10 min, until: 20 min}"],
            ["{ipu: 1, clock: 100 %}"],
        )
    )
    assert never < half < always


def test_a_gw_link_is_slow_both_ways() -> None:
    """GW-Links are named from one machine to another: machine 1 is at an end of the first two, and is not 10 or 11."""
    channels = [
        *("machine1-0/gw_link", "machine0-1/gw_link", "machine10-11/gw_link", "machine11-10/gw_link"),
        *("machine0-10/gw_link", "machine1/host_link", "machine1/streaming", "0-1/ipu_link"),
    ]
    slow = fault(machine=1, part="gw_link", bandwidth="50 %")
    assert list(slow_parts(slow, plan_of(BERT).system, channels)) == ["machine1-0/gw_link", "machine0-1/gw_link"]


@pytest.mark.parametrize("machine", [0, 16])
def test_a_slow_gw_link_holds_up_the_ring_over_domains_at_either_end(machine: int) -> None:
    """Of two domains, each machine sends to its fellow and receives from it: either fault makes both ways slow."""
    plan = plan_of("bert_v1.1_pod128_open", "parallelism.accumulation_factor=17")
    channels = channels_of(compile_program(plan, explicit=True))
    slow = list(slow_parts(fault(machine=machine, part="gw_link", bandwidth="50 %"), plan.system, channels))
    assert sorted(slow) == ["machine0-16/gw_link", "machine16-0/gw_link"]


def test_rings_on_links_of_their_own_meet_a_slow_link() -> None:
    """Of eight replicas of one IPU, the first two on a side send to each other over one of two links each."""
    plan = plan_of(small_bert(small_pod(2), [1], replicas=8))
    slow = fault(link=[0, 2], bandwidth="50 %")
    found = list(slow_parts(slow, plan.system, channels_of(compile_program(plan, explicit=True))))
    rail = "domain0/rail0/rung0-1"
    assert sorted(found) == [f"{rail}/down", f"{rail}/down/ring-1", f"{rail}/up", f"{rail}/up/ring+1"]


def test_a_slow_link_is_slow_both_ways() -> None:
    """Two IPUs of a rung have a channel each way."""
    (there,), (back,) = (Routes(plan_of(BERT).system).between(*ends).channels for ends in ((0, 1), (1, 0)))
    slow = slow_parts(fault(link=[0, 1], bandwidth="50 %"), plan_of(BERT).system, ())
    assert there.id != back.id
    assert sorted(slow) == sorted([there.id, back.id])


def test_shown_is_the_stretch_with_most_weight_updates() -> None:
    """Two minutes as usual, some twenty with a slow IPU, and as usual again."""
    report = with_faults("{ipu: 1, clock: 90 %, from: 2 min, until: 22 min}").faults
    assert report is not None
    counts = [stretch.weight_updates or 0 for stretch in report.stretches]
    assert len(counts) == 3
    assert counts[1] == pytest.approx(20 * 60 / report.stretches[1].weight_update_s)
    assert counts[0] == pytest.approx(2 * 60 / report.weight_update_without_s)
    assert counts[1] > counts[2] > 0
    assert report.shown == 1
    # What is told of IPUs is that of the same stretch: IPU 1 works longer.
    (slowed, *_) = report.waiting
    assert slowed.ipus == (1,)
    assert slowed.more_s["slowed"] > 0


def test_half_the_cores_of_a_host_make_images_come_at_half_the_rate() -> None:
    """Where decoding sets the pace, half of the cores give half of the throughput."""
    slow = ("system.host.image_decode_time=10 ms",)
    whole = podsim.simulate(IMAGES, overrides=slow)
    half = with_faults("{host: 0, cores: 50 %}", name=IMAGES, more=slow)
    assert half.throughput_samples_per_s == pytest.approx(whole.throughput_samples_per_s / 2, rel=0.02)


def test_a_fault_that_nobody_feels_is_told() -> None:
    result = with_faults("{host: 0, cores: 50 %}")
    assert "nothing in a weight update needs host 0, so that its fault changes nothing" in result.warnings


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{ipu: 16, clock: 50 %}", "there is no ipu 16 among the 16 IPUs that run"),
        ("{host: 3, cores: 50 %}", "there is no host 3 among"),
        ("{machine: 4, part: gw_link, bandwidth: 50 %}", "there is no machine 4 among the 4 machines that run"),
        ("{machine: 1, bandwidth: 50 %}", "`machine` and `part` go together"),
        ("{ipu: 1, bandwidth: 50 %}", "`ipu` goes with `clock`, not with `bandwidth`"),
        ("{ipu: 1, host: 0, clock: 50 %}", "`ipu` and `host` are both named"),
        ("{clock: 50 %}", "no part is named"),
        ("{ipu: 1, clock: 150 %}", "`150 %` is too large"),
        ("{link: [2, 2], bandwidth: 50 %}", "IPU 2 has no link to itself"),
        ("{link: [0, 5], bandwidth: 50 %}", "IPUs 0 and 5 are not joined by an IPU-Link"),
        ("{ipu: 1, clock: 50 %, from: 2 s, until: 1 s}", "`until` is not after `from`"),
        ("{ipu: 1, clock: 50 %, until: 9 s}, {ipu: 1, clock: 60 %, from: 8 s}", "ipu 1 is in two faults at one time"),
        ("{link: [0, 1], bandwidth: 50 %}, {link: [1, 0], bandwidth: 60 %}", "link 1-0 is in two faults at one time"),
        ("{ipu: 1, clock: 0 %}", "lanes wait for ever: ipu1 at `work at no speed`"),
    ],
)
def test_faults_that_cannot_be(given: str, message: str) -> None:
    with pytest.raises(PodsimError) as caught:
        with_faults(given)
    assert message in str(caught.value)
    assert "do: " in str(caught.value)


def test_a_fault_for_a_time_needs_a_run() -> None:
    with pytest.raises(PodsimError, match="nothing says how long the run is"):
        podsim.simulate("resnet50_pytorch_pod16", overrides=["faults=[{ipu: 1, clock: 50 %, from: 1 s}]"])


def test_a_link_at_no_speed_is_a_wrong_scenario() -> None:
    with pytest.raises(ModelError, match="transfer at no speed"):
        with_faults("{link: [0, 1], bandwidth: 0 %}")


def test_tables_of_faults_say_when_they_hold_and_who_waits() -> None:
    """Of 4 IPUs three are alike; of their changes, 10 us are below a hundredth of the largest, 50 ms."""
    more = {"slowed": 0.05, "bubble": -0.02, "sync": 1e-5}
    stretches = (StretchReport(0, 120, ("ipu 1 is slow",), 0.2, 600), StretchReport(120, None, (), 0.1, None))
    report = FaultReport(0.1, stretches, 0, (Waiting((0, 1, 2), more), Waiting((3,), {})))
    faults, waiting = fault_tables(report, 4)
    assert [tuple(map(str, row)) for row in faults.rows] == [
        ("0 s", "2 min", "200 ms", "600", "ipu 1 is slow (shown here)"),
        ("2 min", "end", "100 ms", "", "none"),
    ]
    assert list(waiting.rows) == [("all others", "slowed +50 ms, bubble -20 ms"), ("3", "as without")]
    assert list(waiting.notes) == [
        "Without faults a weight update takes 100 ms; with those shown here it is 100.0 % longer."
    ]
