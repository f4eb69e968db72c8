"""Logged stretches of MLPerf runs: training blocks of BERT, epochs of ResNet-50, and how many weight updates each has.

Source: [mlperf_logs].
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from podsim.report.reference_data import PADDLE, rows, scenario_name
from podsim.specs import TrainingScenario, load_scenario
from podsim.specs.convnet_training import EpochRunSpec
from podsim.training.epochs import EpochRun

Floats = NDArray[np.float64]
_SAME = ("round", "division", "benchmark", "ipus", "framework", "submitter")
_NOMINAL_PER_PACK = 2
_NEIGHBOURS = 3
"""Blocks on either side that a block is compared with."""
_PASSES = 5
_PULL = 0.25
"""Weight of the distance from the marks beside that from the neighbours, both in updates."""
_SLACK = 0.7
"""How far the sequences of a run are from their average, in those of an update."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run.

    Attributes:
        block_s: Time of each training block, or of each epoch. [s]
        updates: Weight updates of each.
        evaluation_s: Time of each evaluation between blocks; empty where all evaluations come last. [s]
    """

    block_s: Floats
    updates: Floats
    evaluation_s: Floats

    @property
    def update_s(self) -> Floats:
        """Mean time of a weight update, by block. [s]"""
        return self.block_s / self.updates


@dataclass(frozen=True, slots=True)
class LoggedRuns:
    """The runs of one submission.

    Attributes:
        scenario: The scenario that replays it.
        role: `calibration` where constants of noise are fitted to it, or `hold-out`.
        spec: That scenario.
        updates_per_call: Weight updates that one call from the host runs.
        calls_per_evaluation: Such calls of one evaluation; 0 where all evaluations come last.
        runs: Its runs.
    """

    scenario: str
    role: str
    spec: TrainingScenario
    updates_per_call: float
    calls_per_evaluation: int
    runs: tuple[LoggedRun, ...]


def logged_runs(role: str | None = None) -> Iterator[LoggedRuns]:
    """Submissions, each with its runs; those of PaddlePaddle, whose blocks end otherwise, are left out.

    Args:
        role: `calibration` or `hold-out`; both if left out.
    """
    known = {_key(row): row for row in rows("mlperf_submissions")}
    known_to_noise = (row for row in rows("mlperf_intervals") if row["framework"] != PADDLE)
    chosen = (row for row in known_to_noise if role in (None, row["role"]))
    for key, found in groupby(chosen, _key):
        yield _submission(known[key], list(found))


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in _SAME)


def _submission(row: dict[str, str], found: Sequence[dict[str, str]]) -> LoggedRuns:
    name = scenario_name(row)
    spec = load_scenario(name).spec.of(TrainingScenario)
    by_run = {number: {each["of"]: each for each in run} for number, run in groupby(found, lambda each: each["run"])}
    runs = tuple(_run(row, spec, run) for run in by_run.values())
    calls = int(row["eval_device_steps"] or 0) if row["benchmark"] == "bert" else 0
    return LoggedRuns(name, found[0]["role"], spec, spec.parallelism.updates_per_call(spec), calls, runs)


def _run(row: dict[str, str], spec: TrainingScenario, run: dict[str, dict[str, str]]) -> LoggedRun:
    if epochs := run.get("epoch"):
        times = _numbers(epochs["durations_s"])
        return LoggedRun(times, _updates_of_epochs(spec, len(times)), np.array([]))
    blocks, times = run["block"], _numbers(run["block"]["durations_s"])
    samples, packs = _numbers(blocks["samples"]), float(row["packs_per_step"])
    if blocks["counted"] == "nominal":
        updates = updates_at_nominal_marks(samples, packs * _NOMINAL_PER_PACK)
    else:
        updates = updates_of_samples(times, samples, float(row["samples_per_step_actual"]))
    return LoggedRun(times, updates, _numbers(run["evaluation"]["durations_s"]))


def _numbers(text: str) -> Floats:
    return np.array([float(each) for each in text.split()])


def updates_at_nominal_marks(samples: Floats, per_update: float) -> Floats:
    """Weight updates of each block where the log counts the same for each update: a block ends beyond its mark.

    Args:
        samples: The mark at which each block ends.
        per_update: What the log counts for an update.

    >>> updates_at_nominal_marks(np.array([200_000, 400_000, 600_000]), 6144).tolist()
    [33.0, 33.0, 32.0]
    """
    return np.diff(np.floor(samples / per_update) + 1, prepend=0)


def updates_of_samples(block_s: Floats, samples: Floats, per_update: float) -> Floats:
    """Weight updates of each block where the log counts real sequences, which differ from update to update.

    Where the log has the sequences trained by the end of a block, their number says it. Where it has marks alone, a
    block ends with the first update beyond its mark, give or take what updates differ by; if that leaves a choice,
    blocks have as many updates as make them most like those around them.

    Args:
        block_s: Time of each block. [s]
        samples: Sequences at the end of each block, or marks.
        per_update: Sequences of an update, on average.
    """
    marks = samples / per_update
    if not np.allclose(samples, samples[0] * np.arange(1, len(samples) + 1)):
        return np.round(np.diff(marks, prepend=0))
    ends = [np.arange(np.ceil(mark - _SLACK), np.ceil(mark + _SLACK) + 1).tolist() for mark in marks]
    updates = np.full(len(block_s), marks[0])
    for _ in range(_PASSES):
        near = np.array([_around(block_s / updates, number) for number in range(len(block_s))])
        updates = _most_even(block_s / near, ends, marks)
    return updates


def _most_even(wanted: Floats, ends: Sequence[Sequence[float]], marks: Floats) -> Floats:
    """Updates by block, close to what is wanted, with ends that lie half an update behind the marks on average.

    The first block, which may be slow, may have any.
    """
    ways: dict[float, tuple[float, tuple[float, ...]]] = {0.0: (0.0, ())}
    for number, (want, possible, mark) in enumerate(zip(wanted, ends, marks, strict=True)):
        ways = {
            end: min(
                (
                    cost + bool(number) * (end - before - want) ** 2 + _PULL * (end - mark - 0.5) ** 2,
                    (*way, end - before),
                )
                for before, (cost, way) in ways.items()
            )
            for end in possible
        }
    return np.array(min(ways.values())[1])


def _around(values: Floats, number: int) -> float:
    """The median of the neighbours of a value; the first block, which may be slow, is none."""
    first = max(1, number - _NEIGHBOURS)
    return float(np.median(np.concatenate([values[first:number], values[number + 1 : number + 1 + _NEIGHBOURS]])))


def _updates_of_epochs(spec: TrainingScenario, count: int) -> Floats:
    assert isinstance(spec.run, EpochRunSpec) and spec.data.samples_per_epoch
    batch, per_call = spec.parallelism.batch_size, int(spec.parallelism.updates_per_call(spec))
    run = EpochRun(0.0, batch, spec.data.samples_per_epoch, count, per_call)
    return np.diff([float(run.updates_after(epoch)) for epoch in range(count + 1)])
