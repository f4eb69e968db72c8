"""Tasks: what a program tells the engine to do. Nothing here knows what an IPU is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """A lane is busy for a fixed time.

    Attributes:
        name: What it does.
        parts: (kind, duration), in order. [ps]
    """

    name: str
    parts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that passes over shared channels, all of them at once.

    Attributes:
        name: What is sent.
        kind: Kind of time it is accounted as.
        channels: (channel, time the transfer needs on that channel alone). [ps]
        latency_ps: Paid first, while no channel is occupied. [ps]
    """

    name: str
    kind: str
    channels: tuple[tuple[str, int], ...]
    latency_ps: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """Transfers that a lane starts together; it goes on when all have ended."""

    transfers: tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """Lanes whose programs name the same key wait for one another, each time anew.

    Attributes:
        key: Which lanes meet.
        kind: Kind of time that waiting is accounted as.
    """

    key: str
    kind: str


Step = Work | Exchange | Barrier


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps of all lanes of a group; every lane of the group joins at the end of each repetition.

    Attributes:
        name: What the phase is.
        count: Repetitions, 1 or more.
        steps: Steps by lane; a lane without steps only joins.
        wait_kind: Kind of time that waiting at the join is accounted as.
    """

    name: str
    count: int
    steps: Mapping[str, tuple[Step, ...]]
    wait_kind: str


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes that go through the same phases in lock-step."""

    name: str
    lanes: tuple[str, ...]
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """All groups of lanes; groups meet at barriers and on channels only."""

    groups: tuple[Group, ...]
