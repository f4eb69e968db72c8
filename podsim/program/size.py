"""The size of a program, before it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from podsim.program.replicas import Replicas
from podsim.program.task import Group, Program, Step, Work

Follow = Callable[[int], Iterable[int]]
"""Is told how many events a run will take, roughly, and gives the numbers of events after which it looks again."""


def unseen(_event_count: int) -> Iterable[int]:
    """Follow nothing: the run has no watcher."""
    return ()


def explicit_event_count(program: Program, replicas: Replicas) -> int:
    """Events of the program that a folded one stands for: every replica, every repetition, every part. Rough."""
    counted = sum(map(_event_count, program.groups))
    return counted * replicas.layout.replication_factor // len(replicas.kept)


def _event_count(group: Group) -> int:
    """Parts of work, meetings and transfers of all lanes."""
    return sum(
        phase.count * sum(1 + sum(map(_parts, phase.steps.get(lane, ()))) for lane in group.lanes)
        for phase in group.phases
    )


def _parts(step: Step) -> int:
    return len(step.parts) if isinstance(step, Work) else 1
