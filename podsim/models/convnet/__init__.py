"""Convolutional networks as sequences of blocks."""

from podsim.models.convnet.blocks import NormStyle
from podsim.models.convnet.conductivity import ConductivityShape, conductivity_cnn
from podsim.models.convnet.efficientnet import EfficientNetShape, efficientnet
from podsim.models.convnet.efficientnet_v2 import EfficientNetV2Shape, efficientnet_v2
from podsim.models.convnet.resnet import ResNetShape, resnet

__all__ = [
    "ConductivityShape",
    "EfficientNetShape",
    "EfficientNetV2Shape",
    "NormStyle",
    "ResNetShape",
    "conductivity_cnn",
    "efficientnet",
    "efficientnet_v2",
    "resnet",
]
