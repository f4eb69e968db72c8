"""Tables of the model card, and the accuracy of README in five lines; `tools/update_readme.py` writes them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from podsim.format import format_count, format_significant
from podsim.result.envelope import FILE
from podsim.scenario import data_file
from podsim.show.table import Table, columns, to_markdown
from podsim.validation import RowComparison
from podsim.validation.comparison import summarize
from podsim.validation.freedom import freedom
from podsim.validation.left_out import LeftOut, left_out, together
from podsim.validation.reference_data import HOLD_OUT
from podsim.validation.show import freedom_table

_DATA = Path(__file__).resolve().parent.parent / "reference_data"
_BLIND = {"0.1.0": "first_predictions.csv", "0.6.0": "second_predictions.csv"}
_MLPERF = "training in MLPerf: weight updates, evaluations, times to train"
_ELSEWHERE = "training elsewhere: throughput and times to train"
_ANSWERS = "forward passes and text generation"
_CHANGES = "effects of a change: of more IPUs, of another SDK"
_WHOLE_RUNS = "averages of whole runs"
_ALONE = "measured alone: products, convolutions, transfers"
_LINES = (_MLPERF, _ELSEWHERE, _ANSWERS, _CHANGES)
_ACTIVITIES = {"training": "training", "forward": "forward passes", "generation": "text generation"}
_NUMBERS = ("layer_count", "hidden_size", "depth", "sequence_length", "batch_size", "ipu_count")
_MOST_FAULTS = 8
_GIGA = 1e9


def line_of(group: str) -> str:
    """Which line of the short table a group of `podsim validate` belongs to."""
    if "averages of whole runs" in group:
        return _WHOLE_RUNS
    if "effect" in group or "scaling" in group:
        return _CHANGES
    if "forward passes" in group or "generation" in group:
        return _ANSWERS
    if group.startswith("published"):
        return _ELSEWHERE
    return _MLPERF if "BERT" in group or "ResNet" in group else _ALONE


def accuracy_in_short(comparisons: Sequence[RowComparison], points: LeftOut) -> str:
    """Errors of rows that nothing is fitted to in four lines, and of stacks that were left out in a fifth."""
    rows = [replace(row, group=line_of(row.group)) for row in comparisons if row.role == HOLD_OUT]
    found = {each.group: each for each in summarize(rows)}
    cells = [(name, str(found[name].count), *_errors(found[name])) for name in _LINES]
    stacks = together(left_out(points, "stack"))
    cells.append(
        ("each software stack, with constants fitted to the others", str(len(stacks.rows)), *_errors(stacks.sizes))
    )
    return to_markdown(Table(columns("nothing is fitted to", ">rows", ">mean error", ">worst"), cells, ""))


def _errors(sizes: Any) -> tuple[str, str]:
    return f"{sizes.mean * 100:.1f} %", f"{sizes.worst * 100:+.1f} %"


def envelope_table() -> str:
    """What was compared, by activity and kind of model."""
    covered = json.loads(data_file(FILE).read_text(encoding="utf-8"))
    names = [name.replace("_", " ") for name in _NUMBERS]
    cells = [
        (words, kind, *(_span(numbers.get(name)) for name in _NUMBERS))
        for activity, words in _ACTIVITIES.items()
        for kind, numbers in covered[activity]["models"].items()
    ]
    lines = [to_markdown(Table(columns("activity", "kind of model", *(f">{name}" for name in names)), cells, ""))]
    for activity, words in _ACTIVITIES.items():
        low, high = (hz / _GIGA for hz in covered[activity]["hardware"]["clock_hz"])
        clock = f"{low:.2f} GHz" if low == high else f"{low:.2f} to {high:.2f} GHz"
        lines.append(f"- {words}, at {clock}: {'; '.join(covered[activity]['software'])}")
    return "\n".join([lines[0].rstrip(), "", *lines[1:], ""])


def _span(ends: Sequence[float] | None) -> str:
    if ends is None:
        return ""
    low, high = (format_count(int(end)) for end in ends)
    return low if low == high else f"{low} to {high}"


def faults_table(comparisons: Sequence[RowComparison]) -> str:
    """The largest errors of what nothing is fitted to, one of each configuration, but for averages of whole runs."""
    rows = [row for row in comparisons if row.role == HOLD_OUT and line_of(row.group) != _WHOLE_RUNS]
    by_size = sorted(rows, key=lambda row: -abs(row.error))
    worst = list({(row.group, row.configuration or row.name): row for row in reversed(by_size)}.values())[::-1]
    cells = [(row.group, row.name, *_figures(row), f"{row.error * 100:+.1f} %") for row in worst[:_MOST_FAULTS]]
    return to_markdown(Table(columns("group", "row", ">predicted", ">published", ">error"), cells, ""))


def _figures(row: RowComparison) -> tuple[str, str]:
    return f"{format_significant(row.predicted)} {row.unit}", f"{format_significant(row.published)} {row.unit}"


def fitted_table(comparisons: Sequence[RowComparison]) -> str:
    """How much was chosen to meet published figures, and how many there are."""
    return to_markdown(replace(freedom_table(freedom(comparisons)), title=""))


def blind_table() -> str:
    """Sizes of the errors of predictions that were made before the measurements were known."""
    cells = []
    for version, name in _BLIND.items():
        with (_DATA / name).open(encoding="utf-8", newline="") as file:
            rows: list[Mapping[str, str]] = list(csv.DictReader(file))
        errors = [float(row["error_percent"]) for row in rows]
        mean, worst = fmean(map(abs, errors)), max(errors, key=abs)
        cells.append(
            (version, str(len(rows)), str(len({row["row"] for row in rows})), f"{mean:.1f} %", f"{worst:+.1f} %")
        )
    heads = columns("version", ">predictions", ">rows", ">mean error", ">worst")
    return to_markdown(Table(heads, cells, ""))
