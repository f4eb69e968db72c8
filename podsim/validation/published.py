"""Published figures beside those of MLPerf: throughput, times to train, forward passes, text generation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from podsim.report.reference_data import rows
from podsim.validation.comparison import Comparison, NotRun
from podsim.validation.reference_data import blind_predictions, later_blind, uncertainty_of
from podsim.validation.runs import Results, held_against

_MS_PER_S = 1000
_SECONDS = {"h": 3600, "min": 60}
_FORWARD, _TOKEN_TIME = "forward pass", "batched token time"
WHOLE_RUNS = "published averages of whole runs"
"""Averages over all that a trainer does: compilation, data loading, logging, evaluation."""
KEPT_ASIDE = "kept aside until 0.7"
"""Rows that nobody who built a version before 0.7 had seen: groups of their own, whose errors were not mended yet."""
_THROUGHPUT = {
    "": "published throughput",
    "whole run": WHOLE_RUNS,
    _FORWARD: "published forward passes",
}
_GROUPS = {
    "generation rate": "published text generation",
    _TOKEN_TIME: "published text generation",
    "time-to-train": "published time to train",
    "latency": "published latency",
    "realized packing speed-up": "published ratios",
    "scaling POD16->POD256": "published ratios",
    "throughput gain Bow/MK2": "published ratios",
    "training steps per second": "published averages of whole runs",
}


def published_titles() -> tuple[str, ...]:
    """Scenarios that the rows name."""
    return tuple(title for row in rows("published_throughput") for title in row["scenario"].split())


def published_rows(runs: Results) -> Iterator[Comparison | NotRun]:
    """Every row; several scenarios are phases of one run."""
    for row in rows("published_throughput"):
        group = _GROUPS.get(row["metric"]) or _THROUGHPUT.get(row["scope"], "")
        if row["kept_aside_until"]:
            group = f"{group}, {KEPT_ASIDE}"
        later = later_blind(row["id"], row["metric"])
        blind = next(iter(blind_predictions(row["id"]).values()), None)
        titles, unit, published = row["scenario"].split(), row["unit"], float(row["value"])
        if row["metric"] == _TOKEN_TIME:
            # The time of a step, spread over the sequences of its batch.
            unit, published = "ms/step", published * float(row["global_batch"])
        if titles:
            name = f"{row['id']}: {' + '.join(titles)}"
            yield held_against(group, name, partial(_predicted, row, runs), published, unit, row, blind, later)
        else:
            name = f"{row['id']}: {row['model']}"
            role, source, uncertainty = row["role"], row["source_url"], uncertainty_of(row)
            reason = row["not_run"]
            yield NotRun(group, name, published, unit, role, source, reason, blind, (), uncertainty, later)


def _predicted(row: dict[str, str], runs: Results) -> float:
    titles = row["scenario"].split()
    match row["metric"], row["scope"]:
        case "generation rate", _:
            return runs.generation(titles[0]).steps_per_s
        case "batched token time", _:
            return _MS_PER_S / runs.generation(titles[0]).steps_per_s
        case "throughput", "forward pass":
            return runs.forward(titles[0]).throughput_samples_per_s
        case "throughput", _:
            return runs.training(titles[0]).throughput_samples_per_s
    return sum(runs.training(title).time_to_train_s or 0.0 for title in titles) / _SECONDS[row["unit"]]
