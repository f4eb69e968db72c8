"""Pipeline schedules against closed forms: cycles, bubbles and stashes of each, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.engine import Trace, execute
from podsim.engine.compiled import is_available
from podsim.placement import PipelineSchedule, Plan
from podsim.program.compile import compile_program
from podsim.scenario.schedules import ScheduleName
from podsim.tiles.account import Account
from tests.analytic.test_closed_forms_of_plans import MS_CYCLES, MS_PS, instant_links, time_of
from tests.examples import plan_of, small_bert, small_pod

FORWARD_PS, BACKWARD_PS = 6 * MS_PS, 12 * MS_PS
"""Of all layers of an IPU."""
LAYER_INPUT_BYTES = 4 * 32 * 64 * 2
"""4 sequences of 32 tokens with 64 halves."""


def balanced(stages: int, accumulation: int, schedule: ScheduleName, chunks: int = 1) -> Plan:
    """IPUs of 6 ms forward and 12 ms backward, in equal chunks; nothing comes from the host and links are instant."""
    scenario = small_bert(small_pod(-(-stages // 4), **instant_links()), [stages * chunks], accumulation=accumulation)
    given: dict[str, object] = dict(scenario["parallelism"])  # type: ignore[call-overload]
    del given["layers_per_ipu"]
    given |= {"pipeline_stages": stages, "head_on": "last_ipu", "schedule": schedule, "chunks_per_ipu": chunks}
    plan = plan_of(scenario | {"parallelism": given})
    forward, backward = Account(matmul=6 * MS_CYCLES / chunks), Account(matmul=12 * MS_CYCLES / chunks)
    return replace(
        plan,
        workload=replace(plan.workload, host_input_bytes=0),
        stages=tuple(replace(c, forward=forward, recompute=Account(), backward=backward) for c in plan.stages),
    )


def run(plan: Plan, *, explicit: bool = False) -> Trace:
    return execute(compile_program(plan, explicit=explicit), explicit=explicit)


def pipeline_ps(trace: Trace) -> int:
    return time_of(trace, ["fill", "main", "flush"])


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("schedule", ["lock_step", "grouped"])
@pytest.mark.parametrize(("stages", "chunks"), [(2, 2), (4, 2), (4, 3), (3, 4), (7, 2), (12, 1), (5, 1)])
def test_bubble_of_chunks(schedule: ScheduleName, stages: int, chunks: int, explicit: bool) -> None:
    """m·V + p - 1 passes of a chunk each way: of V·(m + (p - 1)/V), a bubble of (p - 1)/(V·m) [narayanan2021].

    Forward alone in the first p·V - 1 cycles, backward alone in as many at the end, both in m·V - p·V + p between.
    """
    count = 6 * stages * (2 if chunks == 1 else 1)
    trace = run(balanced(stages, count, schedule, chunks), explicit=explicit)
    once = (FORWARD_PS + BACKWARD_PS) // chunks
    assert pipeline_ps(trace) == (count * chunks + stages - 1) * once
    lanes = [trace.lanes[f"ipu{ipu}"] for ipu in range(stages)]
    assert {lane["matmul"] for lane in lanes} == {count * (FORWARD_PS + BACKWARD_PS)}
    assert {lane.get("bubble", 0) for lane in lanes} == {(stages - 1) * once}
    cycles = sum(phase.count for phase in trace.phases if phase.name.startswith(("fill", "main", "flush")))
    assert cycles == count * chunks + stages * chunks + stages - 2


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize(("stages", "count"), [(2, 2), (2, 9), (3, 6), (4, 12), (7, 28)])
def test_time_of_the_interleaved_schedule(stages: int, count: int, explicit: bool) -> None:
    """S cycles of forward passes, 2(G - 1) of both on neighbours, which last as long as the longer, S of backward ones.

    An IPU is busy for G of each, so that of the cycles between it waits half, for f or for b - f.
    """
    trace = run(balanced(stages, count, "interleaved"), explicit=explicit)
    longer = max(FORWARD_PS, BACKWARD_PS)
    assert pipeline_ps(trace) == stages * FORWARD_PS + 2 * (count - 1) * longer + stages * BACKWARD_PS
    cycles = sum(phase.count for phase in trace.phases if phase.name.startswith(("fill", "main", "flush")))
    assert cycles == 2 * (count + stages - 1)


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize(("stages", "count"), [(2, 1), (3, 5), (4, 8), (6, 2)])
def test_time_of_the_sequential_schedule(stages: int, count: int, explicit: bool) -> None:
    """G·S·(f + b): one IPU at a time, and the others wait for S - 1 parts of S."""
    trace = run(balanced(stages, count, "sequential"), explicit=explicit)
    assert pipeline_ps(trace) == count * stages * (FORWARD_PS + BACKWARD_PS)
    lanes = [trace.lanes[f"ipu{ipu}"] for ipu in range(stages)]
    assert {lane["bubble"] for lane in lanes} == {count * (stages - 1) * (FORWARD_PS + BACKWARD_PS)}
    assert not any(lane.get("imbalance") for lane in lanes)


@pytest.mark.parametrize("schedule", ["grouped", "interleaved", "sequential"])
def test_one_stage_has_nothing_to_schedule(schedule: ScheduleName) -> None:
    """IPUs that share it meet once a micro-batch, and pass it there and back, whatever the schedule is called."""
    assert PipelineSchedule.from_name(schedule, 1) == PipelineSchedule.from_name("lock_step", 1)
    assert [span.count for span in PipelineSchedule.from_name(schedule, 1).spans(9)] == [9]


@pytest.mark.skipif(not is_available(), reason="podsim was built without a C compiler")
@pytest.mark.parametrize(
    ("schedule", "chunks"), [("lock_step", 3), ("grouped", 2), ("interleaved", 1), ("sequential", 1)]
)
def test_both_engines_agree(schedule: ScheduleName, chunks: int) -> None:
    """With links that take time, and stages of unequal length."""
    scenario = small_bert(small_pod(2), [18], accumulation=30)
    given: dict[str, object] = dict(scenario["parallelism"])  # type: ignore[call-overload]
    del given["layers_per_ipu"]
    given |= {"pipeline_stages": 5, "head_on": "last_ipu", "schedule": schedule, "chunks_per_ipu": chunks}
    program = compile_program(plan_of(scenario | {"parallelism": given}))
    compiled, simpy = (execute(program, explicit=False, engine=engine) for engine in ("compiled", "simpy"))
    assert (compiled.makespan_ps, compiled.lanes) == (simpy.makespan_ps, simpy.lanes)


@pytest.mark.parametrize("stages", [2, 3, 5, 28])
def test_stash_of_each_schedule(stages: int) -> None:
    """From forward to backward pass: 2(S - 1 - i) cycles with one micro-batch each, half as many, or none."""
    depths = {
        name: [PipelineSchedule.from_name(name, stages).stash_depth(index) for index in range(stages)]
        for name in ("lock_step", "grouped", "interleaved", "sequential")
    }
    assert depths["lock_step"] == depths["grouped"] == [2 * (stages - 1 - index) + 1 for index in range(stages)]
    assert depths["interleaved"] == [stages - index for index in range(stages)]
    assert depths["sequential"] == [1] * stages


@pytest.mark.parametrize(("ipus", "chunks"), [(2, 2), (4, 2), (4, 5), (3, 4), (35, 3), (8, 3)])
def test_stash_of_chunks(ipus: int, chunks: int) -> None:
    """On the first IPU p·V + p - 1 inputs of a chunk, which is 1 + (p - 1)/(p·V) of p micro-batches of V chunks.

    On IPU i two fewer for each IPU before it: it begins a cycle later, and frees one earlier.
    """
    schedule = PipelineSchedule.from_name("lock_step", ipus * chunks, chunks=chunks, groups=ipus)
    for ipu in range(ipus):
        held = dict.fromkeys(range(ipu, ipus * chunks, ipus), 1)
        assert schedule.most_kept(held) == ipus * chunks + ipus - 1 - 2 * ipu
        assert schedule.most_kept(held, 10 * ipus) == ipus * chunks + ipus - 1 - 2 * ipu
    first = schedule.most_kept(dict.fromkeys(range(0, ipus * chunks, ipus), 1))
    assert first / (ipus * chunks) == pytest.approx(1 + (ipus - 1) / (ipus * chunks))


def test_stash_of_few_micro_batches_in_chunks() -> None:
    """Of p micro-batches in V chunks the first IPU keeps p·V inputs at most: all of them."""
    schedule = PipelineSchedule.from_name("lock_step", 8, chunks=2, groups=4)
    assert schedule.most_kept({0: 1, 4: 1}, 4) == 8


@pytest.mark.parametrize(
    ("schedule", "chunks", "first", "last"),
    [
        ("lock_step", 1, 7 * 3, 1 * 3),
        ("grouped", 1, 7 * 3, 1 * 3),
        ("interleaved", 1, 4 * 3, 1 * 3),
        ("sequential", 1, 1 * 3, 1 * 3),
        ("lock_step", 3, 4 * 3 + 3, 4 * 3 + 3 - 6),
    ],
)
def test_memory_follows_the_schedule(schedule: str, chunks: int, first: int, last: int) -> None:
    """Inputs of layers that are kept on the first and the last of 4 IPUs with 3 layers each, all the same bytes."""
    scenario = small_bert(small_pod(), [12], accumulation=40)
    given: dict[str, object] = dict(scenario["parallelism"])  # type: ignore[call-overload]
    del given["layers_per_ipu"]
    given |= {"pipeline_stages": 4, "head_on": "last_ipu", "schedule": schedule, "chunks_per_ipu": chunks}
    plan = plan_of(scenario | {"parallelism": given})
    stash = [next(tenant.byte_count for tenant in ipu.tenants if tenant.name == "stash") for ipu in plan.memory]
    # The first stage keeps its tokens beside them, fewer than the input of a layer, and the last the input of its head.
    assert stash[1] % LAYER_INPUT_BYTES == stash[2] % LAYER_INPUT_BYTES == 0
    step = (first - last) // 3
    assert [each // LAYER_INPUT_BYTES for each in stash[1:3]] == [first - step, first - 2 * step]
    assert stash[0] // LAYER_INPUT_BYTES == first
