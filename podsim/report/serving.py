"""The result of serving: what requests saw, what the copies did, and how much they can take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from podsim.report.base import Result
from podsim.report.power import Work
from podsim.report.sources import Sources
from podsim.report.step import StepReport
from podsim.serving import LoadPoint, Saturation, ServingOutcome

_TIMES = ("queueing", "time_to_first_token", "time_per_output_token", "latency")
_MEANS = ("throughput_requests_per_s", "throughput_tokens_per_s", "utilization", "mean_batch", "mean_waiting")


@dataclass(frozen=True, kw_only=True)
class ServingResult(Result):
    """The result of simulated serving.

    Attributes:
        batching: `static` or `continuous`.
        batch_size: Most sequences of a batch.
        max_batch: Sequences of a batch that memory would hold.
        copy_count: Copies of the model.
        batches_in_flight: Batches that each copy works on.
        request_count: Requests that came.
        rate_per_s: Rate at which they came; None if all came at once. [1/s]
        outcome: What came of them.
        saturation: The largest rate that can be served.
        points: The same kind of requests at other rates.
        decode: A decode step of a full batch, simulated when it is looked at; none or one.
    """

    batching: str
    batch_size: int
    max_batch: int
    copy_count: int
    batches_in_flight: int
    request_count: int
    rate_per_s: float | None
    outcome: ServingOutcome
    saturation: Saturation
    points: tuple[LoadPoint, ...]
    decode: Sequence[StepReport] = ()

    @property
    def sources(self) -> Sources:
        """What the time of a decode step of a full batch stands on."""
        return self.decode[0].sources if self.decode else Sources()

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of a decode step of a full batch by what they stand on."""
        return self.sources.shares

    @property
    def load(self) -> float | None:
        """Rate as a share of the saturation; None if all requests came at once."""
        return None if self.rate_per_s is None else self.load_of(self.rate_per_s)

    def load_of(self, rate_per_s: float) -> float:
        """A rate as a share of the saturation."""
        return rate_per_s / self.saturation.rate_per_s

    @property
    def breakdown_basis(self) -> dict[str, object]:
        """Shares of a decode step of a full batch by what they stand on: of each kind of time, and of all of it."""
        return self.sources.to_dict()

    @property
    def most_waiting(self) -> int:
        """Most requests in the queue at a time."""
        return max(self.outcome.queue.peak)

    def work(self) -> Work:
        """Steps of all copies; those that take in prompts count as the others do."""
        outcome = self.outcome
        rates = {"token": outcome.throughput_tokens_per_s, "request": outcome.throughput_requests_per_s}
        if not self.decode:
            return Work({}, rates)
        step = self.decode[0]
        return Work(step.breakdown_ps, rates, density=outcome.utilization * step.density(self.batches_in_flight))

    def own(self) -> Mapping[str, object]:
        """The numbers of serving, in a fixed order of keys."""
        saturation = self.saturation
        return {
            "service": {
                "batching": self.batching,
                "batch_size": self.batch_size,
                "max_batch": self.max_batch,
                "copy_count": self.copy_count,
                "batches_in_flight": self.batches_in_flight,
            },
            "breakdown_basis": self.breakdown_basis,
            "request_count": self.request_count,
            "rate_per_s": self.rate_per_s,
            "load": self.load,
            **_outcome_dict(self.outcome),
            "queue": {"most": self.most_waiting, **asdict(self.outcome.queue)},
            "saturation": {"rate_per_s": saturation.rate_per_s, "confirmed": saturation.confirmed},
            "load_curve": [
                {
                    "load": self.load_of(point.rate_per_s),
                    "rate_per_s": point.rate_per_s,
                    "request_count": len(point.outcome.timeline.requests),
                    **_outcome_dict(point.outcome),
                }
                for point in self.points
            ],
            **self.spent(),
        }


def serving_warnings(rate_per_s: float | None, outcome: ServingOutcome, saturation: Saturation) -> Iterator[str]:
    """Warnings: what a reader must know before using the numbers.

    Args:
        rate_per_s: Rate at which requests came; None if all came at once. [1/s]
        outcome: What came of them.
        saturation: The largest rate that can be served.
    """
    if rate_per_s is not None and rate_per_s >= saturation.rate_per_s:
        yield (
            f"{rate_per_s:.4g} requests/s come, {saturation.rate_per_s:.4g}/s can be served: the queue "
            "grows without bound, and waiting and latency depend on how long the run lasts; "
            "offer less, or serve with more copies or a larger batch"
        )
    elif outcome.queue_grows:
        yield "the queue grew as long as requests came, though the load is below saturation: simulate more requests"
    if not saturation.confirmed:
        yield (
            "runs on either side of the saturation do not confirm it: take it as an estimate, "
            "or raise serving.request_count"
        )


def _outcome_dict(outcome: ServingOutcome) -> dict[str, Any]:
    times = {name: getattr(outcome, name) for name in _TIMES}
    return (
        {name: None if each is None else asdict(each) for name, each in times.items()}
        | {name: getattr(outcome, name) for name in _MEANS}
        | {"queue_grows": outcome.queue_grows}
    )
