"""Which stretches of a weight update a timeline shows, and what happens in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podsim.engine.trace import PhaseRecord
from podsim.format import format_duration_s
from podsim.result.rows import part_of
from podsim.units import ps_to_seconds

_CYCLES_SHOWN: Final = 2


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time worth looking at."""

    title: str
    start_ps: int
    end_ps: int


@dataclass(frozen=True, slots=True)
class UpdatePart:
    """A part of a weight update, such as `fill` or `update`, with all of its phases. [ps]"""

    name: str
    start_ps: int
    end_ps: int


def parts_of(phases: Sequence[PhaseRecord]) -> tuple[UpdatePart, ...]:
    """The parts that the phases of one group make up, in order; phases without length are left out."""
    parts: list[UpdatePart] = []
    for phase in phases:
        name = part_of(phase.name)
        if phase.end_ps == phase.start_ps:
            continue
        if parts and parts[-1].name == name:
            parts[-1] = UpdatePart(name, parts[-1].start_ps, phase.end_ps)
        else:
            parts.append(UpdatePart(name, phase.start_ps, phase.end_ps))
    return tuple(parts)


def windows_of(phases: Sequence[PhaseRecord], makespan_ps: int, what: str = "weight update") -> tuple[Window, ...]:
    """The beginning, two of the repeated cycles, and the end; all of it if no phase is repeated often enough."""
    main = max(
        phases,
        key=lambda phase: (phase.count > 2 * _CYCLES_SHOWN, phase.end_ps - phase.start_ps),
        default=None,
    )
    if main is None or main.count <= 2 * _CYCLES_SHOWN:
        return (Window(f"The whole {what}", 0, makespan_ps),)
    period_ps = (main.end_ps - main.start_ps) // main.count
    period = format_duration_s(ps_to_seconds(period_ps))
    cycles = Window(
        f"{_CYCLES_SHOWN} of {main.count} {part_of(main.name)} cycles, {period} each",
        main.start_ps + period_ps,
        main.start_ps + (1 + _CYCLES_SHOWN) * period_ps,
    )
    last_ps = main.end_ps - period_ps
    first = Window(f"Start: {_names(phases, 0, main.start_ps)}", 0, main.start_ps + period_ps)
    last = Window(f"End: {_names(phases, main.end_ps, makespan_ps)}", last_ps, makespan_ps)
    return (*((first,) if main.start_ps else ()), cycles, *((last,) if main.end_ps < makespan_ps else ()))


def _names(phases: Sequence[PhaseRecord], start_ps: int, end_ps: int) -> str:
    """The parts between two times, with how long each takes."""
    inside = [phase for phase in phases if start_ps <= phase.start_ps and phase.end_ps <= end_ps]
    return ", ".join(
        f"{part.name} {format_duration_s(ps_to_seconds(part.end_ps - part.start_ps))}" for part in parts_of(inside)
    )
