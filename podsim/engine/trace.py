"""The trace of an execution: accounts that add up, and the records of a timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

IDLE = "idle"
"""Kind of time of a lane that has come to its end before others."""


CONTENTION = "contention"
"""Kind of time that exchanges lose to transfers of other kinds on their channels."""


@dataclass(frozen=True, slots=True)
class Record:
    """One stretch of time of a lane or channel."""

    lane: str  # the lane, or the channel that was occupied
    kind: str
    name: str
    start_ps: int  # begin of the first repetition [ps]
    end_ps: int  # end of the first repetition [ps]
    repeat_count: int = 1  # repetitions that it stands for
    repeat_period_ps: int = 0  # from the start of one repetition to the next [ps]
    receiver: str = ""  # the lane that a message goes to


@dataclass(frozen=True, slots=True)
class ChannelUse:
    """Constant use of a channel by one transfer, in each of some repetitions."""

    channel: str
    share: float  # of the channel's speed
    start_ps: int  # begin in the first repetition [ps]
    end_ps: int  # end in the first repetition [ps]
    repeat_count: int = 1
    repeat_period_ps: int = 0


@dataclass(frozen=True, slots=True)
class PhaseRecord:
    """One phase of one group, all repetitions together."""

    group: str
    name: str
    count: int
    start_ps: int  # begin of the first repetition [ps]
    end_ps: int


@dataclass(frozen=True, slots=True)
class Trace:
    """An execution."""

    makespan_ps: int  # end of the last task [ps]
    lanes: Mapping[str, Mapping[str, int]]  # time of every lane by kind; each adds up to the makespan [ps]
    records: tuple[Record, ...]  # the timeline, if it was asked for, with the channels as lanes of their own
    channels: frozenset[str]  # names among the records' lanes that are channels
    phases: tuple[PhaseRecord, ...]  # when each phase of each group ran
    # steps that lanes took, meetings at the ends of phases and transfers, those of repetitions included that an engine
    # need not step through: the same on every engine
    event_count: int
    # time by kind of the lanes that are not accounted, after their warm-up [ps]
    helpers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    # when each turn of each accounted group ended [ps]
    turns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    engine: str = "simpy"  # which engine ran the program, `simpy` or `compiled`
    # transfers to other lanes, from when the sender turned to them until they were there, if the timeline was asked for
    messages: tuple[Record, ...] = ()
    # of each lane that lost time to other kinds: time by (kind that lost it, kind that it shared channels with) [ps]
    shared: Mapping[str, Mapping[tuple[str, str], int]] = field(default_factory=dict)
    # how full the channels were over time, if the timeline was asked for
    uses: tuple[ChannelUse, ...] = ()


def expand(records: Iterable[Record]) -> Iterator[Record]:
    """Every repetition as a record of its own."""
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


def without_nothing(account: Mapping[str, int]) -> dict[str, int]:
    """An account without the kinds that took no time."""
    return {kind: time for kind, time in account.items() if time}
