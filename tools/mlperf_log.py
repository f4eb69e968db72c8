"""Writes result files of a simulated training run, in the form of a submission to MLPerf Training.

    python tools/mlperf_log.py bert_v2.0_pod64_closed FOLDER

The files follow the rules that MLPerf's checkers test, and state that nothing was measured: the submitter is `podsim
(simulated)`, the status `research`, and `podsim_simulated` names the scenario. Optimizer settings that a simulation
does not know come from published files.

Source: [mlperf_logs] for submissions, [mlperf_rcp] for MLPerf's reference runs, [mlperf_training_rules] for lines.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, cycle, groupby, islice, pairwise
from pathlib import Path
from typing import Any, Final

from podsim import simulate
from podsim.cli.ending import run_to_the_end, say
from podsim.errors import MissingDataError, OutputError, PodsimError
from podsim.result.files import write_atomically
from podsim.result.reference_data import rows
from podsim.result.result import RunResult
from podsim.result.training_times import EpochRun, TrainingOutcome
from podsim.runs.training.outcome import mlperf_score
from podsim.runs.training.timeline import RunPart, parts_of_epochs, parts_of_samples
from podsim.scenario import Activity, TrainingScenario, load_scenario
from tools.mlperf.benchmark import Benchmark, batch_size, benchmark_of, nominal_batch, section
from tools.mlperf.events import TOKEN, Event

_ENCODER_LAYERS: Final = 24
_NORM: Final = ("LayerNorm/gamma", "LayerNorm/beta")
_ATTENTION: Final = tuple(
    f"attention/self/{projection}/{part}" for projection in ("query", "key", "value") for part in ("kernel", "bias")
)
_UNITS_OF_STAGES: Final = (3, 4, 6, 3)
_CONVOLUTIONS: Final = (("1", "1"), ("2", "2"), ("3", "3"))
_SHORTCUT: Final = ("1sc", "sc")
"""Convolutions of a unit with their norms, as tensors are named."""


def _bert_tensors() -> Iterator[str]:
    for kind in ("word", "position", "token_type"):
        yield f"bert/embeddings/{kind}_embeddings"
    yield from (f"bert/embeddings/{part}" for part in _NORM)
    dense = ("dense/kernel", "dense/bias")
    layer = (
        *_ATTENTION,
        *(f"attention/output/{part}" for part in (*dense, *_NORM)),
        *(f"intermediate/{part}" for part in dense),
        *(f"output/{part}" for part in (*dense, *_NORM)),
    )
    yield from (f"bert/encoder/layer_{index}/{part}" for index in range(_ENCODER_LAYERS) for part in layer)
    yield from (f"bert/pooler/{part}" for part in dense)
    yield from (f"cls/predictions/{part}" for part in ("output_bias", *(f"transform/{p}" for p in (*dense, *_NORM))))
    yield from (f"cls/seq_relationship/output_{part}" for part in ("weights", "bias"))


def _resnet_tensors() -> Iterator[str]:
    yield from ("conv0_weight", "bn0_gamma", "bn0_beta", "fc1_weight", "fc1_bias")
    for stage, units in enumerate(_UNITS_OF_STAGES, 1):
        for unit in range(1, units + 1):
            # The first unit of a stage has a convolution in its shortcut.
            for conv, norm in (*_CONVOLUTIONS, *((_SHORTCUT,) if unit == 1 else ())):
                for tensor in (f"conv{conv}_weight", f"bn{norm}_gamma", f"bn{norm}_beta"):
                    yield f"stage{stage}_unit{unit}_{tensor}"


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
_BERT_ENDED: Final = "`--set run.samples_to_converge.reference_convergence=true --set run.evaluation.samples=10000`"
_RESNET_ENDED: Final = "`--set run.epochs=40 --set run.checkpoint.every_epochs=4 --set run.validation.samples=50000`"
_RESNET_EVALUATED: Final = "`--set run.checkpoint.every_epochs=4 --set run.validation.samples=50000`"


@dataclass(frozen=True, slots=True)
class Rules:
    """Requirements of the rules on the result files of a benchmark."""

    run_count: int  # runs of a submission
    target: float  # the quality at which a run ends
    ended: str  # what to add to a command line so that a run ends
    evaluated: str  # what to add so that it is evaluated
    columns: Mapping[str, str]  # columns of `reference_data/mlperf_hyperparameters.csv` by key of a result file
    tensors: tuple[str, ...]  # names of the weights whose initial values have to be logged


RULES: Final = {
    "bert": Rules(
        *(10, 0.72, _BERT_ENDED, "`--set run.evaluation.samples=10000`", _BERT),
        tensors=tuple(_bert_tensors()),
    ),
    "resnet": Rules(5, 0.759, _RESNET_ENDED, _RESNET_EVALUATED, _RESNET, tuple(_resnet_tensors())),
}
"""By the name that result files have."""
_ORGANISATION: Final = "podsim (simulated)"
_STATUS: Final = "research"
_NOT_SIMULATED: Final = ("initialisation", "accuracy", "initial weights")


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """The files that were written."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]  # what a reader must know of them


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
    """Write a result file for each run that MLPerf asks for: `result_0.txt`, `result_1.txt`, …."""
    benchmark = benchmark_of(benchmark_name, result.name)
    runs = list(_timelines(result, benchmark))
    submission = _submission(result, benchmark, round_name, division)
    samples_per_update = result.outcome.samples_per_update if result.outcome else 0.0
    texts, logs, start_ms = [], [], 0
    for index, parts in enumerate(runs):
        log = RunLog(benchmark, parts, samples_per_update, start_ms)
        texts.append("".join(text_of(event) for event in (*_head(submission, log, index), *run_events(log))))
        start_ms = log.placed()[-1].stop_ms
        logs.append(log)
    return ResultFiles(write_folder(Path(folder), texts), tuple(_notes(submission, logs)))


def _timelines(result: RunResult, benchmark: Benchmark) -> Iterator[tuple[RunPart, ...]]:
    """Yield runs of the time to train, divided into parts; runs repeat if there are too few."""
    outcome = _converging(result, benchmark)
    for run in islice(cycle(outcome.runs), RULES[benchmark.name].run_count):
        if isinstance(run, EpochRun):
            parts = tuple(parts_of_epochs(run))
        else:
            assert outcome.schedule is not None
            parts = tuple(parts_of_samples(run, outcome.schedule))
        if not any(part.kind == "evaluation" for part in parts):
            what = "the run has no evaluation, and a result file must have one"
            raise MissingDataError(what, key="run", do=f"use {RULES[benchmark.name].evaluated}")
        yield parts


def _converging(result: RunResult, benchmark: Benchmark) -> TrainingOutcome:
    """Return runs that end by convergence, or after the epochs in which their network converges."""
    outcome, run = result.outcome, section(result.scenario, "run")
    if outcome is None or not outcome.runs:
        what = "nothing says when the run ends for this model, data and batch size, so there is no time to train"
        raise MissingDataError(what, do=f"use {RULES[benchmark.name].ended}", key="run")
    if outcome.schedule is not None and run.get("samples_to_converge") is None:
        ends = [key for key in ("weight_updates", "epochs") if run.get(key) is not None]
        instead = " ".join(f"--set run.{key}=null" for key in ends)
        what = f"`run.{ends[0]}` says when the run ends, and nothing says that it converges"
        raise MissingDataError(what, do=f"use `{instead}` and {RULES[benchmark.name].ended}", key="run")
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
    """Yield the lines before `run_start`; the simulated initialisation takes no time."""
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
    yield Event("podsim_simulated", log.start_ms, True, _statement(submission))
    yield from (Event(key, log.start_ms, value) for key, value in lines.items())
    for tensor in RULES[submission.benchmark.name].tensors:
        yield Event("weights_initialization", log.start_ms, None, {"tensor": tensor})
    yield Event("init_stop", log.start_ms)


def _norm_span(model: Mapping[str, Any], layout: Mapping[str, Any]) -> int | None:
    """Return the number of images over which a batch norm takes statistics; None without batch norm."""
    norm = section(model, "norm")
    return int(norm["replicas"] * layout["micro_batch_size"]) if norm.get("kind") == "batch" else None


def _statement(submission: _Submission) -> dict[str, object]:
    """Return the statement of a file about itself: it is not a measurement, and where its values come from."""
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
    """Yield notes for the reader of the files."""
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


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Entries of a result file about the optimizer."""

    values: tuple[tuple[str, str | float], ...]  # values by key, its name first
    origin: str


def hyperparameters(
    benchmark: str, batch_size: int, factor: int, optimizer: str, round_name: str, division: str, ipu_count: int
) -> Hyperparameters:
    """Return the published hyperparameters for a batch size, preferably of the same round, division and pod."""
    table = [row for row in rows("mlperf_hyperparameters") if row["benchmark"] == benchmark]
    found = [row for row in table if int(row["gbs"]) == batch_size and row["optimizer"] == optimizer]
    if not found:
        raise _unknown(table, batch_size, factor, optimizer)

    def distance(row: dict[str, str]) -> tuple[bool, ...]:
        wanted = {"division": division, "round": f"v{round_name}", "ipus": str(ipu_count)}
        return (row["division"] == "reference", *(row[name] != value for name, value in wanted.items()))

    best = min(found, key=distance)
    values = ((key, number(best[column])) for key, column in RULES[benchmark].columns.items())
    return Hyperparameters((("opt_name", optimizer), *values), _origin(best))


def number(text: str) -> float:
    """Return a number as a table has it: an integer if it is written as one.

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

    part: RunPart
    start_ms: int
    stop_ms: int


@dataclass(frozen=True, slots=True)
class RunLog:
    """A run that is to be logged."""

    benchmark: Benchmark
    parts: Sequence[RunPart]  # the run, part by part
    samples_per_update: float  # samples trained by one weight update
    start_ms: int  # when it begins. [ms]

    @property
    def counts_epochs(self) -> bool:
        """True if the run has epochs; otherwise the samples before them identify evaluations."""
        return any(part.epoch for part in self.parts)

    @property
    def sample_count(self) -> int:
        """Samples that it trains."""
        return round(max(part.update_count for part in self.parts) * self.samples_per_update)

    def placed(self) -> tuple[_Placed, ...]:
        """Return the parts with their times; rounding follows summation, so that errors do not grow."""
        ends = [0.0, *accumulate(part.time_s for part in self.parts)]
        times = [self.start_ms + round(end_s * _MS_PER_S) for end_s in ends]
        return tuple(
            _Placed(part, start, stop) for part, (start, stop) in zip(self.parts, pairwise(times), strict=True)
        )


def run_events(run: RunLog) -> Iterator[Event]:
    """Yield the lines from `run_start` to `run_stop`.

    Only the last evaluation has an accuracy, the target of the benchmark: a simulation assumes that a run reaches it,
    and does not predict earlier evaluations.
    """
    placed = run.placed()
    yield Event("run_start", run.start_ms)
    yield from _epochs(run, placed) if run.counts_epochs else _blocks(run, placed)
    yield Event("run_stop", placed[-1].stop_ms, None, {"status": "success"})


def _blocks(run: RunLog, placed: Sequence[_Placed]) -> Iterator[Event]:
    """Yield the blocks of training, numbered from 1, with an evaluation after each."""
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
    """Yield the lines of one evaluation; without epochs, samples show the progress of training."""
    about = {"epoch_num": epoch}
    yield Event("eval_start", each.start_ms, None, about)
    if is_last:
        yield Event("eval_accuracy", each.stop_ms, RULES[run.benchmark.name].target, about)
    yield Event("eval_stop", each.stop_ms, None, about)


def _last_evaluation(placed: Sequence[_Placed]) -> _Placed:
    return [each for each in placed if each.part.kind == "evaluation"][-1]


def _epochs(run: RunLog, placed: Sequence[_Placed]) -> Iterator[Event]:
    """Yield one block of all epochs, then all evaluations; a checkpoint belongs to the epoch before it."""
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


ROUNDS: Final = ("1.1", "2.0")
"""Rounds whose rules result files can follow."""


def round_of(sdk: str) -> str:
    """Return the round whose submissions used a version of the SDK."""
    taken = {row["round"].removeprefix("v") for row in rows("mlperf_submissions") if _runs_on(row["sdk"], sdk)}
    known = sorted(taken & set(ROUNDS))
    if known:
        return known[0]
    took = f"took part in round {min(taken)}" if taken else "took part in no round"
    what = f"Poplar SDK {sdk} {took}, and result files follow the rules of {' or '.join(ROUNDS)}"
    raise PodsimError(what, where="--round", do=f"say which: `--round {ROUNDS[-1]}`")


def _runs_on(text: str, sdk: str) -> bool:
    version = text.split()[-1]
    return version == sdk or version.startswith(f"{sdk}.")


def reference_mean(benchmark: str, round_name: str, batch_size: int) -> float | None:
    """Return the mean samples or epochs to converge of MLPerf's reference runs at a batch size, interpolated.

    Only points that MLPerf's checker keeps, of this round or an earlier one. Source: [mlperf_rcp].
    """
    points = sorted(
        (int(row["gbs"]), mlperf_score([float(run) for run in row["runs"].split()]))
        for row in rows("mlperf_rcp")
        if row["benchmark"] == benchmark and row["in_pruned_set"] == "true" and row["round"] <= round_name
    )
    for (low, low_mean), (high, high_mean) in pairwise(points):
        if low <= batch_size <= high:
            return low_mean + (high_mean - low_mean) * (batch_size - low) / (high - low)
    return None


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot hold result files, or holds some already, before anything is simulated."""
    cure = "give another folder, which is made if its parent exists"
    if folder.exists() and not folder.is_dir():
        raise OutputError("this is a file, not a folder", where=str(folder), do=cure)
    if not folder.exists() and not folder.parent.is_dir():
        raise OutputError(f"the folder `{folder.parent}` does not exist", where=str(folder), do=cure)
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        raise OutputError("cannot be written: no permission", where=str(folder), do=cure)
    if folder.exists() and any(folder.glob("result_*.txt")):
        what = "the folder holds result files already, and a submission is all of those in a folder"
        raise OutputError(what, where=str(folder), do="give an empty or a new folder")


def write_folder(folder: Path, texts: Sequence[str]) -> tuple[Path, ...]:
    """Write `result_0.txt`, `result_1.txt`, …."""
    check_folder(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        cure = "give another folder"
        raise OutputError(f"cannot be made: {error.strerror}", where=str(folder), do=cure) from error
    paths = tuple(folder / f"result_{index}.txt" for index in range(len(texts)))
    for path, text in zip(paths, texts, strict=True):
        write_atomically(path, text.encode())
    return paths


def text_of(event: Event) -> str:
    """Return the line of an event as the logger of MLPerf writes it."""
    kind = {"_start": "INTERVAL_START", "_stop": "INTERVAL_END"}
    end = event.key[event.key.rfind("_") :]
    data = {
        "namespace": "",
        "time_ms": event.time_ms,
        "event_type": kind.get(end, "POINT_IN_TIME"),
        "key": event.key,
        "value": event.value,
        "metadata": dict(event.metadata),
    }
    return f"{TOKEN} {json.dumps(data, allow_nan=False)}\n"


def main() -> int:
    """Simulate a scenario, and write its result files."""
    parser = ArgumentParser(description="Write result files of a simulated run as MLPerf Training has them.")
    parser.add_argument("scenario", help="a scenario of training of BERT-Large or ResNet-50, or the name of one")
    parser.add_argument("folder", type=Path, help="where they go; made if its parent exists")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--round", choices=ROUNDS, help="whose rules they follow; else that of the SDK")
    parser.add_argument("--division", choices=("closed", "open"), default="closed")
    asked = parser.parse_args()
    loaded = load_scenario(asked.scenario, None, asked.overrides)
    if loaded.spec.activity is not Activity.TRAINING:
        what = f"{loaded.name} trains nothing, and MLPerf Training is about training"
        raise PodsimError(what, do="run a scenario of training")
    spec = loaded.require(TrainingScenario)
    sdk = spec.software.sdk
    benchmark_of(spec.benchmark, loaded.name)
    check_folder(asked.folder)
    round_name, origin = (asked.round, "as asked") if asked.round else (round_of(sdk), f"that of SDK {sdk}")
    written = write_result_files(simulate(loaded), spec.benchmark, asked.folder, round_name, asked.division)
    by = f"{written.notes[0]} (the round is {origin})"
    say(f"wrote {asked.folder}: {len(written.paths)} result files, {by}")
    for note in written.notes[1:]:
        say(note)
    return 0


if __name__ == "__main__":
    sys.exit(run_to_the_end(main))
