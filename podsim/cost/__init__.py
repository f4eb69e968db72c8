"""How long one thing takes: pure formulas, each with its source."""

from podsim.cost.account import Account, total
from podsim.cost.matmul import MatMulPlan, MatMulShape, plan_matmul
from podsim.cost.model import CostModel, OpCost

__all__ = ["Account", "CostModel", "MatMulPlan", "MatMulShape", "OpCost", "plan_matmul", "total"]
