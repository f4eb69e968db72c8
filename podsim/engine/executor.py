"""Runs a program: one SimPy process per lane, barriers between them, channels they share."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from simpy import Event
from simpy.core import EmptySchedule
from simpy.events import Timeout

from podsim.engine.environment import events_of, make_environment
from podsim.engine.moves import Busy, Entry, Give, Meeting, Moves, Send, Wait, charge
from podsim.engine.network import Flow, Network, Waiter
from podsim.engine.trace import PhaseRecord, Record, Trace
from podsim.errors import DeadlockError
from podsim.program.task import Group, Phase, Program

IDLE = "idle"
_MOST_NAMED = 5

_Log = list[Entry]


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
        self._moves = Moves(self._env, self._network, program.semaphores, explicit=explicit)
        self._start = 0

    def run(self, watch: Iterable[int]) -> Trace:
        for group in self._program.groups:
            self._moves.invite(group)
        for group in self._program.groups:
            join = self._moves.meeting(f"end of a phase of {group.name}")
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

    def _check_ended(self) -> None:
        if stuck := self._moves.stuck():
            named = ", ".join(f"{lane} at `{name}`" for lane, name in stuck[:_MOST_NAMED])
            more = f" and {len(stuck) - _MOST_NAMED} more" if len(stuck) > _MOST_NAMED else ""
            raise DeadlockError(
                f"lanes wait for ever: {named}{more}",
                do="give all lanes of a barrier the same number of passes through it",
            )

    def _lane(self, group: Group, lane: str, join: Meeting) -> Generator[Event, None, None]:
        env, now = self._env, 0
        account: dict[str, int] = {}
        (self._accounts if group.accounted else self._helpers)[lane] = account
        for number, phase in enumerate(group.phases):
            counts = number >= group.warm_up
            if number == group.warm_up:
                self._begin_to_count(group, account, now)
            moves = [*self._moves.of(phase.steps.get(lane, ())), Wait(join, phase.wait_kind)]
            charge(account, moves, phase.count)
            begin = now
            rounds, weight = (phase.count, 1) if self._explicit else (1, phase.count)
            for _ in range(rounds):
                start = now
                log: _Log | None = [] if self._record and counts else None
                for move in moves:
                    # Most moves are stretches of work: kept free of a generator of their own.
                    if type(move) is Busy:
                        if log is not None:
                            log.extend(move.records(lane, now))
                        yield Timeout(env, move.duration)
                        now += move.duration
                    elif type(move) is Wait:
                        event = move.place.arrive(lane)
                        if event is not None:
                            arrived = now
                            yield event
                            now = int(env.now)
                            _log_wait(move.kind, lane, arrived, now, account, weight, log)
                    elif type(move) is Give:
                        move.semaphore.release()
                    elif type(move) is Send:
                        now = yield from self._exchange(move, lane, now, account, weight, log)
                if log:
                    self._keep(log, weight, now - start)
            if weight > 1:
                rest = (weight - 1) * (now - begin)
                yield Timeout(env, rest)
                now += rest
            if counts and group.accounted and lane == group.lanes[0]:
                self._keep_phase(group, phase, begin, now)

    def _begin_to_count(self, group: Group, account: dict[str, int], now: int) -> None:
        """What came before was the warm-up."""
        account.clear()
        if group.accounted:
            self._start = now

    def _keep_phase(self, group: Group, phase: Phase, begin: int, end: int) -> None:
        since = self._start
        self._phases.append(PhaseRecord(group.name, phase.name, phase.count, begin - since, end - since))

    def _exchange(
        self, send: Send, lane: str, start: int, account: dict[str, int], weight: int, log: _Log | None
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


def _log_wait(
    kind: str, lane: str, start: int, end: int, account: dict[str, int], weight: int, log: _Log | None
) -> None:
    if end > start:
        account[kind] = account.get(kind, 0) + (end - start) * weight
        if log is not None:
            log.append((lane, kind, kind, start, end))
