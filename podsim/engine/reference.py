"""Reference engine on SimPy: one process per lane, barriers between lanes, shared channels."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, product
from typing import TypeVar

from simpy import Environment, Event
from simpy.core import EmptySchedule
from simpy.events import AllOf, Timeout

from podsim.engine.control import Control, Observe, Process
from podsim.engine.deadlock import TRANSFER, deadlock_error
from podsim.engine.moves import Busy, Entry, Give, Meeting, Move, Moves, Send, Wait, charge
from podsim.engine.network import Flow, Network, Waiter
from podsim.engine.sharing import capacities
from podsim.engine.trace import CONTENTION, IDLE, ChannelUse, PhaseRecord, Record, Trace, without_zeros
from podsim.engine.variation import JITTER, SLOWED, end_of_work, sample_jitter, slowdowns_by_name
from podsim.garbage import no_search
from podsim.program.task import Group, Phase, Program

_TIE_BITS = 32


def _shuffled(seed: int) -> Iterator[int]:
    """Yield event ids that make SimPy order simultaneous events at random."""
    generator = random.Random(seed)
    for number in count():
        yield generator.getrandbits(_TIE_BITS) << _TIE_BITS | number


class _Log:
    """Timeline entries of one repetition of a phase."""

    __slots__ = ("entries", "uses")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.uses: list[tuple[str, float, int, int]] = []  # (channel, share of its speed, begin, end)


def run_on_simpy(
    program: Program,
    *,
    explicit: bool,
    record: bool = False,
    tie_seed: int | None = None,
    watch: Iterable[int] = (),
    observe: Observe | None = None,
    processes: Sequence[Process] = (),
) -> Trace:
    """Run a program to its end on SimPy; `podsim.engine.execute` documents the arguments."""
    run = _Execution(program, explicit=explicit, record=record, tie_seed=tie_seed, observe=observe)
    return run.run(watch, processes)


_Timed = TypeVar("_Timed", Record, ChannelUse)


class _Execution:
    """Run of one program on SimPy."""

    def __init__(
        self, program: Program, *, explicit: bool, record: bool, tie_seed: int | None, observe: Observe | None = None
    ) -> None:
        self._program, self._explicit, self._record = program, explicit, record
        self._observe = observe
        self._env = Environment(initial_time=0)
        if tie_seed is not None:
            self._env._eid = _shuffled(tie_seed)  # type: ignore[assignment]
        self._network = Network(self._env)
        self._accounts: dict[str, dict[str, int]] = {}
        self._helpers: dict[str, dict[str, int]] = {}
        self._records: list[Record] = []
        self._messages: list[Record] = []
        self._uses: list[ChannelUse] = []
        self._shared: dict[str, dict[tuple[str, str], int]] = {}
        self._channels: set[str] = set()
        self._phases: list[PhaseRecord] = []
        self._moves = Moves(self._env, self._network, program.semaphores)
        self._slow = slowdowns_by_name(program.slowdowns)
        self._start = self._end = self._steps = 0
        self._turns: dict[str, list[int]] = {}
        self._exchanging: dict[str, str] = {}

    def run(self, watch: Iterable[int], processes: Sequence[Process] = ()) -> Trace:
        lane_ends: list[Event] = []
        for group in self._program.groups:
            self._moves.invite(group)
        for group in self._program.groups:
            join = self._moves.meeting(f"end of a phase of {group.name}")
            join.parties = len(group.lanes)
            lane_ends += [self._env.process(self._lane(group, lane, join)) for lane in group.lanes]
        lanes = self._program.lanes
        for name, slowdowns in self._slow.items():
            if name not in lanes:
                self._network.change(name, capacities(slowdowns))
        with no_search():
            for process in processes:
                self._env.process(process(Control(self._env, self._network)))
            self._advance(watch)
            if processes:  # which may go on for ever
                self._run_to(AllOf(self._env, lane_ends))
            else:
                self._env.run()
        if waiting := [*self._moves.waiting_lanes(), *self._exchanging.items()]:
            raise deadlock_error(waiting)
        makespan = self._end - self._start
        for account in self._accounts.values():
            _add(account, IDLE, makespan - sum(account.values()))
        return Trace(
            makespan_ps=makespan,
            lanes={lane: without_zeros(account) for lane, account in self._accounts.items()},
            records=_in_order(self._shifted(self._records)),
            channels=frozenset(self._channels),
            phases=tuple(sorted(self._phases, key=lambda p: (p.group, p.start_ps))),
            event_count=self._steps + self._network.started,
            helpers={lane: without_zeros(account) for lane, account in self._helpers.items()},
            turns={name: tuple(end - self._start for end in ends) for name, ends in self._turns.items()},
            messages=_in_order(self._shifted(self._messages)),
            shared=self._shared,
            uses=tuple(sorted(self._shifted(self._uses), key=lambda use: (use.start_ps, use.channel, use.end_ps))),
        )

    def _run_to(self, end: Event) -> None:
        """Execute events up to `end`, or all if none of them leads to it."""
        with suppress(EmptySchedule):
            while not end.processed:
                self._env.step()

    def _advance(self, watch: Iterable[int]) -> None:
        """Execute as many events as `watch` requests, or all."""
        step = self._env.step
        with suppress(EmptySchedule):
            for count in watch:
                for _ in range(count):
                    step()

    def _shifted(self, records: Iterable[_Timed]) -> Iterator[_Timed]:
        """Yield the records after the warm-up, with times relative to its end."""
        for record in records:
            if record.end_ps > self._start:
                start = max(record.start_ps - self._start, 0)
                yield replace(record, start_ps=start, end_ps=record.end_ps - self._start) if self._start else record

    def _lane(self, group: Group, lane: str, join: Meeting) -> Generator[Event, None, None]:
        account: dict[str, int] = {}
        visits: dict[str, int] = {}
        (self._accounts if group.accounted else self._helpers)[lane] = account
        first, now = lane == group.lanes[0], 0
        for turn, number in product(range(group.turns), range(len(group.phases))):
            phase, counts = group.phases[number], turn > 0 or number >= group.warm_up
            if turn == 0 and number == group.warm_up:
                account.clear()  # discard the warm-up
                self._shared.pop(lane, None)
                if group.accounted:
                    self._start = now
            moves = [*self._moves.moves_for(phase.steps.get(lane, ())), Wait(join, phase.wait_kind)]
            charge(account, moves, phase.count)
            begin = now
            now = yield from self._phase(lane, phase, moves, now, account, visits, counts=counts)
            if first and counts and turn == 0 and group.accounted:
                since = self._start
                self._phases.append(PhaseRecord(group.name, phase.name, phase.count, begin - since, now - since))
            if first and group.accounted and number + 1 == len(group.phases):
                self._turns.setdefault(group.name, []).append(now)
        self._end = max(self._end, now)

    def _phase(
        self,
        lane: str,
        phase: Phase,
        moves: Sequence[Move],
        now: int,
        account: dict[str, int],
        visits: dict[str, int],
        *,
        counts: bool,
    ) -> Generator[Event, None, int]:
        """Run all repetitions of a phase; return the time of their end. [ps]"""
        env, begin = self._env, now
        rounds, weight = (phase.count, 1) if self._explicit else (1, phase.count)
        self._steps += len(moves) * rounds
        for _ in range(rounds):
            start = now
            log = _Log() if self._record and counts else None
            for move in moves:
                # Most moves are work: inlined, since a generator for each would be slow.
                if type(move) is Busy:
                    lasting = self._lasting(move, lane, now, account, visits, weight)
                    if lasting is None:
                        self._moves.stop(lane)
                        yield Event(env)
                        continue
                    if log is not None:
                        log.entries.extend(move.records(lane, now, lasting))
                    if self._observe is not None:
                        self._observe("start", lane, move.stretches[0][1], now)
                    yield Timeout(env, lasting)
                    now += lasting
                    if self._observe is not None:
                        self._observe("end", lane, move.stretches[-1][1], now)
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
            if log is not None:
                self._keep(log, weight, now - start)
        if weight > 1:
            rest = (weight - 1) * (now - begin)
            yield Timeout(env, rest)
            now += rest
        return now

    def _lasting(
        self, move: Busy, lane: str, now: int, account: dict[str, int], visits: dict[str, int], weight: int
    ) -> int | None:
        """Return the duration of work that begins now, with jitter and slowdowns; None at no speed. [ps]"""
        lasting = move.duration
        if move.jitter:
            lasting += (extra := self._sampled_jitter(move, visits))
            _add(account, JITTER, extra * weight)
        if lane in self._slow and not move.steady:
            end = end_of_work(self._slow[lane], now, lasting)
            if end is None:
                return None
            _add(account, SLOWED, (end - now - lasting) * weight)
            lasting = end - now
        return lasting

    def _sampled_jitter(self, move: Busy, visits: dict[str, int]) -> int:
        """Return the change of the duration of work by jitter, at the next visit of its stream. [ps]"""
        visit = visits[move.jitter] = visits.get(move.jitter, -1) + 1
        return sample_jitter(self._program.seed, self._program.jitters[move.jitter], visit, move.duration)

    def _exchange(
        self, send: Send, lane: str, start: int, account: dict[str, int], weight: int, log: _Log | None
    ) -> Generator[Event, None, int]:
        """Start each transfer after its latency, wait for the last to end, and return that time. [ps]"""
        env, network, now = self._env, self._network, start
        waiter = Waiter(Event(env), len(send.transfers))
        if self._observe is not None:
            self._observe("start", lane, send.transfers[0][0].name, start)
        flows = [Flow(transfer, loads, waiter) for transfer, loads in send.transfers]
        for flow in flows:
            ahead = start + flow.transfer.latency_ps - now
            if ahead > 0:
                yield Timeout(env, ahead)
                now += ahead
            network.start(flow)
        self._exchanging[lane] = TRANSFER
        yield waiter.done
        del self._exchanging[lane]
        end = int(env.now)
        if self._observe is not None:
            self._observe("end", lane, flows[0].transfer.name, end)
        slowest = next(flow for flow in flows if flow.end == end)
        last, alone = slowest.transfer, max(flow.end - sum(flow.lost.values()) for flow in flows)
        account[last.kind] = account.get(last.kind, 0) + (alone - start) * weight
        rival = ""
        if alone < end:
            rival = max(sorted(slowest.lost), key=lambda kind: slowest.lost[kind])
            _add(account, CONTENTION, (end - alone) * weight)
            pairs = self._shared.setdefault(lane, {})
            pairs[last.kind, rival] = pairs.get((last.kind, rival), 0) + (end - alone) * weight
        if log is not None:
            entries = log.entries
            entries.append((lane, last.kind, last.name, start, alone, ""))
            entries.append((lane, CONTENTION, f"{last.name}: slowed by {rival}", alone, end, ""))
            for flow in flows:
                sent = flow.transfer
                if sent.receiver:
                    entries.append((lane, sent.kind, sent.name, start, flow.end, sent.receiver))
                for channel, time in sent.channels:
                    self._channels.add(channel)
                    entries.append((channel, sent.kind, f"{lane}: {sent.name}", flow.begin, flow.end, ""))
                    log.uses += ((channel, time / takes, begin, until) for begin, until, takes in flow.spans if time)
        return end

    def _keep(self, log: _Log, weight: int, period: int) -> None:
        for lane, kind, name, start, end, receiver in log.entries:
            if end > start:
                kept = self._messages if receiver else self._records
                kept.append(Record(lane, kind, name, start, end, weight, period, receiver))
        self._uses += (ChannelUse(*use, weight, period) for use in log.uses)


def _in_order(records: Iterable[Record]) -> tuple[Record, ...]:
    return tuple(sorted(records, key=lambda r: (r.start_ps, r.lane, r.end_ps, r.name)))


def _add(account: dict[str, int], kind: str, time: int) -> None:
    if time:
        account[kind] = account.get(kind, 0) + time


def _log_wait(
    kind: str, lane: str, start: int, end: int, account: dict[str, int], weight: int, log: _Log | None
) -> None:
    if end > start:
        account[kind] = account.get(kind, 0) + (end - start) * weight
        if log is not None:
            log.entries.append((lane, kind, kind, start, end, ""))
