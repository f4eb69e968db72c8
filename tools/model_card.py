"""Tables of the model card, and the accuracy of README in five lines; `tools/update_readme.py` writes them."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from podsim.format import format_count, format_significant
from podsim.report.table import Table, columns
from podsim.result.evidence import residuals
from podsim.result.gaps import known_gaps
from podsim.show.markdown import to_markdown
from podsim.validation import RowComparison
from podsim.validation.comparison import sizes_of
from podsim.validation.coverage import Coverage
from podsim.validation.identifiability import identifiability
from podsim.validation.reference_data import CALIBRATION, HOLD_OUT
from podsim.validation.show import identifiability_table

_DATA = Path(__file__).resolve().parent.parent / "reference_data"
_BLIND = "blind_predictions.csv"
_MLPERF = "training in MLPerf: weight updates, evaluations, times to train"
_ELSEWHERE = "training elsewhere: throughput and times to train"
_ANSWERS = "forward passes and text generation"
_CHANGES = "effects of a change: of more IPUs, of another SDK"
_WHOLE_RUNS = "averages of whole runs: an upper bound that is met"
_FITS = "fits, or is refused: right"
_ALONE = "measured alone: products, convolutions, transfers"
_GROUPED = "convolutions in groups on Mk1, SDK 1.0"
_LINES = (_ALONE, _GROUPED, _MLPERF, _ELSEWHERE, _ANSWERS, _CHANGES)
_COUNTED = (_FITS, _WHOLE_RUNS)
"""Lines whose rows are right or wrong, without an error in per cent."""
_ACTIVITIES = {"training": "training", "forward": "forward passes", "generation": "text generation"}
_NUMBERS = ("layer_count", "hidden_size", "depth", "sequence_length", "ipu_count")
_OTHERS = ("stack", "execution", "shards", "experts", "formats", "links")
_MOST_FAULTS = 8


def line_of(group: str) -> str:
    """Return the line of the short table that a group of `podsim validate` belongs to."""
    if "averages of whole runs" in group:
        return _WHOLE_RUNS
    if group.startswith("fits"):
        return _FITS
    if group == "Mk1 convolution in groups":
        return _GROUPED
    if "effect" in group or "scaling" in group:
        return _CHANGES
    if "forward passes" in group or "generation" in group:
        return _ANSWERS
    if group.startswith("published"):
        return _ELSEWHERE
    return _MLPERF if "BERT" in group or "ResNet" in group else _ALONE


def accuracy_in_short(comparisons: Sequence[RowComparison], ranges: Coverage) -> str:
    """Return errors of rows without fitted constants, and separately of rows that share no fitted configuration.

    Averages of whole runs include work that is not simulated, such as compilation, so a prediction is an upper bound.
    The line of each origin has all runs, predicted with constants fitted without their origin.
    """
    fitted = {row.configuration for row in comparisons if row.role == CALIBRATION and row.configuration}
    rows = [replace(row, group=line_of(row.group)) for row in comparisons if row.role == HOLD_OUT]
    cells = []
    for name in _LINES:
        own = [row for row in rows if row.group == name]
        others = [row for row in own if row.configuration not in fitted]
        cells.append((name, *_errors([row.error for row in own]), *_errors([row.error for row in others])))
    left = [math.expm1(run.run.error) for run in ranges.runs]
    cells.append(("each origin, with constants fitted to the others", *_errors(left), "", "", ""))
    for name in _COUNTED:
        own = [row for row in rows if row.group == name]
        others = [row for row in own if row.configuration not in fitted]
        cells.append((name, *_right(own), "", *(_right(others) if others else ("", "")), ""))
    counts = (">rows", ">mean error", ">worst")
    heads = columns("nothing is fitted to", *counts, ">in no fitted configuration", *counts[1:])
    return to_markdown(Table(heads, cells, ""))


def _right(rows: Sequence[RowComparison]) -> tuple[str, str]:
    """Return the numbers of rows and of correct rows: the right outcome, or not below the measurement."""
    right = sum(row.error >= 0 if row.group == _WHOLE_RUNS else row.error == 0 for row in rows)
    return str(len(rows)), f"{right} of {len(rows)}"


def _errors(errors: Sequence[float]) -> tuple[str, str, str]:
    if not errors:
        return "0", "", ""
    sizes = sizes_of(errors)
    return str(len(errors)), f"{sizes.mean * 100:.1f} %", f"{sizes.worst * 100:+.1f} %"


def envelope_table() -> str:
    """Return a table of validated runs by activity and kind of model."""
    runs = residuals().runs
    cells, lines = [], []
    for activity, words in _ACTIVITIES.items():
        same = [run for run in runs if run.names["activity"] == activity]
        for family in sorted({run.names["family"] for run in same}):
            of_kind = [run.sizes for run in same if run.names["family"] == family]
            cells.append((words, family, *(_span([each[n] for each in of_kind if n in each]) for n in _NUMBERS)))
        others = {run.names[name] for run in same for name in _OTHERS if name in run.names}
        lines.append(f"- {words}: {'; '.join(sorted(others))}")
    heads = columns("activity", "kind of model", *(f">{name.replace('_', ' ')}" for name in _NUMBERS))
    return "\n".join([to_markdown(Table(heads, cells, "")).rstrip(), "", *lines, ""])


def _span(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = (format_count(int(end)) for end in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def faults_table(comparisons: Sequence[RowComparison]) -> str:
    """Return a table of the largest errors of rows without fitted constants, one per configuration."""
    rows = [row for row in comparisons if row.role == HOLD_OUT and line_of(row.group) != _WHOLE_RUNS]
    by_size = sorted(rows, key=lambda row: -abs(row.error))
    worst = list({(row.group, row.configuration or row.name): row for row in reversed(by_size)}.values())[::-1]
    cells = [(row.group, row.name, *_figures(row), f"{row.error * 100:+.1f} %") for row in worst[:_MOST_FAULTS]]
    return to_markdown(Table(columns("group", "row", ">predicted", ">published", ">error"), cells, ""))


def _figures(row: RowComparison) -> tuple[str, str]:
    return f"{format_significant(row.predicted)} {row.unit}", f"{format_significant(row.published)} {row.unit}"


def fitted_table(comparisons: Sequence[RowComparison]) -> str:
    """Return a table of the numbers of fitted choices and of published figures."""
    return to_markdown(replace(identifiability_table(identifiability(comparisons)), title=""))


def gaps_table() -> str:
    """Return a table of known gaps, the largest first."""
    gaps = sorted(known_gaps(), key=lambda gap: -max(map(abs, gap.excesses())))
    cells = [(gap.name, gap.size, ", ".join(gap.rows), gap.cause) for gap in gaps]
    return to_markdown(Table(columns("runs", ">published against predicted", "rows", "cause"), cells, ""))


def blind_table() -> str:
    """Return a table of errors of predictions that were made before the measurements were known."""
    with (_DATA / _BLIND).open(encoding="utf-8", newline="") as file:
        made: list[Mapping[str, str]] = list(csv.DictReader(file))
    cells = []
    for version in dict.fromkeys(row["version"] for row in made):
        rows = [row for row in made if row["version"] == version]
        errors = [float(row["error_percent"]) for row in rows]
        mean, worst = fmean(map(abs, errors)), max(errors, key=abs)
        cells.append(
            (version, str(len(rows)), str(len({row["row"] for row in rows})), f"{mean:.1f} %", f"{worst:+.1f} %")
        )
    heads = columns("version", ">predictions", ">rows", ">mean error", ">worst")
    return to_markdown(Table(heads, cells, ""))
