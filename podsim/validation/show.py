"""Comparisons as text: a table, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from podsim.validation.comparison import Comparison, Summary, summarize
from podsim.validation.sensitivity import SCENARIO, Sensitivity, published_rates, shared_rate

_HEADER = ("group", "row", "predicted", "published", "unit", "error", "role")
_SUMMARY_HEADER = ("group", "role", "rows", "bias", "mean error", "RMS", "worst")


def show(comparisons: Sequence[Comparison], output_format: str, sensitivities: Sequence[Sensitivity] = ()) -> str:
    """The comparisons as `table`, `markdown` or `json`, with a summary per group and role.

    Args:
        comparisons: Predictions beside published figures.
        output_format: `table`, `markdown` or `json`.
        sensitivities: What one prediction is at other values of an input that is not published.
    """
    summaries = summarize(comparisons)
    if output_format == "json":
        report = {
            "comparisons": [asdict(c) | {"error": c.error} for c in comparisons],
            "summary": [asdict(s) for s in summaries],
            "sensitivity": [asdict(s) for s in sensitivities],
        }
        return json.dumps(report, indent=2) + "\n"
    blocks = ([_HEADER, *map(_row, comparisons)], [_SUMMARY_HEADER, *map(_summary_row, summaries)])
    render = _markdown if output_format == "markdown" else _plain
    tables = [render(block) for block in blocks]
    if sensitivities:
        tables.append(sensitivity_note() + "\n\n" + render(sensitivity_cells(sensitivities)))
    return "\n".join(tables)


def sensitivity_note() -> str:
    """A note above the table of sensitivities."""
    published = ", ".join(f"{value} ({row})" for row, value in published_rates().items())
    return (
        f"{SCENARIO}: published are {published} tokens/s.\n"
        "Streaming memory sets the pace, at a bandwidth that is not published.\n"
        "Predicted steps/s over its plausible range:"
    )


def sensitivity_cells(sensitivities: Sequence[Sensitivity]) -> list[tuple[str, ...]]:
    """A header, and a row for each bandwidth."""
    header = (
        "read bandwidth per IPU",
        f"a machine's memory at {shared_rate()}",
        "a machine's memory as fast as its IPUs",
    )
    return [header, *(_sensitivity_row(each) for each in sensitivities)]


def _sensitivity_row(s: Sensitivity) -> tuple[str, ...]:
    rate = f"{s.rate} (committed)" if s.committed else s.rate
    return rate, f"{s.steps_per_s:.2f}", f"{s.fed_steps_per_s:.2f}"


def markdown_summary(comparisons: Sequence[Comparison]) -> str:
    """Only the summary, as a Markdown table."""
    return _markdown([_SUMMARY_HEADER, *map(_summary_row, summarize(comparisons))])


def _row(c: Comparison) -> tuple[str, ...]:
    return (c.group, c.name, f"{c.predicted:,.1f}", f"{c.published:,.1f}", c.unit, f"{c.error:+.1%}", c.role)


def _summary_row(s: Summary) -> tuple[str, ...]:
    return (
        s.group,
        s.role,
        str(s.count),
        f"{s.bias:+.1%}",
        f"{s.mean:.1%}",
        f"{s.rms:.1%}",
        f"{s.worst:+.1%}",
    )


def _plain(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines) + "\n"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"
