"""How a workload is divided over IPUs, and whether it fits."""

from podsim.placement.layout import Job, Layout
from podsim.placement.plan import Plan, make_plan
from podsim.placement.stage import Stage, stash_depth

__all__ = ["Job", "Layout", "Plan", "Stage", "make_plan", "stash_depth"]
