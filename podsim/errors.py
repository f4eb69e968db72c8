"""Errors of podsim.

PodsimError             everything a user can mend; printed without a traceback
├── SpecError           a file is wrong: all its problems in one raise, each with its place
├── ModelError          a file is well-formed, but its model cannot be built
├── InfeasibleError     the answer is "no": a result, not a mistake
│   ├── DoesNotFitError a memory is too small
│   │   └── MissingMethodError one that no pipeline spares, though other ways of training do
│   └── NoPlanError     no way to divide the work was found
├── MissingDataError    a number is missing, and none is invented
├── OutputError         a file cannot be written
├── EngineError         the engine that was asked for cannot run this
└── DeadlockError       a program waits for itself: a bug of podsim

Anything else is a bug of podsim and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

_MOST_TOLD = 50
"""Most problems of a file that an error prints; all are in `SpecError.problems`."""


class _PortableError(Exception):
    """Exception that can be pickled and copied; `Exception` would call the constructor with only the message.

    Otherwise a worker of `multiprocessing.Pool` that raises would kill the thread that collects results.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the class, the arguments of `Exception`, and every attribute, notes included."""
        return _rebuilt, (type(self), self.args), self.__dict__.copy()


def _rebuilt(kind: type[_PortableError], arguments: tuple[Any, ...]) -> _PortableError:
    """Return an error without its attributes; its constructor is not called."""
    return kind.__new__(kind, *arguments)


class PodsimError(_PortableError):
    """Error that says what is wrong, where, and what to do about it.

    Attributes:
        message: Description of the error.
        where: `file:line:column [key.path]`, if the error is in a file.
        do: The cure.
    """

    def __init__(self, message: str, *, where: str | None = None, do: str | None = None) -> None:
        super().__init__(message)
        self.message, self.where, self.do = message, where, do

    def __str__(self) -> str:
        """Return `where: message`, then the cure on a line of its own."""
        first = f"{self.where}: {self.message}" if self.where else self.message
        return f"{first}\n  do: {self.do}" if self.do else first

    def with_place(self, where: str) -> Self:
        """Return this error with a place, unless it has one."""
        self.where = self.where or where
        return self


@dataclass(frozen=True, slots=True)
class Problem:
    """Error in a file."""

    where: str  # `file:line:column`
    key: str  # dotted path of the key, empty for the whole file
    message: str
    do: str | None = None  # the cure, if one is known

    def __str__(self) -> str:
        """Return `file:line:column [key]: message`, then the cure on a line of its own."""
        place = " ".join(part for part in (self.where, f"[{self.key}]" if self.key else "") if part)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}\n  do: {self.do}" if self.do else text


class BadValueError(_PortableError, ValueError):
    """A value that is not possible; the caller that knows its place turns it into a `Problem`."""

    def __init__(self, message: str, do: str) -> None:
        super().__init__(message)
        self.do = do


class SpecError(PodsimError):
    """A specification or scenario is wrong.

    Attributes:
        problems: All problems, in order of place.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        more = f"\nand {len(problems) - _MOST_TOLD:,} more" if len(problems) > _MOST_TOLD else ""
        super().__init__("\n".join(str(problem) for problem in problems[:_MOST_TOLD]) + more)
        self.problems = tuple(problems)


class ModelError(PodsimError):
    """The dimensions of a model do not go together."""

    def __init__(self, message: str, *, key: str, do: str) -> None:
        super().__init__(message, do=do)
        self.key = key  # dotted path of the key to blame


class InfeasibleError(PodsimError):
    """Request that this hardware cannot meet."""


class DoesNotFitError(InfeasibleError):
    """A memory is too small for what must live in it."""


class MissingMethodError(DoesNotFitError):
    """An IPU is too small for a pipeline, however it is cut; the pod is not too small for the training."""


class NoPlanError(InfeasibleError):
    """No way to divide the work was found."""


class MissingDataError(PodsimError):
    """A number is needed that is not known.

    Attributes:
        key: Dotted path of the key that asks for it.
    """

    def __init__(
        self, message: str, *, where: str | None = None, do: str | None = None, key: str = "parallelism"
    ) -> None:
        super().__init__(message, where=where, do=do)
        self.key = key


class OutputError(PodsimError):
    """A file cannot be written."""


class DeadlockError(PodsimError):
    """Lanes of a program wait for something that never comes."""


class EngineError(PodsimError):
    """The engine that was asked for cannot run this."""
