"""How many samples a run needs: given, or drawn from MLPerf's reference convergence points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from podsim import disk, memo
from podsim.errors import MissingDataError

_INTERVAL_SAMPLES = 25_000
_INTERVAL_SHARE = 0.05
_INTERVAL_SLOPE, _INTERVAL_OFFSET = 230.23, 3_000_000


@dataclass(frozen=True, slots=True)
class ReferencePoint:
    """Samples to converge of reference runs at one batch size.

    Attributes:
        batch_size: Samples per weight update.
        samples: Samples to converge, one per run.
    """

    batch_size: int
    samples: tuple[int, ...]


def evaluation_interval_samples(batch_size: float) -> int:
    """Samples between evaluations by MLPerf's rule for BERT: floor(0.05·(230.23·GBS + 3e6) / 25000)·25000.

    Source: [mlperf_training_rules].

    >>> evaluation_interval_samples(3072), evaluation_interval_samples(6144)
    (175000, 200000)
    """
    share = _INTERVAL_SHARE * (_INTERVAL_SLOPE * batch_size + _INTERVAL_OFFSET)
    return math.floor(share / _INTERVAL_SAMPLES) * _INTERVAL_SAMPLES


def draw_samples_to_converge(
    points: Sequence[ReferencePoint], batch_size: float, draw_count: int, seed: int
) -> tuple[float, ...]:
    """Samples to converge of `draw_count` imagined runs.

    Each draw takes one quantile of the two reference points that enclose the batch size and
    interpolates between them.

    Raises:
        MissingDataError: The batch size lies outside the reference points.
    """
    known = sorted(points, key=lambda point: point.batch_size)
    if not known or not known[0].batch_size <= batch_size <= known[-1].batch_size:
        span = f"{known[0].batch_size} to {known[-1].batch_size}" if known else "none"
        raise MissingDataError(
            f"no reference convergence for {batch_size:,.0f} samples per weight update (known: {span})",
            do="give run.samples_to_converge as a number",
        )
    key = disk.digest(
        [b"draws", memo.SOURCES.get(__name__, _source), repr((known, batch_size, draw_count, seed)).encode()]
    )
    return memo.DRAWS.get(
        key, lambda: disk.kept(key, lambda: _drawn(known, batch_size, draw_count, seed), list, _numbers)
    )


def _numbers(data: Sequence[object]) -> tuple[float, ...]:
    """Draws as they were kept.

    Raises:
        TypeError: They are something else.
    """
    found = tuple(each for each in data if isinstance(each, float))
    if len(found) != len(data):
        raise TypeError(data)
    return found


def _source() -> bytes:
    """A hash of the code that draws, and of the version of the library with the random numbers."""
    return disk.source([Path(__file__), disk.library("numpy").with_name("version.py")])


def _drawn(known: Sequence[ReferencePoint], batch_size: float, draw_count: int, seed: int) -> tuple[float, ...]:
    """The draws, between reference points in the order of their batch sizes."""
    import numpy as np  # large, and known draws do without

    quantiles = np.random.default_rng(seed).random(draw_count)
    upper = next(i for i, point in enumerate(known) if point.batch_size >= batch_size)
    lower = max(upper - 1, 0) if known[upper].batch_size > batch_size else upper
    low, high = (np.quantile(known[i].samples, quantiles) for i in (lower, upper))
    gap = known[upper].batch_size - known[lower].batch_size
    weight = (batch_size - known[lower].batch_size) / gap if gap else 0.0
    return tuple(float(value) for value in low + weight * (high - low))


def mlperf_score(values: Sequence[float]) -> float:
    """MLPerf's olympic mean: drop the best and the worst run, average the rest; fewer than three are averaged.

    >>> mlperf_score([1.0, 2.0, 3.0, 10.0])
    2.5
    """
    kept = sorted(values)[1:-1] if len(values) > 2 else list(values)
    return math.fsum(kept) / len(kept)
