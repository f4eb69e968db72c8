"""Public module of capacity planning."""

from podsim.study.plan import Answer, Goal, Job, Option, Part, PlanResult, find_systems, read_goal

__all__ = ["Answer", "Goal", "Job", "Option", "Part", "PlanResult", "find_systems", "read_goal"]
