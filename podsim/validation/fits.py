"""Predicted memory outcomes of batches that a library refused for lack of memory, and of batches that ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.errors import InfeasibleError
from podsim.result.inference import ForwardResult
from podsim.result.reference_data import rows
from podsim.runs import run
from podsim.validation.comparison import NotRun, RowComparison

_GROUP: Final = "fits, or is refused"
_RAN: Final = ("PRTB-", "PRTR-", "POPRT-")
_SINGLE: Final = ("weights", "activations", "matmul_partials")


def compare_fits() -> Iterator[RowComparison | NotRun]:
    """Yield every row: 1 if the memory outcome is predicted, 0 if not; undecided rows are listed apart."""
    ran = (row for row in rows("published_throughput") if row["id"].startswith(_RAN))
    for row, happened in (*((row, "refused") for row in rows("memory_limits")), *((row, "ran") for row in ran)):
        name = f"{row['id']}: {row['model']}, {row['precision']}, batch {row['micro_batch']}: {happened}"
        outcome = _predicted(row) if row["scenario"] else "no scenario yet"
        if outcome in {"refused", "ran"}:
            predicted = float(outcome == happened)
            yield RowComparison(_GROUP, name, predicted, 1.0, "x", row["role"], row["source_url"])
        else:
            yield NotRun(_GROUP, name, 1.0, "x", row["role"], row["source_url"], outcome)


def _predicted(row: dict[str, str]) -> str:
    name, _, variant = row["scenario"].partition("@")
    overrides = [f"forward.batch_size={row['micro_batch']}"]
    if row["precision"] == "fp32":
        overrides += [f"precision.{each}=fp32" for each in _SINGLE]
        overrides += ["data.pixel_format=fp32"] if row["model"] == "ResNet-50" else []
    try:
        result = run(name, variant=variant or None, overrides=overrides)
    except InfeasibleError:
        return "refused"
    assert isinstance(result, ForwardResult)
    return "ran" if result.memory.fit == "fits" else result.memory.fit
