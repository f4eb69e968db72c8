"""Constants that act linearly on several published times, fitted by least squares over the relative errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from podsim.activity import generate, simulate
from podsim.errors import InfeasibleError
from podsim.report.reference_data import rows, scenario_name
from podsim.specs import load_scenario
from podsim.validation.least_squares import Solution, least_squares
from podsim.validation.reference_data import CALIBRATION, CALLED, submissions

_MS_PER_S, _NS_PER_S = 1000, 1e9
_CALL = "host_call"
_GIGA, _MORE = 1e9, 1.02
_TOKEN_TIME = "batched token time"


@dataclass(frozen=True, slots=True)
class Point:
    """A published time and its prediction.

    Attributes:
        title: The scenario.
        published_s: The published time. [s]
        predicted_s: The prediction with the committed constant. [s]
        slope: What one more unit of the constant adds to it, in seconds.
    """

    title: str
    published_s: float
    predicted_s: float
    slope: float


def best_shift(points: Iterable[Point]) -> tuple[float, float | None]:
    """What to add to a constant, and the standard error.

    >>> add, error = best_shift([Point("a", 10.0, 9.0, 1.0), Point("b", 10.0, 7.0, 1.0)])
    >>> round(add, 6), round(error, 6)
    (2.0, 1.0)
    """
    chosen = list(points)
    found = least_squares(
        [[each.slope] for each in chosen],
        [each.published_s - each.predicted_s for each in chosen],
        [1 / each.published_s for each in chosen],
    )
    return found.values[0], found.standard_errors[0]


def call_points() -> tuple[Point, ...]:
    """Weight updates of convolutional networks; the more of them in a session call, the less of it each bears."""
    chosen = ((scenario_name(row), float(row["step_ms_pure"]) / _MS_PER_S) for row in submissions("resnet", CALLED))
    return tuple(point for title, published_s in chosen if (point := _call_point(title, published_s)))


def _call_point(title: str, published_s: float) -> Point | None:
    """None for a run that does not fit."""
    committed_s = float(load_scenario(title).spec.software.host_call_s)

    def predict(call_s: float) -> float:
        return simulate(title, overrides=[f"software.{_CALL}={call_s * _MS_PER_S} ms"]).weight_update_s

    try:
        return _point(title, published_s, committed_s, predict)
    except InfeasibleError:
        return None


def streaming_and_sampling() -> tuple[tuple[str, ...], Solution, tuple[float, float]]:
    """Decode steps whose weights are streamed and whose sequences are computed anew.

    Returns:
        The scenarios; what to add to the time that the streaming memory of a machine takes per byte, and to the time
        that the host takes per logit; and the committed values of both. [s]
    """
    declared = [r for r in rows("published_throughput") if r["role"] == CALIBRATION and r["framework"] == "PopXL"]
    published = [_step_s(row) for row in declared]
    titles = tuple(row["scenario"] for row in declared)
    spec = load_scenario(titles[0].partition("@")[0]).spec
    byte_s = 1 / spec.system.machine.streaming_memory.machine_bytes_per_s
    committed = byte_s, float(spec.software.sampling_per_logit_s or 0)
    slopes, misses = [], []
    for title, published_s in zip(titles, published, strict=True):
        here = _decode_s(title, *committed)
        changed = (
            _decode_s(title, committed[0] * _MORE, committed[1]),
            _decode_s(title, committed[0], committed[1] * _MORE),
        )
        slopes.append([(each - here) / (value * (_MORE - 1)) for each, value in zip(changed, committed, strict=True)])
        misses.append(published_s - here)
    return titles, least_squares(slopes, misses, [1 / each for each in published]), committed


def _decode_s(title: str, byte_s: float, sampling_s: float) -> float:
    name, _, variant = title.partition("@")
    bandwidth = f"system.machine.streaming_memory.bandwidth_per_machine={1 / byte_s / _GIGA} GB/s"
    sampling = f"software.sampling_per_logit={sampling_s * _NS_PER_S} ns"
    return generate(name, variant=variant or None, overrides=[bandwidth, sampling]).decode.time_s


def _step_s(row: dict[str, str]) -> float:
    """Time of a step of all sequences. [s]"""
    if row["metric"] == _TOKEN_TIME:
        return float(row["value"]) * float(row["global_batch"]) / _MS_PER_S
    return 1 / float(row["value"])


def _point(title: str, published_s: float, committed: float, predict: Callable[[float], float]) -> Point:
    """A constant that acts linearly: the prediction with it, and with twice as much."""
    once_s, twice_s = predict(committed), predict(2 * committed)
    return Point(title, published_s, once_s, (twice_s - once_s) / committed)
