"""Convolutional networks as sequences of blocks."""

from podsim.models.convnet.blocks import NormStyle
from podsim.models.convnet.conductivity import ConductivityShape, conductivity_cnn
from podsim.models.convnet.efficientnet import EfficientNetShape, efficientnet
from podsim.models.convnet.resnet import ResNetShape, resnet

__all__ = [
    "ConductivityShape",
    "EfficientNetShape",
    "NormStyle",
    "ResNetShape",
    "conductivity_cnn",
    "efficientnet",
    "resnet",
]
