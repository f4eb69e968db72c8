"""Values of a `config.json`, each with where it comes from; what is wrong is collected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.importer.config_file import ConfigFile, printable
from podsim.scenario.wording import shown

Value = int | float | str | bool | tuple[int, ...] | tuple[str, ...] | dict[str, int]
_MOST = 10**9
_PLAIN_FLAG = "write `true` or `false`"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a scenario.

    Attributes:
        key: The scenario's key.
        value: What stands there.
        origin: Where the value comes from.
    """

    key: str
    value: Value
    origin: str = ""

    @property
    def whole(self) -> int:
        """The value where it is a whole number."""
        assert isinstance(self.value, int)
        return self.value


class Reader:
    """Reads keys as the library does that wrote the file: what is left out has that library's default.

    Attributes:
        config: The file.
        family: Architecture, as `model_type` names it.
        notes: What the file says and a scenario cannot.
    """

    def __init__(self, config: ConfigFile, family: str) -> None:
        """Start without problems."""
        self.config, self.family = config, family
        self.notes: list[str] = []
        self._problems: list[Problem] = []

    def complain(self, key: str, message: str, do: str) -> None:
        """Note a problem with a key of the file."""
        inside = key if key in self.config.places else ""
        self._problems.append(Problem(self.config.where(key), inside, message, do))

    def refuse(self, key: str, needs: str, do: str) -> None:
        """Note a value that is of the wrong kind."""
        self.complain(key, f"{needs}, not {_show(self.config.data[key])}", do)

    def check(self) -> None:
        """Raise everything that was noted.

        Raises:
            SpecError: Something was.
        """
        if self._problems:
            raise SpecError(self._problems)

    @property
    def sound(self) -> bool:
        """True as long as nothing was noted."""
        return not self._problems

    def given(self, *names: str) -> str | None:
        """The one of several names for the same thing that the file uses."""
        used = [name for name in names if name in self.config.data]
        for other in used[1:]:
            first, second = (self.config.data[name] for name in (used[0], other))
            if first != second:
                what = f"{other} is {_show(second)}, {used[0]} is {_show(first)}, and both mean the same"
                self.complain(other, what, "keep one of the two")
        return used[0] if used else None

    def whole(
        self, key: str, names: Sequence[str], default: int, *, null: int | None = None, why: str = "", most: int = _MOST
    ) -> Entry:
        """A whole number above zero.

        Args:
            key: Key of the scenario.
            names: Keys of the file that stand for it.
            default: What the library takes if there is none of them.
            null: What the library takes for `null`, if it accepts that.
            why: What the default means, where it follows from other keys.
            most: Above it, the number is beyond reason.
        """
        name = self.given(*names)
        if name is None:
            return Entry(key, default, self.absent(names[0], why))
        value = self.config.data[name]
        if value is None and null is not None:
            return Entry(key, null, f"{name} is null: {why}")
        problem = _number_problem(value, most)
        if problem:
            self.complain(name, *problem)
            return Entry(key, default)
        return Entry(key, value, name)

    def flag(self, key: str, name: str, *, default: bool) -> Entry:
        """True or false."""
        if name not in self.config.data:
            return Entry(key, default, self.absent(name))
        value = self.config.data[name]
        if not isinstance(value, bool):
            self.refuse(name, "needs true or false", _PLAIN_FLAG)
            return Entry(key, default)
        return Entry(key, value, name)

    def share(self, key: str, name: str, *, default: float, one: bool = False) -> Entry:
        """A number from 0 to below 1, or to 1."""
        if name not in self.config.data:
            return Entry(key, default, self.absent(name))
        value = self.config.data[name]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and (0 <= value < 1 or (one and value == 1)):
            return Entry(key, float(value), name)
        needs, example = ("0 to 1", default) if one else ("0 to below 1", 0.1)
        self.refuse(name, f"needs a number from {needs}", f"write for example `{example}`")
        return Entry(key, default)

    def word(self, name: str, default: str) -> str:
        """A text, or the default's."""
        value = self.config.data.get(name, default)
        if isinstance(value, str):
            return printable(value)
        self.refuse(name, "needs text", f'write for example `"{default}"`')
        return default

    def absent(self, name: str, why: str = "") -> str:
        """Where a value comes from that the file leaves out."""
        return f"{name} is not in the file: {why or f'default of {self.family}'}"


def _number_problem(value: Any, most: int) -> tuple[str, str] | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"needs a whole number, not {_show(value)}", "write for example `12`"
    if value < 1:
        return f"{_show(value)} is too small", "write 1 or more"
    if value > most:
        return f"{_show(value)} is too large", f"write {most} or less"
    return None


def _show(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MOST:
        return f"`{'-' if value < 0 else ''}1e{int(math.log10(abs(value)))}`"
    return printable(shown(value))
