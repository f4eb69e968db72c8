"""Load curve of a service, and the largest rate that it can serve.

Source: [baccelli1995]: a queue is stable below the rate at which requests are served while others always wait.
Assumes: an earlier arrival delays no other request. Batches can violate this, so a run slightly below the rate and one
slightly above confirm it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from podsim.errors import PodsimError
from podsim.runs.serving.arrivals import Load, check_rate
from podsim.runs.serving.outcome import ServingOutcome, Timeline
from podsim.runs.serving.server import Service, serve, timeline_of
from podsim.units import PS_PER_S
from podsim.watch import Watch, silent

_OVERLOAD: Final = 2
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Outcome of a service at one rate."""

    rate_per_s: float  # requested rate of arrivals [1/s]
    outcome: ServingOutcome


def load_curve(
    service: Service, load: Load, rates_per_s: Iterable[float], watch: Watch = silent
) -> tuple[LoadPoint, ...]:
    """Serve the same requests at several rates; return the outcomes in the order of the rates."""
    rates = tuple(rates_per_s)
    for rate in rates:
        check_rate(rate)
    names = watch([f"{rate:.4g} requests/s" for rate in rates])
    return tuple(LoadPoint(rate, serve(service, load.at_rate(rate))) for _, rate in zip(names, rates, strict=True))


@dataclass(frozen=True, slots=True)
class Saturation:
    """Largest rate at which the queue does not grow without bound."""

    rate_per_s: float  # rate at which requests are served while others wait [1/s]
    below: LoadPoint = field(repr=False)  # run slightly below the rate
    above: LoadPoint = field(repr=False)  # run slightly above the rate

    @property
    def confirmed(self) -> bool:
        """True if the queue is stable slightly below the rate and grows slightly above; False if that is undecided."""
        return self.below.outcome.queue_grows is False and self.above.outcome.queue_grows is True


def saturation(service: Service, load: Load, *, margin: float, watch: Watch = silent) -> Saturation:
    """Find the saturation by overload, and run the service at a share `margin` below and above to confirm it."""
    if not 0 < margin < 1:
        raise PodsimError(f"a margin of {margin:g}", do="give a share between 0 and 1, for example 0.05")
    rate = capacity_per_s(service, load)
    below, above = load_curve(service, load, (rate * (1 - margin), rate * (1 + margin)), watch)
    return Saturation(rate, below, above)


def capacity_per_s(service: Service, load: Load) -> float:
    """Return the rate at which requests start while others wait. [1/s]

    A first run with all requests present at the start gives an estimate. There all places fill at once, so that
    sequences of equal length would start and end together. So in a second run requests arrive one by one, at twice the
    estimate, and its second half is measured.

    Raises:
        PodsimError: There are too few requests to fill all places several times.
    """
    fewest = _ROUNDS * service.place_count
    if load.request_count < fewest:
        raise PodsimError(
            f"{load.request_count} requests do not saturate {service.place_count} places",
            do=f"give {fewest} requests or more",
        )
    size = service.batching.size
    estimate = _start_rate_per_s(timeline_of(service, load.at_once()), size)
    return _start_rate_per_s(timeline_of(service, load.at_rate(_OVERLOAD * estimate)), size)


def _start_rate_per_s(timeline: Timeline, size: int) -> float:
    """Return the rate of starts in the second half, without the last `size`, whose batch may not be full. [1/s]"""
    starts = sorted(timeline.start_ps)
    last = starts[-size]
    middle = starts[(len(starts) - size) // 2]
    return (bisect_left(starts, last) - bisect_left(starts, middle)) * PS_PER_S / (last - middle)
