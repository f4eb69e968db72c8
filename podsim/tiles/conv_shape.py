"""One pass of a convolution as a problem to plan, and the forms it can be brought into; each is a convolution.

The gradient of the input swaps the channels and, after a strided pass, has zeros between the positions of its input.
That of the weights contracts over batch and field: images become input channels, the forward input channels the batch,
and the gradient of the output the kernel [poplibs_poplin].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from podsim.models.op import Conv


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape:
    """A convolution to plan; one entry per spatial axis where a field is a tuple."""

    groups: int
    batch: int
    in_channels: int  # input channels of one group
    out_channels: int  # output channels of one group
    field: tuple[int, ...]  # output positions
    kernel: tuple[int, ...]
    stride: tuple[int, ...]  # input positions from one output position to the next
    dilation: tuple[int, ...]  # positions from one input element to the next, zeros between them included
    kernel_dilation: tuple[int, ...]  # input positions from one kernel position to the next
    input_size: tuple[int, ...]  # input elements, padding and zeros between them apart
    input_arranged: bool = True  # the input already lies where the plan wants it, its halo apart
    weights_arranged: bool = True  # the weights lie where the plan wants them, as those it allocates do
    result_arranged: bool = True  # the consumer takes the result where the plan leaves it

    @property
    def flop(self) -> int:
        """One multiply-add is two operations, products with the zeros of a dilation left out. [FLOP]

        Exact where a dilation divides the field: of 9 x 9 positions at a stride of 2 it counts 81/4, not 25.
        """
        positions = math.prod(self.field) * math.prod(self.kernel) // math.prod(self.dilation)
        return 2 * self.groups * self.batch * self.in_channels * self.out_channels * positions

    @property
    def input_count(self) -> int:
        """Elements of the input."""
        return self.groups * self.batch * self.in_channels * math.prod(self.input_size)

    @property
    def weight_count(self) -> int:
        """Elements of the weights."""
        return self.groups * self.in_channels * self.out_channels * math.prod(self.kernel)

    @property
    def result_count(self) -> int:
        """Elements of the result."""
        return self.groups * self.batch * self.out_channels * math.prod(self.field)

    @property
    def is_pointwise(self) -> bool:
        """Whether a kernel of one position makes it a matrix product."""
        return math.prod(self.kernel) == 1 and math.prod(self.dilation) == 1

    def without_empty_positions(self) -> ConvShape:
        """Result positions that only zeros of a dilation reach, as with a kernel of one, are left out."""
        lone = [size == 1 for size in self.kernel]
        field = tuple(-(-f // d) if one else f for f, d, one in zip(self.field, self.dilation, lone, strict=True))
        dilation = tuple(1 if one else d for d, one in zip(self.dilation, lone, strict=True))
        return replace(self, field=field, dilation=dilation)

    def folded(self, axes: tuple[int, ...]) -> ConvShape:
        """Kernel positions along some axes become input channels; the input is repeated for each of them."""
        return replace(
            self,
            in_channels=self.in_channels * math.prod(self.kernel[axis] for axis in axes),
            kernel=_with_ones(self.kernel, axes),
            stride=_with_ones(self.stride, axes),
            kernel_dilation=_with_ones(self.kernel_dilation, axes),
            input_size=tuple(
                f if a in axes else s for a, (s, f) in enumerate(zip(self.input_size, self.field, strict=True))
            ),
        )

    def flattened(self) -> ConvShape:
        """A pointwise convolution with all its positions as the batch."""
        batch = self.batch * math.prod(self.field)
        none: tuple[int, ...] = ()
        return replace(
            self,
            batch=batch,
            field=none,
            kernel=none,
            stride=none,
            dilation=none,
            kernel_dilation=none,
            input_size=none,
        )

    def swapped(self) -> ConvShape:
        """A flattened one with the operands in each other's place."""
        return replace(self, batch=self.out_channels, out_channels=self.batch)

    def combined(self, factor: int) -> ConvShape:
        """Every `factor` groups become one, with zeros in the weights between them."""
        return replace(
            self,
            groups=-(-self.groups // factor),
            in_channels=self.in_channels * factor,
            out_channels=self.out_channels * factor,
        )


def conv_shape(op: Conv) -> ConvShape:
    """The convolution that a pass computes."""
    ones = (1,) * len(op.kernel)
    in_channels, out_channels = op.in_channels // op.group_count, op.out_channels // op.group_count
    if op.direction == "weight_grad":
        return ConvShape(
            groups=op.group_count,
            batch=in_channels,
            in_channels=op.batch,
            out_channels=out_channels,
            field=op.kernel,
            kernel=op.output_size,
            stride=ones,
            dilation=ones,
            kernel_dilation=op.stride,
            input_size=op.input_size,
            input_arranged=False,
            weights_arranged=False,
            result_arranged=False,
        )
    forward = op.direction == "forward"
    return ConvShape(
        groups=op.group_count,
        batch=op.batch,
        in_channels=in_channels if forward else out_channels,
        out_channels=out_channels if forward else in_channels,
        field=op.output_size if forward else op.input_size,
        kernel=op.kernel,
        stride=op.stride if forward else ones,
        dilation=ones if forward else op.stride,
        kernel_dilation=ones,
        input_size=op.input_size if forward else op.output_size,
        weights_arranged=forward,
    )


def _with_ones(values: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if axis in axes else value for axis, value in enumerate(values))
