"""Lanes that wait for ever, in words."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.errors import DeadlockError

STOPPED, TRANSFER = "work at no speed", "transfer at no speed"
"""What a lane is said to wait for that works, or whose transfers flow, at no speed."""
_MOST_NAMED = 5


def waiting_for_ever(stuck: Sequence[tuple[str, str]]) -> DeadlockError:
    """The error that names lanes, and what each waits for."""
    named = ", ".join(f"{lane} at `{name}`" for lane, name in stuck[:_MOST_NAMED])
    more = f" and {len(stuck) - _MOST_NAMED} more" if len(stuck) > _MOST_NAMED else ""
    slow = any(name in (STOPPED, TRANSFER) for _, name in stuck)
    do = "give all lanes of a barrier the same number of passes through it"
    return DeadlockError(
        f"lanes wait for ever: {named}{more}",
        do="let slowed lanes and channels keep a part of their speed, or get it back" if slow else do,
    )
