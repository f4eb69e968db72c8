"""Runs a program: one SimPy process per lane, barriers between them, channels they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simpy import Environment, Event
from simpy.events import Timeout

from podsim.engine.environment import events_of, make_environment
from podsim.engine.network import Network, Waiter
from podsim.engine.trace import PhaseRecord, Record, Trace
from podsim.errors import DeadlockError
from podsim.program.task import Barrier, Exchange, Group, Program, Work

IDLE = "idle"
_MOST_NAMED = 5

# (lane, kind, name, start, end)
_Log = list[tuple[str, str, str, int, int]]


def execute(
    program: Program, *, explicit: bool = True, record: bool = False, tie_seed: int | None = None
) -> Trace:
    """Run a program to its end.

    Args:
        program: Groups of lanes with their phases.
        explicit: Run every repetition of every phase; otherwise each repeated phase is run once and
            its time multiplied, which gives the same answer because a phase starts and ends with all
            lanes of its group together.
        record: Keep a timeline.
        tie_seed: Shuffle the order of events at one instant; the answer must not change.

    Raises:
        DeadlockError: Lanes wait for others that have ended or wait elsewhere.
    """
    return _Execution(program, explicit=explicit, record=record, tie_seed=tie_seed).run()


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
        self.event.succeed()
        self.event = Event(self.env)
        return None


class _Execution:
    """One run of a program."""

    def __init__(self, program: Program, *, explicit: bool, record: bool, tie_seed: int | None) -> None:
        self._program, self._explicit, self._record = program, explicit, record
        self._env, self._ids = make_environment(tie_seed)
        self._network = Network(self._env)
        self._accounts: dict[str, dict[str, int]] = {}
        self._records: list[Record] = []
        self._channels: set[str] = set()
        self._phases: list[PhaseRecord] = []
        self._meetings: dict[str, _Meeting] = {}

    def run(self) -> Trace:
        for group in self._program.groups:
            self._invite(group)
        for group in self._program.groups:
            join = self._meeting(f"end of a phase of {group.name}")
            join.parties = len(group.lanes)
            for lane in group.lanes:
                self._env.process(self._lane(group, lane, join))
        self._env.run()
        self._check_ended()
        makespan: int = self._env.now  # type: ignore[assignment]
        for account in self._accounts.values():
            rest = makespan - sum(account.values())
            if rest:
                account[IDLE] = account.get(IDLE, 0) + rest
        return Trace(
            makespan_ps=makespan,
            lanes=self._accounts,
            records=tuple(sorted(self._records, key=lambda r: (r.start_ps, r.lane, r.end_ps, r.name))),
            channels=frozenset(self._channels),
            phases=tuple(sorted(self._phases, key=lambda p: (p.group, p.start_ps))),
            event_count=events_of(self._env, self._ids),
        )

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
        if stuck:
            named = ", ".join(f"{lane} at `{name}`" for lane, name in stuck[:_MOST_NAMED])
            more = f" and {len(stuck) - _MOST_NAMED} more" if len(stuck) > _MOST_NAMED else ""
            raise DeadlockError(
                f"lanes wait for ever: {named}{more}",
                do="give all lanes of a barrier the same number of passes through it",
            )

    def _lane(self, group: Group, lane: str, join: _Meeting) -> Iterator[Event]:
        env, account = self._env, self._accounts.setdefault(lane, {})
        for phase in group.phases:
            steps = phase.steps.get(lane, ())
            begin: Any = env.now
            rounds, weight = (phase.count, 1) if self._explicit else (1, phase.count)
            for _ in range(rounds):
                start: Any = env.now
                log: _Log | None = [] if self._record else None
                for step in steps:
                    # Most steps are work: kept free of a generator of its own.
                    if type(step) is Work:
                        for kind, duration in step.parts:
                            if log is not None:
                                log.append((lane, kind, step.name, env.now, env.now + duration))
                            yield Timeout(env, duration)
                            account[kind] = account.get(kind, 0) + duration * weight
                    elif type(step) is Exchange:
                        yield from self._exchange(step, lane, account, weight, log)
                    elif type(step) is Barrier:
                        yield from self._wait(self._meetings[step.key], lane, step.kind, account, weight, log)
                yield from self._wait(join, lane, phase.wait_kind, account, weight, log)
                if log:
                    self._keep(log, weight, env.now - start)
            if weight > 1:
                yield Timeout(env, (weight - 1) * (env.now - begin))
            if lane == group.lanes[0]:
                self._phases.append(PhaseRecord(group.name, phase.name, phase.count, begin, int(env.now)))

    def _wait(
        self, meeting: _Meeting, lane: str, kind: str, account: dict[str, int], weight: int, log: _Log | None
    ) -> Iterator[Event]:
        event = meeting.arrive(lane)
        if event is None:
            return
        start: Any = self._env.now
        yield event
        waited: Any = self._env.now - start
        if waited:
            account[kind] = account.get(kind, 0) + waited * weight
            if log is not None:
                log.append((lane, kind, kind, start, start + waited))

    def _exchange(
        self, exchange: Exchange, lane: str, account: dict[str, int], weight: int, log: _Log | None
    ) -> Iterator[Event]:
        env, network = self._env, self._network
        start: Any = env.now
        waiter = Waiter(Event(env), len(exchange.transfers))
        flows = [network.flow(transfer, waiter) for transfer in exchange.transfers]
        for flow in sorted(flows, key=_latency):
            ahead = start + flow.transfer.latency_ps - env.now
            if ahead > 0:
                yield Timeout(env, ahead)
            network.start(flow)
        yield waiter.done
        end: Any = env.now
        last = next(flow for flow in flows if flow.end == end).transfer
        account[last.kind] = account.get(last.kind, 0) + (end - start) * weight
        if log is not None:
            log.append((lane, last.kind, last.name, start, end))
            for flow in flows:
                for channel, _ in flow.transfer.channels:
                    self._channels.add(channel)
                    log.append((channel, flow.transfer.kind, f"{lane}: {flow.transfer.name}", flow.begin, flow.end))

    def _keep(self, log: _Log, weight: int, period: int) -> None:
        self._records.extend(Record(*entry, weight, period) for entry in log if entry[4] > entry[3])


def _latency(flow: Any) -> int:
    latency: int = flow.transfer.latency_ps
    return latency
