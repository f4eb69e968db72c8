"""Constants of noise fitted again to logged runs, and what they predict beside what was logged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from podsim.cost.noise import latest_of
from podsim.program.noise import late_table
from podsim.specs.noise import Noise
from podsim.units import PS_PER_S
from podsim.validation.noise import LATE_S, Spread

_LONGEST_S = 10.0
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class LateCalls:
    """How often a machine is late for a call, and by how much. [s]"""

    share: float
    mean_s: float


def fitted_call_s(rows: Sequence[Spread]) -> float:
    """Standard deviation of a call that no machine is late for: that of the row with the fewest machines. [s]

    Args:
        rows: Submissions of one stack.
    """
    return min(rows, key=lambda row: row.machines).usual_call_s


def fitted_late_calls(rows: Sequence[Spread], call_s: float) -> LateCalls:
    """As often as evaluations met a late call, and so late that neighbouring blocks differ as they do.

    A delay that is met with a share q and has the mean m is beyond t in q exp(-t / m) of all calls, and adds 2 q m² to
    the variance of a call. Both hold for each machine, as long as q is small.

    Args:
        rows: Submissions of one stack.
        call_s: Standard deviation of a call without. [s]
    """
    machine_calls = sum(row.machines * row.evaluation_calls for row in rows)
    beyond = sum(row.late_calls for row in rows) / machine_calls
    variance = sum(row.call_s**2 - call_s**2 for row in rows) / sum(row.machines for row in rows)

    def excess(mean_s: float) -> float:
        return 2 * beyond * math.exp(LATE_S / mean_s) * mean_s**2 - variance

    least, most = LATE_S / 2, _LONGEST_S  # the variance grows with the mean from half of t on
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if excess(middle) < 0 else (least, middle)
    return LateCalls(beyond * math.exp(LATE_S / least), least)


def fitted_run_s(rows: Sequence[Spread]) -> float:
    """Standard deviation from run to run of what a call takes. [s]"""
    return math.sqrt(sum((row.between_runs * row.update_s * row.updates / row.calls) ** 2 for row in rows) / len(rows))


@dataclass(frozen=True, slots=True)
class Expected:
    """What constants of noise say of a submission.

    Attributes:
        call_s: Standard deviation of a call. [s]
        block_variation: Standard deviation of a block over its mean, drift left out.
        wait_s: What a call takes longer, on average, since machines wait for the latest. [s]
        late_calls: Evaluations that meet a late call.
    """

    call_s: float
    block_variation: float
    wait_s: float
    late_calls: float


def expected(row: Spread, noise: Noise) -> Expected:
    """What is predicted of a submission.

    Args:
        row: Its blocks and machines.
        noise: That of its software stack.
    """
    table = late_table(noise, 1.0)
    mean, deviation = (each / PS_PER_S for each in latest_of(table, row.machines))
    call_s = math.hypot(noise.call_spread_s, deviation)
    share, mean_s = noise.late_call_share or 0.0, noise.late_call_time_s or 1.0
    return Expected(
        call_s,
        call_s * math.sqrt(row.calls) / (row.update_s * row.updates),
        mean - float(table.mean()) / PS_PER_S,
        row.evaluation_calls * (1 - (1 - share * math.exp(-LATE_S / mean_s)) ** row.machines),
    )
