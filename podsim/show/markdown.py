"""Reports and tables in Markdown, and tables as CSV."""

from __future__ import annotations

import csv
import io
from typing import Final

from podsim import escaped
from podsim.report.report import Report
from podsim.report.table import Block, Cell, Passage, Table

_NOTHING: Final = ("–", "-")


def report_as_markdown(report: Report) -> str:
    """Return the short answer of a report in Markdown."""
    items = "".join(
        f"- {escaped.markdown(line)}\n" for passage in report.heading() for line in passage.text.split("\n")
    )
    return items + "".join(f"\n{to_markdown(block, level=3)}" for block in report.short())


def to_markdown(block: Block, level: int = 2) -> str:
    """Return a table or passage in Markdown, with its title as a heading; headings over rows are bold cells."""
    head = f"{'#' * level} {escaped.markdown(block.title)}\n\n" if block.title else ""
    if isinstance(block, Passage):
        return head + "".join(f"{escaped.markdown(line)}\n" for line in block.text.split("\n"))
    count = len(block.columns)
    lines = [[escaped.markdown(column.head) for column in block.columns]]
    lines.append(["--:" if column.is_number else "---" for column in block.columns])
    for row in block.rows:
        cells = ["<br>".join(map(escaped.markdown, str(cell).split("\n"))) for cell in row]
        lines.append(cells if len(cells) == count else [f"**{cells[0]}**", *[""] * (count - 1)])
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return head + text + "".join(f"\n{escaped.markdown(note)}\n" for note in block.notes)


def to_csv(table: Table) -> str:
    """Return a table as CSV: unrounded numbers, empty cells for dashes, and headings over rows as the first column."""
    width = len(table.columns)
    is_grouped, group = any(len(row) < width for row in table.rows), ""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = [" ".join(column.head.split()) + (f" [{column.unit}]" if column.unit else "") for column in table.columns]
    writer.writerow(map(escaped.csv, [*[table.headings] * is_grouped, *heads]))
    for row in table.rows:
        if len(row) < width:
            group = str(row[0])
            continue
        values = (cell.value if isinstance(cell, Cell) and cell.value is not None else str(cell) for cell in row)
        line = [*[group] * is_grouped, *("" if value in _NOTHING else value for value in values)]
        writer.writerow([escaped.csv(value) if isinstance(value, str) else value for value in line])
    return file.getvalue()
