"""Measurements of a user's runs from a CSV file, with places; errors have line and column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podsim.metrics import OUTPUT_TOKEN, THROUGHPUT, TIME, TOKENS, UPDATE
from podsim.scenario.csv_file import Row, rows_of, text_of
from podsim.scenario.wording import known_here, quoted
from podsim.units import UNITS

NEEDED: Final = ("scenario", "metric", "value", "unit", "source")
OPTIONAL: Final = ("standard_error", "overrides")
_MOST_ROWS: Final = 1000
_ABOVE: Final = "a number above 0", lambda value: 0 < value < math.inf
_CURES: Final = {"scenario": "name the scenario that was run", "source": "say who measured it, where and when"}
_TIME: Final = dict(UNITS["s"])
_SAMPLES: Final = dict.fromkeys(("samples/s", "images/s", "sequences/s"), 1.0)
_METRICS: Final[dict[str, tuple[tuple[str, Mapping[str, float]], ...]]] = {
    "weight_update": ((UPDATE, _TIME),),
    "time_to_train": ((TIME, _TIME),),
    "time_per_output_token": ((OUTPUT_TOKEN, _TIME),),
    "throughput": ((THROUGHPUT, _SAMPLES), (TOKENS, {"tokens/s": 1.0})),
}
"""Measurable metrics: the metric of a result to compare with, and units with their factors."""
_EXAMPLE: Final = {"weight_update": "ms", "time_to_train": "min", "time_per_output_token": "ms"}


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured figure with its scenario."""

    row: Row
    scenario: str  # the scenario that was run, with `@` before a variant
    overrides: tuple[str, ...]  # `key=value` texts applied to it
    figure: str  # metric of a result to compare with
    value: float  # measured value in the SI base unit
    text: str  # measured value as written, with its unit
    source: str  # origin
    error: float | None  # relative standard error; None if unknown


def read_measurements(path: Path) -> tuple[Measurement, ...]:
    """Read the measurements of a CSV file.

    The first line names the columns: `scenario`, `metric`, `value`, `unit` and `source`, and perhaps `standard_error`
    in the same unit and `overrides`, `key=value` texts with `;` between them.
    """
    found = list[Measurement]()

    def append(row: Row) -> Measurement:
        found.append(_measurement(row, found))
        return found[-1]

    return tuple(rows_of(text_of(path), str(path), append, NEEDED, OPTIONAL, most=_MOST_ROWS))


def _measurement(row: Row, before: Sequence[Measurement]) -> Measurement:
    texts = row.texts
    for name, cure in _CURES.items():
        if not texts[name]:
            raise row.wrong(name, "is empty", cure)
    metric, unit = texts["metric"], texts["unit"]
    if metric not in _METRICS:
        raise row.wrong("metric", f"{quoted(metric or None)} is not known", known_here(metric, _METRICS, "choose one"))
    factors = {each: (figure, factor) for figure, units in _METRICS[metric] for each, factor in units.items()}
    if unit not in factors:
        what = f"unit {quoted(unit or None)} does not fit `{metric}`"
        raise row.wrong("unit", what, f"write for example `{_EXAMPLE.get(metric, 'samples/s')}`; {', '.join(factors)}")
    figure, factor = factors[unit]
    value = row.number("value", *_ABOVE, "12.5")
    error = row.number("standard_error", *_ABOVE, "0.2") if texts.get("standard_error") else None
    overrides = tuple(text for each in texts.get("overrides", "").split(";") if (text := each.strip()))
    for other in before:
        if (other.scenario, other.overrides, other.figure) == (texts["scenario"], overrides, figure):
            do = "give their mean once, with its standard_error"
            raise row.wrong("scenario", f"the same was measured at {other.row.where}", do)
    return Measurement(
        *(row, texts["scenario"], overrides, figure),
        *(value * factor, f"{texts['value']} {unit}", texts["source"], error and error / value),
    )
