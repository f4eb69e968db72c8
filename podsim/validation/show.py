"""Comparisons as text: tables for a terminal, Markdown or JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from podsim.result.reference_data import rows as reference_rows
from podsim.validation.comparison import BEYOND, Comparison, LimitVerdict, NotRun, Summary, Validation, summarize
from podsim.validation.freedom import MOST_FITTED, MOST_OF_NOISE, Freedom
from podsim.validation.left_out import FreedomLeft, freedom_left, shipped
from podsim.validation.sensitivity import SCENARIO, Sensitivity, published_rates
from podsim.validation.tables import Cells, figure, markdown, plain

_MS_PER_S = 1000
_Row = TypeVar("_Row", bound=Comparison | NotRun)
_HEADER = ("row", "predicted", "published", "unit", "error", "data", "explained")
_NOT_RUN_HEADER = ("row", "published", "unit", "why nothing is predicted")
_LATER_HEADER = ("row", "described as", "blind", "published", "unit", "blind error")
_BLIND_HEADER = ("row", "blind", "now", "published", "unit", "blind error", "error now")
_SUMMARY_HEADER = ("group", "role", "rows", "configurations", "bias", "mean error", "RMS", "worst", "beyond data")
_FREEDOM_HEADER = ("what", "count", "which")
_APART = "of whole runs; those that differ in name alone count once"
_ROLES = {
    "calibration": "Calibration: rows that a constant is fitted to",
    "hold-out": "Hold-out: rows that nothing is fitted to",
}
_BLIND = "Blind: what version 0.1.0 predicted before the figure was known, never computed again"
_LATER = "Blind: what version 0.6.0 predicted before the figure was known, never computed again"
_NOTE = (
    "data: twice the uncertainty of what was measured. An error within it is explained; a larger one is one of the"
    " model, or of its inputs, which `--coverage` draws."
)
_NOT_RUN = "Published figures without a prediction"


def show(
    found: Validation,
    output_format: str,
    sensitivities: Sequence[Sensitivity] = (),
    verdicts: Sequence[LimitVerdict] = (),
    *,
    summary_only: bool = False,
    chosen: Freedom | None = None,
) -> str:
    """The comparisons as `table`, `markdown` or `json`, with a summary per group and role.

    Args:
        found: Predictions beside published figures.
        output_format: `table`, `markdown` or `json`.
        sensitivities: What one prediction is at other values of an input that is not published.
        verdicts: Whether limits are kept.
        summary_only: Leave the rows out.
        chosen: What could have been chosen otherwise.
    """
    if output_format == "json":
        return _as_json(found, sensitivities, verdicts, summary_only=summary_only, chosen=chosen)
    is_markdown = output_format == "markdown"
    render, head = (markdown, "## {}\n\n") if is_markdown else (plain, "{}\n\n")
    blocks = [] if summary_only else [head.format(title) + render(cells) for title, cells in _tables(found)]
    if not summary_only and any(row.uncertainty is not None for row in found.comparisons):
        blocks.append(_NOTE + "\n")
    blocks.append(head.format("Summary") + render(summary_cells(found.comparisons)))
    if chosen is not None:
        blocks.append(head.format("Degrees of freedom") + render(freedom_cells(chosen)))
        blocks.append(head.format("Configurations left beside what was chosen") + render(left_cells(_left())))
        blocks.append(head.format("Switches that act like fitted constants") + render(switch_cells()))
    if sensitivities and not summary_only:
        blocks.append(sensitivity_note() + "\n\n" + render(sensitivity_cells(sensitivities)))
    blocks += [f"{verdict}\n" for verdict in verdicts]
    return "\n".join(blocks)


def _as_json(
    found: Validation,
    sensitivities: Sequence[Sensitivity],
    verdicts: Sequence[LimitVerdict],
    *,
    summary_only: bool,
    chosen: Freedom | None,
) -> str:
    rows = {
        "comparisons": [asdict(c) | {"error": c.error, "is_beyond_data": c.is_beyond()} for c in found.comparisons],
        "not_run": [asdict(row) for row in found.not_run],
    }
    report: dict[str, Any] = ({} if summary_only else rows) | {
        "summary": [asdict(s) for s in summarize(found.comparisons)]
    }
    if not summary_only:
        report["sensitivity"] = [asdict(s) for s in sensitivities]
    if chosen is not None:
        report["degrees_of_freedom"] = asdict(chosen) | {
            "most_fitted": MOST_FITTED,
            "most_of_noise": MOST_OF_NOISE,
            "left": [asdict(each) | {"left": each.left} for each in _left()],
            "chosen_switches": [dict(row) for row in reference_rows("switches")],
        }
    if verdicts:
        report["limits"] = [asdict(v) | {"is_kept": v.is_kept} for v in verdicts]
    return json.dumps(report, indent=2) + "\n"


def _tables(found: Validation) -> Iterator[tuple[str, Cells]]:
    """Titles with their cells; a row of one cell starts a group."""
    for role, title in _ROLES.items():
        rows = [row for row in found.comparisons if row.role == role]
        if rows:
            yield title, [_HEADER, *_by_group(rows, _row)]
    if blind := [row for row in found.rows if row.blind is not None]:
        yield _BLIND, [_BLIND_HEADER, *_by_group(blind, _blind_row)]
    if later := [row for row in found.rows if row.later_blind]:
        yield _LATER, [_LATER_HEADER, *(cells for row in later for cells in _later_rows(row))]
    if found.not_run:
        yield _NOT_RUN, [_NOT_RUN_HEADER, *_by_group(found.not_run, _not_run_row)]


def _by_group(rows: Sequence[_Row], cells: Callable[[_Row], tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """The cells of every row, below the name of its group; groups in order of first appearance."""
    for group in dict.fromkeys(row.group for row in rows):
        yield (group,)
        yield from (cells(row) for row in rows if row.group == group)


def _row(c: Comparison) -> tuple[str, ...]:
    data = "" if c.uncertainty is None else f"{BEYOND * c.uncertainty:.1%}"
    explained = {None: "", True: "no", False: "yes"}[c.is_beyond()]
    return c.name, figure(c.predicted), figure(c.published), c.unit, f"{c.error:+.1%}", data, explained


def _blind_row(row: Comparison | NotRun) -> tuple[str, ...]:
    blind = row.blind or math.nan
    now = (figure(row.predicted), f"{row.error:+.1%}") if isinstance(row, Comparison) else ("not run", "")
    name = row.name.partition(":")[0]
    return name, figure(blind), now[0], figure(row.published), row.unit, f"{blind / row.published - 1:+.1%}", now[1]


def _later_rows(row: Comparison | NotRun) -> Iterator[tuple[str, ...]]:
    for each in row.later_blind:
        error = f"{each.predicted / row.published - 1:+.1%}"
        yield each.row, each.described_as, figure(each.predicted), figure(row.published), row.unit, error


def _not_run_row(row: NotRun) -> tuple[str, ...]:
    return row.name, figure(row.published), row.unit, row.reason


def summary_cells(comparisons: Sequence[Comparison]) -> Cells:
    """A header, and a row for each group and role: what is fitted first, then what is not."""
    summaries = sorted(summarize(comparisons), key=lambda s: list(_ROLES).index(s.role))
    return [_SUMMARY_HEADER, *map(_summary_row, summaries)]


def markdown_summary(comparisons: Sequence[Comparison]) -> str:
    """Only the summary, as a Markdown table."""
    return markdown(summary_cells(comparisons))


def _summary_row(s: Summary) -> tuple[str, ...]:
    errors = (f"{s.bias:+.1%}", f"{s.mean:.1%}", f"{s.rms:.1%}", f"{s.worst:+.1%}")
    return s.group, s.role, str(s.count), str(s.configurations), *errors, str(s.beyond)


def freedom_cells(chosen: Freedom) -> Cells:
    """A header, then what was chosen and how many configurations there are to meet."""
    stacks = ", ".join(each.removeprefix("software.") for each in chosen.switches)
    rows = [
        ("fitted constants", str(len(chosen.fitted)), f"at most {MOST_FITTED} in all of podsim"),
        (
            "constants of noise",
            str(len(chosen.of_noise)),
            f"at most {MOST_OF_NOISE}, fitted to how much logged runs differ",
        ),
        ("assumed numbers", str(len(chosen.assumed)), "of machines and software stacks, each with its range"),
        ("assumed in scenarios", str(len(chosen.assumed_in_scenarios)), "beside those"),
        ("switches of stacks", str(len(chosen.switches)), stacks or "none differs between these stacks"),
        *((f"{role} configurations", str(count), _APART) for role, count in chosen.configurations.items()),
    ]
    if len(chosen.configurations) > 1:
        rows.append(("in both roles", str(chosen.shared), "other figures of runs that constants are fitted to"))
    return [_FREEDOM_HEADER, *rows]


def _left() -> tuple[FreedomLeft, ...]:
    return freedom_left(shipped())


_LEFT_HEADER = ("fitted to", "configurations", "constants", "switches", "left")
_SWITCH_HEADER = ("switch", "chosen", "otherwise", "after these rows were seen")


def left_cells(found: Sequence[FreedomLeft]) -> Cells:
    """A header, and for the calibration rows of each framework how much was chosen to meet them."""
    return [
        _LEFT_HEADER,
        *(
            (each.runs, str(each.configurations), str(len(each.constants)), str(len(each.switches)), str(each.left))
            for each in found
        ),
    ]


def switch_cells() -> Cells:
    """A header, and the switches of software stacks that act like fitted constants, with the rows they rest on."""
    return [
        _SWITCH_HEADER,
        *(
            (r["key"].removeprefix("software."), r["chosen"], r["otherwise"], r["rows"])
            for r in reference_rows("switches")
        ),
    ]


def sensitivity_note() -> str:
    """A note above the table of sensitivities."""
    published = ", ".join(f"{value} ({row})" for row, value in published_rates().items())
    return (
        f"{SCENARIO}: published are {published} tokens/s.\n"
        "Streaming memory sets the pace, at a bandwidth that is not published but fitted, to this run among others.\n"
        "Predicted steps/s over its plausible range:"
    )


def sensitivity_cells(sensitivities: Sequence[Sensitivity]) -> list[tuple[str, ...]]:
    """A header, and a row for each bandwidth."""
    header = ("streaming memory of a machine", "steps/s", "waiting for weights")
    return [header, *(_sensitivity_row(each) for each in sensitivities)]


def _sensitivity_row(s: Sensitivity) -> tuple[str, ...]:
    rate = f"{s.rate} (committed)" if s.committed else s.rate
    return rate, f"{s.steps_per_s:.2f}", f"{s.wait_s * _MS_PER_S:.1f} ms"
