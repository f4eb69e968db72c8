"""What `podsim cost` says of a collective over chips is what a run takes for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.engine import execute
from podsim.placement.plan import Plan
from podsim.program.compile import compile_program
from podsim.program.task import Program
from podsim.result.cost_movement import cost_collective
from podsim.units import ps_to_seconds
from tests.examples import plan_of as shipped

REDUCED = ("reduce-scatter gradients", "all-reduce over GW-Links", "all-gather gradients")
"""Phases of a weight update."""


def plan_of(name: str, replicas: int, *overrides: str) -> Plan:
    return shipped(name, f"parallelism.replication_factor={replicas}", *overrides)


def simulated_s(program: Program) -> float:
    """Sums of gradients, and nothing else of a weight update."""
    groups = tuple(
        replace(group, phases=kept, warm_up=0)
        for group in program.groups
        if (kept := tuple(phase for phase in group.phases if phase.name.partition(": ")[2] in REDUCED))
    )
    return ps_to_seconds(execute(replace(program, groups=groups)).makespan_ps)


@pytest.mark.parametrize(
    ("name", "replicas", "overrides"),
    [
        ("resnet50_v2.0_pod16", 2, ()),
        (
            "resnet50_v2.0_pod16",
            8,
            ("model.depth=101", "parallelism.micro_batch_size=8", "software.reduction_merge_size=100 MB"),
        ),
        ("resnet50_v2.0_pod16", 16, ()),
        ("resnet50_v1.0_pod64", 64, ()),
        ("resnet50_v2.0_pod64", 64, ("software.collective_rings=4",)),
        ("resnet50_v2.0_pod256", 256, ()),
        ("resnet50_v2.0_pod256", 128, ("system=bow_pod128",)),
    ],
)
def test_a_run_and_the_command_agree(name: str, replicas: int, overrides: tuple[str, ...]) -> None:
    """Gradients are summed in one collective, over GW-Links as well where there are several link domains."""
    plan = plan_of(name, replicas, *overrides)
    (update,) = plan.updates
    assert update.collective_count == 1
    gradients = update.parameter_count * plan.precision.accumulator_bytes
    # The most tiles that have as much of it each.
    tiles = max(each for each in range(1, plan.system.machine.ipu.tile.count + 1) if gradients % each == 0)
    summed = cost_collective(
        "all-reduce", gradients // tiles, ipus=replicas, tiles=tiles, system=plan.system, software=plan.software
    )
    assert summed.time_s == pytest.approx(simulated_s(compile_program(plan)), rel=1e-6)


def test_small_messages_go_by_halves() -> None:
    """Of 8 IPUs on a ladder partners are a rung, a rail and two rails apart; each then sends a half of the last half.

    Step k takes a sync of 600 cycles, its route, and V / 2^k: over six links of a rung, two of a rail, and in the third
    step the rails in the middle carry what two IPUs send.
    """
    size, count, link = 4, 1472, 13.6e9
    whole, sync_s, hop_s, next_s = size * count, 600 / 1.33e9, 0.57e-6, 0.16e-6
    steps = (
        sync_s + hop_s + whole / 2 / (6 * link),
        sync_s + hop_s + whole / 4 / (2 * link),
        sync_s + hop_s + next_s + 2 * whole / 8 / (2 * link),
    )
    cost = cost_collective("reduce-scatter", size, ipus=8, system="ipu_pod16")
    assert cost.time_s == pytest.approx(sum(steps))
    ring = cost_collective("reduce-scatter", 6 * size, ipus=8, system="ipu_pod16")  # more than 32 KiB
    assert ring.time_s == pytest.approx(7 * (sync_s + hop_s + 6 * whole / 8 / 2 / link))
