"""Constants of noise fitted again to logged runs.

A constant is fitted once, to rows marked `calibration` in `reference_data/mlperf_intervals.csv`. They move no time of a
run without noise. Source: [mlperf_logs].
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.scenario.software import Noise
from podsim.validation.fit import Fit
from podsim.validation.reference_data import CALIBRATION
from tools.noise import LATE_S, LoggedRuns, Spread, logged_runs, spread_of

_KEYS = ("call_spread", "late_call_share", "late_call_time", "run_spread", "drift")
_SHARES = ("late_call_share", "drift")
_END_OVER_THIRDS = 3 / 2
"""Rise from the start of a run to its end over that from the middle of its first third to that of its last."""
_LONGEST_S = 10.0
_HALVINGS = 60


def noise_fits() -> tuple[Fit, ...]:
    """Fit again every constant of the spread of logged runs."""
    chosen = [(logged_run, spread_of(logged_run)) for logged_run in logged_runs(CALIBRATION)]
    shared = [(each, row) for each, row in chosen if row.evaluation_calls]
    found = list(_fits_of_stack([row for _, row in shared], _noise(shared[0][0])))
    for each, row in chosen:
        if not row.evaluation_calls:
            title = f"software.noise.{_KEYS[0]} ({each.spec.software.name})"
            found.append(Fit(title, _noise(each).call_spread_s, row.usual_call_s, "s", row.scenario))
    return tuple(found)


def _fits_of_stack(rows: Sequence[Spread], noise: Noise) -> Iterator[Fit]:
    call_s = fitted_call_s(rows)
    late = fitted_late_calls(rows, call_s)
    committed = (noise.call_spread_s, noise.late_call_share, noise.late_call_time_s, noise.run_spread_s, noise.drift)
    fitted = (call_s, late.share, late.mean_s, fitted_run_s(rows), fitted_drift(rows, noise))
    where = " and ".join(row.scenario for row in rows)
    for key, before, after in zip(_KEYS, committed, fitted, strict=True):
        unit = "" if key in _SHARES else "s"
        yield Fit(f"software.noise.{key}", float(before or 0.0), after, unit, where, None, (), len(rows), len(_KEYS))


def _noise(logged: LoggedRuns) -> Noise:
    assert logged.spec.software.noise
    return logged.spec.software.noise


@dataclass(frozen=True, slots=True)
class LateCalls:
    """Probability that a machine is slow in a call, and its mean delay. [s]"""

    share: float
    mean_s: float


def fitted_call_s(rows: Sequence[Spread]) -> float:
    """Return the standard deviation of a call without slow machines: that of the row with the fewest machines. [s]"""
    return min(rows, key=lambda row: row.machines).usual_call_s


def fitted_late_calls(rows: Sequence[Spread], call_s: float) -> LateCalls:
    """Return the probability from late evaluations, and the delay from differences of neighbouring blocks.

    An exponential delay with probability q and mean m exceeds t in a share q exp(-t / m) of all calls, and adds 2 q m²
    to the variance of a call. For small q, both hold for each machine.
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
    """Return the standard deviation of call times between runs. [s]"""
    return math.sqrt(sum((row.between_runs * row.update_s * row.updates / row.calls) ** 2 for row in rows) / len(rows))


def fitted_drift(rows: Sequence[Spread], noise: Noise) -> float:
    """Return the relative slowdown of an update from start to end of a run, if it grows linearly."""
    slowing = [row.drift for row in rows if row.machines >= (noise.drift_machine_count or 1)]
    return _END_OVER_THIRDS * sum(slowing) / len(slowing)
