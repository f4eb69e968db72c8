"""How far an option is from what is wanted."""

from __future__ import annotations

from podsim.many.capacity.goal import Goal
from podsim.many.capacity.limits import excess
from podsim.many.capacity.option import Option


def shortfall(goal: Goal, option: Option) -> float:
    """By how much an option misses all limits together, as shares of their bounds; those of jobs included.

    Args:
        goal: What is wanted.
        option: What came of a candidate.
    """
    if option.figures is None:
        return float("inf")
    of_jobs = (excess(job.limits, part.figures) for job, part in zip(goal.work, option.parts, strict=False))
    return excess(goal.limits, option.figures) + sum(of_jobs)
