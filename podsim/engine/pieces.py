"""Programs of which all lanes meet again and again, run piece by piece, and nothing twice.

Once all have met, nothing is on a channel, so that a program takes the sum of its pieces, and a lane with channels of
its own needs no engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

from podsim.engine.executor import execute
from podsim.engine.trace import Trace, without_nothing
from podsim.program.task import Barrier, Exchange, Group, Phase, Program, Step, Transfer, Work

_Steps = tuple[Step, ...]
_Account = dict[str, int]
_Ran = tuple[int, list[_Account]]
_OTHERS = ""
"""Kind of time that waiting at the end is accounted as until it is known how long."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """What all lanes do from one meeting to the next."""

    lanes: tuple[_Steps, ...]  # their steps, the barrier at the end left out
    wait_kind: str  # kind of time that waiting for the others is accounted as


@dataclass
class Pieces:
    """What came of the pieces of the first program, by their places in it, and of lanes that share channels."""

    _phases: dict[int, tuple[_Piece, _Ran]] = field(default_factory=dict)
    _first: dict[tuple[int, int], tuple[_Piece, _Ran]] = field(default_factory=dict)
    _known: dict[tuple[_Steps, ...], tuple[_Account, ...]] = field(default_factory=dict)

    def trace(self, program: Program) -> Trace | None:
        """What `execute` finds out about a program without its repetitions; phases and number of events are left out.

        None for programs that cannot be cut: of several groups, but for helpers that only answer a meeting, with
        barriers that mean different lanes, or with jitter or slow parts.
        """
        group = _answered(program)
        varies = program.jitters or program.slowdowns or program.semaphores
        if group is None or varies or group.warm_up or group.turns > 1 or not _meet_alike(group):
            return None
        makespan, accounts = 0, tuple[_Account, ...]({} for _ in group.lanes)
        for number, phase in enumerate(group.phases):
            whole = _Piece(tuple(phase.steps.get(lane, ()) for lane in group.lanes), phase.wait_kind)
            first, ran = self._phases.get(number, (None, None))
            if ran is None or first != whole:
                ran = self._phase(number, whole)
                self._phases.setdefault(number, (whole, ran))
            makespan += ran[0] * phase.count
            _add(accounts, ran[1], phase.count)
        return Trace(
            makespan, dict(zip(group.lanes, map(without_nothing, accounts), strict=True)), (), frozenset(), (), 0
        )

    def _phase(self, number: int, phase: _Piece) -> _Ran:
        """A phase once, piece by piece."""
        duration, accounts = 0, list[_Account]({} for _ in phase.lanes)
        for place, (piece, times) in enumerate(_pieces(phase.lanes, phase.wait_kind)):
            once, parts = self._at((number, place), piece)
            duration += once * times
            _add(accounts, parts, times)
        return duration, accounts

    def _at(self, place: tuple[int, int], piece: _Piece) -> _Ran:
        """A piece that the first program has at the same place is not run again."""
        first, ran = self._first.get(place, (None, None))
        if ran is None or first != piece:
            ran = self._run(piece)
            self._first.setdefault(place, (piece, ran))
        return ran

    def _run(self, piece: _Piece) -> _Ran:
        """How long a piece takes, and the account of each lane: all wait for the slowest."""
        accounts: list[_Account] = [{} for _ in piece.lanes]
        for together in _together(piece.lanes):
            for place, account in zip(together, self._ran([piece.lanes[place] for place in together]), strict=True):
                accounts[place] = account
        times = [sum(account.values()) for account in accounts]
        longest = max(times)
        for account, time in zip(accounts, times, strict=True):
            if time < longest:
                account[piece.wait_kind] = account.get(piece.wait_kind, 0) + longest - time
        return longest, accounts

    def _ran(self, lanes: Sequence[_Steps]) -> Sequence[_Account]:
        """The accounts of lanes up to the end of each."""
        if len(lanes) == 1 and (alone := _alone(lanes[0])) is not None:
            return (alone,)
        pieces = list(_pieces(lanes, _OTHERS))
        if len(pieces) == 1:
            return self._in_engine(tuple(lanes))
        accounts = tuple[_Account, ...]({} for _ in lanes)
        for piece, times in pieces:
            _add(accounts, self._run(piece)[1], times)
        return [_without_waiting(account) for account in accounts]

    def _in_engine(self, lanes: tuple[_Steps, ...]) -> Sequence[_Account]:
        if (known := self._known.get(lanes)) is None:
            steps = {str(number): each for number, each in enumerate(lanes)}
            group = Group("", tuple(steps), (Phase("", 1, steps, _OTHERS),))
            accounts = execute(Program((group,)), explicit=False).lanes
            known = self._known[lanes] = tuple(_without_waiting(accounts[lane]) for lane in steps)
        return [dict(account) for account in known]


def _answered(program: Program) -> Group | None:
    """The one group of a program, whose lanes each do what helpers do for them; None if it has more than that."""
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


def _meet_alike(group: Group) -> bool:
    """Whether the same lanes meet at a barrier in every phase that names it."""
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


def _pieces(lanes: Sequence[_Steps], wait_kind: str) -> Iterator[tuple[_Piece, int]]:
    """Lanes cut where all of them meet, or whole if only some do; with how often a piece comes in a row."""
    cut = [
        (tuple(part for part, _ in parts), {end for _, end in parts}) for parts in zip(*map(_cut, lanes), strict=False)
    ]
    if any(len(ends) > 1 for _, ends in cut):
        yield _Piece(tuple(lanes), wait_kind), 1
        return
    for (parts, (end,)), alike in groupby(cut):
        yield _Piece(parts, wait_kind if end is None else end.kind), sum(1 for _ in alike)


def _cut(steps: Sequence[Step]) -> Iterator[tuple[tuple[Step, ...], Barrier | None]]:
    """Steps up to each barrier, with the barrier; None stands for the end of the phase."""
    begin = 0
    for number, step in enumerate(steps):
        if isinstance(step, Barrier):
            yield tuple(steps[begin:number]), step
            begin = number + 1
    yield tuple(steps[begin:]), None


def _together(lanes: Sequence[_Steps]) -> list[list[int]]:
    """Places of lanes that share channels or barriers, be it by way of others."""
    groups: list[tuple[set[str], list[int]]] = []
    for place, steps in enumerate(lanes):
        names, members, apart = set(_shared(steps)), [place], []
        for group in groups:
            if names.isdisjoint(group[0]):
                apart.append(group)
            else:
                names, members = names | group[0], group[1] + members
        groups = [*apart, (names, members)]
    return [sorted(members) for _, members in groups]


def _shared(steps: _Steps) -> Iterator[str]:
    """Names of channels and barriers."""
    for step in steps:
        if isinstance(step, Exchange):
            yield from (channel for transfer in step.transfers for channel, _ in transfer.channels)
        elif isinstance(step, Barrier):
            yield step.key


def _alone(steps: _Steps) -> _Account | None:
    """The account of a lane that has its channels to itself; None if its own transfers share one, or it waits."""
    account: _Account = {}
    for step in steps:
        if isinstance(step, Work):
            for kind, duration in step.parts:
                account[kind] = account.get(kind, 0) + duration
        elif isinstance(step, Exchange) and _are_apart(step.transfers):
            if step.transfers:
                last = max(sorted(step.transfers, key=attrgetter("latency_ps")), key=_time)
                account[last.kind] = account.get(last.kind, 0) + _time(last)
        else:
            return None
    return account


def _are_apart(transfers: Sequence[Transfer]) -> bool:
    names = [channel for transfer in transfers for channel, _ in transfer.channels]
    return len(names) == len(set(names))


def _time(transfer: Transfer) -> int:
    """Of a transfer that shares no channel: the slowest of its channels sets its speed. [ps]"""
    return transfer.latency_ps + max((time for _, time in transfer.channels), default=0)


def _without_waiting(account: Mapping[str, int]) -> _Account:
    return {kind: time for kind, time in account.items() if kind != _OTHERS}


def _add(accounts: Sequence[_Account], parts: Sequence[_Account], count: int) -> None:
    for account, part in zip(accounts, parts, strict=True):
        for kind, duration in part.items():
            account[kind] = account.get(kind, 0) + duration * count
