"""The folded run of a plan is the explicit run, exactly: small models on small pods, whatever the layout."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, get_args

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from podsim.engine import Trace, execute
from podsim.placement import Plan
from podsim.placement.layout import NEAREST
from podsim.program.compile import compile_program
from podsim.result.breakdown import exact_seconds, mean_account
from podsim.scenario.schedules import ScheduleName, micro_batches_of
from podsim.units import ps_to_seconds
from tests.examples import plan_of, small_bert, small_cnn, small_pod

IPUS_PER_MACHINE = 4
SCHEDULES: tuple[ScheduleName, ...] = get_args(ScheduleName)
SLOW_OR_FAST: dict[str, dict[str, list[str]]] = {
    "ipu_link": {"bandwidth_per_direction": ["0.01 GB/s", "0.3 GB/s", "16 GB/s"]},
    "gw_link": {"bandwidth_per_direction": ["0.01 GB/s", "12.5 GB/s"]},
    "streaming_memory": {"bandwidth_per_machine": ["1 GB/s", "20 GB/s"]},
    "host_link": {"bandwidth_per_direction": ["3 MB/s", "12.5 GB/s"]},
}
"""From links that everything waits for to links that nobody notices."""


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """Changes to the machines that move the bottleneck."""
    return {
        part: {key: draw(st.sampled_from(values)) for key, values in numbers.items()}
        for part, numbers in SLOW_OR_FAST.items()
    }


@st.composite
def texts(draw: st.DrawFn) -> dict[str, object]:
    """A small BERT on 1 to 4 machines in 1 to 4 link domains, replicas of 1 to 8 IPUs, layers shared by 1 or 2.

    Replicas need not fill a link domain, nor begin with a machine; stages follow any schedule, in one chunk or two.
    """
    machine_count = draw(st.integers(1, 4))
    domain_machines = draw(st.sampled_from([n for n in range(1, machine_count + 1) if machine_count % n == 0]))
    domain_ipus = domain_machines * IPUS_PER_MACHINE
    ipus = draw(st.sampled_from([n for n in (1, 2, 3, 4, 5, 6, 7, 8) if n <= domain_ipus]))
    shards = draw(st.sampled_from([1, 2])) if ipus % 2 == 0 else 1
    groups = ipus // shards
    schedule = draw(st.sampled_from(SCHEDULES))
    chunks = draw(st.sampled_from([1, 2])) if groups > 1 and schedule in ("lock_step", "grouped") else 1
    first = draw(st.integers(1 if groups == 1 else 0, 2))
    layers = [first, *(draw(st.integers(1, 3)) for _ in range(groups - 1))]
    per_domain = domain_ipus // ipus
    whole_domains = [per_domain * count for count in range(2, machine_count // domain_machines + 1)]
    stages = 1 if groups == 1 else groups + 1
    pod = small_pod(
        machine_count,
        topology=draw(st.sampled_from(["ladder", "torus", "machine_ring"])),
        domain_machines=domain_machines,
        **draw(machines()),
    )
    rule = micro_batches_of(schedule, stages * chunks - (chunks > 1), chunks=chunks, groups=groups)
    scenario = small_bert(
        pod,
        layers,
        replicas=draw(st.sampled_from([*range(1, per_domain + 1), *whole_domains])),
        accumulation=-(-(rule.least + draw(st.integers(0, 5))) // rule.multiple) * rule.multiple,
        recomputation=draw(st.sampled_from(["none", "layer"])),
        storage=draw(st.sampled_from(["in_processor_memory", "streaming_memory"])),
        sharding=draw(st.booleans()),
        shards=shards,
    )
    # Most often as software stacks place them.
    nearest = draw(st.one_of(st.just(NEAREST), st.permutations(NEAREST)))
    order = {"nearest": list(nearest), "attention_serialisation": draw(st.sampled_from([1, 1, 3]))}
    if chunks == 1:
        software = {"base": "popart_sdk_2.3", "schedule": schedule}
        return scenario | {"software": software, "parallelism": scenario["parallelism"] | order}  # type: ignore[operator]
    division = {key: value for key, value in scenario["parallelism"].items() if key != "layers_per_ipu"}  # type: ignore[attr-defined]
    division |= {"pipeline_stages": groups, "chunks_per_ipu": chunks, "schedule": schedule, **order}
    model: dict[str, Any] = scenario["model"] | {"layer_count": draw(st.integers(2, 3)) * groups}  # type: ignore[operator]
    return scenario | {"parallelism": division, "model": model}


SPLITS: dict[int, tuple[str, ...]] = {1: (), 2: ("conv2",), 3: ("conv2", "conv3"), 4: ("conv2", "conv3", "head")}
"""Blocks that start on the next IPU, by IPUs of a replica."""


@st.composite
def images(draw: st.DrawFn) -> dict[str, object]:
    """A small network on 1 to 4 machines in 1 to 4 link domains, fed by 1 to 4 servers, fast or slow."""
    machine_count = draw(st.integers(1, 4))
    domain_machines = draw(st.sampled_from([n for n in range(1, machine_count + 1) if machine_count % n == 0]))
    ipus = draw(st.sampled_from([1, 2, 3, 4]))
    per_domain = domain_machines * IPUS_PER_MACHINE // ipus
    whole_domains = [per_domain * count for count in range(2, machine_count // domain_machines + 1)]
    replicas = draw(st.sampled_from([*range(1, per_domain + 1), *whole_domains]))
    hosts = draw(st.sampled_from([n for n in range(1, 5) if replicas % n == 0 or n % replicas == 0]))
    pod = small_pod(machine_count, domain_machines=domain_machines, **draw(machines())) | {
        "host_count": hosts,
        "host": {"image_decode_time": draw(st.sampled_from(["1 us", "5 ms", "200 ms"]))},
    }
    schedule = draw(st.sampled_from(SCHEDULES))
    rule, software = micro_batches_of(schedule, ipus), {"base": "tensorflow1_sdk_2.3", "schedule": schedule}
    return small_cnn(
        pod,
        replicas=replicas,
        accumulation=-(-(rule.least + draw(st.integers(0, 3))) // rule.multiple) * rule.multiple,
        splits=SPLITS[ipus],
        decoded=draw(st.booleans()),
        prefetch=draw(st.integers(1, 4)),
        io_tiles=draw(st.sampled_from([0, 32])),
        recomputation=draw(st.sampled_from(["none", "segment"])),
        software=software,
    )


def scenarios() -> st.SearchStrategy[dict[str, object]]:
    """Texts and images."""
    return st.one_of(texts(), images())


def folded(plan: Plan, tie_seed: int | None = None) -> Trace:
    return execute(compile_program(plan), explicit=False, tie_seed=tie_seed)


def explicit(plan: Plan, tie_seed: int | None = None) -> Trace:
    return execute(compile_program(plan, explicit=True), explicit=True, tie_seed=tie_seed)


@settings(max_examples=30, deadline=None)
@given(scenarios(), st.integers(0, 2**31))
def test_the_folded_run_is_the_explicit_run(scenario: dict[str, object], tie_seed: int) -> None:
    """To the picosecond, for every kind of time of every lane, with events of one instant in any order."""
    plan = plan_of(scenario)
    short = folded(plan)
    for seed in (None, tie_seed, tie_seed + 1):
        full = explicit(plan, seed)
        assert short.makespan_ps == full.makespan_ps
        assert short.lanes == {lane: full.lanes[lane] for lane in short.lanes}
    assert len(full.lanes) == plan.layout.replication_factor * plan.layout.ipus_per_replica


@settings(max_examples=12, deadline=None)
@given(scenarios(), st.integers(0, 2**31))
def test_shuffled_ties_change_nothing_in_the_folded_run(scenario: dict[str, object], tie_seed: int) -> None:
    plan = plan_of(scenario)
    first, other = folded(plan), folded(plan, tie_seed)
    assert (other.makespan_ps, other.lanes, other.phases) == (first.makespan_ps, first.lanes, first.phases)


@settings(max_examples=12, deadline=None)
@given(scenarios())
def test_all_replicas_spend_their_time_alike(scenario: dict[str, object]) -> None:
    """What folding stands on: nothing distinguishes the replicas of one machine from those of another.

    Those that begin in the middle of a machine and end in another are told apart, and are not folded.
    """
    plan = plan_of(scenario)
    size = plan.layout.ipus_per_replica
    assume(plan.layout.nearest == NEAREST and (IPUS_PER_MACHINE % size == 0 or size % IPUS_PER_MACHINE == 0))
    per_machine = max(1, IPUS_PER_MACHINE // size)
    lanes = explicit(plan).lanes
    full_machines = plan.layout.replication_factor // per_machine
    for replica in range(full_machines * per_machine):
        for local in range(size):
            first = lanes[f"ipu{replica % per_machine * size + local}"]
            assert lanes[f"ipu{replica * size + local}"] == first


@settings(max_examples=12, deadline=None)
@given(scenarios(), st.randoms(use_true_random=False))
def test_the_breakdown_adds_up_exactly(scenario: dict[str, object], order: Any) -> None:
    """Every lane in picoseconds; their mean too; and in seconds, in any order of the parts."""
    trace = folded(plan_of(scenario))
    assert {sum(account.values()) for account in trace.lanes.values()} == {trace.makespan_ps}
    mean = mean_account(trace.lanes)
    assert sum(mean.values()) == trace.makespan_ps
    seconds = list(exact_seconds(mean).values())
    order.shuffle(seconds)
    assert reduce(add, seconds) == ps_to_seconds(trace.makespan_ps)


@settings(max_examples=12, deadline=None)
@given(scenarios())
def test_phases_follow_one_another_without_a_gap(scenario: dict[str, object]) -> None:
    trace = folded(plan_of(scenario))
    for group in {phase.group for phase in trace.phases}:
        mine = [phase for phase in trace.phases if phase.group == group]
        assert mine[0].start_ps == 0
        assert [phase.end_ps for phase in mine[:-1]] == [phase.start_ps for phase in mine[1:]]
        assert mine[-1].end_ps == trace.makespan_ps
