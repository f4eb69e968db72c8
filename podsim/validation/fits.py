"""Batches that a library refused for want of memory, and those of the same tables that ran: what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.errors import InfeasibleError
from podsim.result.inference import ForwardResult
from podsim.result.reference_data import rows
from podsim.runs import run
from podsim.validation.comparison import NotRun, RowComparison

_UNDECIDED: Final = "cannot tell"
_GROUP: Final = "fits, or is refused"
_RAN: Final = ("PRTB-", "PRTR-", "POPRT-")
_SINGLE: Final = ("weights", "activations", "matmul_partials")


def compare_fits() -> Iterator[RowComparison | NotRun]:
    """Yield every row with 1 if the prediction is right or undecided, and 0 if it is wrong."""
    ran = (row for row in rows("published_throughput") if row["id"].startswith(_RAN))
    for row, happened in (*((row, "refused") for row in rows("memory_limits")), *((row, "ran") for row in ran)):
        name = f"{row['id']}: {row['model']}, {row['precision']}, batch {row['micro_batch']}: {happened}"
        if row["scenario"]:
            predicted = float(_predicted(row) in {happened, _UNDECIDED})
            yield RowComparison(_GROUP, name, predicted, 1.0, "x", row["role"], row["source_url"])
        else:
            yield NotRun(_GROUP, name, 1.0, "x", row["role"], row["source_url"], "no scenario yet")


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
    return _UNDECIDED if result.memory.fit == _UNDECIDED else "ran"
