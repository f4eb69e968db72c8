"""What must be computed, on any machine: operations, blocks and the builders that make them."""

from podsim.workload.block import Block, Parameter, Workload
from podsim.workload.op import Elementwise, Gather, MatMul, Op, Rearrange, Reduce, ScatterAdd
from podsim.workload.transformer import BertShape, bert

__all__ = [
    "BertShape",
    "Block",
    "Elementwise",
    "Gather",
    "MatMul",
    "Op",
    "Parameter",
    "Rearrange",
    "Reduce",
    "ScatterAdd",
    "Workload",
    "bert",
]
