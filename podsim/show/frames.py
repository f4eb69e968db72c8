"""Answers as pandas frames, with the units of their columns in `attrs["unit"]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from podsim.metrics import MONEY, PER_MONEY, find_metric
from podsim.packages import optional

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

_UNITS: Final = {"s": "s", "bytes": "B", "share": "1", "count": "1"}
"""Units of columns by the last part of their names."""


def unit_of_figure(column: str, currency: str = "") -> str | None:
    """Return the unit of a column of metrics; None for other columns, and for costs without a `currency`.

    >>> unit_of_figure("weight_update_s"), unit_of_figure("mfu"), unit_of_figure("cost_per_run", "USD")
    ('s', '1', 'USD')
    """
    metric = find_metric(column)
    unit = metric.unit if metric else ""
    return (unit.replace(MONEY, currency) if currency else None) if unit in (MONEY, PER_MONEY) else unit or None


def frame_of(
    rows: Sequence[Mapping[str, Any]],
    units: Mapping[str, str] | None = None,
    currency: str = "",
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Return a frame of rows.

    Args:
        rows: Values by column.
        units: Units of columns that are not metrics.
        currency: Unit of costs.
        columns: Names of the columns; by default the keys of the rows.
    """
    import pandas as pd

    return _with_units(pd.DataFrame(list(rows), columns=None if columns is None else [*columns]), units, currency)


def frame_of_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> DataFrame:
    """Return a frame of rows; the last part of a column's name gives its unit, such as `_s` or `_bytes`."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[*columns])
    ends = {column: column.rpartition("_")[2] for column in columns}
    frame.attrs["unit"] = {column: _UNITS[end] for column, end in ends.items() if end in _UNITS}
    return frame


def frame_of_file(path: Path) -> DataFrame:
    """Return the frame of a Parquet or CSV table that `podsim sweep` wrote."""
    import pandas as pd

    from podsim.escaped import from_csv

    if path.suffix == ".parquet":
        optional("pyarrow", "Parquet needs")
        return _with_units(pd.read_parquet(path))
    frame = pd.read_csv(path)
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].map(from_csv, na_action="ignore")
    return _with_units(frame)


def _with_units(frame: DataFrame, units: Mapping[str, str] | None = None, currency: str = "") -> DataFrame:
    found = {name: (units or {}).get(name) or unit_of_figure(name, currency) for name in map(str, frame.columns)}
    frame.attrs["unit"] = {name: unit for name, unit in found.items() if unit}
    return frame
