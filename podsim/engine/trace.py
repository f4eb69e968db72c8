"""The trace of an execution: accounts that add up, and the records of a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

IDLE = "idle"
"""Kind of time after a lane's own end, until the last lane ends."""


CONTENTION = "contention"
"""Kind of time that exchanges lose to other kinds of transfers on shared channels."""


@dataclass(frozen=True, slots=True)
class Record:
    """Interval during which a lane or channel is busy with one thing."""

    lane: str  # the lane, or the channel that was occupied
    kind: str
    name: str
    start_ps: int  # begin of the first repetition [ps]
    end_ps: int  # end of the first repetition [ps]
    repeat_count: int = 1  # number of repetitions that this record represents
    repeat_period_ps: int = 0  # from the start of one repetition to the next [ps]
    receiver: str = ""  # receiving lane of a message


@dataclass(frozen=True, slots=True)
class ChannelUse:
    """Interval in which one transfer uses a constant share of a channel."""

    channel: str
    share: float  # share of the channel's speed
    start_ps: int  # begin in the first repetition [ps]
    end_ps: int  # end in the first repetition [ps]
    repeat_count: int = 1
    repeat_period_ps: int = 0


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """Time span of one phase of one group, from the first repetition to the last."""

    group: str
    name: str
    count: int
    start_ps: int  # begin of the first repetition [ps]
    end_ps: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Outcome of an execution."""

    makespan_ps: int  # end of the last task [ps]
    lanes: Mapping[str, Mapping[str, int]]  # time by kind, per lane; the kinds of a lane add up to the makespan [ps]
    records: tuple[Record, ...]  # timeline of lanes and channels; empty unless requested
    channels: frozenset[str]  # names of the channels among the lanes of `records`
    phases: tuple[PhaseRecord, ...]  # time span of each phase of each group
    # number of steps of lanes, barriers at the ends of phases, and transfers; includes repetitions that an engine
    # does not execute one by one, and is the same on every engine
    event_count: int
    # time by kind of the lanes of groups that are not accounted, after their warm-up [ps]
    helpers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # end of each turn of each accounted group [ps]
    turns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    engine: str = "simpy"  # engine that ran the program, `simpy` or `compiled`
    # transfers to other lanes, from the start of the sender's exchange to the arrival; empty unless requested
    messages: tuple[Record, ...] = ()
    # for each lane that lost time to other kinds: lost time by (kind that lost it, kind that caused it) [ps]
    shared: Mapping[str, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    # use of channels over time; empty unless the timeline was requested
    uses: tuple[ChannelUse, ...] = ()


def expand(records: Iterable[Record]) -> Iterator[Record]:
    """Yield each repetition of each record as a separate record."""
    for record in records:
        for number in range(record.repeat_count):
            shift = number * record.repeat_period_ps
            yield replace(
                record,
                start_ps=record.start_ps + shift,
                end_ps=record.end_ps + shift,
                repeat_count=1,
                repeat_period_ps=0,
            )


def without_zeros(account: Mapping[str, int]) -> dict[str, int]:
    """Return an account without the kinds that took no time."""
    return {kind: time for kind, time in account.items() if time}
