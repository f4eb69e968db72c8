"""What a variant and overrides change in a scenario: key, before, after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podsim.scenario.document import Document, KeyPath

_ALIAS: Final = "base"
_VALUE: Final = "value"
_NULL: Final = "null"


@dataclass(frozen=True, slots=True)
class Change:
    """A key that is not as the file has it.

    Attributes:
        key: Its path, for example `system.host_count`.
        before: The value in the file, or in the files that it names; None if there is none.
        after: What was simulated; None if it was left out, `null` if that takes away what a preset brings.
    """

    key: str
    before: object
    after: object


def changes(
    file: Document, asked: Document, inherited: Callable[[], Mapping[str, Any]], outcome: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Every key that differs, in the order in which they stand in the file and then in what was asked.

    Args:
        file: The file without variants, the files it names left as names.
        asked: The same under variant and overrides.
        inherited: The file with all that it refers to; called if a key is not in the file itself.
        outcome: What was asked with all that it refers to.
    """
    before, after = dict(_leaves(file.data)), dict(_leaves(asked.data))
    # A `null` where the file says nothing may take away what a preset brings.
    after |= {path: _NULL for path, value in after.items() if value is None and path not in before}
    differing = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    beneath = inherited() if any(path not in before for path in differing) else {}
    found = (
        Change(
            ".".join(map(str, path)),
            before[path] if path in before else _at(beneath, path),
            after[path] if path in after else _at(outcome, path),
        )
        for path in differing
    )
    return tuple(change for change in found if change.before != change.after)


def _leaves(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Paths of all that is no mapping; a name and a mapping with that name as its `base` are the same."""
    if not isinstance(value, Mapping):
        yield path, value
    elif _VALUE in value:
        yield path, value[_VALUE]
    else:
        for key, part in value.items():
            yield from _leaves(part, path if key == _ALIAS and path else (*path, key))


def _at(data: Any, path: KeyPath) -> Any:
    """The value at a path: the name of a whole file, the number of a sourced number."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    if isinstance(data, Mapping):
        return data.get(_VALUE, data.get("name"))
    return data
