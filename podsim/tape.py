"""Arithmetic that is recorded once, and repeated with other numbers without the code that it came from.

A `Tape` hands out numbers that remember how they were computed. Code that computes with them runs as with plain
numbers. Where it branches on such a number, or turns one into a plain number, the tape notes what it found. To repeat
the arithmetic, the tape evaluates each operation with other numbers; the result holds only if all notes still agree.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

_Operation = Callable[[Any, Any], Any]


class Tape:
    """Operations in the order in which they were first computed, each once."""

    def __init__(self) -> None:
        """Start without numbers."""
        self._values: list[Any] = []
        self._steps: list[tuple[int, _Operation, int, int]] = []
        self._inputs: list[int] = []
        self._known: dict[tuple[object, ...], Number] = {}
        self._constants: dict[tuple[type, object], int] = {}
        self._notes: dict[tuple[_Operation, int, int], bool] = {}

    def number(self, value: float) -> Number:
        """Return an input, whose value may differ when the arithmetic is repeated."""
        self._inputs.append(len(self._values))
        return self._added(value)

    def repeat(self, inputs: Sequence[float]) -> list[Any] | None:
        """Return the values of all numbers by place, for other inputs; None if the code would have branched."""
        values = self._values.copy()
        for place, value in zip(self._inputs, inputs, strict=True):
            values[place] = value
        try:
            for place, operation, one, other in self._steps:
                values[place] = operation(values[one], values[other])
            for (operation, one, other), outcome in self._notes.items():
                if bool(operation(values[one], values[other])) is not outcome:
                    return None
        except (ArithmeticError, ValueError):  # a step behind a branch that is not taken
            return None
        return values

    def computed(self, operation: _Operation, one: object, other: object) -> Number:
        """Return the result of an operation, of which at least one operand is a number of this tape."""
        places = self._place(one), self._place(other)
        found = self._known.get((operation, *places))
        if found is None:
            found = self._known[operation, *places] = self._added(operation(*(self._values[each] for each in places)))
            self._steps.append((found.place, operation, *places))
        return found

    def noted(self, operation: _Operation, one: object, other: object) -> bool:
        """Return the outcome of a comparison, and note it."""
        places = self._place(one), self._place(other)
        outcome = bool(operation(*(self._values[each] for each in places)))
        self._notes[operation, *places] = outcome
        return outcome

    def recorded(self, place: int) -> Any:
        """Return the value of a number when it was recorded."""
        return self._values[place]

    def _place(self, operand: object) -> int:
        if type(operand) is Number:
            return operand.place
        key = type(operand), operand
        if key not in self._constants:
            self._constants[key] = len(self._values)
            self._values.append(operand)
        return self._constants[key]

    def _added(self, value: float) -> Number:
        self._values.append(value)
        return Number(self, len(self._values) - 1)


def _forward(operation: _Operation) -> Callable[[Number, object], Any]:
    def compute(self: Number, other: object) -> Any:
        return self.tape.computed(operation, self, other)

    return compute


def _reflected(operation: _Operation) -> Callable[[Number, object], Any]:
    def compute(self: Number, other: object) -> Any:
        return self.tape.computed(operation, other, self)

    return compute


def _alone(operation: Callable[[Any], Any]) -> Callable[[Number], Any]:
    def apply(value: Any, _: Any) -> Any:
        return operation(value)

    def compute(self: Number) -> Any:
        return self.tape.computed(apply, self, self)

    return compute


def _compared(operation: _Operation) -> Callable[[Number, object], bool]:
    def compare(self: Number, other: object) -> bool:
        return self.tape.noted(operation, self, other)

    return compare


def _plain(convert: Callable[[Any], Any]) -> Callable[[Number], Any]:
    def to_plain(self: Number) -> Any:
        return convert(self.plain())

    return to_plain


def _never(value: Any, _: Any) -> bool:
    return bool(value)


class Number:
    """Number of a tape; places in dictionaries go by identity, since equal operations give the same object."""

    __slots__ = ("place", "tape")

    def __init__(self, tape: Tape, place: int) -> None:
        self.tape, self.place = tape, place

    @property
    def recorded(self) -> Any:
        """Value when the number was recorded."""
        return self.tape.recorded(self.place)

    def plain(self) -> Any:
        """Return the value as a plain number, and note that it has to be the same when the arithmetic is repeated."""
        value = self.recorded
        self.tape.noted(operator.eq, self, value)
        return value

    def __hash__(self) -> int:
        return hash((Number, self.place))

    def __bool__(self) -> bool:
        return self.tape.noted(_never, self, self)

    def __round__(self, digits: int | None = None) -> Any:
        return self._rounded() if digits is None else self.tape.computed(round, self, digits)

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Any, Any]:
        return other // self, other % self

    __add__, __radd__ = _forward(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _forward(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _forward(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _forward(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _forward(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _forward(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _forward(operator.pow), _reflected(operator.pow)
    __lshift__, __rlshift__ = _forward(operator.lshift), _reflected(operator.lshift)
    __neg__, __abs__, _rounded = _alone(operator.neg), _alone(abs), _alone(round)
    __ceil__, __floor__ = _alone(math.ceil), _alone(math.floor)
    __lt__, __le__ = _compared(operator.lt), _compared(operator.le)
    __gt__, __ge__ = _compared(operator.gt), _compared(operator.ge)
    __eq__, __ne__ = _compared(operator.eq), _compared(operator.ne)
    __float__, __int__, __index__ = _plain(float), _plain(int), _plain(operator.index)
    __trunc__, __str__, __repr__ = _plain(int), _plain(str), _plain(repr)
