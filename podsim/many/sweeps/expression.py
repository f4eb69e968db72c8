"""Expressions in study files: arithmetic and comparisons on the values of a point, and nothing else.

The grammar is that of Python's expressions, of which only the listed parts are let through; nothing is ever
executed as code. A name is a key of the study, whole or by its last part where only one key ends in it. Texts that
are quantities stand for their number in the SI base unit.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

from podsim.errors import BadValueError
from podsim.units import UNITS, parse_quantity

_LONGEST: Final = 500
_LARGEST_POWER: Final = 64
"""Of exponents, and of the digits that a number is rounded to."""
_MOST_BITS: Final = 4096
_MOST_REMEMBERED: Final = 1024
_INTERPOLATED: Final = re.compile(r"\$\{([^{}]*)\}")
_BINARY: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: Final[dict[type, Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}


def _rounded(number: float, digits: int | None = None) -> float:
    """A number rounded; Python would raise 10 to the power of digits before the point."""
    if digits is not None and abs(digits) > _LARGEST_POWER:
        raise BadValueError(f"`round` to {digits:g} digits", f"round to {_LARGEST_POWER} digits or fewer")
    return round(number, digits)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "max": max,
    "min": min,
    "round": _rounded,
    "sqrt": math.sqrt,
}
_GRAMMAR: Final = (
    f"use numbers, keys of the study, + - * / // % **, comparisons, and, or, not, and {', '.join(_FUNCTIONS)}"
)
_Values = Mapping[str, object]


@dataclass(frozen=True)
class Expression:
    """An expression over the keys of a study.

    Attributes:
        text: As it was written.
    """

    text: str

    def __post_init__(self) -> None:
        """Refuse what is no expression, before any point is evaluated.

        Raises:
            BadValueError: It is none, is nested too deep, or uses what is not let through.
        """
        try:
            self.names  # noqa: B018
        except RecursionError:
            raise BadValueError(f"`{self.text}` is nested too deep", "write it in fewer steps") from None
        for node in ast.walk(self._tree):
            if not isinstance(node, _LET_THROUGH) or (isinstance(node, ast.Call) and not _is_known(node)):
                raise BadValueError(f"`{self.text}` uses `{type(node).__name__}`, which is not let through", _GRAMMAR)

    @cached_property
    def _tree(self) -> ast.expr:
        if len(self.text) > _LONGEST:
            raise BadValueError(f"an expression of {len(self.text):,} characters", f"use {_LONGEST} or fewer")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a compiler, about what is refused or harmless
                return ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise BadValueError(f"`{self.text}` is not an expression", _GRAMMAR) from None

    @cached_property
    def names(self) -> frozenset[str]:
        """Names that it asks for."""
        return frozenset(_names(self._tree))

    def value(self, values: _Values) -> Any:
        """Its value at a point.

        Raises:
            BadValueError: A name does not exist, a division is by zero, or values do not go together.
        """
        try:
            return _finite(_value(self._tree, values))
        except RecursionError:
            raise BadValueError(f"`{self.text}` is nested too deep", "write it in fewer steps") from None
        except ZeroDivisionError:
            raise BadValueError(f"`{self.text}` divides by zero", "exclude such points with `where`") from None
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, BadValueError):
                raise
            shown = ", ".join(
                f"{name} = {values[key]}" for name in sorted(self.names) if (key := key_named(name, values))
            )
            what = f"`{self.text}` has no value{' at ' * bool(shown)}{shown}: {error}"
            raise BadValueError(what, "check the values that it is made of") from None


def filled_in(text: str, values: _Values) -> Any:
    """A text with each `${...}` replaced by its value; the value itself if the text is nothing else.

    >>> filled_in("${ipus / 4}", {"ipus": 64}), filled_in("${2 * rate} GB/s", {"rate": 8})
    (16, '16 GB/s')
    """
    parts = _INTERPOLATED.fullmatch(text.strip())
    if parts:
        value = _parsed(parts[1]).value(values)
        return int(value) if isinstance(value, float) and value.is_integer() else value
    return _INTERPOLATED.sub(lambda match: _written(_parsed(match[1]).value(values)), text)


def expressions_in(text: str) -> tuple[Expression, ...]:
    """The expressions of a text, in order.

    Raises:
        BadValueError: One of them is none, or has no end.
    """
    if "${" in _INTERPOLATED.sub("", text):
        raise BadValueError(f"`{text}` has a `${{` without its end", "write expressions as `${…}`, none inside another")
    return tuple(_parsed(each) for each in _INTERPOLATED.findall(text))


_parsed = lru_cache(_MOST_REMEMBERED)(Expression)


def known_name(name: str, keys: Mapping[str, object]) -> bool:
    """Whether a name stands for exactly one key."""
    return key_named(name, keys) is not None


def _is_known(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in _FUNCTIONS and not call.keywords


def _written(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def key_named(name: str, keys: Mapping[str, object]) -> str | None:
    """The key that a name stands for."""
    if name in keys:
        return name
    ending = [key for key in keys if key.endswith(f".{name}")]
    return ending[0] if len(ending) == 1 else None


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        return [ast.unparse(node)]
    if isinstance(node, ast.Call):
        return [name for each in node.args for name in _names(each)]
    return [name for each in ast.iter_child_nodes(node) for name in _names(each)]


def _value(node: ast.AST, values: _Values) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return _finite(number_of(value))
        case ast.Name() | ast.Attribute():
            return _named(ast.unparse(node), values)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left, values), _value(right, values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _finite(_BINARY[type(op)](*_numbers(_value(left, values), _value(right, values))))
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, values))
        case ast.BoolOp(op=op, values=parts):
            combine = all if isinstance(op, ast.And) else any
            return combine(_value(each, values) for each in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            return _holds([left, *others], ops, values)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_value(each, values) for each in arguments))
    raise BadValueError(f"`{ast.unparse(node)}` is not let through in an expression", _GRAMMAR)


def _holds(parts: list[ast.expr], ops: list[ast.cmpop], values: _Values) -> bool:
    found = [_value(each, values) for each in parts]
    for op, left, right in zip(ops, found, found[1:], strict=False):
        if type(op) not in _BINARY:
            raise BadValueError(f"`{type(op).__name__}` is not let through in an expression", _GRAMMAR)
        if not _BINARY[type(op)](left, right):
            return False
    return True


def _named(name: str, values: _Values) -> Any:
    key = key_named(name, values)
    if key is None:
        raise BadValueError(f"`{name}` is no key of this study", f"use one of: {', '.join(values)}")
    return _finite(number_of(values[key]))


def number_of(value: Any) -> Any:
    """A text that is a quantity, in its SI base unit; anything else as it is."""
    if not isinstance(value, str):
        return value
    for dimension in UNITS:
        try:
            return parse_quantity(value, dimension)
        except BadValueError:
            continue
    return value


def _numbers(*values: Any) -> tuple[Any, ...]:
    """Values for arithmetic: a text times a number is a long text, and no number."""
    text = next((each for each in values if isinstance(each, str)), None)
    if text is not None:
        raise TypeError(f"`{text}` is no number")
    return values


def _finite(value: Any) -> Any:
    """A value that is no number without end; whole ones have as many digits as a float has places for."""
    if not isinstance(value, str) and not math.isfinite(value):
        raise ValueError("it is no finite number")
    return value


def _power(base: float, exponent: float) -> float:
    _numbers(base, exponent)
    if abs(exponent) > _LARGEST_POWER:
        raise BadValueError(f"an exponent of {exponent:g}", f"use one up to {_LARGEST_POWER}")
    if isinstance(base, int) and base.bit_length() * abs(exponent) > _MOST_BITS:
        raise OverflowError("the power is too large")
    power: float = base**exponent
    return power


_LET_THROUGH = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Load, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call),
    *(ast.And, ast.Or, ast.Pow),
    *_BINARY,
    *_UNARY,
)
