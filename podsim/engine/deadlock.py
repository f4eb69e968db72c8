"""Error message of a deadlock."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.errors import DeadlockError

STOPPED, TRANSFER = "work at no speed", "transfer at no speed"
"""Texts for a lane that works, or whose transfers flow, at no speed; used in place of a barrier's name."""
_MOST_NAMED = 5


def deadlock_error(stuck: Sequence[tuple[str, str]]) -> DeadlockError:
    """Return the error that names lanes and what each waits for, from pairs (lane, name of what it waits for)."""
    stuck = sorted(stuck, key=lambda each: each[1] not in (STOPPED, TRANSFER))  # the cause of other waits comes first
    named = ", ".join(f"{lane} at `{name}`" for lane, name in stuck[:_MOST_NAMED])
    more = f" and {len(stuck) - _MOST_NAMED} more" if len(stuck) > _MOST_NAMED else ""
    slow = any(name in (STOPPED, TRANSFER) for _, name in stuck)
    do = "give all lanes of a barrier the same number of passes through it"
    return DeadlockError(
        f"lanes wait for ever: {named}{more}",
        do="let slowed lanes and channels keep a part of their speed, or get it back" if slow else do,
    )
