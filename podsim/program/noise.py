"""Which stretches of work have noise, and who draws it together.

A session call has two kinds. What the calling process does takes longer or shorter for all IPUs alike: one stream. And
a machine is late now and then, each by itself: a stream per machine. All IPUs of a run meet after the call, at the
latest when gradients are reduced, so that a call takes as long as its latest machine. What IPUs compute and exchange is
planned to the cycle, and has no noise. Source: [mlperf_logs].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from podsim.cost.noise import Table, late, latest, steady
from podsim.specs.noise import Noise
from podsim.units import seconds_to_ps

CALL, LATE = "session call", "late machine"


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """What a stretch of work takes more or less each time.

    Attributes:
        stream: Lanes that name the same stream draw the same entry in the same visit.
        table: What is drawn from. [ps]
    """

    stream: str
    table: Table


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """A stretch of a session call.

    Attributes:
        name: Its name.
        time_ps: What it takes without noise; no draw is below its negative. [ps]
        draw: Its noise.
    """

    name: str
    time_ps: int
    draw: Draw


def call_stretches(noise: Noise, time_ps: int, updates_per_call: float, machine: int) -> Iterator[Stretch]:
    """A weight update's share of a session call, in stretches that add up to it, for lanes of one machine.

    Where several updates share a call, each has its share of the variance and of the late calls, so that a whole call
    differs as much as if it were drawn at once.

    Args:
        noise: That of the software stack.
        time_ps: The share of the call. [ps]
        updates_per_call: Updates that share it.
        machine: Number of the machine.
    """
    table = late_table(noise, updates_per_call)
    waited_ps = min(time_ps, round(float(table.mean())))
    yield Stretch(CALL, time_ps - waited_ps, Draw(CALL, call_table(noise, time_ps - waited_ps, updates_per_call)))
    if table.any():
        yield Stretch(LATE, waited_ps, Draw(f"machine{machine}", table - waited_ps))


def folded_call(noise: Noise, time_ps: int, updates_per_call: float, machine_count: int) -> Iterator[Stretch]:
    """The same for one lane that stands for all: it draws how late the latest of all machines is.

    Args:
        noise: That of the software stack.
        time_ps: The share of the call. [ps]
        updates_per_call: Updates that share it.
        machine_count: Machines that the run takes part on.
    """
    for each in call_stretches(noise, time_ps, updates_per_call, 0):
        draw = Draw("machines", latest(each.draw.table, machine_count)) if each.name == LATE else each.draw
        yield Stretch(each.name, each.time_ps, draw)


def call_table(noise: Noise, time_ps: int, updates_per_call: float) -> Table:
    """What the calling process takes more or less. [ps]"""
    return steady(time_ps, seconds_to_ps(noise.call_spread_s) / math.sqrt(updates_per_call))


def run_table(noise: Noise, time_ps: int, updates_per_call: float) -> Table:
    """What calls take more or less in all of a run: one draw for each run, which all of its updates bear. [ps]"""
    return steady(time_ps, seconds_to_ps(noise.run_spread_s or 0.0) / updates_per_call)


def late_table(noise: Noise, updates_per_call: float) -> Table:
    """How late one machine is. [ps]"""
    return late((noise.late_call_share or 0.0) / updates_per_call, seconds_to_ps(noise.late_call_time_s or 0.0))
