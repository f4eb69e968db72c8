"""From a plan to a program: lanes, pipeline cycles and the weight update."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.plan.plan import Plan
from podsim.program.passes import Pipeline, StageWork, stage_work
from podsim.program.replicas import Replicas
from podsim.program.task import Group, Program
from podsim.program.update import update_phases


def compile_program(plan: Plan, *, explicit: bool = False) -> Program:
    """One weight update as tasks.

    Args:
        plan: Stages, update and layout.
        explicit: Keep every replica; otherwise one stands for all that nothing distinguishes.
    """
    replicas = Replicas(plan.system, plan.options, explicit)
    stages = stage_work(plan)
    return Program(tuple(_group(plan, replicas, replica, stages) for replica in replicas.kept))


def _group(plan: Plan, replicas: Replicas, replica: int, stages: Sequence[StageWork]) -> Group:
    phases = (*Pipeline(plan, replicas, replica, stages).phases(), *update_phases(plan, replicas, replica))
    lanes = tuple(replicas.lane(replica, local) for local in range(plan.options.ipus_per_replica))
    return Group(f"replica{replica}", lanes, phases)
