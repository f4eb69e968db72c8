"""Measurements of a user's own runs from a CSV file, each with its place, or every problem with its line and column."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podsim.errors import Problem, SpecError
from podsim.metrics import OUTPUT_TOKEN, THROUGHPUT, TIME, TOKENS, UPDATE
from podsim.runs.serving.csv_text import Field, fields_of, lines_of, text_of
from podsim.scenario.wording import known_here, shown
from podsim.units import UNITS

NEEDED: Final = ("scenario", "metric", "value", "unit", "source")
OPTIONAL: Final = ("standard_error", "overrides")
_MOST_ROWS, _MOST_PROBLEMS = 1000, 20
_NUMBER: Final = re.compile(r"\+?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_TIME: Final = dict(UNITS["s"])
_SAMPLES: Final = dict.fromkeys(("samples/s", "images/s", "sequences/s"), 1.0)
_METRICS: Final[dict[str, tuple[tuple[str, Mapping[str, float]], ...]]] = {
    "weight_update": ((UPDATE, _TIME),),
    "time_to_train": ((TIME, _TIME),),
    "time_per_output_token": ((OUTPUT_TOKEN, _TIME),),
    "throughput": ((THROUGHPUT, _SAMPLES), (TOKENS, {"tokens/s": 1.0})),
}
"""Figures that can be measured: the figure of a result that each is held against, its units and their factors."""
_EXAMPLE: Final = {"weight_update": "ms", "time_to_train": "min", "time_per_output_token": "ms"}
_EMPTY: Final[Field] = (1, "")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured figure.

    Attributes:
        where: `file:line`.
        columns: Column of each value, from 1 on.
        scenario: The scenario that was run, with `@` before a variant.
        overrides: `key=value` texts laid over it.
        figure: The figure of a result that it is held against.
        value: What was measured, in the SI base unit.
        text: The same as it was written, with its unit.
        source: Where it comes from.
        error: Its standard error as a share of it; None if that is not known.
    """

    where: str
    columns: Mapping[str, int]
    scenario: str
    overrides: tuple[str, ...]
    figure: str
    value: float
    text: str
    source: str
    error: float | None

    def at(self, column: str) -> str:
        """`file:line:column` of one of its values."""
        return f"{self.where}:{self.columns[column]}"


def read_measurements(path: Path) -> tuple[Measurement, ...]:
    """Measurements of a CSV file.

    The first line names the columns: `scenario`, `metric`, `value`, `unit` and `source`, and perhaps `standard_error`
    in the same unit and `overrides`, `key=value` texts with `;` between them.

    Args:
        path: The file.

    Raises:
        SpecError: The file cannot be read, or a row is no measurement.
    """
    lines = lines_of(text_of(path))
    if not lines:
        raise _alone(
            f"{path}:1:1", "the file is empty", f"give it a first line `{','.join(NEEDED)}`, then measurements"
        )
    header = fields_of(lines[0][1], f"{path}:{lines[0][0]}")
    if isinstance(header, Problem):
        raise SpecError([header])
    if problems := list(_wrong_columns(f"{path}:{lines[0][0]}", header)):
        raise SpecError(problems)
    if len(lines) == 1:
        raise _alone(f"{path}:{lines[0][0]}:1", "there are no measurements", "add a line per measurement")
    if len(lines) - 1 > _MOST_ROWS:
        raise _alone(f"{path}:1:1", f"the file has {len(lines) - 1:,} measurements", f"keep to {_MOST_ROWS:,}")
    return _rows([(f"{path}:{number}", line) for number, line in lines[1:]], [name for _, name in header])


def _wrong_columns(where: str, header: Sequence[Field]) -> Iterator[Problem]:
    names = [name for _, name in header]
    for column, name in header:
        if name not in (*NEEDED, *OPTIONAL):
            do = known_here(name, (*NEEDED, *OPTIONAL), "remove the column")
            yield Problem(f"{where}:{column}", "", f"column {shown(name or None)} is not known", do)
        elif names.count(name) > 1 and names.index(name) != header.index((column, name)):
            yield Problem(f"{where}:{column}", name, "this column is there twice", "remove one of them")
    for name in NEEDED:
        if name not in names:
            do = f"let the first line name it: `{','.join(NEEDED)}`"
            yield Problem(f"{where}:1", "", f"column `{name}` is missing", do)


def _rows(lines: Sequence[tuple[str, str]], names: Sequence[str]) -> tuple[Measurement, ...]:
    found: list[Measurement] = []
    problems: list[Problem] = []
    for where, line in lines:
        fields = fields_of(line, where)
        if isinstance(fields, Problem):
            problems.append(fields)
        elif len(fields) != len(names):
            what = f"has {len(fields)} values, not {len(names)}"
            problems.append(Problem(f"{where}:1", "", what, "give one value for every column; quote those with commas"))
        else:
            made = _measurement(where, dict(zip(names, fields, strict=True)))
            problems += [made] if isinstance(made, Problem) else _repeated(made, found)
            found += [] if isinstance(made, Problem) else [made]
        if len(problems) >= _MOST_PROBLEMS:
            problems.append(Problem(where, "", "the rest was not read", "mend what is above first"))
            break
    if problems:
        raise SpecError(problems)
    return tuple(found)


def _measurement(where: str, fields: Mapping[str, Field]) -> Measurement | Problem:
    def wrong(column: str, message: str, do: str) -> Problem:
        return Problem(f"{where}:{fields[column][0]}", column, message, do)

    texts = {name: text for name, (_, text) in fields.items()}
    metric, unit = texts["metric"], texts["unit"]
    for name in ("scenario", "source"):
        if not texts[name]:
            cures = {"scenario": "name the scenario that was run", "source": "say who measured it, where and when"}
            return wrong(name, "is empty", cures[name])
    if metric not in _METRICS:
        return wrong("metric", f"{shown(metric or None)} is not known", known_here(metric, _METRICS, "choose one"))
    factors = {each: (figure, factor) for figure, units in _METRICS[metric] for each, factor in units.items()}
    if unit not in factors:
        what = f"unit `{unit}` does not fit `{metric}`" if unit else "has no unit"
        return wrong("unit", what, f"write for example `{_EXAMPLE.get(metric, 'samples/s')}`; {', '.join(factors)}")
    figure, factor = factors[unit]
    value = _positive(texts["value"])
    if value is None:
        return wrong(
            "value", f"needs a number above 0, not {shown(texts['value'] or None)}", "write for example `12.5`"
        )
    error = _positive(given) if (given := texts.get("standard_error", "")) else None
    if given and error is None:
        return wrong("standard_error", f"needs a number above 0, not {shown(given)}", "write one, or leave it empty")
    overrides = tuple(text for each in texts.get("overrides", "").split(";") if (text := each.strip()))
    return Measurement(
        *(where, {name: column for name, (column, _) in fields.items()}, texts["scenario"], overrides, figure),
        *(value * factor, f"{texts['value']} {unit}", texts["source"], error and error / value),
    )


def _positive(text: str) -> float | None:
    value = float(text) if _NUMBER.fullmatch(text) else 0.0
    return value if 0 < value < math.inf else None


def _repeated(made: Measurement, found: Sequence[Measurement]) -> list[Problem]:
    def what(each: Measurement) -> tuple[object, ...]:
        return each.scenario, each.overrides, each.figure

    for other in found:
        if what(other) == what(made):
            message = f"the same was measured at {other.where}"
            return [Problem(made.at("scenario"), "scenario", message, "give their mean once, with its standard_error")]
    return []


def _alone(where: str, message: str, do: str) -> SpecError:
    return SpecError([Problem(where, "", message, do)])
