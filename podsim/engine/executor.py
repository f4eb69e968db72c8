"""Runs a program: one SimPy process per lane, barriers between them, channels they share."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from simpy import Environment, Event
from simpy.core import EmptySchedule
from simpy.events import Timeout

from podsim.engine.environment import events_of, make_environment
from podsim.engine.network import Flow, Loads, Network, Waiter
from podsim.engine.trace import PhaseRecord, Record, Trace
from podsim.errors import DeadlockError
from podsim.program.task import Acquire, Barrier, Exchange, Group, Program, Release, Step, Transfer, Work

IDLE = "idle"
_MOST_NAMED = 5

# (lane, kind, name, start, end)
_Log = list[tuple[str, str, str, int, int]]
# A stretch of work: (kind, name, duration)
_Stretch = tuple[str, str, int]


def execute(
    program: Program,
    *,
    explicit: bool = True,
    record: bool = False,
    tie_seed: int | None = None,
    watch: Iterable[int] = (),
) -> Trace:
    """Run a program to its end.

    Args:
        program: Groups of lanes with their phases.
        explicit: Run every part of every repetition of every phase; otherwise each repeated phase is run once
            and its time multiplied. That gives the same answer if all repetitions are alike: the lanes of a
            group start each of them together, and groups that share a channel or a barrier must too.
        record: Keep a timeline.
        tie_seed: Shuffle the order of events at one instant; the answer must not change.
        watch: Numbers of events after which it is asked for the next number, so that it sees how far the run is;
            once it has no more, the run goes on to its end.

    Raises:
        DeadlockError: Lanes wait for others that have ended or wait elsewhere.
    """
    return _Execution(program, explicit=explicit, record=record, tie_seed=tie_seed).run(watch)


class _Meeting:
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


class _Semaphore:
    """Tokens that one lane gives and another takes."""

    __slots__ = ("env", "taker", "tokens", "waiting")

    def __init__(self, env: Environment, tokens: int) -> None:
        self.env, self.tokens = env, tokens
        self.waiting: Event | None = None
        self.taker = ""

    def acquire(self, lane: str) -> Event | None:
        """An event to wait for, or None if there was a token."""
        if self.tokens:
            self.tokens -= 1
            return None
        self.waiting, self.taker = Event(self.env), lane
        return self.waiting

    def release(self) -> None:
        if self.waiting is None:
            self.tokens += 1
        else:
            self.waiting.succeed()
            self.waiting = None


@dataclass(slots=True)
class _Take:
    """A token to wait for, and the kind of time that waiting for it is."""

    semaphore: _Semaphore
    kind: str


@dataclass(slots=True)
class _Give:
    """A token to hand over."""

    semaphore: _Semaphore


@dataclass(slots=True)
class _Wait:
    """A barrier to arrive at, and the kind of time that waiting there is."""

    meeting: _Meeting
    kind: str


@dataclass(slots=True)
class _Send:
    """An exchange: its transfers by latency, with their channels."""

    transfers: Sequence[tuple[Transfer, Loads]]


@dataclass(slots=True)
class _Busy:
    """Work that nothing interrupts, with its time by kind."""

    duration: int
    stretches: Sequence[_Stretch]
    totals: Sequence[tuple[str, int]]

    def records(self, lane: str, start: int) -> Iterator[tuple[str, str, str, int, int]]:
        """Every stretch with its begin and end."""
        for kind, name, duration in self.stretches:
            yield lane, kind, name, start, start + duration
            start += duration


_Move = _Busy | _Wait | _Send | _Take | _Give
_NOTHING = _Busy(0, (), ())


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """Events go as their last reference goes; looking for cycles among them takes a twentieth of a run."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


class _Execution:
    """One run of a program."""

    def __init__(self, program: Program, *, explicit: bool, record: bool, tie_seed: int | None) -> None:
        self._program, self._explicit, self._record = program, explicit, record
        self._env, self._ids = make_environment(tie_seed)
        self._network = Network(self._env)
        self._accounts: dict[str, dict[str, int]] = {}
        self._helpers: dict[str, dict[str, int]] = {}
        self._records: list[Record] = []
        self._channels: set[str] = set()
        self._phases: list[PhaseRecord] = []
        self._meetings: dict[str, _Meeting] = {}
        self._semaphores = {key: _Semaphore(self._env, count) for key, count in program.semaphores.items()}
        self._start = 0
        # By the identity of tasks, which lanes and phases share and the program keeps alive.
        self._busy_moves: dict[tuple[int, ...], tuple[_Busy, ...]] = {}
        self._known: dict[int, _Move] = {}
        self._loads: dict[int, Loads] = {}

    def run(self, watch: Iterable[int]) -> Trace:
        for group in self._program.groups:
            self._invite(group)
        for group in self._program.groups:
            join = self._meeting(f"end of a phase of {group.name}")
            join.parties = len(group.lanes)
            for lane in group.lanes:
                self._env.process(self._lane(group, lane, join))
        with _no_search_for_garbage():
            self._advance(watch)
            self._env.run()
        self._check_ended()
        makespan = int(self._env.now) - self._start
        for account in self._accounts.values():
            rest = makespan - sum(account.values())
            if rest:
                account[IDLE] = account.get(IDLE, 0) + rest
        return Trace(
            makespan_ps=makespan,
            lanes=self._accounts,
            records=tuple(sorted(self._shifted(), key=lambda r: (r.start_ps, r.lane, r.end_ps, r.name))),
            channels=frozenset(self._channels),
            phases=tuple(sorted(self._phases, key=lambda p: (p.group, p.start_ps))),
            event_count=events_of(self._env, self._ids),
            helpers=self._helpers,
        )

    def _advance(self, watch: Iterable[int]) -> None:
        """Through as many events as are asked for, or to the end."""
        step = self._env.step
        with suppress(EmptySchedule):
            for count in watch:
                for _ in range(count):
                    step()

    def _shifted(self) -> Iterator[Record]:
        """Records from the end of the warm-up on."""
        for each in self._records:
            if each.end_ps > self._start:
                start = max(each.start_ps - self._start, 0)
                yield replace(each, start_ps=start, end_ps=each.end_ps - self._start) if self._start else each

    def _invite(self, group: Group) -> None:
        """Count the lanes that name each barrier."""
        named = {
            (step.key, lane)
            for phase in group.phases
            for lane, steps in phase.steps.items()
            for step in steps
            if isinstance(step, Barrier)
        }
        for key, _ in named:
            self._meeting(key).parties += 1

    def _meeting(self, name: str) -> _Meeting:
        return self._meetings.setdefault(name, _Meeting(self._env, name))

    def _check_ended(self) -> None:
        stuck = [(lane, meeting.name) for meeting in self._meetings.values() for lane in meeting.waiting]
        stuck += [(each.taker, key) for key, each in self._semaphores.items() if each.waiting is not None]
        if stuck:
            named = ", ".join(f"{lane} at `{name}`" for lane, name in stuck[:_MOST_NAMED])
            more = f" and {len(stuck) - _MOST_NAMED} more" if len(stuck) > _MOST_NAMED else ""
            raise DeadlockError(
                f"lanes wait for ever: {named}{more}",
                do="give all lanes of a barrier the same number of passes through it",
            )

    def _lane(self, group: Group, lane: str, join: _Meeting) -> Generator[Event, None, None]:
        env, now = self._env, 0
        account: dict[str, int] = {}
        (self._accounts if group.accounted else self._helpers)[lane] = account
        for number, phase in enumerate(group.phases):
            counts = group.accounted and number >= group.warm_up
            if number == group.warm_up and number > 0:
                account.clear()
                if group.accounted:
                    self._start = now
            moves = self._moves(phase.steps.get(lane, ()))
            moves.append(_Wait(join, phase.wait_kind))
            _charge(account, moves, phase.count)
            begin = now
            rounds, weight = (phase.count, 1) if self._explicit else (1, phase.count)
            for _ in range(rounds):
                start = now
                log: _Log | None = [] if self._record and number >= group.warm_up else None
                for move in moves:
                    # Most moves are stretches of work: kept free of a generator of their own.
                    if type(move) is _Busy:
                        if log is not None:
                            log.extend(move.records(lane, now))
                        yield Timeout(env, move.duration)
                        now += move.duration
                    elif type(move) is _Wait:
                        event = move.meeting.arrive(lane)
                        if event is not None:
                            arrived = now
                            yield event
                            now = int(env.now)
                            _log_wait(move.kind, lane, arrived, now, account, weight, log)
                    elif type(move) is _Take:
                        event = move.semaphore.acquire(lane)
                        if event is not None:
                            arrived = now
                            yield event
                            now = int(env.now)
                            _log_wait(move.kind, lane, arrived, now, account, weight, log)
                    elif type(move) is _Give:
                        move.semaphore.release()
                    elif type(move) is _Send:
                        now = yield from self._exchange(move, lane, now, account, weight, log)
                if log:
                    self._keep(log, weight, now - start)
            if weight > 1:
                rest = (weight - 1) * (now - begin)
                yield Timeout(env, rest)
                now += rest
            if counts and lane == group.lanes[0]:
                start = self._start
                self._phases.append(PhaseRecord(group.name, phase.name, phase.count, begin - start, now - start))

    def _moves(self, steps: Sequence[Step]) -> list[_Move]:
        """Steps with names looked up; an exchange of nothing is left out."""
        moves: list[_Move] = []
        works: list[Work] = []
        for step in steps:
            if isinstance(step, Work):
                works.append(step)
                continue
            if works:
                moves += self._busy(works)
                works = []
            if (move := self._known.get(id(step))) is None:
                move = self._known[id(step)] = self._move(step)
            if move is not _NOTHING:
                moves.append(move)
        if works:
            moves += self._busy(works)
        return moves

    def _move(self, step: Step) -> _Move:
        if isinstance(step, Barrier):
            return _Wait(self._meetings[step.key], step.kind)
        if isinstance(step, Acquire):
            return _Take(self._semaphores[step.key], step.kind)
        if isinstance(step, Release):
            return _Give(self._semaphores[step.key])
        assert isinstance(step, Exchange)
        ordered = sorted(step.transfers, key=_latency)
        return _Send([(each, self._loads_of(each)) for each in ordered]) if ordered else _NOTHING

    def _busy(self, works: Sequence[Work]) -> tuple[_Busy, ...]:
        """Stretches of work one by one, or as a single event where only their sum matters."""
        key = tuple(map(id, works))
        if key not in self._busy_moves:
            stretches = [(kind, work.name, duration) for work in works for kind, duration in work.parts]
            parts = [[stretch] for stretch in stretches] if self._explicit else [stretches]
            self._busy_moves[key] = tuple(map(_make_busy, parts))
        return self._busy_moves[key]

    def _loads_of(self, transfer: Transfer) -> Loads:
        loads = self._loads.get(id(transfer))
        if loads is None:
            loads = self._loads[id(transfer)] = self._network.loads(transfer)
        return loads

    def _exchange(
        self, send: _Send, lane: str, start: int, account: dict[str, int], weight: int, log: _Log | None
    ) -> Generator[Event, None, int]:
        """Start transfers as their latencies pass, wait for the last to end, and return when that is."""
        env, network, now = self._env, self._network, start
        waiter = Waiter(Event(env), len(send.transfers))
        flows = [Flow(transfer, loads, waiter) for transfer, loads in send.transfers]
        for flow in flows:
            ahead = start + flow.transfer.latency_ps - now
            if ahead > 0:
                yield Timeout(env, ahead)
                now += ahead
            network.start(flow)
        yield waiter.done
        end = int(env.now)
        last = next(flow for flow in flows if flow.end == end).transfer
        account[last.kind] = account.get(last.kind, 0) + (end - start) * weight
        if log is not None:
            log.append((lane, last.kind, last.name, start, end))
            for flow in flows:
                for channel, _ in flow.transfer.channels:
                    self._channels.add(channel)
                    log.append((channel, flow.transfer.kind, f"{lane}: {flow.transfer.name}", flow.begin, flow.end))
        return end

    def _keep(self, log: _Log, weight: int, period: int) -> None:
        self._records.extend(Record(*entry, weight, period) for entry in log if entry[4] > entry[3])


def _charge(account: dict[str, int], moves: Sequence[_Move], count: int) -> None:
    """Account the work of `count` repetitions: unlike waiting and transfers, it is known beforehand."""
    for move in moves:
        if isinstance(move, _Busy):
            for kind, duration in move.totals:
                account[kind] = account.get(kind, 0) + duration * count


def _make_busy(stretches: Sequence[_Stretch]) -> _Busy:
    totals: dict[str, int] = {}
    for kind, _, duration in stretches:
        totals[kind] = totals.get(kind, 0) + duration
    return _Busy(sum(totals.values()), stretches, tuple(totals.items()))


def _log_wait(
    kind: str, lane: str, start: int, end: int, account: dict[str, int], weight: int, log: _Log | None
) -> None:
    if end > start:
        account[kind] = account.get(kind, 0) + (end - start) * weight
        if log is not None:
            log.append((lane, kind, kind, start, end))


def _latency(transfer: Transfer) -> int:
    return transfer.latency_ps
