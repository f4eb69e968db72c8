"""Capacity planning: which system and division reach a goal best, and what rules the others out."""

from podsim.study.plan.answer import find_systems
from podsim.study.plan.goal import Goal, Job, read_goal
from podsim.study.plan.option import Option, Part
from podsim.study.plan.report import PlanResult

Answer = PlanResult
"""The name of a `PlanResult` until 0.12."""

__all__ = ["Answer", "Goal", "Job", "Option", "Part", "PlanResult", "find_systems", "read_goal"]
