"""How a workload is divided over IPUs, and whether it fits."""

from podsim.plan.options import TrainingOptions
from podsim.plan.plan import Plan, TrainingJob, make_plan
from podsim.plan.stage import Stage, stash_depth

__all__ = [
    "Plan",
    "Stage",
    "TrainingJob",
    "TrainingOptions",
    "make_plan",
    "stash_depth",
]
