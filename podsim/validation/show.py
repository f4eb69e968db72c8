"""Comparisons as text: a table, Markdown or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from podsim.validation.comparison import Comparison, Summary, summarize

_HEADER = ("group", "row", "predicted", "published", "unit", "error", "role")
_SUMMARY_HEADER = ("group", "role", "rows", "bias", "mean error", "RMS", "worst")


def show(comparisons: Sequence[Comparison], output_format: str) -> str:
    """The comparisons as `table`, `markdown` or `json`, with a summary per group and role."""
    summaries = summarize(comparisons)
    if output_format == "json":
        report = {
            "comparisons": [asdict(c) | {"error": c.error} for c in comparisons],
            "summary": [asdict(s) for s in summaries],
        }
        return json.dumps(report, indent=2) + "\n"
    blocks = ([_HEADER, *map(_row, comparisons)], [_SUMMARY_HEADER, *map(_summary_row, summaries)])
    render = _markdown if output_format == "markdown" else _plain
    return "\n".join(render(block) for block in blocks)


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
