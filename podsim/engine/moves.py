"""Executable form of the steps of lanes on SimPy: work, waits at barriers, waits for tokens, exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from simpy import Environment, Event

from podsim.engine.deadlock import STOPPED
from podsim.engine.network import Loads, Network
from podsim.program.task import Acquire, Barrier, Exchange, Group, Release, Step, Transfer, Work

# (lane, kind, name, start, end, receiver of a message)
Entry = tuple[str, str, str, int, int, str]
# A stretch of work: (kind, name, duration)
_Stretch = tuple[str, str, int]


class Meeting:
    """Barrier that re-arms when all its parties have arrived."""

    __slots__ = ("env", "event", "name", "parties", "waiting")

    def __init__(self, env: Environment, name: str) -> None:
        self.env, self.name, self.parties = env, name, 0
        self.event = Event(env)
        self.waiting: list[str] = []

    def arrive(self, lane: str) -> Event | None:
        """Return the event that the lane has to wait for, or None if the lane is the last to arrive."""
        self.waiting.append(lane)
        if len(self.waiting) < self.parties:
            return self.event
        self.waiting = []
        if self.event.callbacks:
            self.event.succeed()
            self.event = Event(self.env)
        return None


class Semaphore:
    """Counter of tokens that one lane releases and another takes."""

    __slots__ = ("env", "taker", "tokens", "waiting")

    def __init__(self, env: Environment, tokens: int) -> None:
        self.env, self.tokens = env, tokens
        self.waiting: Event | None = None
        self.taker = ""

    def arrive(self, lane: str) -> Event | None:
        """Take a token; return the event that the lane has to wait for, or None if there was a token."""
        if self.tokens:
            self.tokens -= 1
            return None
        self.waiting, self.taker = Event(self.env), lane
        return self.waiting

    def release(self) -> None:
        """Hand a token to the waiting lane, or store it."""
        if self.waiting is None:
            self.tokens += 1
        else:
            self.waiting.succeed()
            self.waiting = None


@dataclass(frozen=True, slots=True)
class Give:
    """Release of a token."""

    semaphore: Semaphore


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait at a barrier or for a token, with the kind of time that the wait is accounted as."""

    place: Meeting | Semaphore
    kind: str


@dataclass(frozen=True, slots=True)
class Send:
    """Exchange: its transfers in order of latency, with their channel loads."""

    transfers: Sequence[tuple[Transfer, Loads]]


@dataclass(frozen=True, slots=True)
class Busy:
    """Uninterrupted work, with its time by kind."""

    duration: int
    stretches: Sequence[_Stretch]
    totals: Sequence[tuple[str, int]]
    jitter: str = ""
    steady: bool = False

    def records(self, lane: str, start: int, lasting: int) -> Iterator[Entry]:
        """Yield every stretch with its begin and end; the last stretch includes what jitter or slowness adds."""
        end = start + lasting
        for number, (kind, name, duration) in enumerate(self.stretches):
            begin, start = start, end if number == len(self.stretches) - 1 else min(end, start + duration)
            yield lane, kind, name, begin, start, ""


Move = Busy | Wait | Send | Give
NOTHING = Busy(0, (), ())


class Moves:
    """Moves for the steps of a program; equal steps share one move."""

    def __init__(self, env: Environment, network: Network, semaphores: Mapping[str, int]) -> None:
        self._env, self._network = env, network
        self._stopped: list[str] = []
        self._meetings: dict[str, Meeting] = {}
        self._semaphores = {key: Semaphore(env, count) for key, count in semaphores.items()}
        # By the identity of tasks, which lanes and phases share and the program keeps alive.
        self._busy_moves: dict[tuple[int, ...], Busy] = {}
        self._known: dict[int, Move] = {}
        self._loads: dict[int, Loads] = {}

    def invite(self, group: Group) -> None:
        """Count the lanes that name each barrier."""
        named = {
            (step.key, lane)
            for phase in group.phases
            for lane, steps in phase.steps.items()
            for step in steps
            if isinstance(step, Barrier)
        }
        for key, _ in named:
            self.meeting(key).parties += 1

    def meeting(self, name: str) -> Meeting:
        """Return the barrier with this name, creating it on first use."""
        return self._meetings.setdefault(name, Meeting(self._env, name))

    def stop(self, lane: str) -> None:
        """Record that a lane works at no speed and therefore never ends."""
        self._stopped.append(lane)

    def waiting_lanes(self) -> list[tuple[str, str]]:
        """Return (lane, name of what it waits for) for every lane that waits."""
        waiting = [(lane, meeting.name) for meeting in self._meetings.values() for lane in meeting.waiting]
        waiting += [
            (semaphore.taker, key) for key, semaphore in self._semaphores.items() if semaphore.waiting is not None
        ]
        return waiting + [(lane, STOPPED) for lane in self._stopped]

    def moves_for(self, steps: Sequence[Step]) -> list[Move]:
        """Return the moves for some steps; adjacent work is merged into one move, an empty exchange is left out."""
        moves: list[Move] = []
        works: list[Work] = []
        for step in steps:
            more = step if isinstance(step, Work) and not step.jitter else None
            if works and (more is None or more.steady != works[0].steady):
                moves.append(self._busy(works))
                works = []
            if more is not None:
                works.append(more)
                continue
            if (move := self._known.get(id(step))) is None:
                move = self._known[id(step)] = self._move(step)
            if move is not NOTHING:
                moves.append(move)
        if works:
            moves.append(self._busy(works))
        return moves

    def _move(self, step: Step) -> Move:
        if isinstance(step, Barrier):
            return Wait(self._meetings[step.key], step.kind)
        if isinstance(step, Acquire):
            return Wait(self._semaphores[step.key], step.kind)
        if isinstance(step, Release):
            return Give(self._semaphores[step.key])
        if isinstance(step, Work):
            return _busy_move([step], step.jitter)
        assert isinstance(step, Exchange)
        ordered = sorted(step.transfers, key=attrgetter("latency_ps"))
        return Send([(each, self._loads_of(each)) for each in ordered]) if ordered else NOTHING

    def _busy(self, works: Sequence[Work]) -> Busy:
        key = tuple(map(id, works))
        if key not in self._busy_moves:
            self._busy_moves[key] = _busy_move(works)
        return self._busy_moves[key]

    def _loads_of(self, transfer: Transfer) -> Loads:
        loads = self._loads.get(id(transfer))
        if loads is None:
            loads = self._loads[id(transfer)] = self._network.loads(transfer)
        return loads


def charge(account: dict[str, int], moves: Sequence[Move], count: int) -> None:
    """Add the work of `count` repetitions to an account; its time is known before the run, unlike that of waits."""
    for move in moves:
        if isinstance(move, Busy):
            for kind, duration in move.totals:
                account[kind] = account.get(kind, 0) + duration * count


def _busy_move(works: Sequence[Work], jitter: str = "") -> Busy:
    stretches = [(kind, work.name, duration) for work in works for kind, duration in work.parts]
    totals: dict[str, int] = {}
    for kind, _, duration in stretches:
        totals[kind] = totals.get(kind, 0) + duration
    return Busy(sum(totals.values()), stretches, tuple(totals.items()), jitter, works[0].steady)
