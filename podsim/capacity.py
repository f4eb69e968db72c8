"""The public home of capacity planning: which system and division reach a goal best."""

from podsim.study.plan import Answer, Goal, Job, Option, Part, PlanResult, find_systems, read_goal

__all__ = ["Answer", "Goal", "Job", "Option", "Part", "PlanResult", "find_systems", "read_goal"]
