"""How a workload is divided over IPUs, and whether it fits."""

from podsim.plan.layout import Job, Layout
from podsim.plan.plan import Plan, make_plan
from podsim.plan.stage import Stage, stash_depth

__all__ = ["Job", "Layout", "Plan", "Stage", "make_plan", "stash_depth"]
