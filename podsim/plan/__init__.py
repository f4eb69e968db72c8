"""How a workload is divided over IPUs, and whether it fits."""

from podsim.plan.options import TrainingOptions
from podsim.plan.placement import Stage, make_stage, stages_of_layers, stash_depth
from podsim.plan.plan import Plan, TrainingJob, make_plan

__all__ = [
    "Plan",
    "Stage",
    "TrainingJob",
    "TrainingOptions",
    "make_plan",
    "make_stage",
    "stages_of_layers",
    "stash_depth",
]
