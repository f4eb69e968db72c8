"""Result files of a simulated training run, in the form of a submission to MLPerf Training.

They follow the rules that MLPerf's checkers hold, and say in each file that nothing was measured: the
submitter is `podsim (simulated)`, the status `research`, and `podsim_simulated` names the scenario.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from podsim.errors import MissingDataError
from podsim.mlperf.benchmark import Benchmark, batch_size, benchmark_of, nominal_batch, section
from podsim.mlperf.events import Event
from podsim.mlperf.folder import write_folder
from podsim.mlperf.hyperparameters import Hyperparameters, hyperparameters
from podsim.mlperf.rounds import reference_mean
from podsim.mlperf.run_events import RunLog, run_events
from podsim.report.result import RunResult
from podsim.training import TrainingOutcome
from podsim.training.convergence import mlperf_score
from podsim.training.epochs import EpochRun
from podsim.training.timeline import Part, parts_of_epochs, parts_of_samples

_ORGANISATION: Final = "podsim (simulated)"
_STATUS: Final = "research"
_NOT_SIMULATED: Final = ("initialisation", "accuracy", "initial weights")


@dataclass(frozen=True, slots=True)
class Written:
    """What was written.

    Attributes:
        paths: The files.
        notes: What a reader must know of them.
    """

    paths: tuple[Path, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Submission:
    """What all files of a submission say before their run starts."""

    result: RunResult
    benchmark: Benchmark
    round_name: str
    division: str
    optimizer: Hyperparameters
    batch_size: int
    evaluation_samples: int


def write_result_files(
    result: RunResult, benchmark_name: str | None, folder: str | Path, round_name: str, division: str = "closed"
) -> Written:
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
    return Written(write_folder(Path(folder), texts), tuple(_notes(submission, logs)))


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
    """What a file says of itself: that it is no measurement, and where its values come from."""
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
    """What is told beside the files."""
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
