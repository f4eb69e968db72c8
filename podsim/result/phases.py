"""The phases of a weight update, as a reader wants them."""

from collections.abc import Iterable
from itertools import groupby
from math import fsum

from podsim.engine.trace import PhaseRecord
from podsim.result.rows import PhaseTime
from podsim.units import ps_to_seconds


def phase_times(phases: Iterable[PhaseRecord]) -> tuple[PhaseTime, ...]:
    """Time of each phase, in order; numbered phases in a row (`fill 0`, `fill 1`, …) are one.

    All replicas go through the same phases, so those of the first group stand for all.
    """
    return merged(
        PhaseTime(phase.name, phase.count, ps_to_seconds(phase.end_ps - phase.start_ps))
        for phase in of_first_group(phases)
    )


def merged(phases: Iterable[PhaseTime]) -> tuple[PhaseTime, ...]:
    """Phases whose names differ by a number at the end only, and that follow one another, as one.

    >>> merged([PhaseTime("fill 0", 1, 0.5), PhaseTime("fill 1", 1, 0.75)])
    (PhaseTime(name='fill', count=2, seconds=1.25),)
    """
    runs = ((name, list(run)) for name, run in groupby(phases, key=lambda phase: _without_number(phase.name)))
    return tuple(
        PhaseTime(name, sum(phase.count for phase in run), fsum(phase.seconds for phase in run)) for name, run in runs
    )


def of_first_group(phases: Iterable[PhaseRecord]) -> list[PhaseRecord]:
    """The phases of the group that comes first, in order of time."""
    ordered = sorted(phases, key=lambda phase: (phase.start_ps, phase.end_ps))
    return [phase for phase in ordered if phase.group == ordered[0].group]


def part_of(phase_name: str) -> str:
    """The part of the weight update that a phase belongs to: the first word of its name.

    >>> part_of("fill 3"), part_of("update IPUs 1-3: optimizer")
    ('fill', 'update')
    """
    return phase_name.split(maxsplit=1)[0]


def _without_number(name: str) -> str:
    words = name.rsplit(maxsplit=1)
    return words[0] if len(words) > 1 and words[1].isdecimal() else name
