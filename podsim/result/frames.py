"""Results as pandas frames. Column names end in their unit; `attrs["unit"]` says it again."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from podsim.harmless import from_csv
from podsim.metrics import FULLEST, METRICS, MONEY, PER_MONEY, find_metric
from podsim.result.kinds import in_kind_order, kind_of

if TYPE_CHECKING:
    from podsim.result.base import Result
    from podsim.result.result import RunResult

_UNITS: Final = {
    **dict.fromkeys(("time_s", "busy_s", "total_s"), "s"),
    **dict.fromkeys(("size_bytes", "capacity_bytes"), "B"),
    **dict.fromkeys(("share", "count"), "1"),
}
"""Units of columns; those of kinds of time are in seconds."""


def unit_of_figure(column: str, currency: str = "") -> str | None:
    """The unit of a column of figures; None of what is no figure, or has a unit of its own in each row.

    Args:
        column: The key of a figure, such as `weight_update_s`.
        currency: In which costs are.

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
) -> pd.DataFrame:
    """A frame of rows, with units of columns in its `attrs`.

    Args:
        rows: One mapping for each row.
        units: Units of columns that do not follow from their names.
        currency: In which costs are.
        columns: Its columns; those of the rows if left out.
    """
    return _with_units(pd.DataFrame(list(rows), columns=None if columns is None else [*columns]), units, currency)


def frame_of_file(path: Path) -> pd.DataFrame:
    """A table of many results, as Parquet or CSV."""
    if path.suffix == ".parquet":
        return _with_units(pd.read_parquet(path))
    found = pd.read_csv(path)
    for column in found.select_dtypes(exclude="number"):
        found[column] = found[column].map(from_csv, na_action="ignore")
    return _with_units(found)


def _with_units(frame: pd.DataFrame, units: Mapping[str, str] | None = None, currency: str = "") -> pd.DataFrame:
    given = units or {}
    known = {name: given.get(name) or unit_of_figure(name, currency) for name in map(str, frame.columns)}
    frame.attrs["unit"] = {name: unit for name, unit in known.items() if unit}
    return frame


def figures_frame(result: "Result") -> pd.DataFrame:
    """The figures of a result in one row, with the columns of a table of `podsim sweep`."""
    fullest = METRICS[FULLEST].get(result)
    row = {"scenario": result.name, **dict(result.figures())} | ({} if fullest is None else {FULLEST: fullest})
    return frame_of([row], currency=result.cost.currency if result.cost else "")


def breakdown_frame(result: "RunResult") -> pd.DataFrame:
    """Time of one weight update by kind, in the order of the kinds."""
    times_s = result.breakdown
    total_s = result.weight_update_s
    rows = [
        {
            "kind": kind,
            "family": kind_of(kind).family,
            "time_s": times_s[kind],
            "share": times_s[kind] / total_s if total_s else 0.0,
        }
        for kind in in_kind_order(times_s)
    ]
    return _frame(rows, ["kind", "family", "time_s", "share"])


def ipu_frame(result: "RunResult") -> pd.DataFrame:
    """How each IPU spends a weight update, by its number."""
    kinds = in_kind_order(kind for account in result.ipus for kind in account.time_ps)
    rows = [
        {
            "ipu": account.ipu,
            "lane": account.lane,
            "stages": account.stages,
            "busy_s": account.busy_s,
            **_kind_columns(account.seconds, kinds),
        }
        for account in result.ipus
    ]
    times = _kind_columns({}, kinds)
    return _frame(rows, ["ipu", "lane", "stages", "busy_s", *times], times).set_index("ipu")


def memory_frame(result: "RunResult") -> pd.DataFrame:
    """Tenants of every memory of every IPU."""
    rows = [
        {
            "ipu": row.ipu,
            "where": row.where,
            "tenant": row.tenant,
            "size_bytes": row.size_bytes,
            "capacity_bytes": result.memory.capacity_bytes(row.where),
        }
        for row in result.memory.rows
    ]
    return _frame(rows, ["ipu", "where", "tenant", "size_bytes", "capacity_bytes"])


def operations_frame(result: "RunResult") -> pd.DataFrame:
    """Time of every operation of the graph in one weight update."""
    kinds = in_kind_order(kind for row in result.operations for kind in row.seconds)
    rows = [
        {
            "stage": row.stage,
            "block": row.block,
            "kind": row.kind,
            "name": row.name,
            "count": row.count,
            "total_s": row.total_s,
            **_kind_columns(row.seconds, kinds),
        }
        for row in result.operations
    ]
    times = _kind_columns({}, kinds)
    return _frame(rows, ["stage", "block", "kind", "name", "count", "total_s", *times], times)


def _kind_columns(times_s: Mapping[str, float], kinds: Iterable[str]) -> dict[str, float]:
    return {f"{kind}_s": times_s.get(kind, 0.0) for kind in kinds}


def _frame(rows: list[dict[str, object]], columns: list[str], times: Iterable[str] = ()) -> pd.DataFrame:
    frame, units = pd.DataFrame(rows, columns=columns), _UNITS | dict.fromkeys(times, "s")
    frame.attrs["unit"] = {column: units[column] for column in columns if column in units}
    return frame
