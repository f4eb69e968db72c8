"""Scenarios of published rows, simulated once each, and their comparisons.

Throughput, times to train, forward passes and text generation are here; MLPerf's rows are in `compare`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from podsim.errors import InfeasibleError
from podsim.result.inference import ForwardResult, GenerationResult
from podsim.result.power import Energy
from podsim.result.reference_data import rows
from podsim.result.result import RunResult
from podsim.runs import run
from podsim.validation.comparison import WHOLE_RUNS, Blind, NotRun, RowComparison
from podsim.validation.reference_data import blind_predictions, uncertainty_of
from podsim.watch import Watch

Result = RunResult | GenerationResult | ForwardResult
_Kind = TypeVar("_Kind", bound=Result)


class Training(Protocol):
    """Figures of a run of training that are compared."""

    @property
    def weight_update_s(self) -> float:
        """Time of a weight update. [s]"""

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples trained per second of training. [1/s]"""

    @property
    def time_to_train_s(self) -> float | None:
        """Time of the whole run, where its end is given. [s]"""

    @property
    def run_breakdown(self) -> Mapping[str, float]:
        """Times of the parts of the run. [s]"""

    @property
    def energy(self) -> Energy | None:
        """Power and energy."""


class Generated(Protocol):
    """Figures of text generation that are compared."""

    @property
    def steps_per_s(self) -> float:
        """Steps of a batch per second. [1/s]"""

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all sequences per second. [1/s]"""


class ForwardPasses(Protocol):
    """Figures of forward passes that are compared."""

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples per second. [1/s]"""


class Results(Protocol):
    """Results of scenarios by title; an impossible plan raises when its result is asked for."""

    def training(self, title: str) -> Training:
        """Return the result of a training scenario."""

    def generation(self, title: str) -> Generated:
        """Return the result of a scenario that generates text."""

    def forward(self, title: str) -> ForwardPasses:
        """Return the result of a scenario of forward passes."""


class RecordingResults:
    """Results that record the titles requested from them."""

    def __init__(self, results: Results) -> None:
        """Start with an empty record."""
        self._results = results
        self._titles: list[str] = []

    def requested_titles(self) -> tuple[str, ...]:
        """Return the titles requested since the last call."""
        titles = tuple(dict.fromkeys(self._titles))
        self._titles.clear()
        return titles

    def training(self, title: str) -> Training:
        """Return the result of a training scenario."""
        self._titles.append(title)
        return self._results.training(title)

    def generation(self, title: str) -> Generated:
        """Return the result of a scenario that generates text."""
        self._titles.append(title)
        return self._results.generation(title)

    def forward(self, title: str) -> ForwardPasses:
        """Return the result of a scenario of forward passes."""
        self._titles.append(title)
        return self._results.forward(title)


class Runs:
    """Results of scenarios by their title: the name, then `@` and a variant if there is one."""

    def __init__(self, titles: Sequence[str], progress: Watch) -> None:
        """Simulate all of them; an impossible plan is kept as well, and raised when its result is asked for."""
        self._known = {title: _outcome(title) for title in progress(tuple(dict.fromkeys(titles)))}

    def feasible(self) -> Iterator[tuple[str, Result]]:
        """Yield titles and results of the possible plans."""
        for title, outcome in self._known.items():
            if not isinstance(outcome, InfeasibleError):
                yield title, outcome

    def training(self, title: str) -> RunResult:
        """Return the result of a training scenario."""
        return self._result_of_kind(title, RunResult)

    def generation(self, title: str) -> GenerationResult:
        """Return the result of a scenario that generates text."""
        return self._result_of_kind(title, GenerationResult)

    def forward(self, title: str) -> ForwardResult:
        """Return the result of a scenario of forward passes."""
        return self._result_of_kind(title, ForwardResult)

    def _result_of_kind(self, title: str, kind: type[_Kind]) -> _Kind:
        outcome = self._known[title]
        if isinstance(outcome, InfeasibleError):
            raise outcome
        if not isinstance(outcome, kind):
            raise TypeError(f"{title} is no {kind.__name__}")
        return outcome


def _outcome(title: str) -> Result | InfeasibleError:
    name, _, variant = title.partition("@")
    try:
        return run(name, variant=variant or None)
    except InfeasibleError as error:
        return error


def compare_row(
    group: str,
    name: str,
    predict: Callable[[], float],
    published: float,
    unit: str,
    row: dict[str, str],
    blind: tuple[Blind, ...] = (),
) -> RowComparison | NotRun:
    """Return a published figure with its prediction, or with the reason why there is none."""
    role, source = row["role"], row.get("source") or row["source_url"]
    try:
        found: RowComparison | NotRun = RowComparison(group, name, predict(), published, unit, role, source, blind)
    except InfeasibleError as error:
        found = NotRun(group, name, published, unit, role, source, error.message, blind)
    return replace(found, uncertainty=uncertainty_of(row))


_MS_PER_S = 1000
_SECONDS = {"h": 3600, "min": 60}
_FORWARD, _TOKEN_TIME = "forward pass", "batched token time"
GRAPHS = "graphs"
"""Scope of rows of networks on molecular graphs."""
_THROUGHPUT = {
    "": "published throughput",
    "whole run": WHOLE_RUNS,
    _FORWARD: "published forward passes",
    GRAPHS: "published graph networks",
}
_GROUPS = {
    "generation steps": "published text generation",
    _TOKEN_TIME: "published text generation",
    "time-to-train": "published time to train",
    "latency": "published latency",
    "realized packing speed-up": "published ratios",
    "scaling POD16->POD256": "published ratios",
    "throughput gain Bow/MK2": "published ratios",
    "step time": "published weight updates",
    "training steps per second": WHOLE_RUNS,
}


def published_titles() -> tuple[str, ...]:
    """Return the scenarios that the rows name."""
    return tuple(title for row in rows("published_throughput") for title in row["scenario"].split())


def published_rows(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield every row; several scenarios of a row are phases of one run."""
    for row in rows("published_throughput"):
        group = _GROUPS.get(row["metric"]) or _THROUGHPUT.get(row["scope"], "")
        blind = blind_predictions(row["id"], row["metric"])
        titles, unit, published = row["scenario"].split(), row["unit"], float(row["value"])
        if row["metric"] == _TOKEN_TIME:
            # The time of a step, spread over the sequences of its batch.
            unit, published = "ms/step", published * float(row["global_batch"])
        if titles:
            name = f"{row['id']}: {' + '.join(titles)}"
            yield compare_row(group, name, partial(_predicted, row, runs), published, unit, row, blind)
        else:
            name = f"{row['id']}: {row['model']}"
            role, source, uncertainty = row["role"], row["source_url"], uncertainty_of(row)
            reason = row["not_run"]
            yield NotRun(group, name, published, unit, role, source, reason, blind, (), uncertainty)


def _predicted(row: dict[str, str], runs: Results) -> float:
    titles = row["scenario"].split()
    match row["metric"], row["scope"]:
        case "generation steps", _:
            return runs.generation(titles[0]).steps_per_s
        case "batched token time", _:
            return _MS_PER_S / runs.generation(titles[0]).steps_per_s
        case "step time", _:
            return runs.training(titles[0]).weight_update_s
        case "throughput", "forward pass":
            return runs.forward(titles[0]).throughput_samples_per_s
        case "throughput", _:
            return runs.training(titles[0]).throughput_samples_per_s
    return sum(runs.training(title).time_to_train_s or 0.0 for title in titles) / _SECONDS[row["unit"]]
