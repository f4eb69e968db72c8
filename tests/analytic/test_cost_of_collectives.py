"""What `podsim cost` says of a collective over chips is what a run takes for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.engine import execute
from podsim.placement.plan import Plan
from podsim.program.compile import compile_program
from podsim.program.movement import Collective
from podsim.program.task import Program
from podsim.result.cost_movement import cost_collective
from podsim.units import ps_to_seconds
from tests.collectives import GATHER, REDUCE, collective_s
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
    # In a run all tiles copy and add.
    copied_s = dict(summed.movement.parts)["tiles"] * (1 - tiles / plan.system.machine.ipu.tile.count)
    assert summed.time_s - copied_s == pytest.approx(simulated_s(compile_program(plan)), rel=1e-6)


@pytest.mark.parametrize(("size", "method"), [(4, "meet"), (3_380, "meet"), (3_384, "pair")])
@pytest.mark.parametrize("what", ["reduce-scatter", "all-reduce"])
def test_steps_by_hand(what: Collective, size: int, method: str) -> None:
    """8 IPUs of a ladder, a sync of 600 cycles and a hop away from the next, with a link for each of two directions.

    From 4,980,736 B on, a pair of rings reduces in seven steps of a sixteenth each way; else four of an eighth do. The
    shards of it are smaller than the 2,490,368 B from which a pair gathers them.
    """
    whole, exchange_s, link = size * 1472, 600 / 1.33e9 + 0.57e-6, 13.6e9
    expected_s = collective_s(whole, 8, exchange_s, 2 * link, method, [REDUCE])
    if what == "all-reduce":
        expected_s += collective_s(whole, 8, exchange_s, 2 * link, "meet", [GATHER])
    assert cost_collective(what, size, ipus=8, system="ipu_pod16").time_s == pytest.approx(expected_s, rel=1e-6)
