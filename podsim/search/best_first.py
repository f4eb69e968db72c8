"""Best first: what promises most is looked at more closely, until nothing that is left can win.

A lead is a division, or a group, with a time that none of them stays below; as long as no bound is above the truth, the
fastest of all is found.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from podsim.engine import execute
from podsim.placement.plan import Plan
from podsim.program.compile import compile_program
from podsim.scenario import TrainingScenario
from podsim.units import ps_to_seconds
from podsim.watch import Watch

Made = TypeVar("Made")
ROUNDING = 1e-9
"""Bounds are sums of floating-point numbers, times are whole picoseconds."""
_BEYOND = 60
"""Looks at runners-up once nothing can win."""


@dataclass(frozen=True, slots=True)
class Lead(Generic[Made]):
    """Something that may be the best."""

    bound_s: float  # no division of it takes less time; once it is simulated, its time [s]
    closer: Callable[[], Iterable[Lead[Made]]] | None  # what a closer look at it gives; None once it is simulated
    made: Made | None = None  # the division, once there is a single one
    name: str = ""  # in words, where it is new to the search


def best_first(
    leads: Sequence[Lead[Made]], kind_of: Callable[[Made], Hashable], wanted: int, watch: Watch, *, prune: bool = True
) -> list[tuple[float, Made]]:
    """Return simulated divisions with their times, sorted by time; the first is the overall optimum. [s]

    `kind_of`: what tells runners-up apart; `wanted`: kinds of division that are looked for; beyond the fastest not at
    any price; `prune`: whether to leave out what cannot win; without, everything is simulated.
    """
    ordered = sorted(leads, key=lambda lead: lead.bound_s)
    names = iter(watch([lead.name for lead in ordered]))
    number = count()
    waiting = [(lead.bound_s, next(number), lead) for lead in ordered]
    done: list[tuple[float, Made]] = []
    kinds: set[Hashable] = set()
    least_s, beyond = float("inf"), 0
    while waiting:
        bound_s, place, lead = waiting[0]
        if prune and bound_s * (1 - ROUNDING) >= least_s:
            beyond += 1
            if len(kinds) >= wanted or beyond > _BEYOND:
                break
            # Nothing can win any more: what is known best comes next, whatever lies in front of it.
            known = (each for each in waiting if each[-1].made is not None and kind_of(each[-1].made) not in kinds)
            bound_s, place, lead = each = min(known, key=lambda each: each[:2], default=waiting[0])
            waiting.remove(each)
            heapq.heapify(waiting)
        else:
            heapq.heappop(waiting)
        if place < len(ordered):
            next(names, None)
        if lead.closer is not None:
            for closer in lead.closer():
                known_s = closer.bound_s if closer.closer is None else max(bound_s, closer.bound_s)
                heapq.heappush(waiting, (known_s, next(number), closer))
        elif lead.made is not None:
            done.append((lead.bound_s, lead.made))
            kinds.add(kind_of(lead.made))
            least_s = min(least_s, lead.bound_s)
    if (close := getattr(names, "close", None)) is not None:
        close()
    return sorted(done, key=lambda each: each[0])


@dataclass(frozen=True, slots=True)
class Found:
    """A division that fits."""

    plan: Plan
    estimate_s: float  # all of a weight update, without the engine; never more than with it [s]
    written: Callable[[], TrainingScenario]

    def lead(self) -> Lead[Found]:
        """Return a lead bounded by the estimate, which the engine simulates next."""
        return Lead(self.estimate_s, self.simulated, self)

    def simulated(self) -> list[Lead[Found]]:
        """Return the division with its time."""
        time_s = ps_to_seconds(execute(compile_program(self.plan), explicit=False).makespan_ps)
        return [Lead(time_s, None, self)]

    @property
    def kind(self) -> tuple[object, ...]:
        """Key that distinguishes runners-up; it ignores the optimizer-state storage and phase details."""
        layout = self.plan.layout
        sharing = layout.tensor_parallel, self.plan.workload.whole is not None, layout.phased
        return (*sharing, layout.ipus_per_replica, layout.replication_factor, layout.micro_batch_size, layout.recompute)
