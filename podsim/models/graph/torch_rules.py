"""Shapes that an operator of ATen can have: what contradicts itself in a file of shapes is refused.

Source: [aten_ir] for the operators and their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from podsim.models.graph.node import Shape

Shapes = Sequence[Shape]
_Rule = Callable[[Shapes, Shape, Mapping[str, Any]], str]
OUTPUT_COUNTS: Final = {
    "native_layer_norm": (1, 3),
    "native_group_norm": (1, 3),
    "_native_batch_norm_legit_no_training": (1, 3),
    "max_pool2d_with_indices": (1, 2),
    "max_pool3d_with_indices": (1, 2),
    "native_dropout": (1, 2),
    "any": (1, 1),
}
"""Fewest and most outputs of operators that may have several; `MANY_OUTPUTS` may have any number, others have one."""
MANY_OUTPUTS: Final = ("split", "split_with_sizes", "unbind", "chunk")
_SAME_COUNT: Final = ("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "alias", "detach", "clone", "dropout")
_PARTS: Final = ("slice", "select", "split", "split_with_sizes", "unbind")
_ELEMENTWISE: Final = (
    *("add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "ne", "gt", "ge", "lt", "le", "where"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not"),
    *("abs", "ceil", "elu", "erf", "exp", "floor", "gelu", "hardsigmoid", "hardswish", "leaky_relu", "log", "neg"),
    *("reciprocal", "relu", "round", "sigmoid", "sign", "softplus", "sqrt", "tanh", "rsqrt", "silu", "clamp"),
    *("hardtanh", "_to_copy"),
)
_NORMS: Final = (
    "native_layer_norm",
    "native_group_norm",
    "_native_batch_norm_legit_no_training",
    "_softmax",
    "_log_softmax",
    "flip",
)
_REDUCTIONS: Final = ("mean", "sum", "var", "prod", "amax", "amin", "any", "argmax", "argmin")
_POOLS: Final = (
    *("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices"),
    *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "upsample_nearest2d", "upsample_bilinear2d"),
)
_PLACES: Final = {"_adaptive_avg_pool3d": 3, "avg_pool3d": 3, "max_pool3d_with_indices": 3, "avg_pool1d": 1}
_MATRIX: Final = 2


def contradiction(name: str, inputs: Shapes, output: Shape, arguments: Mapping[str, Any]) -> str:
    """Return why an operator cannot make a tensor of a shape; empty if it can, or if the operator has no rule.

    >>> contradiction("mm", [(4, 8), (9, 16)], (4, 16), {})
    'a product of [4, 8] and [9, 16] has unequal inner widths'
    >>> contradiction("mm", [(4, 8), (8, 16)], (4, 16), {})
    ''
    """
    rule = _RULES.get(name)
    return rule(inputs, output, arguments) if rule and inputs else ""


def _sizes(shape: Shape) -> str:
    return str(list(shape))


def _broadcast(shapes: Shapes) -> Shape | None:
    """Return the shape of an elementwise result; None if the shapes do not go together."""
    rank = max(map(len, shapes))
    wide = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*wide, strict=True):
        others = {size for size in sizes if size != 1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)


def _elementwise(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    shapes = " and ".join(map(_sizes, inputs))
    made = _broadcast(inputs)
    if made is None:
        return f"tensors of {shapes} have unequal widths"
    return "" if made == output else f"from {shapes} it makes {_sizes(made)}, and the file says {_sizes(output)}"


def _product(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    if len(inputs) < _MATRIX:
        return "a product needs two tensors"
    left, right = inputs[0], inputs[1]
    if not left or not right:
        return "a product of a number"
    inner = right[-2] if len(right) > 1 else right[0]
    if left[-1] != inner:
        return f"a product of {_sizes(left)} and {_sizes(right)} has unequal inner widths"
    groups = _broadcast([left[:-2], right[:-2]])
    if groups is None:
        return f"groups of {_sizes(left)} and {_sizes(right)} do not go together"
    made = (*groups, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    return "" if made == output else _instead(left, right, made, output)


def _instead(left: Shape, right: Shape, made: Shape, output: Shape) -> str:
    return f"a product of {_sizes(left)} and {_sizes(right)} is {_sizes(made)}, and the file says {_sizes(output)}"


def _sum_of_product(inputs: Shapes, output: Shape, arguments: Mapping[str, Any]) -> str:
    """Check a bias with the product behind it."""
    found = _product(inputs[1:], output, arguments)
    made = _broadcast([inputs[0], output])
    return found or ("" if made == output else f"a bias of {_sizes(inputs[0])} does not go with {_sizes(output)}")


def _linear(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    """Check a product with weights whose rows are outputs."""
    if len(inputs) < _MATRIX or len(inputs[1]) != _MATRIX or not inputs[0]:
        return "a linear layer needs a tensor and a matrix"
    made = (*inputs[0][:-1], inputs[1][0])
    if inputs[0][-1] != inputs[1][1]:
        return f"a product of {_sizes(inputs[0])} and weights {_sizes(inputs[1])} has unequal inner widths"
    return "" if made == output else _instead(inputs[0], inputs[1], made, output)


def _convolution(inputs: Shapes, output: Shape, arguments: Mapping[str, Any]) -> str:
    source, weights = (inputs[0], inputs[1]) if len(inputs) > 1 else ((), ())
    groups = arguments.get("groups", 1)
    if not (type(groups) is int and groups > 0 and len(source) == len(weights) == len(output) > _MATRIX):
        return f"a convolution of {_sizes(source)} with weights {_sizes(weights)} cannot make {_sizes(output)}"
    flipped = bool(arguments.get("transposed"))
    taken = weights[0] if flipped else weights[1] * groups
    made = weights[1] * groups if flipped else weights[0]
    if source[1] != taken:
        return f"weights {_sizes(weights)} take {taken} channels, and it reads {source[1]}"
    if (source[0], made) != output[:2]:
        return f"it makes {source[0]} samples of {made} channels, and the file says {_sizes(output)}"
    return ""


def _same(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    return "" if inputs[0] == output else f"it keeps the shape {_sizes(inputs[0])}, and the file says {_sizes(output)}"


def _same_count(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    """Check that a view has the elements of what it shows."""
    if math.prod(inputs[0]) == math.prod(output):
        return ""
    return f"{_sizes(inputs[0])} and {_sizes(output)} have unequal numbers of elements"


def _turned(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    same = sorted(inputs[0]) == sorted(output)
    return "" if same else f"axes of {_sizes(inputs[0])} in another order are not {_sizes(output)}"


def _no_more(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    """Check that a part or a sum has no more elements than its source."""
    if math.prod(output) <= math.prod(inputs[0]):
        return ""
    return f"from {_sizes(inputs[0])} it cannot make {_sizes(output)}, which is larger"


def _expanded(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    made = _broadcast([inputs[0], output])
    return "" if made == output else f"{_sizes(inputs[0])} cannot be expanded to {_sizes(output)}"


def _joined(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    read = sum(map(math.prod, inputs))
    if read == math.prod(output):
        return ""
    return f"{' and '.join(map(_sizes, inputs))} together are not {_sizes(output)}"


def _rows(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
    """Check rows of a table."""
    if len(inputs) < _MATRIX or len(inputs[0]) != _MATRIX:
        return "an embedding needs a matrix and indices"
    made = (*inputs[1], inputs[0][1])
    return (
        ""
        if made == output
        else f"rows of {_sizes(inputs[0])} at {_sizes(inputs[1])} are {_sizes(made)}, not {_sizes(output)}"
    )


def _pooled(axes: int) -> _Rule:
    def check(inputs: Shapes, output: Shape, _: Mapping[str, Any]) -> str:
        source = inputs[0]
        same = len(source) == len(output) and source[:-axes] == output[:-axes]
        return (
            ""
            if same
            else f"it keeps all but the last {axes} axes of {_sizes(source)}, and the file says {_sizes(output)}"
        )

    return check


_RULES: Final[dict[str, _Rule]] = {
    **dict.fromkeys(_ELEMENTWISE, _elementwise),
    **dict.fromkeys(("mm", "bmm", "matmul"), _product),
    **dict.fromkeys(("addmm", "baddbmm"), _sum_of_product),
    "linear": _linear,
    "convolution": _convolution,
    **dict.fromkeys(_NORMS, _same),
    **dict.fromkeys(_SAME_COUNT, _same_count),
    **dict.fromkeys(("permute", "transpose", "t"), _turned),
    **dict.fromkeys((*_REDUCTIONS, *_PARTS), _no_more),
    "expand": _expanded,
    "cat": _joined,
    "embedding": _rows,
    **{name: _pooled(_PLACES.get(name, 2)) for name in _POOLS},
}
