"""One pass of a convolution as a problem to plan, and its transforms into other convolutions.

The gradient of the input swaps the channels and, after a strided pass, has zeros between the positions of its input.
The gradient of the weights contracts over batch and field: images become input channels, the forward input channels
become the batch, and the gradient of the output becomes the kernel [poplibs_poplin].
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from podsim.models.op import Conv


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape:
    """A convolution to plan; tuples have one entry per spatial axis."""

    groups: int
    batch: int
    in_channels: int  # input channels of one group
    out_channels: int  # output channels of one group
    field: tuple[int, ...]  # output positions
    kernel: tuple[int, ...]
    stride: tuple[int, ...]  # input positions from one output position to the next
    dilation: tuple[int, ...]  # positions from one input element to the next, zeros between them included
    kernel_dilation: tuple[int, ...]  # input positions from one kernel position to the next
    input_size: tuple[int, ...]  # input elements without padding and without zeros between them
    input_arranged: bool = True  # True if the input already has the plan's layout, except for its halo
    weights_arranged: bool = True  # True if the weights have the plan's layout, as weights allocated by the plan do
    result_arranged: bool = True  # True if the consumer reads the result in the plan's layout

    @property
    def flop(self) -> int:
        """Number of operations without products with the zeros of a dilation; a multiply-add counts as two. [FLOP]

        The number is exact where a dilation divides the field: 9 x 9 positions at a stride of 2 count as 81/4, not 25.
        """
        positions = math.prod(self.field) * math.prod(self.kernel) // math.prod(self.dilation)
        return 2 * self.groups * self.batch * self.in_channels * self.out_channels * positions

    @property
    def input_count(self) -> int:
        """Number of elements of the input."""
        return self.groups * self.batch * self.in_channels * math.prod(self.input_size)

    @property
    def weight_count(self) -> int:
        """Number of elements of the weights."""
        return self.groups * self.in_channels * self.out_channels * math.prod(self.kernel)

    @property
    def result_count(self) -> int:
        """Number of elements of the result."""
        return self.groups * self.batch * self.out_channels * math.prod(self.field)

    @property
    def is_pointwise(self) -> bool:
        """True if the kernel has one position, so that the convolution is a matrix product."""
        return math.prod(self.kernel) == 1 and math.prod(self.dilation) == 1

    def without_empty_positions(self) -> ConvShape:
        """Return the convolution without result positions that are always zero.

        Along an axis with a kernel of one, only every d-th position meets an input element of a dilation d.
        """
        lone = [size == 1 for size in self.kernel]
        field = tuple(-(-f // d) if one else f for f, d, one in zip(self.field, self.dilation, lone, strict=True))
        dilation = tuple(1 if one else d for d, one in zip(self.dilation, lone, strict=True))
        return replace(self, field=field, dilation=dilation)

    def folded(self, axes: tuple[int, ...]) -> ConvShape:
        """Return the convolution with kernel positions along `axes` as input channels.

        The input is repeated for each of these positions.
        """
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

    @property
    def lone_axes(self) -> tuple[int, ...]:
        """Axes with one input element, whose output positions each meet one kernel position."""
        sizes = zip(self.input_size, self.field, self.kernel, strict=True)
        return tuple(axis for axis, (size, field, kernel) in enumerate(sizes) if size == 1 < min(field, kernel))

    def spread(self, axes: tuple[int, ...]) -> ConvShape:
        """Return the convolution with output positions along axes of one input element as output channels."""
        return replace(
            self,
            out_channels=self.out_channels * math.prod(self.field[axis] for axis in axes),
            field=_with_ones(self.field, axes),
            kernel=_with_ones(self.kernel, axes),
            dilation=_with_ones(self.dilation, axes),
            kernel_dilation=_with_ones(self.kernel_dilation, axes),
        )

    def flattened(self) -> ConvShape:
        """Return the pointwise convolution with all its positions as the batch."""
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
        """Return the flattened convolution with its two operands exchanged."""
        return replace(self, batch=self.out_channels, out_channels=self.batch)

    def combined(self, factor: int) -> ConvShape:
        """Return the convolution with every `factor` groups combined into one; other weights are zero."""
        return replace(
            self,
            groups=-(-self.groups // factor),
            in_channels=self.in_channels * factor,
            out_channels=self.out_channels * factor,
        )


def conv_shape(op: Conv) -> ConvShape:
    """Return the convolution that a pass computes."""
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
