"""All-to-all exchanges of tokens: what passes each link, and how long it takes, against closed forms.

On a ladder of n IPUs a route crosses the rung first and then follows the rail of its target's side. If each IPU sends b
bytes to each other, n/2 IPUs below the middle send to n/4 above it on each side: n²/8·b pass each middle rail, one way.
Over each rung an IPU sends to all n/2 of the other side: n/2·b. On a torus of r = n/2 rungs routes of up to r/2 rungs
go up: 2·(1 + 2 + … + r/2)·b = (r/2)·(r/2 + 1)·b pass each rail.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.chakra.read import read_chakra
from podsim.chakra.write import write_chakra
from podsim.engine import execute
from podsim.program.compile import compile_program
from podsim.program.movement import Participants
from podsim.program.recorded import replay_program
from podsim.program.rings import ALL_TO_ALL, TENSOR_PARALLEL
from podsim.program.routed_tokens import ExpertGroups, Routed
from podsim.program.task import Exchange
from podsim.scenario import load_scenario
from podsim.scenario.hardware import System
from tests.collectives import collective_s
from tests.examples import plan_of, small_pod

LINK = 16e9 * 0.85
RUNG, RAIL = 6 * LINK, 2 * LINK
"""Of an IPU-M2000, in each direction. [B/s]"""
EXPERTS, TOKENS, HIDDEN, LAYERS, MICRO_BATCHES = 16, 128, 128, 4, 2
ROWS = TOKENS * 2 // EXPERTS
"""Of each expert, of which a token chooses two."""


def pod(topology: str) -> dict[str, Any]:
    return small_pod(4, topology=topology, domain_machines=4)


def scenario(shards: int, groups: int, topology: str = "ladder", **more: Any) -> dict[str, Any]:
    return {
        "system": pod(topology),
        "software": "popxl_sdk_3.3",
        "model": {
            "kind": "decoder",
            "layer_count": LAYERS,
            "hidden_size": HIDDEN,
            "feed_forward_size": 512,
            "head_count": 16,
            "kv_head_count": 16,
            "vocabulary_size": 1600,
            "experts": {"count": EXPERTS, "per_token": 2},
        },
        "data": {"sequence_length": TOKENS // 2, "dropout": 0.0, "attention_dropout": 0.0},
        "optimizer": {"kind": "adamw"},
        "parallelism": {
            "tensor_parallel": shards,
            "expert_parallel": groups,
            "pipeline_stages": 1,
            "micro_batch_size": 2,
            "accumulation_factor": MICRO_BATCHES,
            "replication_factor": 1,
            "recomputation": "none",
        }
        | more,
    }


def system_of(topology: str) -> System:
    return load_scenario(scenario(1, 1, topology)).spec.system


def fullest_link_s(count: int, topology: str, byte_count: float) -> float:
    """Of so many neighbours; a torus of 16 is walked the shorter way by all 16 alone."""
    if count == 2:
        return byte_count / RUNG
    half = count // 4
    on_rail = half * (half + 1) if (topology, count) == ("torus", 16) else count**2 / 8
    return max(on_rail * byte_count / RAIL, count / 2 * byte_count / RUNG)


def start_s(system: System, count: int, topology: str) -> float:
    """A sync, and the longest route: a rung, and rails to the other end, or half way round."""
    link, rungs = system.machine.ipu_link, count // 2
    assert link is not None
    rails = rungs // 2 if (topology, count) == ("torus", 16) else rungs - 1
    longest_s = link.first_hop_latency_s + rails * link.hop_latency_s + (link.rung_latency_s or 0.0)
    return system.machine.ipu.multi_ipu_sync_s + longest_s


@pytest.mark.parametrize("topology", ["ladder", "torus"])
@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_bytes_on_each_link_by_hand(count: int, topology: str) -> None:
    groups = ExpertGroups(system_of(topology), 4, tuple(range(count)))
    carried: Counter[str] = Counter()
    for ipu in range(count):
        for step in groups.steps(ipu, {Routed(count, 1 << 20, 0): 3}):
            for transfer in step.transfers if isinstance(step, Exchange) else ():
                for channel, time_ps in transfer.channels:
                    carried[channel] += time_ps
    fullest_ps = max(carried.values())
    assert fullest_ps / 1e12 == pytest.approx(3 * fullest_link_s(count, topology, 1 << 20), rel=1e-6)
    middle = f"/rung{count // 4 - 1}-{count // 4}/up"
    across = sum(time_ps for name, time_ps in carried.items() if name.endswith(middle)) / 1e12 * RAIL
    if topology == "ladder" and count > 2:
        assert across == pytest.approx(3 * (1 << 20) * count**2 / 4, rel=1e-6)


@pytest.mark.parametrize("recomputation", ["none", "layer"])
@pytest.mark.parametrize("topology", ["ladder", "torus"])
@pytest.mark.parametrize("shards", [2, 4, 8, 16])
def test_time_of_experts_on_ipus_of_their_own(shards: int, topology: str, recomputation: str) -> None:
    """Two exchanges forward, two backward and two again where layers are redone; each of 2·128/n rows of 256 B.

    An IPU has 16/n experts, and of 16 rows of each a fellow has 16/n.
    """
    plan = plan_of(scenario(shards, shards, topology, recomputation=recomputation))
    lanes = execute(compile_program(plan)).lanes
    passes = 3 if recomputation == "layer" else 2
    sent = EXPERTS // shards * (ROWS // shards) * HIDDEN * 2
    once_s = start_s(plan.system, shards, topology) + fullest_link_s(shards, topology, sent)
    for lane in range(shards):
        expected_s = MICRO_BATCHES * LAYERS * passes * 2 * once_s
        assert lanes[f"ipu{lane}"][ALL_TO_ALL] / 1e12 == pytest.approx(expected_s, rel=1e-6)


def test_experts_that_several_ipus_share() -> None:
    """Four groups of four: fellows are rungs apart, and each group gathers and adds up in its own ring.

    From each of four places three fellows are sent 4 experts' 16/16 rows. Rails in the middle carry the routes of 2
    places on their side from 2 groups to 2. Four meet in the middle for the 4·16 rows of a group. Two rings have an
    IPU-Link each, one a way: together a rail.
    """
    lanes = {groups: execute(compile_program(plan_of(scenario(16, groups)))).lanes["ipu0"] for groups in (1, 4)}
    system = system_of("ladder")
    link = system.machine.ipu_link
    assert link is not None
    sent = EXPERTS // 4 * HIDDEN * 2
    longest_s = link.first_hop_latency_s + 5 * link.hop_latency_s
    once_s = system.machine.ipu.multi_ipu_sync_s + longest_s + 2 * 2 * 2 * sent / RAIL
    exchanges = MICRO_BATCHES * LAYERS * 2 * 2
    assert lanes[4][ALL_TO_ALL] / 1e12 == pytest.approx(exchanges * once_s, rel=1e-6)
    # A sum of hidden states in each direction goes, of which half stays: all 16 meet in the middle.
    step_s, hidden = system.machine.ipu.multi_ipu_sync_s + link.first_hop_latency_s, TOKENS * HIDDEN * 2
    gathers_s = collective_s(hidden, 16, step_s, RAIL) / 2
    rings_s = collective_s(EXPERTS // 4 * ROWS * HIDDEN * 2, 4, step_s, RAIL)
    moved_s = (lanes[1][TENSOR_PARALLEL] - lanes[4][TENSOR_PARALLEL]) / 1e12
    assert moved_s == pytest.approx(MICRO_BATCHES * LAYERS * 2 * (gathers_s - rings_s), rel=1e-5)


@pytest.mark.parametrize("topology", ["ladder", "torus"])
def test_the_collective_alone_has_the_same_fullest_link(topology: str) -> None:
    """`podsim cost all-to-all` of 16 chips, each tile of which sends 100 B to each other: 64² of them to a chip."""
    system = system_of(topology)
    movement = Participants(system.machine.ipu, 64, range(16), system).collective("all-to-all", 100)
    assert dict(movement.parts)["IPU-Link"] == pytest.approx(fullest_link_s(16, topology, 64**2 * 100), rel=1e-9)


@pytest.mark.parametrize("execution", ["pipelined", "phased"])
def test_folded_and_written_out_and_both_engines_agree(execution: str) -> None:
    more: dict[str, Any] = {"replication_factor": 2, "execution": execution}
    made = scenario(8, 4, **more)
    if execution == "phased":
        del made["parallelism"]["pipeline_stages"]
    plan = plan_of(made)
    folded, explicit = (execute(compile_program(plan, explicit=each)) for each in (False, True))
    assert folded.makespan_ps == explicit.makespan_ps
    assert folded.lanes["ipu0"][ALL_TO_ALL] == explicit.lanes["ipu8"][ALL_TO_ALL] > 0
    one, other = (execute(compile_program(plan), engine=engine) for engine in ("simpy", "compiled"))
    assert (one.makespan_ps, one.lanes) == (other.makespan_ps, other.lanes)


def test_faster_links_never_slow_it_down() -> None:
    slow, fast = (
        execute(compile_program(plan_of(scenario(16, 8) | {"system": small_pod(4, ipu_link=link)}))).makespan_ps
        for link in ({"bandwidth_per_direction": "8 GB/s"}, {"bandwidth_per_direction": "16 GB/s"})
    )
    assert fast < slow


@pytest.mark.parametrize("groups", [4, 16])
def test_exchanges_are_collectives_of_a_trace_that_is_replayed(groups: int, tmp_path: Path) -> None:
    """Four groups of four: each IPU is in one all-to-all with the three of its place in other groups.

    Two exchanges forward and two backward of a layer; two more where layers are redone.
    """
    made = scenario(16, groups, recomputation="layer")
    plan = plan_of(made)
    result = podsim.run(made, record=True)
    assert result.trace is not None
    write_chakra(result, tmp_path / "out")
    graph = read_chakra(tmp_path / "out")
    sent = EXPERTS // groups * (ROWS // 16) * HIDDEN * 2
    for rank, nodes in enumerate(graph.ranks):
        exchanges = [node for node in nodes if node.collective == ALL_TO_ALL]
        assert sum(node.tensor_count for node in exchanges) == MICRO_BATCHES * LAYERS * 3 * 2
        for node in exchanges:
            assert graph.members(node) == tuple(range(rank % (16 // groups), 16, 16 // groups))
            assert node.size_bytes == node.tensor_count * groups * sent
    again = execute(replay_program(graph, plan.system, plan.software.rings_of_shards))
    assert again.makespan_ps == pytest.approx(result.trace.makespan_ps, rel=1e-7)
    assert again.lanes["ipu0"][ALL_TO_ALL] == pytest.approx(result.trace.lanes["ipu0"][ALL_TO_ALL], rel=1e-7)
