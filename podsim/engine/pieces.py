"""Programs of which all lanes meet again and again, run piece by piece, and no piece twice.

Whenever all lanes of a program have met, nothing is on a channel, so that what follows depends on nothing before:
the time of the program is the sum of the times of its pieces. Programs that differ little share most of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from podsim.engine.executor import execute
from podsim.engine.trace import Trace
from podsim.program.task import Barrier, Group, Phase, Program, Step, Work

_Accounts = tuple[dict[str, int], ...]
_Ran = tuple[int, _Accounts]


@dataclass(frozen=True, slots=True)
class _Piece:
    """What all lanes do from one meeting to the next.

    Attributes:
        lanes: Their steps, the barrier at the end left out.
        wait_kind: Kind of time that waiting for the others is accounted as.
    """

    lanes: tuple[tuple[Step, ...], ...]
    wait_kind: str


@dataclass
class Pieces:
    """Traces of the pieces that were run."""

    _known: dict[_Piece, _Ran] = field(default_factory=dict)

    def trace(self, program: Program) -> Trace | None:
        """What `execute` finds out about a program without its repetitions; phases and number of events are left out.

        Returns:
            None for programs that cannot be cut: of several groups, or with barriers that mean different lanes.
        """
        group = program.groups[0]
        if len(program.groups) > 1 or program.semaphores or group.warm_up or not _meet_alike(group):
            return None
        makespan, accounts = 0, tuple[dict[str, int], ...]({} for _ in group.lanes)
        for phase in group.phases:
            for piece in _pieces(phase, group.lanes):
                duration, parts = self._run(piece, group)
                makespan += duration * phase.count
                for account, part in zip(accounts, parts, strict=True):
                    _add(account, part, phase.count)
        return Trace(makespan, dict(zip(group.lanes, accounts, strict=True)), (), frozenset(), (), 0)

    def _run(self, piece: _Piece, group: Group) -> _Ran:
        if all(isinstance(step, Work) for steps in piece.lanes for step in steps):
            return _of_work(piece)
        if piece not in self._known:
            phase = Phase("", 1, dict(zip(group.lanes, piece.lanes, strict=True)), piece.wait_kind)
            trace = execute(Program((Group(group.name, group.lanes, (phase,)),)), explicit=False)
            self._known[piece] = trace.makespan_ps, tuple(dict(trace.lanes[lane]) for lane in group.lanes)
        return self._known[piece]


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


def _pieces(phase: Phase, lanes: Sequence[str]) -> list[_Piece]:
    """A phase cut where all its lanes meet; whole if only some of them do."""
    steps = tuple(phase.steps.get(lane, ()) for lane in lanes)
    pieces = []
    for parts in zip(*map(_cut, steps), strict=False):
        ends = {end for _, end in parts}
        if len(ends) > 1:
            return [_Piece(steps, phase.wait_kind)]
        (end,) = ends
        pieces.append(_Piece(tuple(part for part, _ in parts), phase.wait_kind if end is None else end.kind))
    return pieces


def _cut(steps: Sequence[Step]) -> Iterator[tuple[tuple[Step, ...], Barrier | None]]:
    """Steps up to each barrier, with the barrier; None stands for the end of the phase."""
    begin = 0
    for number, step in enumerate(steps):
        if isinstance(step, Barrier):
            yield tuple(steps[begin:number]), step
            begin = number + 1
    yield tuple(steps[begin:]), None


def _of_work(piece: _Piece) -> _Ran:
    """A piece in which every lane works for itself: the slowest sets the time."""
    accounts: _Accounts = tuple({} for _ in piece.lanes)
    for account, steps in zip(accounts, piece.lanes, strict=True):
        for step in steps:
            assert isinstance(step, Work)
            for kind, duration in step.parts:
                account[kind] = account.get(kind, 0) + duration
    times = [sum(account.values()) for account in accounts]
    longest = max(times)
    for account, time in zip(accounts, times, strict=True):
        if time < longest:
            account[piece.wait_kind] = account.get(piece.wait_kind, 0) + longest - time
    return longest, accounts


def _add(account: dict[str, int], part: Mapping[str, int], count: int) -> None:
    for kind, duration in part.items():
        account[kind] = account.get(kind, 0) + duration * count
