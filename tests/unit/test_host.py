"""The loop of a process that calls IPUs: its period by hand, and what IPUs wait for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import podsim
from podsim import infer, simulate
from podsim.engine import Chunks, execute
from podsim.placement import Plan, make_plan
from podsim.placement.job import training_job
from podsim.program.compile import compile_program, replicas_of
from podsim.program.host import CALL, HAND_OVER, LOAD, OPTIMIZER_VALUES, STACK, Call, evaluation_call, training_call
from podsim.program.task import Program
from podsim.scenario import load_scenario
from podsim.units import PS_PER_S
from tests.examples import plan_of

SQUAD, GPT, SCHNET, ANSWERS = (
    "bert_large_squad_pod16",
    "gpt2_small_pod16",
    "schnet_qm9_bow_pod64",
    "bert_large_squad_answers_pod16",
)
NOTHING = ("software.host_call=0 s", "software.stream_time=0 s")
TIMES = ("software.host_call=30 ms", "software.stream_time=10 us")
UNCHANGED = "software.optimizer_values_per_tensor=null"
SHORT = ("model.layer_count=4", "parallelism.layers_per_ipu=[1, 1, 1, 1]", "parallelism.accumulation_factor=9")


def host_s(name: str, *overrides: str, variant: str | None = None) -> float:
    """What a weight update waits for the process, which leaves the values of the optimizer as they are."""
    overrides = (UNCHANGED, *overrides)
    alone, called = (
        simulate(name, variant=variant, overrides=[*overrides, *more]).weight_update_s for more in (NOTHING, TIMES)
    )
    return called - alone


# Loops of training


def test_a_loop_of_pytorch_by_hand() -> None:
    """Four replicas of 64 micro-batches of five tensors: tokens, mask, types, start, end; streams and two results."""
    assert host_s(SQUAD) == pytest.approx(0.03 + 4 * (5 * 64 + 5 + 2) * 10e-6)


def test_samples_in_a_micro_batch_are_handed_over_together() -> None:
    """What counts are tensors: two of each micro-batch of GPT-2, of one sequence or more; eight updates a call."""
    wide = ("parallelism.micro_batch_size=2", "model.layer_count=4", "parallelism.layers_per_ipu=[0, 1, 1, 2]")
    assert host_s(GPT, *wide) == pytest.approx(0.03 / 8 + 4 * (2 * 2048 + (2 + 1) / 8) * 10e-6)


@pytest.mark.parametrize(
    ("name", "variant", "tensors"),
    [
        ("bert_large_phase2_packed_pytorch_pod16", None, 8),
        ("bert_base_phase1_pytorch_pod16", None, 6),
        (SQUAD, None, 5),
        (GPT, None, 2),
        ("t5_small_xsum_pod16", None, 4),
        ("vit_base_pod16", None, 2),
        ("resnet50_pytorch_pod16", None, 2),
        (SCHNET, None, 4),
        (SCHNET, "synthetic_64", 0),
    ],
)
def test_tensors_of_a_micro_batch(name: str, variant: str | None, tensors: int) -> None:
    sent = make_plan(training_job(load_scenario(name, variant=variant).spec)).workload.host_tensors
    assert sent.inputs + sent.labels == tensors


def test_processes_work_at_the_same_time() -> None:
    assert host_s(SQUAD, "parallelism.replicas_per_process=1") == pytest.approx(0.03 + (5 * 64 + 5 + 2) * 10e-6)


def test_updates_of_a_call_share_it_but_for_what_each_of_them_is_handed() -> None:
    shared = "parallelism.updates_per_session_call=4"
    assert host_s(SQUAD, shared) == pytest.approx(0.03 / 4 + 4 * (5 * 64 + (5 + 2) / 4) * 10e-6)


def test_popart_stacks_a_batch_and_calls() -> None:
    """Eight replicas of 96 micro-batches of two packs of 512 tokens, each of four numbers of four bytes."""
    given = "software.collation_bandwidth=1 GB/s", "software.host_call=100 ms"
    stack, call = training_call(plan_of("bert_v1.1_pod64_open", *given)).tasks
    assert (stack.name, call.name) == (STACK, CALL)
    assert (stack.parts, call.parts) == ((("host", 8 * 96 * 2 * 512 * 16 * 1000),), (("host", PS_PER_S // 10),))


def test_evaluations_stack_a_batch_as_well() -> None:
    plan = plan_of("bert_v2.0_pod64_closed", "software.collation_bandwidth=1 GB/s")
    stack, call = evaluation_call(plan, 0.01).tasks
    assert (stack.name, stack.parts) == (STACK, (("host", 8 * 96 * 3 * 512 * 16 * 1000),))
    assert (call.name, call.parts) == (CALL, (("host", PS_PER_S // 100),))


def test_values_of_an_optimizer_are_tensors_of_their_own() -> None:
    """BERT-Large has 16 tensors a layer, 5 of embeddings with their norm, and a head; once a call of two updates."""
    plan = plan_of("bert_large_squad_8_ipus_pod16", *TIMES, "software.optimizer_values_per_tensor=5")
    (values,) = (task for task in training_call(plan).tasks if task.name == OPTIMIZER_VALUES)
    tensors = 24 * 16 + 5 + 2
    assert plan.workload.parameter_tensor_count == tensors
    assert values.parts == (("host", round(tensors * 5 * 10e-6 / 2 * PS_PER_S)),)


def test_published_updates_of_phase_2_by_hand() -> None:
    """Pod16 and Pod64 have 4,096 micro-batches of eight tensors each, and the same values: they wait alike."""
    for pod in ("pod16", "pod64"):
        plan = plan_of(f"bert_large_phase2_packed_pytorch_{pod}", *TIMES, "software.optimizer_values_per_tensor=7")
        replicas, values = plan.layout.replication_factor, 7 * plan.workload.parameter_tensor_count
        streams = 4096 * 8 + replicas * (8 + 2) + values
        assert training_call(plan).time_ps / PS_PER_S == pytest.approx(0.03 + streams * 10e-6)


# Loaders


@pytest.mark.parametrize(("workers", "bound"), [(1, True), (6, True), (25, False), (None, False)])
def test_a_round_takes_the_longer_of_loader_and_the_rest(workers: int | None, bound: bool) -> None:
    """A call of 4,096 graphs of 71.7 us, which so many workers load at the same time."""
    given = "null" if workers is None else str(workers)
    made = podsim.run(SCHNET, overrides=[f"data.loader_workers={given}"])
    rest_s = podsim.run(SCHNET, overrides=["data.loader_workers=null"]).weight_update_s
    assert made.weight_update_s == pytest.approx(4096 * 69e-6 / (workers or 1) if bound else rest_s, rel=1e-9)


def test_what_is_left_to_load_begins_with_the_ipus() -> None:
    call = Call.steady((HAND_OVER, 0.002), (CALL, 0.001), loaded_s=0.005)
    assert [(each.name, each.parts) for each in call.meanwhile] == [(LOAD, (("host", 2_000_000_000),))]
    assert not Call.steady((CALL, 0.001), loaded_s=0.001).meanwhile


# Loops of forward passes


def test_answers_by_hand() -> None:
    """Four replicas of 64 batches: three tensors there, start and end back; and one call."""
    alone, called = (
        infer(ANSWERS, overrides=[f"software.stream_time={stream} us", f"software.forward_call={call} ms"])
        for stream, call in ((0, 0), (10, 2))
    )
    assert called.call.time_s - alone.call.time_s == pytest.approx(0.002 + 4 * 64 * 5 * 10e-6)
    assert called.latency_s - alone.latency_s == pytest.approx(0.002 + 5 * 10e-6)


def test_each_replica_with_a_process_of_its_own() -> None:
    alone, called = (
        infer(ANSWERS, overrides=["parallelism.replicas_per_process=1", f"software.stream_time={each} us"])
        for each in (0, 10)
    )
    assert called.call.time_s - alone.call.time_s == pytest.approx(64 * 5 * 10e-6)


def test_tensors_that_io_tiles_exchange_are_not_waited_for() -> None:
    slow, quick = (infer("resnet50_pod4", overrides=[f"software.stream_time={each} us"]) for each in (100, 0))
    assert slow.call.time_s == quick.call.time_s


# Published loops, to which nothing was fitted


@pytest.mark.parametrize(
    ("name", "variant", "published", "within"),
    [
        ("bert_large_phase2_packed_pytorch_pod64", "bow", 6510.0, 0.05),  # GCP-051
        ("bert_base_phase1_pytorch_pod16", "bow", 15911.0, 0.05),  # GCP-059
        ("bert_large_squad_answers_pod16", None, 3287.24, 0.05),  # HFNB-014
        ("e5_large_pod4", None, 864.65, 0.06),  # HFNB-015, too slow by copies between layouts
    ],
)
def test_device_and_tasks_one_after_the_other(name: str, variant: str | None, published: float, within: float) -> None:
    assert podsim.run(name, variant=variant).throughput_samples_per_s == pytest.approx(published, rel=within)


# Lanes


def small(*overrides: str) -> Plan:
    return plan_of(SQUAD, *SHORT, *TIMES, *overrides)


def loops(program: Program) -> list[str]:
    return [group.name for group in program.groups if not group.accounted]


def test_every_process_has_a_lane() -> None:
    assert loops(compile_program(small(), explicit=True)) == ["process0"]
    assert loops(compile_program(small("parallelism.replicas_per_process=1"), explicit=True)) == [
        f"process{number}" for number in range(4)
    ]


def test_host_time_is_what_ipus_wait_for_the_process() -> None:
    program = compile_program(small())
    waited, alone = execute(program), execute(compile_program(small(*NOTHING)))
    (process,) = waited.helpers.values()
    call_ps = training_call(small()).time_ps
    assert process["host"] == call_ps
    for lane, account in waited.lanes.items():
        assert account["host"] - alone.lanes[lane].get("host", 0) == call_ps
        assert sum(account.values()) == waited.makespan_ps


def test_folded_and_explicit_lanes_and_both_engines_agree() -> None:
    for plan in (small(), small("parallelism.replicas_per_process=1"), plan_of(SCHNET, "data.loader_workers=8")):
        if plan.layout.replication_factor > 4:
            plan = replace(plan, layout=replace(plan.layout, replication_factor=8, replicas_per_process=8))
        folded, explicit = compile_program(plan), compile_program(plan, explicit=True)
        assert len(replicas_of(plan).simulated) < plan.layout.replication_factor
        times = {
            execute(program, explicit=each, engine=engine).makespan_ps
            for program, each in ((folded, False), (explicit, True))
            for engine in ("simpy", "auto")
        }
        assert len(times) == 1


def test_programs_with_processes_are_run_piece_by_piece() -> None:
    program = compile_program(small())
    found, whole = Chunks().trace(program), execute(program)
    assert found is not None
    assert (found.makespan_ps, found.lanes) == (whole.makespan_ps, whole.lanes)
    loading = Call.steady((CALL, 0.001), loaded_s=0.005).processes(small(), replicas_of(small()))
    assert Chunks().trace(replace(program, groups=(program.groups[0], *loading))) is None
