"""Convolutional networks against their published sizes, and single layers by hand."""

from __future__ import annotations

import pytest

from podsim.errors import ModelError
from podsim.models.block import Block
from podsim.models.convnet import (
    ConductivityShape,
    EfficientNetShape,
    NormStyle,
    ResNetShape,
    conductivity_cnn,
    efficientnet,
    resnet,
)
from podsim.models.op import Conv, MatMul, Op, ReplicaSum


def flop(ops: tuple[Op, ...]) -> int:
    return sum(op.flop for op in ops if isinstance(op, (Conv, MatMul)))


def totals(blocks: tuple[Block, ...]) -> tuple[float, float]:
    """Millions of parameters, billions of operations of a forward pass."""
    return sum(block.parameter_count for block in blocks) / 1e6, sum(flop(block.forward) for block in blocks) / 1e9


@pytest.mark.parametrize(("depth", "millions"), [(18, 11.69), (34, 21.80), (50, 25.56), (101, 44.55), (152, 60.19)])
def test_parameters_of_resnet(depth: int, millions: float) -> None:
    """As published with the networks."""
    assert totals(resnet(ResNetShape(depth), 1))[0] == pytest.approx(millions, abs=0.005)


def test_work_of_resnet50_and_resnext101() -> None:
    """4.089 and 7.97 billion multiply-adds per image of 224x224."""
    assert totals(resnet(ResNetShape(50), 1))[1] == pytest.approx(8.178, abs=0.001)
    resnext = totals(resnet(ResNetShape(101, groups=32, width_per_group=4), 1))
    assert resnext == pytest.approx((44.18, 15.94), abs=0.005)


@pytest.mark.parametrize(("size", "millions"), [("b0", 5.29), ("b1", 7.79), ("b2", 9.11), ("b3", 12.23), ("b4", 19.34)])
def test_parameters_of_efficientnet(size: str, millions: float) -> None:
    assert totals(efficientnet(EfficientNetShape(size), 1))[0] == pytest.approx(millions, abs=0.005)


@pytest.mark.parametrize(
    ("size", "group_size", "ratio", "millions", "billions"),
    [("b0", 1, 6, 5.29, 0.772), ("b0", 16, 4, 5.91, 1.269), ("b4", 1, 6, 19.34, 8.788), ("b4", 16, 4, 19.33, 12.366)],
)
def test_work_of_efficientnet(size: str, group_size: int, ratio: int, millions: float, billions: float) -> None:
    network = totals(efficientnet(EfficientNetShape(size, group_size, ratio), 1))
    assert network == pytest.approx((millions, billions), abs=0.005)


@pytest.mark.parametrize(
    "blocks",
    [
        resnet(ResNetShape(18), 2),
        efficientnet(EfficientNetShape("b0", 16, 4), 1),
        conductivity_cnn(ConductivityShape(), 3),
    ],
    ids=["resnet", "efficientnet", "conductivity"],
)
def test_backward_is_twice_forward_but_for_the_first_input_gradient(blocks: tuple[Block, ...]) -> None:
    first = next(op for op in blocks[0].forward if isinstance(op, Conv))
    forward, backward = (
        sum(flop(part) for part in parts) for parts in zip(*((b.forward, b.backward) for b in blocks), strict=True)
    )
    assert backward == 2 * forward - first.flop


def test_a_bottleneck_by_hand() -> None:
    """The first of stage 2: 56x56x256 in, 128 inside, stride 2 on the 3x3, 28x28x512 out, per image."""
    unit = {block.name: block for block in resnet(ResNetShape(50), 1)}["stage2/unit1"]
    macs = 56 * 56 * 256 * 128 + 28 * 28 * (9 * 128 * 128 + 128 * 512 + 256 * 512)
    assert flop(unit.forward) == 2 * macs
    assert unit.output_elements == 28 * 28 * 512
    assert unit.parameter_count == 256 * 128 + 9 * 128 * 128 + 128 * 512 + 256 * 512 + 2 * (128 + 128 + 512 + 512)


def test_statistics_cross_replicas_once_per_norm_and_pass() -> None:
    """53 norms; each sends two sums per channel in single precision."""
    blocks = resnet(ResNetShape(50, norm=NormStyle(replicas=2)), 1)
    for ops in ([op for b in blocks for op in b.forward], [op for b in blocks for op in b.backward]):
        sums = [op for op in ops if isinstance(op, ReplicaSum)]
        assert len(sums) == 53
        assert sum(op.byte_count for op in sums) == 2 * 4 * 26_560
    assert not [op for b in resnet(ResNetShape(50), 1) for op in b.forward if isinstance(op, ReplicaSum)]


def test_volumes_have_cubic_filters() -> None:
    first, *_ = conductivity_cnn(ConductivityShape(image_size=32, dimension_count=3, channels=(8, 16)), 1)
    conv = next(op for op in first.forward if isinstance(op, Conv))
    assert (conv.kernel, conv.output_size) == ((3, 3, 3), (32, 32, 32))
    assert first.output_elements == 8 * 16**3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: resnet(ResNetShape(50, image_size=3), 1), "conv: feature maps of 3x3 are smaller than its 7x7 window"),
        (lambda: resnet(ResNetShape(34, groups=32), 1), "a ResNet of 34 layers has no groups"),
        (lambda: efficientnet(EfficientNetShape("b0", 5), 1), "spatial: 6 groups do not divide 32 channels"),
        (lambda: conductivity_cnn(ConductivityShape(image_size=4), 1), "feature maps of 1x1 are smaller"),
    ],
)
def test_what_does_not_fit_together(make: object, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()  # type: ignore[operator]
    assert message in caught.value.message


def test_small_images_run_through_padded_windows() -> None:
    """32x32, as in CIFAR: 16 after the stem, 8 after its pool, then 8, 4, 2 and 1."""
    last = resnet(ResNetShape(18, image_size=32, class_count=10), 4)[-2]
    assert last.output_elements == 4 * 512
