"""What must be computed, on any machine: operations, blocks and the builders that make them."""

from podsim.workload.block import Block, Parameter, Workload
from podsim.workload.op import Elementwise, Gather, MatMul, Op, Rearrange, Reduce, ScatterAdd
from podsim.workload.transformer import (
    Batch,
    BertShape,
    DecoderShape,
    Experts,
    PatchEmbedding,
    Seq2SeqShape,
    VisionShape,
    bert,
    causal_decoder,
    encoder_decoder,
    vision_transformer,
)

__all__ = [
    "Batch",
    "BertShape",
    "Block",
    "DecoderShape",
    "Elementwise",
    "Experts",
    "Gather",
    "MatMul",
    "Op",
    "Parameter",
    "PatchEmbedding",
    "Rearrange",
    "Reduce",
    "ScatterAdd",
    "Seq2SeqShape",
    "VisionShape",
    "Workload",
    "bert",
    "causal_decoder",
    "encoder_decoder",
    "vision_transformer",
]
