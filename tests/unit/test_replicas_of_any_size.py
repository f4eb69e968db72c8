"""Replicas whose IPUs are no power of two: where they are, what joins them, and what results say of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim import SpecError, load_scenario, simulate
from podsim.placement.topology import Routes
from podsim.program.compile import compile_program, replicas_of
from podsim.program.rings import Ring
from podsim.program.task import Exchange
from podsim.scenario.faults import _numbers
from podsim.search.choice import Candidate
from podsim.study.plan.candidates import written
from tests.examples import Mapping, plan_of, small_bert, small_pod, system_of


def many_stages(stages: int, machines: int, replicas: int, **pod: int) -> Mapping:
    """A small BERT with a layer on each of so many IPUs."""
    return small_bert(small_pod(machines, **pod), [1] * stages, replicas=replicas, accumulation=2 * stages + 1)


def test_replicas_are_side_by_side_within_link_domains() -> None:
    """Two domains of 16 IPUs hold two replicas of 6 each: from 0 and 6, and behind 4 idle IPUs from 16 and 22."""
    system = system_of(small_pod(8, domain_machines=4))
    assert [system.first_ipu(replica, 6) for replica in range(4)] == [0, 6, 16, 22]
    assert system.room_for(6) == 4
    assert [system.room_for(size) for size in (3, 5, 12, 16, 17)] == [10, 6, 2, 2, 0]


@pytest.mark.parametrize(
    ("replicas", "size", "machines"),
    [(1, 6, 2), (2, 6, 3), (4, 6, 6), (2, 9, 6), (3, 3, 3), (5, 3, 4), (10, 3, 8), (4, 4, 4)],
)
def test_machines_that_run(replicas: int, size: int, machines: int) -> None:
    """Of two domains of four machines with four IPUs; those of a domain begin with its first machine."""
    assert system_of(small_pod(8, domain_machines=4)).machines_of(replicas, size) == machines


def test_a_ring_of_replicas_that_begin_on_either_side_of_the_ladder() -> None:
    """IPU 1 of three replicas of 3: IPUs 1, 7 and back over 4, which is on the other side, so that a rung comes first.

    1 to 7: three rails; 7 to 4: rung 3 and one rail; 4 back to 1: rung 2 and two rails.
    """
    plan = plan_of(many_stages(3, 3, 3))
    replicas = replicas_of(plan)
    assert list(replicas.simulated) == [0, 1, 2]
    assert replicas.ring(0, 1) == (1, 7, 4)
    names = [
        [channel.id.partition("/")[2] for channel in Routes(plan.system).between(here, there).channels]
        for here, there in ((1, 7), (7, 4), (4, 1))
    ]
    assert names == [
        ["rail1/rung0-1/up", "rail1/rung1-2/up", "rail1/rung2-3/up"],
        ["rung3/to0", "rail0/rung2-3/down"],
        ["rung2/to1", "rail1/rung1-2/down", "rail1/rung0-1/down"],
    ]
    machine = plan.system.machine
    link = machine.ipu_link
    assert link is not None
    longest_s = link.first_hop_latency_s + 2 * link.hop_latency_s + (link.rung_latency_s or 0.0)
    ring = Ring.from_members(plan.system, replicas.routes, 1, replicas.ring(0, 1))
    assert ring.exchange_latency_s == pytest.approx(machine.ipu.multi_ipu_sync_s + longest_s)


def test_gateways_join_the_same_ipus_of_link_domains() -> None:
    """A replica of 5 in each of two domains of 8: IPU 3 exchanges with IPU 11, over gateways of machines 0 and 2."""
    plan = plan_of(many_stages(5, 4, 2, domain_machines=2))
    program = compile_program(plan, explicit=True)
    sent = {
        channel.rpartition("/")[0]
        for group in program.groups
        for phase in group.phases
        for step in phase.steps.get("ipu3", ())
        if "GW" in phase.name and isinstance(step, Exchange)
        for transfer in step.transfers
        for channel, _ in transfer.channels
    }
    assert {"machine0-2", "ipu3/gw", "ipu11/gw"} <= sent


@pytest.mark.parametrize(("stages", "replicas"), [(3, 5), (5, 3), (6, 2), (7, 2), (12, 1)])
def test_ipus_in_use(stages: int, replicas: int) -> None:
    result = simulate(many_stages(stages, 4, replicas))
    assert (result.simulated.ipus_used, result.simulated.ipu_count) == (stages * replicas, 16)
    assert f"no published run has {stages} IPUs for a copy of its model" in " ".join(result.warnings)


def test_a_power_of_two_is_as_published() -> None:
    assert "no published run has" not in " ".join(simulate(many_stages(8, 4, 2)).warnings)


def test_room_for_more_replicas_is_told_as_it_is() -> None:
    """16 IPUs hold 5 replicas of 3, 15 IPUs."""
    (told,) = [warning for warning in simulate(many_stages(3, 4, 2)).warnings if warning.startswith("uses")]
    assert told.startswith("uses 6 of 16 IPUs: `--set parallelism.replication_factor=5` would use 15")


@pytest.mark.parametrize(
    ("stages", "replicas", "message", "do"),
    [
        (9, 1, "a link domain of 8 IPUs has no room for a replica of 9 IPUs", "use fewer IPUs per replica"),
        (3, 6, "6 replicas of 3 IPUs need 18 IPUs; IPU-POD16 has 16", "use at most 4"),
        (3, 5, "5 replicas of 3 IPUs are wanted; IPU-POD16 has 2 link domains of 8 IPUs, with room for 2 in each", "4"),
        (3, 3, "3 replicas of 3 IPUs cannot be divided among link domains of 8 IPUs", "use a multiple of 2"),
    ],
)
def test_replicas_that_a_pod_has_no_room_for(stages: int, replicas: int, message: str, do: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(many_stages(stages, 4, replicas, domain_machines=2))
    assert message in str(failure.value) and do in failure.value.problems[0].do


def test_a_fault_of_an_ipu_that_idles() -> None:
    """Two replicas of 3 in each domain of 8: IPUs 6 and 7 have nothing to do."""
    scenario = many_stages(3, 4, 4, domain_machines=2)
    assert simulate(scenario | {"faults": [{"ipu": 8, "clock": "50 %"}]}).weight_update_s
    with pytest.raises(SpecError, match="there is no ipu 7 among the 12 IPUs that run") as failure:
        load_scenario(scenario | {"faults": [{"ipu": 7, "clock": "50 %"}]})
    assert failure.value.problems[0].do == "use 0 to 5 or 8 to 13"


def test_rows_of_numbers() -> None:
    assert _numbers([0, 2, 3, 7]) == "0 to 0 or 2 to 3 or 7 to 7"


def test_a_stack_that_would_refuse_the_micro_batches() -> None:
    """TensorFlow's pipelines of 4 IPUs take multiples of 10, with the head on a stage of its own."""
    scenario = small_bert(small_pod(1), [1, 1, 1, 1], accumulation=12, software="tensorflow1_sdk_2.3")
    (told,) = [warning for warning in simulate(scenario).warnings if "would refuse" in warning]
    assert told == (
        "TensorFlow 1 would refuse this accumulation_factor: 12 micro-batches are no multiple of 2·5 = 10, twice the "
        "stages of the grouped schedule; it takes 10 or 20"
    )
    assert not any(
        "would refuse" in warning
        for warning in simulate(scenario, overrides=["parallelism.accumulation_factor=20"]).warnings
    )


def test_a_schedule_that_is_asked_for_is_that_of_the_stack() -> None:
    """The same to the picosecond, whoever says it."""
    scenario = small_bert(small_pod(1), [1, 1, 1, 1], accumulation=20)
    for name in ("lock_step", "grouped", "interleaved", "sequential"):
        asked, brought = (
            simulate(scenario, overrides=[f"{section}.schedule={name}"]).weight_update_ps
            for section in ("parallelism", "software")
        )
        assert asked == brought
    assert (
        simulate(scenario).weight_update_ps
        == simulate(scenario, overrides=["parallelism.schedule=lock_step"]).weight_update_ps
    )


def test_chunks_of_a_stack_whose_schedule_they_do_not_shorten() -> None:
    scenario = small_bert(small_pod(1), [8], accumulation=20)
    parallelism: Mapping = dict(scenario["parallelism"]) | {"pipeline_stages": 4, "chunks_per_ipu": 2}  # type: ignore[call-overload]
    del parallelism["layers_per_ipu"]
    software = {"base": "popart_sdk_2.3", "schedule": "sequential"}
    with pytest.raises(SpecError, match="chunks shorten no cycles of `sequential`, the schedule of PopART"):
        load_scenario(scenario | {"parallelism": parallelism, "software": software})


def test_a_division_that_is_chosen_leaves_no_other_placement_behind(tmp_path: Path) -> None:
    """A file of a plan lays what was chosen over its scenario, whose stages, chunks and schedule have to go."""
    keys = {"layers_per_ipu": [18, 18], "micro_batch_size": 1, "accumulation_factor": 9, "replication_factor": 2}
    chosen = Candidate(
        parallelism=keys, memory={}, used_bytes=0, streaming_bytes=0, capacity_bytes=0, fits=True, verdict=""
    )
    name = "gpt2_large_28_stages_pod64"
    file = tmp_path / "chosen.yaml"
    file.write_text(written(name, load_scenario(name), chosen, "a pod"))
    found = load_scenario(file).spec.parallelism
    assert (found.layers_per_ipu, found.pipeline_stages, found.schedule) == ([18, 18], None, None)
