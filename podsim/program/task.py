"""Tasks: what a program tells the engine to do. Nothing here knows what an IPU is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Work:
    """A lane is busy for a fixed time."""

    name: str
    parts: tuple[tuple[str, int], ...]  # (kind, duration), in order [ps]
    jitter: str = ""  # name of what makes it shorter or longer each time, if anything does
    steady: bool = False  # whether it takes as long on a lane that is slow, as what is done elsewhere does


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that passes over shared channels, all of them at once."""

    name: str
    kind: str  # kind of time it is accounted as
    channels: tuple[tuple[str, int], ...]  # (channel, time the transfer needs on that channel alone) [ps]
    latency_ps: int = 0  # paid first, while no channel is occupied [ps]
    # by which transfers that share a channel are treated alike, for example in bytes; 0 for the longest of the times on
    # its channels
    size: int = 0
    # the lane that it goes to, if it goes to one; a timeline points at it
    receiver: str = field(default="", compare=False)
    tensor_count: int = field(default=1, compare=False)

    @property
    def units(self) -> int:
        """Its size [B], or the longest time [ps] of one without a size; at least 1."""
        return self.size or max((time for _, time in self.channels), default=0) or 1


@dataclass(frozen=True, slots=True)
class Collective:
    """What exchanges of several lanes do together; no engine looks at it."""

    name: str  # `all_reduce`, `reduce_scatter`, `all_gather` or `all_to_all`
    members: tuple[int, ...]  # numbers of those who take part, in the order of their ring
    # of all tensors together: what is reduced, what everybody has once it is gathered, or what each puts into an all-
    # to-all with the part that it keeps [B]
    whole_bytes: float
    tensor_count: int  # tensors, each with the latency of every step
    exchanges: int  # in how many exchanges of each member it is done
    of_shards: bool = False  # whether its members share layers, for which a stack may have other rings


@dataclass(frozen=True, slots=True)
class Exchange:
    """Transfers that a lane starts together; it goes on when all have ended."""

    transfers: tuple[Transfer, ...]
    collective: Collective | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Lanes whose programs name the same key wait for one another, each time anew."""

    key: str  # which lanes meet
    kind: str  # kind of time that waiting is accounted as


@dataclass(frozen=True, slots=True)
class Acquire:
    """Take one token of a semaphore; wait for it if there is none. One lane takes, another one gives."""

    key: str
    kind: str  # kind of time that waiting is accounted as


@dataclass(frozen=True, slots=True)
class Release:
    """Give one token to a semaphore."""

    key: str


Step = Work | Exchange | Barrier | Acquire | Release


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps of all lanes of a group; every lane of the group joins at the end of each repetition."""

    name: str
    count: int  # repetitions, 1 or more
    steps: Mapping[str, tuple[Step, ...]]  # steps by lane; a lane without steps only joins
    wait_kind: str  # kind of time that waiting at the join is accounted as


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes that go through the same phases in lock-step."""

    name: str  # what the lanes have in common
    lanes: tuple[str, ...]
    phases: tuple[Phase, ...]  # what they go through, in order
    # leading phases that lead to a steady state and are not accounted; all accounted lanes of the program leave them at
    # the same instant
    warm_up: int = 0
    # whether these lanes make up the result; helpers have accounts of their own, which need not add up
    accounted: bool = True
    turns: int = 1  # how often they go through all of them


@dataclass(frozen=True, slots=True)
class Jitter:
    """How much longer work takes than its parts say, drawn anew each time.

    Lanes of one stream draw the same: the n-th time one of them does such work, it gets what the others get the n-th
    time that they do it.
    """

    stream: int
    # equally likely values: 2, 4, 8 or more, a power of two. [ps], or 2^-32 of the work's own time
    table: tuple[int, ...]
    relative: bool = False  # whether the values are shares of the work's own time


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A lane that works, or a channel that carries, at a part of its speed for a time; steady work keeps its time."""

    name: str  # the lane or the channel; no two slowdowns of one name overlap
    speed: Fraction  # share of its speed that is left, 0 for none of it
    start_ps: int = 0  # when it begins [ps]
    end_ps: int | None = None  # when it is over; None for never [ps]


@dataclass(frozen=True, slots=True)
class Program:
    """All groups of lanes; groups meet at barriers, semaphores and on channels only."""

    groups: tuple[Group, ...]
    semaphores: Mapping[str, int] = field(default_factory=dict)  # tokens that each semaphore starts with
    jitters: Mapping[str, Jitter] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()  # lanes and channels that are slower for a time
    seed: int = 0  # of everything that is drawn

    @property
    def lanes(self) -> frozenset[str]:
        """Names of all lanes."""
        return frozenset(lane for group in self.groups for lane in group.lanes)
