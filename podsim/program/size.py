"""Estimate of the number of events of a program, before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from podsim.program.replicas import Replicas
from podsim.program.task import Exchange, Group, Program, Step, Work

Follow = Callable[[int], Iterable[int]]
"""Progress callback: takes the rough number of events of a run, returns the event counts between two reports."""


def unseen(_event_count: int) -> Iterable[int]:
    """Request no progress reports."""
    return ()


def explicit_event_count(program: Program, replicas: Replicas) -> int:
    """Estimate the number of events of the explicit program, with every replica and every repetition."""
    counted = sum(map(_event_count, program.groups))
    return counted * replicas.layout.replication_factor // len(replicas.simulated)


def _event_count(group: Group) -> int:
    """Count work, barriers, exchanges and transfers of all lanes."""
    return sum(
        phase.count * sum(1 + _steps(phase.steps.get(lane, ())) for lane in group.lanes) for phase in group.phases
    )


def _steps(steps: Sequence[Step]) -> int:
    """Count the steps of a lane; adjacent work is one step."""
    works = sum(1 for kind, _ in groupby(steps, lambda step: isinstance(step, Work) and (step.steady,)) if kind)
    others = [step for step in steps if not isinstance(step, Work)]
    return works + len(others) + sum(len(step.transfers) for step in others if isinstance(step, Exchange))
