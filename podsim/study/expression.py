"""Expressions in study files: arithmetic and comparisons on the values of a point, and nothing else.

The grammar is a subset of Python's expressions. `simpleeval` evaluates them; nothing is executed as code. A name is a
key of the study, or the last part of a key if it is unique. A text that is a quantity has the value of its number in
the SI base unit.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, Final

from simpleeval import DEFAULT_OPERATORS, SimpleEval

from podsim.errors import BadValueError
from podsim.units import UNITS, parse_quantity

_LONGEST: Final = 500
_LARGEST_POWER: Final = 64  # largest exponent, and most digits to round to
_MOST_REMEMBERED: Final = 1024
_INTERPOLATED: Final = re.compile(r"\$\{([^{}]*)\}")


def _finite(value: Any) -> Any:
    """Return the value; raise `ValueError` if it is infinite or not a number."""
    if not isinstance(value, str) and not math.isfinite(value):
        raise ValueError("it is no finite number")
    return value


def _numbers_only(combine: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return `combine(left, right)`; raise `TypeError` for a text, which times a number would be a long text."""
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError(f"`{left if isinstance(left, str) else right}` is no number")
    return _finite(combine(left, right))


def _power(base: float, exponent: float) -> Any:
    if abs(exponent) > _LARGEST_POWER:
        raise BadValueError(f"an exponent of {exponent:g}", f"use one up to {_LARGEST_POWER}")
    return base**exponent  # at most 64 times the bits of a float


def _rounded(number: float, digits: int | None = None) -> float:
    """Round a number; refuse a huge number of digits, for which Python would compute a power of 10."""
    if digits is not None and abs(digits) > _LARGEST_POWER:
        raise BadValueError(f"`round` to {digits:g} digits", f"round to {_LARGEST_POWER} digits or fewer")
    return round(number, digits)


_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_OTHERS: Final = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.USub, ast.UAdd, ast.Not)
_OPERATORS: Final[dict[type, Callable[..., Any]]] = {
    **{kind: partial(_numbers_only, DEFAULT_OPERATORS[kind]) for kind in _ARITHMETIC},
    **{kind: DEFAULT_OPERATORS[kind] for kind in _OTHERS},
    ast.Pow: partial(_numbers_only, _power),
}
_BUILTINS: Final = (abs, math.ceil, math.floor, math.log2, max, min, math.sqrt)
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {function.__name__: function for function in _BUILTINS} | {
    "round": _rounded
}
_NODES: Final = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call)
_ALLOWED: Final = (*_NODES, *_OPERATORS, ast.Name, ast.Attribute, ast.Load, ast.BoolOp, ast.And, ast.Or)
_GRAMMAR: Final = (
    f"use numbers, keys of the study, + - * / // % **, comparisons, and, or, not, and {', '.join(sorted(_FUNCTIONS))}"
)


class Expression:
    """An expression over the keys of a study: its `text`, and the `names` of keys in it."""

    def __init__(self, text: str) -> None:
        """Parse a text; raise `BadValueError` if it is no expression of this grammar."""
        self.text = text
        if len(text) > _LONGEST:
            raise BadValueError(f"an expression of {len(text):,} characters", f"use {_LONGEST} or fewer")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of Python's compiler about refused or valid code
                self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise BadValueError(f"`{text}` is not an expression", _GRAMMAR) from None
        nodes = list(ast.walk(self._tree))
        if refused := next((node for node in nodes if not _is_allowed(node)), None):
            raise BadValueError(f"`{text}` uses `{type(refused).__name__}`, which is not let through", _GRAMMAR)
        parts = {node.func for node in nodes if isinstance(node, ast.Call)}
        parts |= {node.value for node in nodes if isinstance(node, ast.Attribute)}
        try:
            names = (node for node in nodes if isinstance(node, (ast.Name, ast.Attribute)) and node not in parts)
            self.names = frozenset(map(ast.unparse, names))
        except RecursionError:
            raise self._too_deep from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the text, because the tree may be too deep to be sent to another process."""
        return Expression, (self.text,)

    @property
    def _too_deep(self) -> BadValueError:
        return BadValueError(f"`{self.text}` is nested too deep", "write it in fewer steps")

    def value(self, values: Mapping[str, object]) -> Any:
        """Return the value at a point, given the values of its keys; raise `BadValueError` if there is none."""

        def value_of_name(node: ast.expr) -> Any:
            name = ast.unparse(node)
            key = key_named(name, values)
            if key is None:
                raise BadValueError(f"`{name}` is no key of this study", f"use one of: {', '.join(values)}")
            return _finite(number_of(values[key]))

        evaluator = SimpleEval(_OPERATORS, _FUNCTIONS, {})
        and_or = evaluator.nodes[ast.BoolOp]
        evaluator.nodes = {
            **{kind: evaluator.nodes[kind] for kind in _NODES},
            ast.BoolOp: lambda node: bool(and_or(node)),
            **dict.fromkeys((ast.Name, ast.Attribute), value_of_name),
            ast.Constant: lambda node: _finite(number_of(node.value)),
        }
        try:
            return _finite(evaluator.eval(self.text, self._tree))
        except RecursionError:
            raise self._too_deep from None
        except ZeroDivisionError:
            raise BadValueError(f"`{self.text}` divides by zero", "exclude such points with `where`") from None
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(error, BadValueError):
                raise
            keys = {name: key_named(name, values) for name in sorted(self.names)}
            shown = ", ".join(f"{name} = {values[key]}" for name, key in keys.items() if key)
            what = f"`{self.text}` has no value{' at ' * bool(shown)}{shown}: {error}"
            raise BadValueError(what, "check the values that it is made of") from None

    def holds(self, values: Mapping[str, object]) -> bool:
        """Return True if the expression is true at a point; raise `BadValueError` if it is a text or has no value."""
        value = self.value(values)
        if isinstance(value, str):
            what = f"`{self.text}` is a text, which neither holds nor fails"
            raise BadValueError(what, "compare it with something")
        return bool(value)


def _is_allowed(node: ast.AST) -> bool:
    match node:
        case ast.Constant():
            return isinstance(node.value, (bool, int, float, str))
        case ast.Call():
            return isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords
    return isinstance(node, _ALLOWED)


_parsed = lru_cache(_MOST_REMEMBERED)(Expression)


def interpolate(text: str, values: Mapping[str, object]) -> Any:
    """Replace each `${...}` of a text by its value; return the value itself if the text is one expression.

    >>> interpolate("${ipus / 4}", {"ipus": 64}), interpolate("${2 * rate} GB/s", {"rate": 8})
    (16, '16 GB/s')
    """

    def value_text(match: re.Match[str]) -> str:
        value = _parsed(match[1]).value(values)
        return f"{value:.12g}" if isinstance(value, float) else str(value)

    if whole := _INTERPOLATED.fullmatch(text.strip()):
        value = _parsed(whole[1]).value(values)
        return int(value) if isinstance(value, float) and value.is_integer() else value
    return _INTERPOLATED.sub(value_text, text)


def expressions_in(text: str) -> tuple[Expression, ...]:
    """Return the expressions `${...}` of a text, in order; raise `BadValueError` for an invalid one."""
    if "${" in _INTERPOLATED.sub("", text):
        raise BadValueError(f"`{text}` has a `${{` without its end", "write expressions as `${…}`, none inside another")
    return tuple(map(_parsed, _INTERPOLATED.findall(text)))


def key_named(name: str, keys: Mapping[str, object]) -> str | None:
    """Return the key with this name, or the only key with this last part; None if there is no such key."""
    if name in keys:
        return name
    ending = [key for key in keys if key.endswith(f".{name}")]
    return ending[0] if len(ending) == 1 else None


def number_of(value: Any) -> Any:
    """Return a text with a unit as a number in its SI base unit, and any other value unchanged."""
    if isinstance(value, str):
        for dimension in UNITS:
            try:
                return parse_quantity(value, dimension)
            except BadValueError:
                continue
    return value
