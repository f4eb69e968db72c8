"""Program for the engine: groups of lanes, their phases and tasks. Nothing in this module depends on IPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Work:
    """Fixed time during which a lane is busy."""

    name: str
    parts: tuple[tuple[str, int], ...]  # (kind, duration), in order [ps]
    jitter: str = ""  # key in `Program.jitters` of its variation; empty for none
    steady: bool = False  # True if a slowdown of the lane does not affect it, such as work on another device


@dataclass(frozen=True, slots=True)
class Transfer:
    """Data that passes over several shared channels at once."""

    name: str
    kind: str  # kind of time
    channels: tuple[tuple[str, int], ...]  # (channel, time of the transfer on this channel alone) [ps]
    latency_ps: int = 0  # time before the channels are occupied [ps]
    # transfers that share a channel progress at equal rates in this unit, for example bytes; 0 stands for the longest
    # time on a channel
    size: int = 0
    # receiving lane, if there is one; for the arrows of a timeline
    receiver: str = field(default="", compare=False)
    tensor_count: int = field(default=1, compare=False)

    @property
    def units(self) -> int:
        """Size [B], or the longest time on a channel [ps] if there is no size; at least 1."""
        return self.size or max((time for _, time in self.channels), default=0) or 1


@dataclass(frozen=True, slots=True)
class Collective:
    """Collective to which exchanges of several lanes belong; the engines ignore it."""

    name: str  # `all_reduce`, `reduce_scatter`, `all_gather` or `all_to_all`
    members: tuple[int, ...]  # numbers of the participants, in ring order
    # size of all tensors together [B]: of a reduction its input, of an all-gather its output, of an all-to-all the
    # input of one member, including the part that stays there
    whole_bytes: float
    tensor_count: int  # tensors, each with the latency of every step
    exchanges: int  # number of exchanges of each member
    of_shards: bool = False  # True if the members share layers; a software stack may use other rings for these


@dataclass(frozen=True, slots=True)
class Exchange:
    """Transfers that a lane starts together; the lane continues when all have ended."""

    transfers: tuple[Transfer, ...]
    collective: Collective | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Point at which all lanes that name the same key wait for each other; re-arms after each meeting."""

    key: str  # name of the barrier
    kind: str  # kind of time of waiting


@dataclass(frozen=True, slots=True)
class Acquire:
    """Removal of one token from a semaphore, with a wait if there is none; one lane acquires, another releases."""

    key: str
    kind: str  # kind of time of waiting


@dataclass(frozen=True, slots=True)
class Release:
    """Addition of one token to a semaphore."""

    key: str


Step = Work | Exchange | Barrier | Acquire | Release


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps of all lanes of a group; the lanes wait for each other at the end of each repetition."""

    name: str
    count: int  # repetitions, 1 or more
    steps: Mapping[str, tuple[Step, ...]]  # steps by lane; a lane without steps only waits
    wait_kind: str  # kind of time of waiting at the end


@dataclass(frozen=True, slots=True)
class Group:
    """Lanes that run the same phases in lock-step."""

    name: str
    lanes: tuple[str, ...]
    phases: tuple[Phase, ...]  # phases in order
    # number of leading phases that are not accounted; all accounted lanes of the program end them at the same instant
    warm_up: int = 0
    # False for helper lanes, whose accounts are separate and need not add up to the makespan
    accounted: bool = True
    turns: int = 1  # number of repetitions of all phases


@dataclass(frozen=True, slots=True)
class Jitter:
    """Random change of the duration of work, sampled at each execution.

    Lanes with the same stream get the same samples: the n-th execution on one lane varies as the n-th on another.
    """

    stream: int  # number of the random stream
    # equally likely values, at least 2, a power of two in number [ps], or [2^-32 of the duration of the work]
    table: tuple[int, ...]
    relative: bool = False  # True if values are fractions of the duration of the work


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Period during which a lane or channel has a part of its speed; steady work is not affected."""

    name: str  # lane or channel; slowdowns of one name do not overlap
    speed: Fraction  # remaining speed as a fraction of nominal
    start_ps: int = 0  # begin [ps]
    end_ps: int | None = None  # end; None for never [ps]


@dataclass(frozen=True, slots=True)
class Program:
    """Groups of lanes; groups interact through barriers, semaphores and channels only."""

    groups: tuple[Group, ...]
    semaphores: Mapping[str, int] = field(default_factory=dict)  # initial tokens of each semaphore
    jitters: Mapping[str, Jitter] = field(default_factory=dict)
    slowdowns: tuple[Slowdown, ...] = ()  # lanes and channels that are slower for a time
    seed: int = 0  # seed of all samples

    @property
    def lanes(self) -> frozenset[str]:
        """Names of all lanes."""
        return frozenset(lane for group in self.groups for lane in group.lanes)
