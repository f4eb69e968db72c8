"""How long one thing takes: pure formulas, each with its source."""

from podsim.cost.account import Account, total
from podsim.cost.conv_shape import ConvShape, conv_shape
from podsim.cost.model import CostModel, OpCost
from podsim.cost.planned import Chip, planned_conv, planned_matmul
from podsim.cost.plans import ConvPlan, MatMulPlan, MatMulShape

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
