"""Capacity planning: which system and division reach a goal best, and what rules the others out."""

from podsim.capacity.answer import Answer, Option, find_systems
from podsim.capacity.goal import Goal, read_goal

__all__ = ["Answer", "Goal", "Option", "find_systems", "read_goal"]
