"""Transformers from one builder: encoders, decoders, both together, and vision; in training and in generation.

A model is an embedding, layers of an attention and a feed-forward block each, and a head.
"""

from podsim.workload.transformer.bert import BertShape, bert
from podsim.workload.transformer.build import EMBEDDING, HEAD
from podsim.workload.transformer.causal import DecoderShape, causal_decoder
from podsim.workload.transformer.embedding import PatchEmbedding
from podsim.workload.transformer.seq2seq import DECODER, ENCODER, Seq2SeqShape, encoder_decoder
from podsim.workload.transformer.shape import Batch, Experts
from podsim.workload.transformer.vision import VisionShape, vision_transformer

__all__ = [
    "DECODER",
    "EMBEDDING",
    "ENCODER",
    "HEAD",
    "Batch",
    "BertShape",
    "DecoderShape",
    "Experts",
    "PatchEmbedding",
    "Seq2SeqShape",
    "VisionShape",
    "bert",
    "causal_decoder",
    "encoder_decoder",
    "vision_transformer",
]
