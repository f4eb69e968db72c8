"""Execution of a program in chunks between common barriers, with the outcome of each chunk cached.

When all lanes have met at a barrier, no transfer is under way. So the duration of a program is the sum of its chunks,
and a lane that shares no channel needs no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

from podsim.engine.executor import execute
from podsim.engine.trace import Trace, without_zeros
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Step, Transfer, Work

_Steps = tuple[Step, ...]
_Account = dict[str, int]
_Ran = tuple[int, list[_Account]]
_OTHERS = ""
"""Placeholder kind of time of the wait at the end of a chunk, until the slowest lane is known."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Steps of all lanes from one common barrier to the next."""

    lanes: tuple[_Steps, ...]  # steps of each lane, without the barrier at the end
    wait_kind: str  # kind of time of waiting for the slowest lane


@dataclass
class Chunks:
    """Cache of outcomes: of the chunks of the first program by place, and of lanes that share channels by steps."""

    _phases: dict[int, tuple[_Chunk, _Ran]] = field(default_factory=dict)
    _by_place: dict[tuple[int, int], tuple[_Chunk, _Ran]] = field(default_factory=dict)
    _known: dict[tuple[_Steps, ...], tuple[_Account, ...]] = field(default_factory=dict)

    def trace(self, program: Program) -> Trace | None:
        """Return the trace that `execute` computes for one pass of a program, without phase records and event count.

        Return None for a program that cannot be cut into chunks. Such a program has jitter, slowdowns, semaphores, a
        warm-up, several turns, a barrier that joins different lanes in different phases, or several groups. Helper
        groups that only wait at a barrier, work and release another barrier are allowed.
        """
        group = _without_helpers(program)
        varies = program.jitters or program.slowdowns or program.semaphores
        if group is None or varies or group.warm_up or group.turns > 1 or not _has_consistent_barriers(group):
            return None
        makespan, accounts = 0, tuple[_Account, ...]({} for _ in group.lanes)
        for number, phase in enumerate(group.phases):
            whole = _Chunk(tuple(phase.steps.get(lane, ()) for lane in group.lanes), phase.wait_kind)
            first, ran = self._phases.get(number, (None, None))
            if ran is None or first != whole:
                ran = self._phase(number, whole)
                self._phases.setdefault(number, (whole, ran))
            makespan += ran[0] * phase.count
            _add(accounts, ran[1], phase.count)
        return Trace(
            makespan, dict(zip(group.lanes, map(without_zeros, accounts), strict=True)), (), frozenset(), (), 0
        )

    def _phase(self, number: int, phase: _Chunk) -> _Ran:
        """Run one repetition of a phase, chunk by chunk; return its duration and the account of each lane."""
        duration, accounts = 0, list[_Account]({} for _ in phase.lanes)
        for place, (chunk, times) in enumerate(_chunks(phase.lanes, phase.wait_kind)):
            once, parts = self._run_once((number, place), chunk)
            duration += once * times
            _add(accounts, parts, times)
        return duration, accounts

    def _run_once(self, place: tuple[int, int], chunk: _Chunk) -> _Ran:
        """Return the outcome of a chunk; the first program's outcome at the same place is reused for an equal chunk."""
        first, ran = self._by_place.get(place, (None, None))
        if ran is None or first != chunk:
            ran = self._run(chunk)
            self._by_place.setdefault(place, (chunk, ran))
        return ran

    def _run(self, chunk: _Chunk) -> _Ran:
        """Return the duration of a chunk and the account of each lane; all lanes wait for the slowest."""
        accounts: list[_Account] = [{} for _ in chunk.lanes]
        for sharing in _sharing_lanes(chunk.lanes):
            for place, account in zip(
                sharing, self._lane_accounts([chunk.lanes[place] for place in sharing]), strict=True
            ):
                accounts[place] = account
        times = [sum(account.values()) for account in accounts]
        longest = max(times)
        for account, time in zip(accounts, times, strict=True):
            if time < longest:
                account[chunk.wait_kind] = account.get(chunk.wait_kind, 0) + longest - time
        return longest, accounts

    def _lane_accounts(self, lanes: Sequence[_Steps]) -> Sequence[_Account]:
        """Return the account of each lane up to its own end, without the final wait."""
        if len(lanes) == 1 and (unshared := _unshared_account(lanes[0])) is not None:
            return (unshared,)
        chunks = list(_chunks(lanes, _OTHERS))
        if len(chunks) == 1:
            return self._in_engine(tuple(lanes))
        accounts = tuple[_Account, ...]({} for _ in lanes)
        for chunk, times in chunks:
            _add(accounts, self._run(chunk)[1], times)
        return [_without_waiting(account) for account in accounts]

    def _in_engine(self, lanes: tuple[_Steps, ...]) -> Sequence[_Account]:
        if (known := self._known.get(lanes)) is None:
            steps = {str(number): each for number, each in enumerate(lanes)}
            group = Group("", tuple(steps), (Phase("", 1, steps, _OTHERS),))
            accounts = execute(Program((group,)), explicit=False).lanes
            known = self._known[lanes] = tuple(_without_waiting(accounts[lane]) for lane in steps)
        return [dict(account) for account in known]


def _without_helpers(program: Program) -> Group | None:
    """Return the main group with the helpers' work moved into its lanes, or None if a group is not such a helper.

    A helper waits at a barrier, works, and arrives at a second barrier at which the lanes of the main group wait.
    """
    group, *helpers = program.groups
    answers: dict[str, tuple[str, int]] = {}
    for helper in helpers:
        match helper:
            case Group(phases=(Phase(count=1) as phase,), lanes=(lane,), accounted=False):
                asked, *works, told = phase.steps[lane] if len(phase.steps[lane]) > 1 else (None, None)
            case _:
                return None
        if not (isinstance(asked, Barrier) and isinstance(told, Barrier) and all(isinstance(w, Work) for w in works)):
            return None
        time_ps = sum(duration for work in works if isinstance(work, Work) for _, duration in work.parts)
        answers[told.key] = asked.key, max(time_ps, answers.get(told.key, ("", 0))[1])
    if not answers:
        return group
    phases = []
    for phase in group.phases:
        steps_of = dict(phase.steps)
        for lane, steps in phase.steps.items():
            for number, step in enumerate(steps):
                if isinstance(step, Barrier) and step.key in answers:
                    asked_key, time_ps = answers[step.key]
                    before = steps[number - 1] if number else None
                    if not (isinstance(before, Barrier) and before.key == asked_key):
                        return None
                    answered = Work(step.key, ((step.kind, time_ps),), steady=True)
                    steps_of[lane] = (*steps[:number], answered, *steps[number + 1 :])
        phases.append(phase if steps_of == phase.steps else replace(phase, steps=steps_of))
    return replace(group, phases=tuple(phases))


def _has_consistent_barriers(group: Group) -> bool:
    """Return True if the same lanes meet at a barrier in every phase that names it."""
    met: dict[str, set[str]] = {}
    for phase in group.phases:
        here: dict[str, set[str]] = {}
        for lane, steps in phase.steps.items():
            for step in steps:
                if isinstance(step, Barrier):
                    here.setdefault(step.key, set()).add(lane)
        if any(met.setdefault(key, lanes) != lanes for key, lanes in here.items()):
            return False
    return True


def _chunks(lanes: Sequence[_Steps], wait_kind: str) -> Iterator[tuple[_Chunk, int]]:
    """Yield chunks between barriers common to all lanes, with the number of equal chunks in a row.

    If the lanes do not all meet at the same barriers, the only chunk is the whole phase.
    """
    cut = [
        (tuple(part for part, _ in parts), {end for _, end in parts}) for parts in zip(*map(_cut, lanes), strict=False)
    ]
    if any(len(ends) > 1 for _, ends in cut):
        yield _Chunk(tuple(lanes), wait_kind), 1
        return
    for (parts, (end,)), alike in groupby(cut):
        yield _Chunk(parts, wait_kind if end is None else end.kind), sum(1 for _ in alike)


def _cut(steps: Sequence[Step]) -> Iterator[tuple[tuple[Step, ...], Barrier | None]]:
    """Yield the steps before each barrier with that barrier; the last part has None instead."""
    begin = 0
    for number, step in enumerate(steps):
        if isinstance(step, Barrier):
            yield tuple(steps[begin:number]), step
            begin = number + 1
    yield tuple(steps[begin:]), None


def _sharing_lanes(lanes: Sequence[_Steps]) -> list[list[int]]:
    """Return groups of lane indices that share channels or barriers, directly or through other lanes."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, steps in enumerate(lanes):
        names, members, separate = set(_shared(steps)), [place], []
        for group in groups:
            if names.isdisjoint(group[0]):
                separate.append(group)
            else:
                names, members = names | group[0], group[1] + members
        groups = [*separate, (names, members)]
    return [sorted(members) for _, members in groups]


def _shared(steps: _Steps) -> Iterator[str]:
    """Yield the names of channels and barriers that a lane uses."""
    for step in steps:
        if isinstance(step, Exchange):
            yield from (channel for transfer in step.transfers for channel, _ in transfer.channels)
        elif isinstance(step, Barrier):
            yield step.key


def _unshared_account(steps: _Steps) -> _Account | None:
    """Return the account of a lane that shares no channel; None if its own transfers share one, or it waits."""
    account: _Account = {}
    for step in steps:
        if isinstance(step, Work):
            for kind, duration in step.parts:
                account[kind] = account.get(kind, 0) + duration
        elif isinstance(step, Exchange) and _use_distinct_channels(step.transfers):
            if step.transfers:
                last = max(sorted(step.transfers, key=attrgetter("latency_ps")), key=_time)
                account[last.kind] = account.get(last.kind, 0) + _time(last)
        else:
            return None
    return account


def _use_distinct_channels(transfers: Sequence[Transfer]) -> bool:
    names = [channel for transfer in transfers for channel, _ in transfer.channels]
    return len(names) == len(set(names))


def _time(transfer: Transfer) -> int:
    """Return the time of a transfer that shares no channel: its slowest channel sets its speed. [ps]"""
    return transfer.latency_ps + max((time for _, time in transfer.channels), default=0)


def _without_waiting(account: Mapping[str, int]) -> _Account:
    return {kind: time for kind, time in account.items() if kind != _OTHERS}


def _add(accounts: Sequence[_Account], parts: Sequence[_Account], count: int) -> None:
    for account, part in zip(accounts, parts, strict=True):
        for kind, duration in part.items():
            account[kind] = account.get(kind, 0) + duration * count
