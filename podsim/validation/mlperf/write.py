"""Result files of a simulated training run, in the form of a submission to MLPerf Training.

They follow the rules that MLPerf's checkers hold, and say in each file that nothing was measured: the
submitter is `podsim (simulated)`, the status `research`, and `podsim_simulated` names the scenario. What they say of
the optimizer and a simulation does not know is taken from what was published, and never made up.

Source: [mlperf_logs] for submissions, [mlperf_rcp] for MLPerf's reference runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle, groupby, islice, pairwise
from pathlib import Path
from typing import Any, Final

from podsim.errors import MissingDataError
from podsim.result.reference_data import rows
from podsim.result.result import RunResult
from podsim.runs.training import TrainingOutcome
from podsim.runs.training.outcome import EpochRun, mlperf_score
from podsim.runs.training.timeline import Part, parts_of_epochs, parts_of_samples
from podsim.validation.mlperf.benchmark import Benchmark, batch_size, benchmark_of, nominal_batch, section
from podsim.validation.mlperf.events import Event
from podsim.validation.mlperf.folder import write_folder
from podsim.validation.mlperf.rounds import reference_mean

_ORGANISATION: Final = "podsim (simulated)"
_STATUS: Final = "research"
_NOT_SIMULATED: Final = ("initialisation", "accuracy", "initial weights")


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The files that were written.

    Attributes:
        paths: The files.
        notes: What a reader must know of them.
    """

    paths: tuple[Path, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Submission:
    """Entries of all files of a submission, before their run starts."""

    result: RunResult
    benchmark: Benchmark
    round_name: str
    division: str
    optimizer: Hyperparameters
    batch_size: int
    evaluation_samples: int


def write_result_files(
    result: RunResult, benchmark_name: str | None, folder: str | Path, round_name: str, division: str = "closed"
) -> ResultFiles:
    """Write a result file for each run that MLPerf asks for: `result_0.txt`, `result_1.txt`, ….

    Args:
        result: A simulated training run.
        benchmark_name: The benchmark that its model is.
        folder: Where the files go; made if it does not exist.
        round_name: The round whose rules they follow: `1.1` or `2.0`.
        division: `closed` or `open`.

    Raises:
        PodsimError: The model is no benchmark, or the folder holds result files already.
        MissingDataError: It has no time to train, no evaluation, or no published hyper-parameters.
        OutputError: The folder cannot be written.
    """
    benchmark = benchmark_of(benchmark_name, result.name)
    runs = list(_timelines(result, benchmark))
    submission = _submission(result, benchmark, round_name, division)
    samples_per_update = result.outcome.samples_per_update if result.outcome else 0.0
    texts, logs, start_ms = [], [], 0
    for index, parts in enumerate(runs):
        log = RunLog(benchmark, parts, samples_per_update, start_ms)
        texts.append("".join(event.text for event in (*_head(submission, log, index), *run_events(log))))
        start_ms = log.placed()[-1].stop_ms
        logs.append(log)
    return ResultFiles(write_folder(Path(folder), texts), tuple(_notes(submission, logs)))


def _timelines(result: RunResult, benchmark: Benchmark) -> Iterator[tuple[Part, ...]]:
    """The first runs that the time to train is made of, part by part; again from the first if there are too few."""
    outcome = _converging(result, benchmark)
    for run in islice(cycle(outcome.runs), benchmark.run_count):
        if isinstance(run, EpochRun):
            parts = tuple(parts_of_epochs(run))
        else:
            assert outcome.schedule is not None
            parts = tuple(parts_of_samples(run, outcome.schedule))
        if not any(part.kind == "evaluation" for part in parts):
            what = "the run has no evaluation, and a result file must have one"
            raise MissingDataError(what, key="run", do=f"use {benchmark.evaluated}")
        yield parts


def _converging(result: RunResult, benchmark: Benchmark) -> TrainingOutcome:
    """Runs that end because they converge, or because the epochs are over after which their network has converged."""
    outcome, run = result.outcome, section(result.scenario, "run")
    if outcome is None or not outcome.runs:
        what = "nothing says when the run ends for this model, data and batch size, so there is no time to train"
        raise MissingDataError(what, do=f"use {benchmark.ended}", key="run")
    if outcome.schedule is not None and run.get("samples_to_converge") is None:
        ends = [key for key in ("weight_updates", "epochs") if run.get(key) is not None]
        instead = " ".join(f"--set run.{key}=null" for key in ends)
        what = f"`run.{ends[0]}` says when the run ends, and nothing says that it converges"
        raise MissingDataError(what, do=f"use `{instead}` and {benchmark.ended}", key="run")
    return outcome


def _submission(result: RunResult, benchmark: Benchmark, round_name: str, division: str) -> _Submission:
    scenario = result.scenario
    batch = nominal_batch(batch_size(scenario), scenario)
    optimizer = str(section(scenario, "optimizer").get("kind"))
    factor, pod = section(scenario, "parallelism")["accumulation_factor"], result.simulated.ipu_count
    values = hyperparameters(benchmark.name, batch, factor, optimizer, round_name, division, pod)
    run = section(scenario, "run")
    evaluation = section(run, "evaluation") or section(run, "validation")
    return _Submission(result, benchmark, round_name, division, values, batch, int(evaluation["samples"]))


def _head(submission: _Submission, log: RunLog, index: int) -> Iterator[Event]:
    """All that stands before `run_start`; a simulation has no initialisation, so that it takes no time."""
    result, scenario = submission.result, submission.result.scenario
    data, layout = section(scenario, "data"), section(scenario, "parallelism")
    lines: dict[str, object] = {
        "cache_clear": True,
        "submission_benchmark": submission.benchmark.name,
        "submission_division": submission.division,
        "submission_org": _ORGANISATION,
        "submission_platform": f"{result.simulated.system} simulated by podsim {result.version}",
        "submission_status": _STATUS,
        "init_start": None,
        "seed": index,
        "global_batch_size": submission.batch_size,
        "gradient_accumulation_steps": layout["accumulation_factor"],
        **dict(submission.optimizer.values),
        "train_samples": data["samples_per_epoch"] if log.counts_epochs else log.sample_count,
        "eval_samples": submission.evaluation_samples,
    }
    if (span := _norm_span(section(scenario, "model"), layout)) is not None:
        lines["model_bn_span"] = span
    yield Event("podsim_simulated", log.start_ms, True, _said(submission))
    yield from (Event(key, log.start_ms, value) for key, value in lines.items())
    for tensor in submission.benchmark.tensors:
        yield Event("weights_initialization", log.start_ms, None, {"tensor": tensor})
    yield Event("init_stop", log.start_ms)


def _norm_span(model: Mapping[str, Any], layout: Mapping[str, Any]) -> int | None:
    """Images over which a batch norm takes statistics; None without one."""
    norm = section(model, "norm")
    return int(norm["replicas"] * layout["micro_batch_size"]) if norm.get("kind") == "batch" else None


def _said(submission: _Submission) -> dict[str, object]:
    """Statement of a file about itself: that it is no measurement, and where its values come from."""
    result = submission.result
    return {
        "statement": "Simulated by podsim; nothing in this file was measured, and it is no submission to MLPerf.",
        "version": result.version,
        "scenario": result.name,
        "difference": result.simulated.difference,
        "round": submission.round_name,
        "not_simulated": list(_NOT_SIMULATED),
        "optimizer_as_in": submission.optimizer.origin,
    }


def _notes(submission: _Submission, logs: list[RunLog]) -> Iterator[str]:
    """Notes for the reader of the files."""
    name, round_name = submission.benchmark.title, submission.round_name
    yield f"{name} by the rules of MLPerf Training {round_name}, {submission.division} division"
    yield f"learning rates are those of {submission.optimizer.origin}"
    if submission.division == "open":
        return
    mean = mlperf_score([_converged(log) for log in logs])
    reference = reference_mean(submission.benchmark.name, round_name, submission.batch_size)
    if reference is None:
        yield "warning: MLPerf has no reference runs around this batch size, and its checker may refuse the files"
    elif mean < reference:
        ratio = f"{reference / mean:.3f}"
        yield (
            f"warning: the runs converge {ratio} times as fast as MLPerf's reference runs, and its checker scales such "
            "times or refuses them; `--set run.samples_to_converge.reference_convergence=true` draws from those runs"
        )


def _converged(log: RunLog) -> int:
    return max(part.epoch for part in log.parts) if log.counts_epochs else log.sample_count


_BERT: Final = {
    "opt_base_learning_rate": "base_learning_rate",
    "opt_epsilon": "epsilon",
    "opt_learning_rate_training_steps": "decay_steps",
    "opt_learning_rate_warmup_steps": "warmup",
    "num_warmup_steps": "warmup",
    "start_warmup_step": "start_warmup_step",
    "opt_lamb_learning_rate_decay_poly_power": "decay_power",
    "opt_lamb_beta_1": "beta_1",
    "opt_lamb_beta_2": "beta_2",
    "opt_lamb_weight_decay_rate": "weight_decay",
}
_RESNET: Final = {
    "lars_opt_base_learning_rate": "base_learning_rate",
    "lars_opt_end_learning_rate": "end_learning_rate",
    "lars_opt_learning_rate_decay_poly_power": "decay_power",
    "lars_opt_learning_rate_decay_steps": "decay_steps",
    "lars_epsilon": "epsilon",
    "lars_opt_learning_rate_warmup_epochs": "warmup",
    "lars_opt_momentum": "momentum",
    "lars_opt_weight_decay": "weight_decay",
}
_COLUMNS: Final = {"bert": _BERT, "resnet": _RESNET}
"""Columns of `reference_data/mlperf_hyperparameters.csv` by key of a result file."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Entries of a result file about the optimizer.

    Attributes:
        values: Values by key, its name first.
        origin: Whose they are.
    """

    values: tuple[tuple[str, str | float], ...]
    origin: str


def hyperparameters(
    benchmark: str, batch_size: int, factor: int, optimizer: str, round_name: str, division: str, ipu_count: int
) -> Hyperparameters:
    """Those published for a batch size: of the same round, division and pod before others, of reference runs last.

    Args:
        benchmark: As result files call it.
        batch_size: As result files have it.
        factor: Micro-batches of each replica in it, to advise others.
        optimizer: Kind of optimizer of the scenario.
        round_name: `1.1` or `2.0`.
        division: `closed` or `open`.
        ipu_count: IPUs of the pod.

    Raises:
        MissingDataError: None are published for this batch and optimizer.
    """
    table = [row for row in rows("mlperf_hyperparameters") if row["benchmark"] == benchmark]
    found = [row for row in table if int(row["gbs"]) == batch_size and row["optimizer"] == optimizer]
    if not found:
        raise _unknown(table, batch_size, factor, optimizer)

    def distance(row: dict[str, str]) -> tuple[bool, ...]:
        wanted = {"division": division, "round": f"v{round_name}", "ipus": str(ipu_count)}
        return (row["division"] == "reference", *(row[name] != value for name, value in wanted.items()))

    best = min(found, key=distance)
    values = ((key, number(best[column])) for key, column in _COLUMNS[benchmark].items())
    return Hyperparameters((("opt_name", optimizer), *values), _origin(best))


def number(text: str) -> float:
    """A number as a table has it: whole where it is written so.

    >>> number("700"), number("5e-05")
    (700, 5e-05)
    """
    return float(text) if any(mark in text for mark in ".e") else int(text)


def _origin(row: dict[str, str]) -> str:
    if row["division"] == "reference":
        return f"MLPerf's reference runs at batch size {row['gbs']}"
    return f"Graphcore's submission to MLPerf Training {row['round']}, {row['division']} division, {row['ipus']} IPUs"


def _unknown(table: list[dict[str, str]], batch_size: int, factor: int, optimizer: str) -> MissingDataError:
    name = table[0]["optimizer"]
    if optimizer != name:
        what = f"learning rates are published for `{name}`, not for `{optimizer}`"
        return MissingDataError(what, key="optimizer.kind", do=f"use `--set optimizer.kind={name}`")
    known = sorted({int(row["gbs"]) for row in table}, key=lambda size: abs(size - batch_size))
    what = f"no learning rates are published for {batch_size:,} samples per weight update"
    unit = batch_size // factor
    near = next((size for size in known if size % unit == 0), None)
    if near is not None:
        cure = f"use `--set parallelism.accumulation_factor={near // unit}` for {near:,}"
        return MissingDataError(what, do=cure)
    sizes = ", ".join(f"{each:,}" for each in sorted(known))
    return MissingDataError(what, do=f"change micro_batch_size or replication_factor so that it can be one of {sizes}")


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
        """True if it consists of epochs; otherwise its evaluations are told apart by the samples before them."""
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
