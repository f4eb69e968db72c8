"""Tasks: what a program tells the engine to do. Nothing here knows what an IPU is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Work:
    """A lane is busy for a fixed time.

    Attributes:
        name: What it does.
        parts: (kind, duration), in order. [ps]
        jitter: Name of what makes it shorter or longer each time, if anything does.
        steady: Whether it takes as long on a lane that is slow, as what is done elsewhere does.
    """

    name: str
    parts: tuple[tuple[str, int], ...]
    jitter: str = ""
    steady: bool = False


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that passes over shared channels, all of them at once.

    Attributes:
        name: What is sent.
        kind: Kind of time it is accounted as.
        channels: (channel, time the transfer needs on that channel alone). [ps]
        latency_ps: Paid first, while no channel is occupied. [ps]
        size: By which transfers that share a channel are treated alike, for example in bytes; 0 for the longest of
            the times on its channels.
        receiver: The lane that it goes to, if it goes to one; a timeline points at it.
        tensor_count: Tensors that it is made of.
    """

    name: str
    kind: str
    channels: tuple[tuple[str, int], ...]
    latency_ps: int = 0
    size: int = 0
    receiver: str = field(default="", compare=False)
    tensor_count: int = field(default=1, compare=False)

    @property
    def units(self) -> int:
        """Its size [B], or the longest time [ps] of one without a size; at least 1."""
        return self.size or max((time for _, time in self.channels), default=0) or 1


@dataclass(frozen=True, slots=True)
class Collective:
    """What exchanges of several lanes do together; no engine looks at it.

    Attributes:
        name: `all_reduce`, `reduce_scatter`, `all_gather` or `all_to_all`.
        members: Numbers of those who take part, in the order of their ring.
        whole_bytes: Of all tensors together: what is reduced, what everybody has once it is gathered, or what each puts
            into an all-to-all with the part that it keeps. [B]
        tensor_count: Tensors, each with the latency of every step.
        exchanges: In how many exchanges of each member it is done.
        of_shards: Whether its members share layers, for which a stack may have other rings.
    """

    name: str
    members: tuple[int, ...]
    whole_bytes: float
    tensor_count: int
    exchanges: int
    of_shards: bool = False


@dataclass(frozen=True, slots=True)
class Exchange:
    """Transfers that a lane starts together; it goes on when all have ended.

    Attributes:
        transfers: All of them.
        collective: What it is a part of, if it is.
    """

    transfers: tuple[Transfer, ...]
    collective: Collective | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Lanes whose programs name the same key wait for one another, each time anew.

    Attributes:
        key: Which lanes meet.
        kind: Kind of time that waiting is accounted as.
    """

    key: str
    kind: str


@dataclass(frozen=True, slots=True)
class Acquire:
    """Take one token of a semaphore; wait for it if there is none. One lane takes, another one gives.

    Attributes:
        key: Which semaphore.
        kind: Kind of time that waiting is accounted as.
    """

    key: str
    kind: str


@dataclass(frozen=True, slots=True)
class Release:
    """Give one token to a semaphore.

    Attributes:
        key: Which semaphore.
    """

    key: str


Step = Work | Exchange | Barrier | Acquire | Release


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
    """Lanes that go through the same phases in lock-step.

    Attributes:
        name: What the lanes have in common.
        lanes: Their names.
        phases: What they go through, in order.
        warm_up: Leading phases that lead to a steady state and are not accounted; all accounted lanes
            of the program leave them at the same instant.
        accounted: Whether these lanes make up the result; helpers have accounts of their own, which need not add up.
        turns: How often they go through all of them.
    """

    name: str
    lanes: tuple[str, ...]
    phases: tuple[Phase, ...]
    warm_up: int = 0
    accounted: bool = True
    turns: int = 1


@dataclass(frozen=True, slots=True)
class Jitter:
    """How much longer work takes than its parts say, drawn anew each time.

    Lanes of one stream draw the same: the n-th time one of them does such work, it gets what the others get the n-th
    time that they do it.

    Attributes:
        stream: Number of the stream.
        table: Equally likely values: 2, 4, 8 or more, a power of two. [ps], or 2^-32 of the work's own time
        relative: Whether the values are shares of the work's own time.
    """

    stream: int
    table: tuple[int, ...]
    relative: bool = False


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A lane that works, or a channel that carries, at a part of its speed for a time; steady work keeps its time.

    Attributes:
        name: The lane or the channel; no two slowdowns of one name overlap.
        speed: Share of its speed that is left, 0 for none of it.
        start_ps: When it begins. [ps]
        end_ps: When it is over; None for never. [ps]
    """

    name: str
    speed: Fraction
    start_ps: int = 0
    end_ps: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """All groups of lanes; groups meet at barriers, semaphores and on channels only.

    Attributes:
        groups: All of them.
        semaphores: Tokens that each semaphore starts with.
        jitters: What works name.
        slowdowns: Lanes and channels that are slower for a time.
        seed: Of everything that is drawn.
    """

    groups: tuple[Group, ...]
    semaphores: Mapping[str, int] = field(default_factory=dict)
    jitters: Mapping[str, Jitter] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()
    seed: int = 0

    @property
    def lanes(self) -> frozenset[str]:
        """Names of all lanes."""
        return frozenset(lane for group in self.groups for lane in group.lanes)
