"""Reader of MLPerf Training's result files: the run of a file, and the time of each phase."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from podsim.errors import PodsimError
from podsim.escaped import printable
from podsim.units import format_bytes
from tools.mlperf.benchmark import BENCHMARKS, Benchmark, benchmark_of
from tools.mlperf.events import TOKEN, Event

_MOST_BYTES: Final = 1 << 28
MOST: Final = 10**15
"""Limit of plausible times in milliseconds and numbers of samples."""
_OTHER_FILE: Final = "name a result file of MLPerf Training, such as `result_0.txt`"


@dataclass(frozen=True, slots=True)
class LogFile:
    """The lines of a result file that the logger of MLPerf wrote."""

    name: str  # how messages name the file
    events: tuple[Event, ...]
    line_count: int  # lines of the file

    def events_with(self, key: str) -> list[Event]:
        """Return every line with a key."""
        return [event for event in self.events if event.key == key]

    def first_event(self, key: str) -> Event | None:
        """Return the first line with a key."""
        return next((event for event in self.events if event.key == key), None)

    def place(self, event: Event) -> str:
        """Return the location of a line."""
        return f"{self.name}:{event.line}"


def read_log(path: str | Path) -> LogFile:
    """Read a result file of one run."""
    name = str(path)
    text = _text(Path(path), name)
    events = tuple(_events(text, name))
    if not events:
        raise PodsimError(f"no line of the file begins with `{TOKEN}`", where=name, do=_OTHER_FILE)
    log = LogFile(name, events, text.count("\n") + (not text.endswith("\n")))
    _check_one_run(log)
    return log


def _text(path: Path, name: str) -> str:
    try:
        if path.is_dir():
            raise PodsimError("this is a folder, not a file", where=name, do=f"name the files in it: `{name}/*.txt`")
        if path.exists() and not path.is_file():
            raise PodsimError("this is not a file but a device or a pipe", where=name, do=_OTHER_FILE)
        if path.stat().st_size > _MOST_BYTES:
            size = format_bytes(path.stat().st_size)
            raise PodsimError(
                f"the file has {size}; the limit is {format_bytes(_MOST_BYTES)}", where=name, do=_OTHER_FILE
            )
        # As MLPerf's checker reads them: what other programs print between the lines is in any encoding.
        return path.read_text(encoding="latin-1")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "the path is not valid"
        cure = "check the path and its permissions"
        raise PodsimError(f"the file cannot be read: {reason}", where=name, do=cure) from error


def _events(text: str, name: str) -> Iterator[Event]:
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        start = line.find(TOKEN)
        if start >= 0:
            yield _event(line, start + len(TOKEN), f"{name}:{number}", number, is_last=number == len(lines))


def _event(line: str, start: int, place: str, number: int, *, is_last: bool) -> Event:
    """Parse one line from the column where its JSON starts."""
    cure = "mend the line or remove it"
    try:
        data = json.loads(line[start:])
    except (ValueError, RecursionError) as error:
        column = start + 1 + (error.pos if isinstance(error, json.JSONDecodeError) else 0)
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "too many levels or digits"
        if is_last:
            cure = "name the whole file; this one is cut in the middle of a line"
        raise PodsimError(f"behind `{TOKEN}` there is no JSON: {reason}", where=f"{place}:{column}", do=cure) from error
    where = f"{place}:{start + 2}"
    if not isinstance(data, dict) or not isinstance(data.get("key"), str):
        raise PodsimError("the line has no `key` with a text", where=where, do=cure)
    time_ms, metadata = data.get("time_ms"), data.get("metadata")
    if not isinstance(time_ms, int | float) or isinstance(time_ms, bool) or not 0 <= time_ms < MOST:
        raise PodsimError(f"`time_ms` of `{printable(data['key'])}` is no time in milliseconds", where=where, do=cure)
    return Event(
        printable(data["key"]), time_ms, data.get("value"), metadata if isinstance(metadata, dict) else {}, number
    )


def _check_one_run(log: LogFile) -> None:
    starts, stops = (
        _without_repetitions(log.events_with("run_start")),
        _without_repetitions(log.events_with("run_stop")),
    )
    if not starts:
        cure = "name the whole file"
        raise PodsimError("the log has no `run_start`, so that its run is not in it", where=log.name, do=cure)
    if len(starts) > 1:
        what = f"a second run starts here, the first one on line {starts[0].line}"
        cure = "give each run a file of its own: cut the file before the lines of the second run"
        raise PodsimError(what, where=log.place(starts[1]), do=cure)
    if not stops:
        what = f"the log ends without `run_stop`: the run that starts on line {starts[0].line} is cut off"
        cure = "name the whole file; what a run takes is not known before it ends"
        raise PodsimError(what, where=f"{log.name}:{log.line_count}", do=cure)
    if len(stops) > 1:
        what = f"the run stops a second time, after line {stops[0].line}"
        raise PodsimError(what, where=log.place(stops[1]), do="give each run a file of its own")
    if stops[0].time_ms <= starts[0].time_ms:
        what = f"the run stops before it starts on line {starts[0].line}"
        raise PodsimError(what, where=log.place(stops[0]), do="mend `time_ms` of one of the two")


def _without_repetitions(events: Sequence[Event]) -> list[Event]:
    """Remove repetitions: every process of a run may log the same line."""
    times: dict[float, Event] = {}
    for event in events:
        times.setdefault(event.time_ms, event)
    return list(times.values())


_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """Interval between two lines. [ms]"""

    start_ms: float
    stop_ms: float

    @property
    def time_s(self) -> float:
        """Length of the interval. [s]"""
        return (self.stop_ms - self.start_ms) / _MS_PER_S

    def without(self, others: Sequence[Interval]) -> float:
        """Return the length without the overlap with other intervals. [s]"""
        shared = (min(self.stop_ms, other.stop_ms) - max(self.start_ms, other.start_ms) for other in others)
        return self.time_s - sum(max(0.0, each) for each in shared) / _MS_PER_S


@dataclass(frozen=True, slots=True)
class Logged:
    """A logged run."""

    name: str
    benchmark: Benchmark
    batch_size: int  # samples of one weight update, as logged
    division: str | None  # `closed` or `open`, or nothing
    platform: str  # on what, as logged
    accumulation_factor: int | None  # micro-batches of one weight update, if logged
    train_samples: int | None  # samples trained, where the benchmark logs them
    simulated: str | None  # the scenario, if podsim wrote the file
    month: str  # when it started, such as `2022-05`
    status: str  # how the run ended
    counts_epochs: bool  # whether its training is logged in epochs; otherwise it is in blocks
    init_s: float | None  # before the run. [s]
    setup_s: float  # from its start to the first block or epoch. [s]
    training_s: tuple[float, ...]  # each block or epoch, without evaluations inside. [s]
    evaluation_s: tuple[float, ...]  # each evaluation. [s]
    load_s: tuple[float, ...]  # in front of each evaluation, where all of them follow the training. [s]
    after_s: float  # from the last evaluation to the end of the run. [s]
    total_s: float  # the run. [s]

    @property
    def other_s(self) -> float:
        """Time that none of the phases accounts for. [s]"""
        phases = (self.setup_s, *self.training_s, *self.evaluation_s, *self.load_s, self.after_s)
        return self.total_s - sum(phases)


def logged(log: LogFile) -> Logged:
    """Return the run in a result file."""
    benchmark, batch_size = _benchmark(log), _whole(log, "global_batch_size")
    run = _run(log)
    epochs, blocks = list(_intervals(log, "epoch", run)), list(_intervals(log, "block", run))
    training, evaluations = epochs or blocks, list(_evaluations(log, run, epochs or blocks))
    if not training:
        what = "the log has neither `block_start` nor `epoch_start`, so that its training is not in it"
        raise PodsimError(what, where=log.name, do="name a result file with them")
    ends = [each.stop_ms for each in (*training, *evaluations)]
    simulated, status = log.first_event("podsim_simulated"), log.events_with("run_stop")[0].metadata.get("status")
    return Logged(
        name=log.name,
        benchmark=benchmark,
        batch_size=batch_size,
        division=_text_value(log, "submission_division"),
        platform=_text_value(log, "submission_platform") or "",
        accumulation_factor=_optional(log, "gradient_accumulation_steps"),
        train_samples=_optional(log, "train_samples"),
        simulated=None if simulated is None else printable(str(simulated.metadata.get("scenario"))),
        month=_month(run.start_ms),
        status=printable(str(status or "not said")),
        counts_epochs=bool(epochs),
        init_s=_init_s(log, run),
        setup_s=(training[0].start_ms - run.start_ms) / _MS_PER_S,
        training_s=tuple(each.without(evaluations) for each in training),
        evaluation_s=tuple(evaluation.time_s for evaluation in evaluations),
        load_s=tuple(_loads(training, evaluations)) if epochs else (),
        after_s=(run.stop_ms - max(ends)) / _MS_PER_S,
        total_s=run.time_s,
    )


def _benchmark(log: LogFile) -> Benchmark:
    line = log.first_event("submission_benchmark")
    if line is None:
        known = " or ".join(f"`{name}`" for name in BENCHMARKS)
        what = f"the log does not say its benchmark: it has no `submission_benchmark`, such as {known}"
        raise PodsimError(what, where=log.name, do="name a whole result file")
    return benchmark_of(printable(str(line.value)), log.place(line))


def _whole(log: LogFile, key: str) -> int:
    """Return a positive whole number that the log must contain."""
    value = _optional(log, key)
    if value is None:
        line = log.first_event(key)
        what = f"`{key}` is not a whole number above zero" if line else f"the log has no `{key}`"
        raise PodsimError(what, where=log.place(line) if line else log.name, do="name a whole result file")
    return value


def _optional(log: LogFile, key: str) -> int | None:
    line = log.first_event(key)
    value = None if line is None else line.value
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST
    return value if is_whole else None


def _text_value(log: LogFile, key: str) -> str | None:
    line = log.first_event(key)
    return None if line is None else printable(str(line.value))


def _run(log: LogFile) -> Interval:
    return Interval(log.events_with("run_start")[0].time_ms, log.events_with("run_stop")[0].time_ms)


def _month(time_ms: float) -> str:
    """Return year and month of a time; empty for a year that no calendar has."""
    try:
        return f"{datetime.fromtimestamp(time_ms / _MS_PER_S, UTC):%Y-%m}"
    except (ValueError, OverflowError, OSError):
        return ""


def _init_s(log: LogFile, run: Interval) -> float | None:
    """Return the time from the first `init_start` to the last `init_stop` before the run."""
    starts, stops = (
        log.events_with("init_start"),
        [each for each in log.events_with("init_stop") if each.time_ms <= run.start_ms],
    )
    return (stops[-1].time_ms - starts[0].time_ms) / _MS_PER_S if starts and stops else None


def _intervals(log: LogFile, kind: str, run: Interval) -> Iterator[Interval]:
    """Yield pairs of start and stop in order; the last may lack its stop if an inner evaluation ends the run."""
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
    """Yield evaluations from start to stop; without a logged stop, from the end of training to the accuracy."""
    if log.first_event("eval_stop"):
        yield from _intervals(log, "eval", run)
        return
    starts = [event.time_ms for event in log.events_with("eval_start")] or [each.stop_ms for each in training]
    for accuracy in log.events_with("eval_accuracy"):
        before = [start for start in starts if start <= accuracy.time_ms]
        if before:
            yield Interval(max(before), accuracy.time_ms)


def _loads(training: Sequence[Interval], evaluations: Sequence[Interval]) -> Iterator[float]:
    """Yield the time before each evaluation, if all evaluations follow the training. [s]"""
    end_ms = max(each.stop_ms for each in training)
    for each in evaluations if all(evaluation.start_ms >= end_ms for evaluation in evaluations) else ():
        yield (each.start_ms - end_ms) / _MS_PER_S
        end_ms = each.stop_ms
