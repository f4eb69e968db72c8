"""How a workload is divided over IPUs, and whether it fits."""

from podsim.placement.cuts import Stage, stash_depth
from podsim.placement.layout import Job, Layout
from podsim.placement.plan import Plan, make_plan

__all__ = ["Job", "Layout", "Plan", "Stage", "make_plan", "stash_depth"]
