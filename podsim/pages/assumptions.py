"""The foundations of an answer: inputs by influence, what they rest on, and the files they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from podsim.format import format_error
from podsim.pages.parts import Block, Folded, Section
from podsim.result.base import Result
from podsim.scenario import data_file
from podsim.scenario.document import plain_data, read_yaml
from podsim.show.run_charts import inputs_chart
from podsim.show.table import Table, columns


def assumptions_section(result: Result) -> Section | None:
    """Inputs that are neither published nor measured, what moves the result most first; None where there are none."""
    rows = result.assumptions
    if not rows:
        return None
    counts = Counter(str(each.get("basis", "")) for each in rows)
    lead = (
        f"The result stands on {', '.join(f'{count} {basis}' for basis, count in counts.items())} inputs, "
        "each moved to the ends of its range, or a tenth either way where it has none."
    )
    blocks: list[Block] = [lead]
    chart = inputs_chart(rows)
    if chart is not None:
        blocks.append(chart)
    blocks.append(Folded(f"All {len(rows)} inputs, with their notes", [_numbers(rows)]))
    return Section("Assumptions by influence", blocks)


def sources_section(result: Result) -> Section:
    """Where the numbers come from."""
    known = _bibliography()
    keys = dict.fromkeys(str(each["source"]) for each in result.assumptions if str(each.get("source", "")) in known)
    rows = [(key, str(known[key].get("title", "")), str(known[key].get("where", ""))) for key in keys]
    measured = [
        (each.label, each.quantity, f"{each.measured:.6g}", _error(result.error_of(each)), each.role, each.source)
        for each in result.references
    ]
    blocks: list[Block] = []
    if measured:
        headers = ("figure", "quantity", ">measured", ">prediction is off by", "role", "source")
        blocks.append(Table(columns(*headers), measured, "Measured and published figures for this scenario"))
    if rows:
        blocks.append(Table(columns("key", "title", "where"), rows, "Sources of the inputs above"))
    files = [(path, digest) for path, digest in result.inputs]
    blocks.append(Folded("Files read, with their SHA-256", [Table(columns("file", "SHA-256"), files)]))
    return Section("Sources", blocks)


def _error(error: float | None) -> str:
    return "" if error is None else format_error(error)


@lru_cache
def _bibliography() -> Mapping[str, Mapping[str, Any]]:
    data: Mapping[str, Mapping[str, Any]] = plain_data(read_yaml(data_file("hardware_specs/references.yaml")).data)
    return data


def _numbers(rows: Sequence[Mapping[str, object]]) -> Table:
    headers = ("input", "value", "basis", ">at lower end", ">at upper end", "source", "note")
    return Table(columns(*headers), [_cells(each) for each in rows])


def _cells(row: Mapping[str, object]) -> tuple[str, ...]:
    influence = row.get("influence")
    if isinstance(influence, Mapping):
        ends = ["impossible" if influence[end] is None else format_error(influence[end], 2) for end in ("low", "high")]
    else:
        ends = ["not measured"] * 2
    texts = [str(row.get(name) or "") for name in ("key", "value", "basis", "source", "note")]
    return (*texts[:3], *ends, *texts[3:])
