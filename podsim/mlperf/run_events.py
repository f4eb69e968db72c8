"""What happens during a simulated run, as lines of a result file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Final

from podsim.mlperf.benchmark import Benchmark
from podsim.mlperf.events import Event
from podsim.training.timeline import Part

_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class _Placed:
    """A part of a run with the times at which it begins and ends. [ms]"""

    part: Part
    start_ms: int
    stop_ms: int


@dataclass(frozen=True, slots=True)
class RunLog:
    """A run that is to be logged.

    Attributes:
        benchmark: What is trained.
        parts: The run, part by part.
        samples_per_update: Samples trained by one weight update.
        start_ms: When it begins. [ms]
    """

    benchmark: Benchmark
    parts: Sequence[Part]
    samples_per_update: float
    start_ms: int

    @property
    def counts_epochs(self) -> bool:
        """Whether it consists of epochs; otherwise its evaluations are told apart by the samples before them."""
        return any(part.epoch for part in self.parts)

    @property
    def sample_count(self) -> int:
        """Samples that it trains."""
        return round(max(part.update_count for part in self.parts) * self.samples_per_update)

    def placed(self) -> tuple[_Placed, ...]:
        """The parts with their times; rounded after they are added up, so that errors do not grow."""
        ends = [0.0, *accumulate(part.time_s for part in self.parts)]
        times = [self.start_ms + round(end_s * _MS_PER_S) for end_s in ends]
        return tuple(
            _Placed(part, start, stop) for part, (start, stop) in zip(self.parts, pairwise(times), strict=True)
        )


def run_events(run: RunLog) -> Iterator[Event]:
    """From `run_start` to `run_stop`.

    Only the last evaluation has an accuracy, the target of the benchmark: a simulation knows that a run
    reaches it, and nothing of the evaluations before.
    """
    placed = run.placed()
    yield Event("run_start", run.start_ms)
    yield from _epochs(run, placed) if run.counts_epochs else _blocks(run, placed)
    yield Event("run_stop", placed[-1].stop_ms, None, {"status": "success"})


def _blocks(run: RunLog, placed: Sequence[_Placed]) -> Iterator[Event]:
    """Blocks of training, numbered from 1, with an evaluation behind each."""
    index, last = 0, _last_evaluation(placed)
    for each in placed:
        samples = round(each.part.update_count * run.samples_per_update)
        if each.part.kind == "training":
            index += 1
            about = {"first_epoch_num": index}
            yield Event("block_start", each.start_ms, None, about | {"epoch_count": 1})
            yield Event("block_stop", each.stop_ms, None, about | {"samples_count": samples})
        elif each.part.kind == "evaluation":
            yield from _evaluation(run, each, samples, is_last=each is last)


def _evaluation(run: RunLog, each: _Placed, epoch: int, *, is_last: bool) -> Iterator[Event]:
    """One evaluation; where there are no epochs, samples tell how far the training is."""
    about = {"epoch_num": epoch}
    yield Event("eval_start", each.start_ms, None, about)
    if is_last:
        yield Event("eval_accuracy", each.stop_ms, run.benchmark.target, about)
    yield Event("eval_stop", each.stop_ms, None, about)


def _last_evaluation(placed: Sequence[_Placed]) -> _Placed:
    return [each for each in placed if each.part.kind == "evaluation"][-1]


def _epochs(run: RunLog, placed: Sequence[_Placed]) -> Iterator[Event]:
    """One block of all epochs, then all evaluations; a checkpoint is part of the epoch that it follows."""
    training = [each for each in placed if each.part.kind in ("training", "checkpoint")]
    about = {"first_epoch_num": 1}
    yield Event("block_start", training[0].start_ms, None, about | {"epoch_count": training[-1].part.epoch})
    for epoch, placed_in_it in groupby(training, lambda each: each.part.epoch):
        own = list(placed_in_it)
        yield Event("epoch_start", own[0].start_ms, None, {"epoch_num": epoch})
        yield Event("epoch_stop", own[-1].stop_ms, None, {"epoch_num": epoch})
    yield Event("block_stop", training[-1].stop_ms, None, about)
    last = _last_evaluation(placed)
    for each in placed:
        if each.part.kind == "evaluation":
            yield from _evaluation(run, each, each.part.epoch, is_last=each is last)
