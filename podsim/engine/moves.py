"""What the steps of lanes become when they are run: work, waits at barriers and for tokens, exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from simpy import Environment, Event

from podsim.engine.network import Loads, Network
from podsim.engine.stuck import STOPPED
from podsim.program.task import Acquire, Barrier, Exchange, Group, Release, Step, Transfer, Work

# (lane, kind, name, start, end, receiver of a message)
Entry = tuple[str, str, str, int, int, str]
# A stretch of work: (kind, name, duration)
_Stretch = tuple[str, str, int]


class Meeting:
    """A barrier: re-arms when all its parties have come."""

    __slots__ = ("env", "event", "name", "parties", "waiting")

    def __init__(self, env: Environment, name: str) -> None:
        self.env, self.name, self.parties = env, name, 0
        self.event = Event(env)
        self.waiting: list[str] = []

    def arrive(self, lane: str) -> Event | None:
        """An event to wait for, or None for the one who came last."""
        self.waiting.append(lane)
        if len(self.waiting) < self.parties:
            return self.event
        self.waiting = []
        if self.event.callbacks:
            self.event.succeed()
            self.event = Event(self.env)
        return None


class Semaphore:
    """Tokens that one lane gives and another takes."""

    __slots__ = ("env", "taker", "tokens", "waiting")

    def __init__(self, env: Environment, tokens: int) -> None:
        self.env, self.tokens = env, tokens
        self.waiting: Event | None = None
        self.taker = ""

    def arrive(self, lane: str) -> Event | None:
        """An event to wait for, or None if there was a token."""
        if self.tokens:
            self.tokens -= 1
            return None
        self.waiting, self.taker = Event(self.env), lane
        return self.waiting

    def release(self) -> None:
        """Hand a token to the one who waits, or lay it down."""
        if self.waiting is None:
            self.tokens += 1
        else:
            self.waiting.succeed()
            self.waiting = None


@dataclass(frozen=True, slots=True)
class Give:
    """A token to hand over."""

    semaphore: Semaphore


@dataclass(frozen=True, slots=True)
class Wait:
    """A barrier to arrive at, or tokens of which to take one, and the kind of time that waiting there is."""

    place: Meeting | Semaphore
    kind: str


@dataclass(frozen=True, slots=True)
class Send:
    """An exchange: its transfers by latency, with their channels."""

    transfers: Sequence[tuple[Transfer, Loads]]


@dataclass(frozen=True, slots=True)
class Busy:
    """Work that nothing interrupts, with its time by kind."""

    duration: int
    stretches: Sequence[_Stretch]
    totals: Sequence[tuple[str, int]]
    jitter: str = ""
    steady: bool = False

    def records(self, lane: str, start: int, lasting: int) -> Iterator[Entry]:
        """Every stretch with its begin and end; the last one bears what jitter or slowness adds."""
        end = start + lasting
        for number, (kind, name, duration) in enumerate(self.stretches):
            begin, start = start, end if number == len(self.stretches) - 1 else min(end, start + duration)
            yield lane, kind, name, begin, start, ""


Move = Busy | Wait | Send | Give
NOTHING = Busy(0, (), ())


class Moves:
    """Moves of the steps of a program, each made once."""

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
        """The barrier of that name."""
        return self._meetings.setdefault(name, Meeting(self._env, name))

    def stop(self, lane: str) -> None:
        """A lane that works at no speed, for ever."""
        self._stopped.append(lane)

    def stuck(self) -> list[tuple[str, str]]:
        """(lane, what it waits for) of all that wait."""
        waiting = [(lane, meeting.name) for meeting in self._meetings.values() for lane in meeting.waiting]
        waiting += [
            (semaphore.taker, key) for key, semaphore in self._semaphores.items() if semaphore.waiting is not None
        ]
        return waiting + [(lane, STOPPED) for lane in self._stopped]

    def of(self, steps: Sequence[Step]) -> list[Move]:
        """Steps with names looked up; work in a row that is alike is one move, an exchange of nothing is left out."""
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
            return _made([step], step.jitter)
        assert isinstance(step, Exchange)
        ordered = sorted(step.transfers, key=attrgetter("latency_ps"))
        return Send([(each, self._loads_of(each)) for each in ordered]) if ordered else NOTHING

    def _busy(self, works: Sequence[Work]) -> Busy:
        key = tuple(map(id, works))
        if key not in self._busy_moves:
            self._busy_moves[key] = _made(works)
        return self._busy_moves[key]

    def _loads_of(self, transfer: Transfer) -> Loads:
        loads = self._loads.get(id(transfer))
        if loads is None:
            loads = self._loads[id(transfer)] = self._network.loads(transfer)
        return loads


def charge(account: dict[str, int], moves: Sequence[Move], count: int) -> None:
    """Account the work of `count` repetitions: unlike waiting and transfers, it is known beforehand."""
    for move in moves:
        if isinstance(move, Busy):
            for kind, duration in move.totals:
                account[kind] = account.get(kind, 0) + duration * count


def _made(works: Sequence[Work], jitter: str = "") -> Busy:
    stretches = [(kind, work.name, duration) for work in works for kind, duration in work.parts]
    totals: dict[str, int] = {}
    for kind, _, duration in stretches:
        totals[kind] = totals.get(kind, 0) + duration
    return Busy(sum(totals.values()), stretches, tuple(totals.items()), jitter, works[0].steady)
