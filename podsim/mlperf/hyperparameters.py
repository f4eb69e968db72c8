"""What result files say of the optimizer and a simulation does not know: taken from what was published, never made up.

Source: [mlperf_logs] for submissions, [mlperf_rcp] for MLPerf's reference runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from podsim.errors import MissingDataError
from podsim.report.reference_data import rows

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
    """What a result file says of the optimizer.

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
