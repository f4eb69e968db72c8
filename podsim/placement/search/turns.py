"""Turns of batches that go through the stages of a decoder one behind the other."""

from __future__ import annotations

from podsim.engine import Trace, execute
from podsim.placement.plan import Plan
from podsim.program.generation import compile_turn, stages_interfere
from podsim.program.passes import BUBBLE


def longest_stage_ps(plan: Plan, trace: Trace) -> int:
    """The longest that a batch takes any stage, its call to the host included. [ps]

    Args:
        plan: The step.
        trace: The step of one batch while no other is under way.
    """
    if stages_interfere(plan):
        return execute(compile_turn(plan)).makespan_ps
    return max(trace.makespan_ps - account.get(BUBBLE, 0) for account in trace.lanes.values())
