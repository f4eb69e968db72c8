"""Costs of single operations on a chip, in tile cycles: pure formulas, each with its source."""

from podsim.tiles.account import Account, total
from podsim.tiles.conv_shape import ConvShape, conv_shape
from podsim.tiles.model import CostModel, OpCost
from podsim.tiles.planned import Chip, planned_conv, planned_matmul, planned_slices
from podsim.tiles.plans import ConvPlan, MatMulPlan, MatMulShape, SlicePlan, SliceShape

__all__ = [
    "Account",
    "Chip",
    "ConvPlan",
    "ConvShape",
    "CostModel",
    "MatMulPlan",
    "MatMulShape",
    "OpCost",
    "SlicePlan",
    "SliceShape",
    "conv_shape",
    "planned_conv",
    "planned_matmul",
    "planned_slices",
    "total",
]
