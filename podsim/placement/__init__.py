"""Division of a workload over IPUs, and its memory."""

from podsim.placement.cuts import Stage
from podsim.placement.layout import Layout, PlanInput
from podsim.placement.plan import Plan, make_plan
from podsim.placement.schedule import PipelineSchedule

__all__ = ["Layout", "PipelineSchedule", "Plan", "PlanInput", "Stage", "make_plan"]
