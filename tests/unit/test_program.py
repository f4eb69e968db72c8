"""What a plan becomes: phases, cycles, ring steps, by hand from PopART's and GCL's descriptions."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from podsim import simulate
from podsim.engine import execute
from podsim.errors import MissingDataError
from podsim.placement import make_plan
from podsim.placement.job import training_job
from podsim.program.compile import compile_evaluation, compile_program, replicas_of
from podsim.program.task import Barrier, Exchange, Phase, Program, Step, Work
from podsim.scenario import load_scenario
from podsim.scenario.quantity import Provenance, Real
from tests.examples import plan_of, small_bert, small_pod

CHUNK_PS = 918_824
"""A fourth of a layer's half-precision gradients over both links of a rail. [ps]"""


def program_of(scenario: dict[str, object], *, explicit: bool = False) -> Program:
    return compile_program(plan_of(scenario), explicit=explicit)


def phases_of(program: Program, pattern: str) -> list[Phase]:
    """Phases of the first replica whose name matches."""
    return [phase for phase in program.groups[0].phases if re.search(pattern, phase.name)]


def names(steps: tuple[Step, ...]) -> list[str]:
    """Work and transfers of a lane."""
    found: list[str] = []
    for step in steps:
        if isinstance(step, Work):
            found.append(step.name)
        elif isinstance(step, Exchange):
            found += [transfer.name for transfer in step.transfers]
    return found


def active(phase: Phase) -> set[str]:
    """`f0`, `b2` ...: the stages whose forward or backward pass runs."""
    passes = [name for steps in phase.steps.values() for name in names(steps)]
    return {f"{name[0]}{name[-1]}" for name in passes if name.startswith(("forward", "backward"))}


def byte_time(program: Program, pattern: str) -> list[list[int]]:
    """Time that each transfer of matching phases needs on its slowest channel."""
    return [
        [max(time for _, time in transfer.channels) for transfer in step.transfers]
        for phase in phases_of(program, pattern)
        for steps in phase.steps.values()
        for step in steps
        if isinstance(step, Exchange)
    ]


def test_three_stages_and_five_micro_batches_cycle_by_cycle() -> None:
    """Stage s: forward of micro-batch j in cycle j + s, backward in cycle j + 4 - s, for j of 0-4.

    Forward of stage 0 in cycles 0-4, 1 in 1-5, 2 in 2-6; backward of stage 2 in 2-6, 1 in 3-7, 0 in 4-8.
    """
    program = program_of(small_bert(small_pod(), [1, 1], accumulation=5))
    cycles = phases_of(program, "fill|main|flush")
    assert [(phase.name, phase.count) for phase in cycles] == [
        *((f"fill {number}", 1) for number in range(4)),
        ("main", 1),
        *((f"flush {number}", 1) for number in range(4)),
    ]
    assert [active(phase) for phase in cycles] == [
        {"f0"},
        {"f0", "f1"},
        {"f0", "f1", "f2", "b2"},
        {"f0", "f1", "f2", "b2", "b1"},
        {"f0", "f1", "f2", "b2", "b1", "b0"},
        {"f1", "f2", "b2", "b1", "b0"},
        {"f2", "b2", "b1", "b0"},
        {"b1", "b0"},
        {"b0"},
    ]


def test_an_evaluation_has_forward_passes_alone() -> None:
    """Forward of stage 0 in cycles 0-4, 1 in 1-5, 2 in 2-6: two cycles to fill and two to flush; then the call.

    Before it, 5 x 4 sequences of 32 tokens, of 16 B each, are stacked at 1.28 GB/s: 8 us.
    """
    plan = plan_of(small_bert(small_pod(), [1, 1], accumulation=5))
    call_s = Real(0.053, Provenance(text="53 ms", source="given", basis="assumed"))
    program = compile_evaluation(replace(plan, software=plan.software.model_copy(update={"evaluation_call_s": call_s})))
    group, process = program.groups
    assert [(phase.name, phase.count) for phase in group.phases] == [
        *((f"fill {number}", 1) for number in range(2)),
        ("main", 3),
        *((f"flush {number}", 1) for number in range(2)),
        ("host call", 1),
    ]
    assert [active(phase) for phase in group.phases] == [
        {"f0"},
        {"f0", "f1"},
        {"f0", "f1", "f2"},
        {"f1", "f2"},
        {"f2"},
        set(),
    ]
    calls = [step for steps in process.phases[-1].steps.values() for step in steps if isinstance(step, Work)]
    assert [call.parts for call in calls] == [(("host", 8_000_000),), (("host", 53_000_000_000),)]


def test_an_evaluation_needs_to_know_what_its_call_costs() -> None:
    changes = ["software.evaluation=forward_passes"]
    with pytest.raises(MissingDataError) as caught:
        simulate("bert_v1.1_pod64_open", overrides=changes)
    assert str(caught.value) == (
        "scenarios/mlperf/bert_v1.1_pod64_open.yaml:41:3 [run.evaluation]: PopART, SDK 2.3 does not say what a "
        "session call for an evaluation costs\n  do: set `software.evaluation_call`, for example to `50 ms`"
    )
    quick = simulate("bert_v1.1_pod64_open", overrides=[*changes, "software.evaluation_call=50 ms"])
    assert quick.run_breakdown["evaluation"] < simulate("bert_v1.1_pod64_open").run_breakdown["evaluation"] / 2


@pytest.mark.parametrize(("layers", "stages"), [([2], 1), ([1, 1], 3), ([1, 1, 1, 1], 5)])
@pytest.mark.parametrize("micro_batches", [9, 20])
def test_number_of_cycles(layers: list[int], stages: int, micro_batches: int) -> None:
    """G micro-batches through S stages and back: G + 2(S - 1) cycles, all but the ramps in one phase."""
    program = program_of(small_bert(small_pod(), layers, accumulation=micro_batches))
    cycles = phases_of(program, "fill|main|flush")
    assert sum(phase.count for phase in cycles) == micro_batches + 2 * (stages - 1)
    assert [phase.count for phase in cycles if phase.name == "main"] == [micro_batches - 2 * (stages - 1)]


def test_one_cycle_of_one_ipu() -> None:
    """IPU 0 holds embedding and head: input, forward passes, backward passes from the last stage on, sync, send."""
    program = program_of(small_bert(small_pod(), [1, 1]))
    (main,) = phases_of(program, "main")
    assert names(main.steps["ipu0"]) == [
        *("input", "forward 0", "forward 2", "recompute 2", "backward 2", "recompute 0", "backward 0"),
        *("sync", "activations 0→1", "gradients 2→1"),
    ]
    assert names(main.steps["ipu1"]) == [
        *("forward 1", "recompute 1", "backward 1"),
        *("sync", "activations 1→2", "gradients 1→0"),
    ]


def test_hidden_states_are_what_is_handed_on() -> None:
    """4·32·64 elements of 2 B over a rung of 6 links of 16 GB/s at 0.85."""
    program = program_of(small_bert(small_pod(), [1, 1]))
    transfer_ps = round(4 * 32 * 64 * 2 / (6 * 16e9 * 0.85) * 1e12)
    sent = byte_time(program, "main")
    assert sent[1:] == [[transfer_ps] * 2] * 2


def test_without_recomputation_the_forward_pass_runs_once() -> None:
    program = program_of(small_bert(small_pod(), [1, 1], recomputation="none"))
    (main,) = phases_of(program, "main")
    assert not [name for steps in main.steps.values() for name in names(steps) if name.startswith("recompute")]


def test_one_ipu_neither_syncs_nor_sends() -> None:
    (main,) = phases_of(program_of(small_bert(small_pod(), [2])), "main")
    assert names(main.steps["ipu0"]) == ["input", "forward 0", "recompute 0", "backward 0"]


@pytest.mark.parametrize("replicas", [2, 3, 4])
def test_a_ring_of_n_takes_n_minus_1_steps(replicas: int) -> None:
    program = program_of(small_bert(small_pod(2), [1, 1], replicas=replicas))
    steps = Counter[str]()
    for phase in phases_of(program, "reduce-scatter|all-gather"):
        steps[phase.name] += phase.count
    assert sum(steps.values()) == 4 * (replicas - 1)
    assert all(count % (replicas - 1) == 0 for count in steps.values())


def test_one_replica_reduces_nothing() -> None:
    program = program_of(small_bert(small_pod(), [1, 1]))
    assert not phases_of(program, "reduce|all-gather")


def test_ipu_0_updates_apart_and_last() -> None:
    program = program_of(small_bert(small_pod(2), [1, 1, 1, 1], replicas=2))
    updates = phases_of(program, "^update")
    titles = [phase.name.split(":")[0] for phase in updates]
    assert titles == ["update IPUs 1-3"] * 6 + ["update IPU 0"] * 6
    assert set(updates[0].steps) == {"ipu1", "ipu2", "ipu3"}
    assert set(updates[6].steps) == {"ipu0"}


def test_a_single_ipu_updates_at_once() -> None:
    updates = phases_of(program_of(small_bert(small_pod(), [2], replicas=2)), "^update")
    assert [phase.name.split(": ")[1] for phase in updates] == [
        "gather gradients",
        "reduce-scatter gradients",
        "small tensors and norms",
        "optimizer",
        "all-gather weights",
        "scatter weights",
    ]


def test_without_sharding_gradients_are_gathered_and_weights_are_not() -> None:
    updates = phases_of(program_of(small_bert(small_pod(), [2], replicas=2, sharding=False)), "^update")
    assert [phase.name.split(": ")[1] for phase in updates] == [
        "gather gradients",
        "reduce-scatter gradients",
        "all-gather gradients",
        "small tensors and norms",
        "optimizer",
        "scatter weights",
    ]


def test_the_chunk_of_a_ring_step_is_one_of_n() -> None:
    """Half weights of IPU 1 over 4 replicas, up one rail of 2 links of 16 GB/s at 0.85.

    A layer: 4 projections 64·64 and 64, two norms of 2·64, feed-forward 2·64·256 + 256 + 64.
    """
    layer = 4 * (64 * 64 + 64) + 2 * 2 * 64 + 2 * 64 * 256 + 256 + 64
    program = program_of(small_bert(small_pod(2), [1, 1], replicas=4))
    assert round(layer * 2 / 4 / (2 * 16e9 * 0.85) * 1e12) == CHUNK_PS
    assert byte_time(program, "IPU 1: reduce-scatter") == [[CHUNK_PS] * 2]


@pytest.mark.parametrize("topology", ["ladder", "torus"])
@pytest.mark.parametrize(
    ("rings", "links", "sent"),
    [
        (1, 2, (2,)),
        (2, 2, (1, 1)),
        (3, 2, (2 / 3, 1 / 3)),
        (4, 2, (0.5, 0.5)),
        (2, 4, (1, 1)),
        (3, 4, (2 / 3, 2 / 3)),
        (4, 4, (0.5, 0.5)),
    ],
)
def test_rings_along_a_topology(topology: str, rings: int, links: int, sent: tuple[float, ...]) -> None:
    """Parts of a chunk that go each way, each as long as it takes over the two links of a rail.

    One ring has a link. Of three, two go on and one goes back; they share two links, or have three of four. Of four
    links the rings of each direction have two. On a line one ring goes up and back over the same rails in three steps;
    around a torus two chunks in a step meet in the middle after two.
    """
    scenario = small_bert(small_pod(2, topology=topology, rail_link_count=links), [1, 1], replicas=4)
    scenario |= {"software": {"base": "popart_sdk_2.3", "collective_rings": rings}}
    program = program_of(scenario)
    (each,) = byte_time(program, "IPU 1: reduce-scatter")
    chunks, steps = (2, 2) if topology == "torus" else (1, 3)
    assert each == pytest.approx([chunks * share * CHUNK_PS for share in sent], abs=2)
    assert phases_of(program, "IPU 1: reduce-scatter")[0].count == steps


def test_rings_of_a_line_share_no_link() -> None:
    """Four replicas of two IPUs on a ladder, two rings: what goes on and what goes back has a link of each rail."""
    program = program_of(small_bert(small_pod(2), [1, 1], replicas=4), explicit=True)
    phases = [phase for group in program.groups for phase in group.phases if "IPU 1: reduce-scatter" in phase.name]
    steps = [step for phase in phases for lane in phase.steps.values() for step in lane if isinstance(step, Exchange)]
    loads = Counter(name for step in steps for transfer in step.transfers for name, _ in transfer.channels)
    assert set(loads.values()) == {1}
    assert {name.rpartition("/ring")[2] for name in loads} == {"+1", "-1"}


@pytest.mark.parametrize("domains", [2, 3, 4])
def test_between_domains_an_all_reduce_takes_twice_d_minus_1_steps(domains: int) -> None:
    """One machine per domain, two replicas each."""
    scenario = small_bert(small_pod(domains, domain_machines=1), [1, 1], replicas=2 * domains)
    program = program_of(scenario)
    assert [phase.count for phase in phases_of(program, "GW-Links")] == [2 * (domains - 1)] * 2
    (step,) = {tuple(names(phase.steps["ipu1"])) for phase in phases_of(program, "IPU 1: all-reduce over GW-Links")}
    assert step == ("to gateway", "gateway to gateway", "from gateway")
    assert {phase.count for phase in phases_of(program, "reduce-scatter")} == {1}


def test_optimizer_state_off_chip_is_loaded_and_stored() -> None:
    program = program_of(small_bert(small_pod(), [2], replicas=2, storage="streaming_memory"))
    (optimizer,) = phases_of(program, ": optimizer")
    assert names(optimizer.steps["ipu0"]) == ["optimizer state read", "optimizer", "optimizer state write"]


def test_optimizer_state_on_chip_stays() -> None:
    (optimizer,) = phases_of(program_of(small_bert(small_pod(), [2], replicas=2)), ": optimizer")
    assert names(optimizer.steps["ipu0"]) == ["optimizer"]


def test_the_host_is_called_once_all_replicas_are_there() -> None:
    last = program_of(small_bert(small_pod(), [1, 1], replicas=2)).groups[1].phases[-1]
    assert last.name == "host call"
    assert last.steps["ipu3"][0] == Barrier("host", "host")


def test_the_folded_program_keeps_one_machine() -> None:
    scenario = small_bert(small_pod(4), [1, 1], replicas=8)
    assert [group.name for group in program_of(scenario).groups] == ["replica0", "replica1", "process0"]
    written_out = [group.name for group in program_of(scenario, explicit=True).groups]
    assert written_out == [*(f"replica{number}" for number in range(8)), "process0"]


def test_passes_are_shared_by_all_replicas() -> None:
    """One object per pass: a large explicit program stays small."""
    first, second, _ = program_of(small_bert(small_pod(), [1, 1], replicas=2)).groups
    works = [
        [step for phase in group.phases[:3] for steps in phase.steps.values() for step in steps if type(step) is Work]
        for group in (first, second)
    ]
    pairs = [(a, b) for a, b in zip(*works, strict=True) if a.name.startswith("forward")]
    assert pairs
    assert all(a is b for a, b in pairs)


def test_a_stage_on_two_ipus_runs_on_both_and_each_hands_on_its_copy() -> None:
    """Stages 0 and 2 on IPUs 0 and 1, stage 1 on IPUs 2 and 3: twice the lanes, transfers to the same place."""
    job = training_job(load_scenario(small_bert(small_pod(), [1, 1])).spec)
    cuts = job.layout.cuts
    assert cuts is not None
    pairs = replace(cuts, ipus=(range(2), range(2, 4), range(2)))
    plan = make_plan(
        job.laid_out(cuts=pairs, ipus_per_replica=4, replicas_per_domain=1, available_memory_proportion=(0.6,) * 4)
    )
    first, second, third, fourth = (ipu.tenants for ipu in plan.memory)
    assert (first, third) == (second, fourth)
    (main,) = phases_of(compile_program(plan), "main")
    # All of the hidden states, 4 sequences of 32 tokens with 64 halves, along a rail of two links.
    copy_ps = round(4 * 32 * 64 * 2 / (2 * 16e9 * 0.85) * 1e12)
    sent = {
        lane: sorted(
            (transfer.name, max(time for _, time in transfer.channels))
            for step in steps
            if isinstance(step, Exchange)
            for transfer in step.transfers
            if transfer.name != "input"
        )
        for lane, steps in main.steps.items()
    }
    outer = [("activations 0→1", copy_ps), ("gradients 2→1", copy_ps)]
    inner = [("activations 1→2", copy_ps), ("gradients 1→0", copy_ps)]
    assert sent == {"ipu0": outer, "ipu1": outer, "ipu2": inner, "ipu3": inner}
    updates = phases_of(compile_program(plan), "optimizer")
    assert {lane for phase in updates for lane in phase.steps} == set(sent)


@pytest.mark.parametrize("replicas", [3, 5, 6, 7])
def test_machines_that_are_filled_unevenly_are_not_folded(replicas: int) -> None:
    """Two machines of four IPUs: beyond four replicas of one IPU the second machine holds fewer than the first."""
    scenario = small_bert(small_pod(2), [1]) | {"software": {"base": "popart_sdk_2.3", "collective_rings": 4}}
    plan = plan_of(scenario, f"parallelism.replication_factor={replicas}")
    assert len(replicas_of(plan).simulated) == replicas
    folded, explicit = execute(compile_program(plan)), execute(compile_program(plan, explicit=True), explicit=True)
    assert folded.makespan_ps == explicit.makespan_ps
    assert folded.lanes == explicit.lanes
