"""How long one thing takes: pure formulas, each with its source."""

from podsim.tiles.account import Account, total
from podsim.tiles.conv_shape import ConvShape, conv_shape
from podsim.tiles.model import CostModel, OpCost
from podsim.tiles.planned import Chip, planned_conv, planned_matmul
from podsim.tiles.plans import ConvPlan, MatMulPlan, MatMulShape

__all__ = [
    "Account",
    "Chip",
    "ConvPlan",
    "ConvShape",
    "CostModel",
    "MatMulPlan",
    "MatMulShape",
    "OpCost",
    "conv_shape",
    "planned_conv",
    "planned_matmul",
    "total",
]
