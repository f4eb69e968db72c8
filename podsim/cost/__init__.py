"""How long one thing takes: pure formulas, each with its source."""

from podsim.cost.account import Account, total
from podsim.cost.conv import ConvPlan, plan_conv
from podsim.cost.conv_shape import ConvShape, conv_shape
from podsim.cost.matmul import MatMulPlan, MatMulShape, plan_matmul
from podsim.cost.model import CostModel, OpCost

__all__ = [
    "Account",
    "ConvPlan",
    "ConvShape",
    "CostModel",
    "MatMulPlan",
    "MatMulShape",
    "OpCost",
    "conv_shape",
    "plan_conv",
    "plan_matmul",
    "total",
]
