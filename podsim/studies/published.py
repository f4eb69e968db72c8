"""Every published figure beside what was predicted of it, as a frame for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from podsim.report.reference_data import PADDLE
from podsim.validation.comparison import Comparison, NotRun, Validation
from podsim.validation.published import KEPT_ASIDE
from podsim.validation.reference_data import CALIBRATION

if TYPE_CHECKING:
    from pandas import DataFrame

BLIND: Final = "blind"
WHOLE_RUNS: Final = "averages of whole runs"
ROLES: Final = (BLIND, "hold-out", CALIBRATION)
_KINDS: Final = {
    "AMP vertex": "kernels",
    "GEMM": "kernels",
    "BERT effect": "ratios and differences",
    "ResNet-50 scaling": "ratios and differences",
    "published effect": "ratios and differences",
    PADDLE: KEPT_ASIDE,
    "BERT": "MLPerf",
    "ResNet-50": "MLPerf",
    "published averages of whole runs": WHOLE_RUNS,
    "published forward passes": "forward passes",
    "published text generation": "text generation",
    "published": "other training",
}
"""Kinds of rows by how the name of their group begins; the first that fits counts."""
KINDS: Final = (
    "kernels",
    "MLPerf",
    "other training",
    KEPT_ASIDE,
    WHOLE_RUNS,
    "forward passes",
    "text generation",
    "ratios and differences",
)


def published_frame(found: Validation) -> DataFrame:
    """A row for each figure with a prediction, and a further one of role `blind` if the first version made one.

    Columns: name, group, kind, role, `predicted`, `published`, unit, and `error`, predicted ÷ published - 1.
    """
    import pandas as pd

    return pd.DataFrame([*map(_record, found.comparisons), *_blind(found)])


def _record(row: Comparison) -> dict[str, str | float]:
    return {
        "name": row.name,
        "group": row.group,
        "kind": _kind(row.group),
        "role": row.role,
        "predicted": row.predicted,
        "published": row.published,
        "unit": row.unit,
        "error": row.error,
    }


def _blind(found: Validation) -> Iterator[dict[str, str | float]]:
    for row in found.rows:
        if row.blind is not None:
            yield _record(_as_predicted_then(row, row.blind))


def _as_predicted_then(row: Comparison | NotRun, blind: float) -> Comparison:
    return Comparison(row.group, row.name, blind, row.published, row.unit, BLIND, row.source)


def _kind(group: str) -> str:
    if group.endswith(KEPT_ASIDE):
        return KEPT_ASIDE
    return next((kind for start, kind in _KINDS.items() if group.startswith(start)), group)
