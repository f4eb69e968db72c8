"""Public module of capacity planning."""

from podsim.study.plan import Goal, Job, Option, Part, PlanResult, find_systems, read_goal

__all__ = ["Goal", "Job", "Option", "Part", "PlanResult", "find_systems", "read_goal"]
