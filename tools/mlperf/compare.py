"""Comparison of logged runs with predictions, phase by phase; each with the matching shipped scenario.

The predicted run has the number of evaluations, or epochs, of the logged one, because a machine simulator does not
predict convergence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from podsim.errors import MissingDataError, PodsimError
from podsim.result.reference_data import PADDLE, rows, scenario_name
from podsim.result.result import RunResult
from podsim.result.training_times import EpochRun
from podsim.runs import simulate
from podsim.runs.training.outcome import mlperf_score, run_of_updates, runs_to_convergence
from podsim.runs.training.timeline import RunPart, parts_of_epochs, parts_of_samples
from podsim.scenario import Activity, LoadedScenario, TrainingScenario, load_scenario
from tools.mlperf.benchmark import batch_size, nominal_batch, nominal_sequences_per_pack, section
from tools.mlperf.logged import Logged, logged, read_log

_POD: Final = re.compile(r"pod[\s_-]*(\d+)", re.IGNORECASE)
_BOW: Final = re.compile(r"bow", re.IGNORECASE)
_MONTHS: Final = {
    "v1.0": ("2021-05", "2021-06"),
    "v1.1": ("2021-10", "2021-11"),
    "v2.0": ("2022-04", "2022-05"),
}
"""First and last month in which the runs of a round were logged. Source: [mlperf_logs]."""
_NOMINAL: Final = nominal_sequences_per_pack({"data": {"packing": {"sequences_per_pack": 2.0}}})


def matching_scenario(run: Logged) -> str:
    """Return the shipped scenario that matches a logged run in benchmark, batch, pod and other lines."""
    known = [row for row in rows("mlperf_submissions") if _has_batch(row, run)]
    # A submission of PaddlePaddle is meant where the log names it: its configurations are those of PopART.
    of_batch = [row for row in known if row["framework"] != PADDLE or scenario_name(row) == run.simulated]
    found = [row for row in of_batch if _has_pod(row, run)]
    names = list(dict.fromkeys(scenario_name(row) for row in found if all(_details(row, run))))
    if run.simulated in names:
        return str(run.simulated)
    if len(names) == 1:
        return names[0]
    about = f"{run.benchmark.title} at batch size {run.batch_size:,} on `{run.platform or 'no platform'}`"
    candidates = names or list(dict.fromkeys(scenario_name(row) for row in found or of_batch))
    cure = f"say which: `--scenario {candidates[0]}`" if candidates else "give one of your own: `--scenario FILE`"
    if len(candidates) > 1:
        cure += f", or one of {', '.join(candidates[1:])}"
    what = f"{len(names)} shipped scenarios are of {about}" if names else f"no shipped scenario is of {about}"
    raise PodsimError(what, where=run.name, do=cure)


def logged_batch(row: dict[str, str]) -> int:
    """Return the batch size that the result files of a submission contain."""
    if row["packs_per_step"]:
        return int(row["packs_per_step"]) * _NOMINAL
    return int(row["micro_batch_per_replica"]) * int(row["grad_accum"]) * int(row["replicas"])


def _has_batch(row: dict[str, str], run: Logged) -> bool:
    return row["benchmark"] == run.benchmark.name and logged_batch(row) == run.batch_size


def _has_pod(row: dict[str, str], run: Logged) -> bool:
    """Return True unless the log's platform names a pod of another size."""
    pod = _POD.search(run.platform)
    return pod is None or pod[1] == row["ipus"]


def _details(row: dict[str, str], run: Logged) -> Iterator[bool]:
    """Yield True or False for each detail of the log that submissions may differ in: does it agree?"""
    if run.division is not None:
        yield row["division"] == run.division
    if run.accumulation_factor is not None:
        yield int(row["grad_accum"]) == run.accumulation_factor
    if _BOW.search(run.platform):
        yield bool(_BOW.search(row["system_name"]))
    round_name = next((name for name, (first, last) in _MONTHS.items() if first <= run.month <= last), None)
    if round_name is not None:
        yield row["round"] == round_name


@dataclass(frozen=True, slots=True)
class LoggedPhase:
    """Phase of a run, logged and predicted."""

    name: str
    logged_s: float | None  # logged time, if known. [s]
    predicted_s: float | None  # predicted time, if known. [s]

    @property
    def error(self) -> float | None:
        """Predicted ÷ logged - 1."""
        if not self.logged_s or self.predicted_s is None:
            return None
        return self.predicted_s / self.logged_s - 1


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A logged run beside its prediction."""

    run: Logged
    scenario: str  # what it is compared with
    title: str
    update_count: int  # weight updates that the logged time of one is taken over
    phases: tuple[LoggedPhase, ...]  # in the order in which they happen; the weight update and the whole run last
    notes: tuple[str, ...]  # notes for the reader

    def phase(self, name: str) -> LoggedPhase:
        """Return the phase with a name."""
        return next(phase for phase in self.phases if phase.name == name)


UPDATE, RUN = "weight update", "run"
_PERCENT: Final = 100


def compare_logs(
    paths: Sequence[str | Path], scenario: str | None = None, overrides: Sequence[str] = ()
) -> tuple[ComparedRun, ...]:
    """Compare logged runs with a scenario, or each with the shipped one of its benchmark, batch and pod."""
    runs = [logged(read_log(path)) for path in paths]
    results: dict[str, RunResult] = {}
    compared = []
    for run in runs:
        name = scenario or matching_scenario(run)
        loaded = _checked(run, name, overrides)
        if name not in results:
            results[name] = simulate(loaded)
        compared.append(compare(run, results[name]))
    return tuple(compared)


def _checked(run: Logged, name: str, overrides: Sequence[str]) -> LoadedScenario:
    """Return the scenario; raise if it does not train the logged benchmark."""
    loaded = load_scenario(name, None, overrides)
    cure = f"name a scenario that trains {run.benchmark.title}, or leave `--scenario` out"
    if loaded.spec.activity is not Activity.TRAINING:
        raise PodsimError(f"{loaded.name} trains nothing, and the logs are of training", where="--scenario", do=cure)
    if loaded.require(TrainingScenario).benchmark != run.benchmark.name:
        raise PodsimError(f"the log is of {run.benchmark.title}, and {loaded.name} is not", where=run.name, do=cure)
    return loaded


def compare(run: Logged, result: RunResult) -> ComparedRun:
    """Compare a logged run with the prediction of a scenario."""
    _check_batch(run, result)
    parts = _predicted(run, result)
    updates = max(part.update_count for part in parts)
    per_update = result.outcome.samples_per_update if result.outcome else 1.0
    counted = _counted(run, per_update, updates)
    phases = (*_phases(run, parts), *_totals(run, parts, counted or updates, updates))
    notes = tuple(_notes(run, counted, updates))
    return ComparedRun(run, result.name, result.title, counted or updates, phases, notes)


def _check_batch(run: Logged, result: RunResult) -> None:
    here = nominal_batch(batch_size(result.scenario), result.scenario)
    if here == run.batch_size:
        return
    factor = int(section(result.scenario, "parallelism")["accumulation_factor"])
    unit = here // factor
    cure = f"leave `--scenario` out, or name one of batch size {run.batch_size:,}"
    if run.batch_size % unit == 0:
        cure = f"use `--set parallelism.accumulation_factor={run.batch_size // unit}`, or {cure}"
    what = f"`global_batch_size` of the log is {run.batch_size:,}, that of {result.name} is {here:,}"
    raise PodsimError(what, where=run.name, do=cure)


def _predicted(run: Logged, result: RunResult) -> tuple[RunPart, ...]:
    """Return the predicted run, cut to the length of the logged one."""
    outcome = result.outcome
    if outcome is None or not outcome.runs:
        what = f"{result.name} does not say how its run goes on, so that only its weight update is predicted"
        raise MissingDataError(what, do="name a scenario with `run`, or leave `--scenario` out", key="run")
    first = outcome.runs[0]
    if isinstance(first, EpochRun) != run.counts_epochs:
        kinds = ("epochs", "blocks") if run.counts_epochs else ("blocks", "epochs")
        what = f"the log counts {kinds[0]}, and {result.name} counts {kinds[1]}"
        raise PodsimError(what, where=run.name, do="leave `--scenario` out")
    if isinstance(first, EpochRun):
        return tuple(parts_of_epochs(replace(first, epoch_count=len(run.training_s))))
    schedule = outcome.schedule
    assert schedule is not None
    every = schedule.evaluation_every_samples
    if every is None:
        return tuple(parts_of_samples(run_of_updates(schedule, first.update_count), schedule))
    marks = len(run.evaluation_s) or len(run.training_s)
    # Half an interval below the most that ends at this mark.
    samples = marks * every + schedule.samples_per_update - every / 2
    (predicted,) = runs_to_convergence(schedule, [samples])
    return tuple(parts_of_samples(predicted, schedule))


def _counted(run: Logged, samples_per_update: float, predicted: int) -> int | None:
    """Return the weight updates of a run that logs its samples; other logs have the size of the training set."""
    if run.counts_epochs or run.train_samples is None:
        return None
    counted = round(run.train_samples / samples_per_update)
    return counted if predicted / 2 <= counted <= predicted * 2 else None


def _phases(run: Logged, parts: Sequence[RunPart]) -> Iterator[LoggedPhase]:
    yield LoggedPhase("initialisation", run.init_s, None)
    yield LoggedPhase("set-up", run.setup_s, sum(_times_s(parts, "setup")))
    training = _training(parts)
    evaluations = _times_s(parts, "evaluation")
    if run.counts_epochs:
        for index in range(max(len(run.training_s), len(training))):
            yield from _phase_at(index, "epoch", run.training_s, training)
        yield from _validation(run, parts)
    else:
        for index in range(max(len(run.training_s), len(training))):
            yield from _phase_at(index, "block", run.training_s, training)
            yield from _phase_at(index, "evaluation", run.evaluation_s, evaluations)
    yield LoggedPhase("after the last evaluation", run.after_s, 0.0)
    yield LoggedPhase("between phases", run.other_s, 0.0)


def _validation(run: Logged, parts: Sequence[RunPart]) -> Iterator[LoggedPhase]:
    """Yield the first evaluation with its set-up, which loads the program, then each load and evaluation."""
    sides = ((run.load_s, run.evaluation_s), (_times_s(parts, "load"), _times_s(parts, "evaluation")))
    first = [loads[0] + evaluations[0] if loads and evaluations else None for loads, evaluations in sides]
    yield LoggedPhase("validation set-up, evaluation 1", *first)
    (load_s, evaluation_s), (predicted_load_s, predicted_s) = sides
    for index in range(1, max(len(evaluation_s), len(predicted_s))):
        yield from _phase_at(index, "load", load_s, predicted_load_s)
        yield from _phase_at(index, "evaluation", evaluation_s, predicted_s)


def _training(parts: Sequence[RunPart]) -> list[float]:
    """Return the time of each block or epoch; a checkpoint is part of its epoch. [s]"""
    times: list[float] = []
    for part in parts:
        if part.kind == "training":
            times.append(part.time_s)
        elif part.kind == "checkpoint":
            times[-1] += part.time_s
    return times


def _phase_at(index: int, name: str, logged_s: Sequence[float], predicted_s: Sequence[float]) -> Iterator[LoggedPhase]:
    """Yield the phase of an index, if either side has it."""
    pair = [times[index] if index < len(times) else None for times in (logged_s, predicted_s)]
    if pair != [None, None]:
        yield LoggedPhase(f"{name} {index + 1}", *pair)


def _totals(run: Logged, parts: Sequence[RunPart], counted: int, updates: int) -> Iterator[LoggedPhase]:
    """Yield the time per weight update, checkpoints included, and the time of the whole run."""
    yield LoggedPhase(UPDATE, sum(run.training_s) / counted, sum(_training(parts)) / updates)
    total_s = sum(part.time_s for part in parts)
    if _ends_late(run):
        yield LoggedPhase("run to its last evaluation", run.total_s - run.after_s, total_s)
    yield LoggedPhase(RUN, run.total_s, total_s)


def _ends_late(run: Logged) -> bool:
    return run.after_s > run.total_s / _PERCENT


def _times_s(parts: Sequence[RunPart], kind: str) -> list[float]:
    return [part.time_s for part in parts if part.kind == kind]


def _notes(run: Logged, counted: int | None, updates: int) -> Iterator[str]:
    if counted is None:
        yield f"the weight update is training ÷ {updates:,} updates, as predicted: the log does not count them"
    else:
        yield f"the weight update is training ÷ {counted:,} updates, by `train_samples`; {updates:,} are predicted"
    if run.simulated is not None:
        yield f"the file was written by podsim for {run.simulated}: nothing in it was measured"
    if run.status != "success":
        yield f"the run ended with status `{run.status}`"
    if _ends_late(run):
        yield (
            f"the run stops {run.after_s:.1f} s after its last evaluation: time that no machine took if its end was "
            "moved by MLPerf's normalisation of convergence"
        )


def score_of(compared: Sequence[ComparedRun]) -> LoggedPhase:
    """Return MLPerf's score of several runs: the mean without the best and the worst."""
    found = [each.phase(RUN) for each in compared]
    logged_s, predicted_s = (
        mlperf_score([getattr(each, side) for each in found]) for side in ("logged_s", "predicted_s")
    )
    return LoggedPhase("MLPerf's mean of the runs", logged_s, predicted_s)
