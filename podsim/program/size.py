"""The size of a program, before it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from podsim.program.replicas import Replicas
from podsim.program.task import Exchange, Group, Program, Step, Work

Follow = Callable[[int], Iterable[int]]
"""Is told how many events a run will take, roughly, and gives the numbers of events after which it looks again."""


def unseen(_event_count: int) -> Iterable[int]:
    """Follow nothing: the run has no watcher."""
    return ()


def explicit_event_count(program: Program, replicas: Replicas) -> int:
    """Events of the program that a folded one stands for: every replica, every repetition. Rough."""
    counted = sum(map(_event_count, program.groups))
    return counted * replicas.layout.replication_factor // len(replicas.kept)


def _event_count(group: Group) -> int:
    """Stretches of work, meetings, exchanges and transfers of all lanes."""
    return sum(
        phase.count * sum(1 + _steps(phase.steps.get(lane, ())) for lane in group.lanes) for phase in group.phases
    )


def _steps(steps: Sequence[Step]) -> int:
    """Work in a row is one step."""
    works = sum(1 for kind, _ in groupby(steps, lambda step: isinstance(step, Work) and (step.steady,)) if kind)
    others = [step for step in steps if not isinstance(step, Work)]
    return works + len(others) + sum(len(step.transfers) for step in others if isinstance(step, Exchange))
