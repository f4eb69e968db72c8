"""Convolutional networks as chains of blocks."""

from podsim.workload.convnet.blocks import NormStyle
from podsim.workload.convnet.conductivity import ConductivityShape, conductivity_cnn
from podsim.workload.convnet.efficientnet import EfficientNetShape, efficientnet
from podsim.workload.convnet.resnet import ResNetShape, resnet

__all__ = [
    "ConductivityShape",
    "EfficientNetShape",
    "NormStyle",
    "ResNetShape",
    "conductivity_cnn",
    "efficientnet",
    "resnet",
]
