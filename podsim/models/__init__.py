"""Models on any machine: operations, blocks, and builders of both."""

from podsim.models.block import Block, Parameter, Workload
from podsim.models.op import Elementwise, Gather, MatMul, Op, Rearrange, Reduce, ScatterAdd

__all__ = [
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
]
