"""What a variant and overrides change in a scenario: key, before, after."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from podsim.specs.document import Document, KeyPath

_ALIAS: Final = "base"
_VALUE: Final = "value"


@dataclass(frozen=True, slots=True)
class Change:
    """A key that is not as the file has it.

    Attributes:
        key: Its path, for example `system.host_count`.
        before: What the file says, or what stands in the files it names; None if nobody says it.
        after: What was simulated; None if it was left out.
    """

    key: str
    before: object
    after: object

    def to_dict(self) -> dict[str, object]:
        """The change as plain data."""
        return asdict(self)


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
