"""Constants that act linearly on several published times, fitted by least squares over the relative errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from podsim.activity import generate, simulate
from podsim.errors import InfeasibleError
from podsim.report.reference_data import rows, scenario_name
from podsim.specs import load_scenario
from podsim.validation.least_squares import least_squares
from podsim.validation.reference_data import CALIBRATION, CALLED, submissions

_MS_PER_S, _NS_PER_S = 1000, 1e9
_CALL, _SAMPLING = "host_call", "sampling_per_logit"
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


def sampling_points() -> tuple[Point, ...]:
    """Decode steps whose sequences are computed anew; the host chooses from all their logits."""
    chosen = (row for row in rows("published_throughput") if row["role"] == CALIBRATION and row["framework"] == "PopXL")
    return tuple(_sampling_point(row) for row in chosen)


def _sampling_point(row: dict[str, str]) -> Point:
    name, _, variant = row["scenario"].partition("@")
    committed_s = float(load_scenario(name).spec.software.sampling_per_logit_s or 0)

    def predict(sampling_s: float) -> float:
        overrides = [f"software.{_SAMPLING}={sampling_s * _NS_PER_S} ns"]
        return generate(name, variant=variant or None, overrides=overrides).decode.time_s

    return _point(row["scenario"], _step_s(row), committed_s, predict)


def _step_s(row: dict[str, str]) -> float:
    """Time of a step of all sequences. [s]"""
    if row["metric"] == _TOKEN_TIME:
        return float(row["value"]) * float(row["global_batch"]) / _MS_PER_S
    return 1 / float(row["value"])


def _point(title: str, published_s: float, committed: float, predict: Callable[[float], float]) -> Point:
    """A constant that acts linearly: the prediction with it, and with twice as much."""
    once_s, twice_s = predict(committed), predict(2 * committed)
    return Point(title, published_s, once_s, (twice_s - once_s) / committed)
