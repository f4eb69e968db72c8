"""What a result file says of its run: which one it was, and how long each of its phases took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from podsim.errors import PodsimError
from podsim.importer.config_file import printable
from podsim.mlperf.benchmark import BENCHMARKS, Benchmark, benchmark_of
from podsim.mlperf.events import Event
from podsim.mlperf.read import MOST, LogFile

_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """From one line to another. [ms]"""

    start_ms: float
    stop_ms: float

    @property
    def time_s(self) -> float:
        """How long it is. [s]"""
        return (self.stop_ms - self.start_ms) / _MS_PER_S

    def without(self, others: Sequence[Interval]) -> float:
        """How long it is without what others take of it. [s]"""
        shared = (min(self.stop_ms, each.stop_ms) - max(self.start_ms, each.start_ms) for each in others)
        return self.time_s - sum(max(0.0, each) for each in shared) / _MS_PER_S


@dataclass(frozen=True, slots=True)
class Logged:
    """A logged run.

    Attributes:
        name: The file.
        benchmark: What was trained.
        batch_size: Samples of one weight update, as logged.
        division: `closed` or `open`, or nothing.
        platform: On what, as logged.
        accumulation_factor: Micro-batches of one weight update, if logged.
        train_samples: Samples trained, where the benchmark logs them.
        simulated: The scenario, if podsim wrote the file.
        month: When it started, such as `2022-05`.
        status: How the run ended.
        counts_epochs: Whether its training is logged in epochs; otherwise it is in blocks.
        init_s: Before the run. [s]
        setup_s: From its start to the first block or epoch. [s]
        training_s: Each block or epoch, without evaluations inside. [s]
        evaluation_s: Each evaluation. [s]
        load_s: In front of each evaluation, where all of them follow the training. [s]
        after_s: From the last evaluation to the end of the run. [s]
        total_s: The run. [s]
    """

    name: str
    benchmark: Benchmark
    batch_size: int
    division: str | None
    platform: str
    accumulation_factor: int | None
    train_samples: int | None
    simulated: str | None
    month: str
    status: str
    counts_epochs: bool
    init_s: float | None
    setup_s: float
    training_s: tuple[float, ...]
    evaluation_s: tuple[float, ...]
    load_s: tuple[float, ...]
    after_s: float
    total_s: float

    @property
    def other_s(self) -> float:
        """What none of the phases accounts for. [s]"""
        phases = (self.setup_s, *self.training_s, *self.evaluation_s, *self.load_s, self.after_s)
        return self.total_s - sum(phases)


def logged(log: LogFile) -> Logged:
    """What a result file says.

    Raises:
        PodsimError: It does not say what was trained with which batch, or has a phase that ends before it starts.
    """
    benchmark, batch_size = _benchmark(log), _whole(log, "global_batch_size")
    run = _run(log)
    epochs, blocks = list(_intervals(log, "epoch", run)), list(_intervals(log, "block", run))
    training, evaluations = epochs or blocks, list(_evaluations(log, run, epochs or blocks))
    if not training:
        what = "the log has neither `block_start` nor `epoch_start`, so that its training is not in it"
        raise PodsimError(what, where=log.name, do="name a result file with them")
    ends = [each.stop_ms for each in (*training, *evaluations)]
    simulated, status = log.first("podsim_simulated"), log.all("run_stop")[0].metadata.get("status")
    return Logged(
        name=log.name,
        benchmark=benchmark,
        batch_size=batch_size,
        division=_text(log, "submission_division"),
        platform=_text(log, "submission_platform") or "",
        accumulation_factor=_optional(log, "gradient_accumulation_steps"),
        train_samples=_optional(log, "train_samples"),
        simulated=None if simulated is None else printable(str(simulated.metadata.get("scenario"))),
        month=_month(run.start_ms),
        status=printable(str(status or "not said")),
        counts_epochs=bool(epochs),
        init_s=_init_s(log, run),
        setup_s=(training[0].start_ms - run.start_ms) / _MS_PER_S,
        training_s=tuple(each.without(evaluations) for each in training),
        evaluation_s=tuple(each.time_s for each in evaluations),
        load_s=tuple(_loads(training, evaluations)) if epochs else (),
        after_s=(run.stop_ms - max(ends)) / _MS_PER_S,
        total_s=run.time_s,
    )


def _benchmark(log: LogFile) -> Benchmark:
    line = log.first("submission_benchmark")
    if line is None:
        known = " or ".join(f"`{name}`" for name in BENCHMARKS)
        what = f"the log does not say its benchmark: it has no `submission_benchmark`, such as {known}"
        raise PodsimError(what, where=log.name, do="name a whole result file")
    return benchmark_of(printable(str(line.value)), log.place(line))


def _whole(log: LogFile, key: str) -> int:
    """A number that the log must have."""
    value = _optional(log, key)
    if value is None:
        line = log.first(key)
        what = f"`{key}` is not a whole number above zero" if line else f"the log has no `{key}`"
        raise PodsimError(what, where=log.place(line) if line else log.name, do="name a whole result file")
    return value


def _optional(log: LogFile, key: str) -> int | None:
    line = log.first(key)
    value = None if line is None else line.value
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST
    return value if is_whole else None


def _text(log: LogFile, key: str) -> str | None:
    line = log.first(key)
    return None if line is None else printable(str(line.value))


def _run(log: LogFile) -> Interval:
    return Interval(log.all("run_start")[0].time_ms, log.all("run_stop")[0].time_ms)


def _month(time_ms: float) -> str:
    """Year and month of a time; empty for a year that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(time_ms / _MS_PER_S, UTC):%Y-%m}"
    except (ValueError, OverflowError, OSError):
        return ""


def _init_s(log: LogFile, run: Interval) -> float | None:
    """From the first `init_start` to the last `init_stop` before the run."""
    starts, stops = log.all("init_start"), [each for each in log.all("init_stop") if each.time_ms <= run.start_ms]
    return (stops[-1].time_ms - starts[0].time_ms) / _MS_PER_S if starts and stops else None


def _intervals(log: LogFile, kind: str, run: Interval) -> Iterator[Interval]:
    """Pairs of start and stop in their order; the last may lack its stop, as when an evaluation inside ends the run."""
    start: Event | None = None
    for event in log.events:
        if event.key == f"{kind}_start":
            if start is not None and start.time_ms != event.time_ms:
                what = f"`{event.key}` follows that on line {start.line}, which has no `{kind}_stop`"
                raise PodsimError(what, where=log.place(event), do="name the whole file, or add the line")
            start = event
        elif event.key == f"{kind}_stop" and start is not None:
            if event.time_ms < start.time_ms:
                what = f"`{event.key}` lies before `{start.key}` on line {start.line}"
                raise PodsimError(what, where=log.place(event), do="mend `time_ms` of one of the two")
            yield Interval(start.time_ms, event.time_ms)
            start = None
    if start is not None:
        yield Interval(start.time_ms, run.stop_ms)


def _evaluations(log: LogFile, run: Interval, training: Sequence[Interval]) -> Iterator[Interval]:
    """By their start and stop; where these are not logged, from the end of training to the accuracy."""
    if log.first("eval_stop"):
        yield from _intervals(log, "eval", run)
        return
    starts = [event.time_ms for event in log.all("eval_start")] or [each.stop_ms for each in training]
    for accuracy in log.all("eval_accuracy"):
        before = [start for start in starts if start <= accuracy.time_ms]
        if before:
            yield Interval(max(before), accuracy.time_ms)


def _loads(training: Sequence[Interval], evaluations: Sequence[Interval]) -> Iterator[float]:
    """The time in front of each evaluation, if all of them follow the training. [s]"""
    end_ms = max(each.stop_ms for each in training)
    for each in evaluations if all(each.start_ms >= end_ms for each in evaluations) else ():
        yield (each.start_ms - end_ms) / _MS_PER_S
        end_ms = each.stop_ms
