"""What an answer stands on: inputs by influence, what they rest on, and the files they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from podsim.format import format_error
from podsim.pages.charts import Span, spans_chart
from podsim.pages.parts import Block, Chart, Folded, Grid, Section
from podsim.pages.patterns import FASTER, SLOWER, fill_of, legend_of
from podsim.result.base import Result
from podsim.scenario import data_file
from podsim.scenario.document import plain_data, read_yaml
from podsim.show.assumption_table import moved_figure

_MOST_BARS: Final = 15
_LEAST_SHOWN: Final = 0.0005
_PERCENT: Final = 100
_ROOM: Final = 1.35
_Bar = tuple[Mapping[str, object], float | None, float | None]


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
    bars = list(_bars(rows))
    if bars:
        blocks.append(_chart(bars[:_MOST_BARS], rows, len(bars)))
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
        blocks.append(Grid(headers, measured, "Measured and published figures for this scenario"))
    if rows:
        blocks.append(Grid(("key", "title", "where"), rows, "Sources of the inputs above"))
    files = [(path, digest) for path, digest in result.inputs]
    blocks.append(Folded("Files read, with their SHA-256", [Grid(("file", "SHA-256"), files)]))
    return Section("Sources", blocks)


def _error(error: float | None) -> str:
    return "" if error is None else format_error(error)


@lru_cache
def _bibliography() -> Mapping[str, Mapping[str, Any]]:
    data: Mapping[str, Mapping[str, Any]] = plain_data(read_yaml(data_file("hardware_specs/references.yaml")).data)
    return data


def _bars(rows: Sequence[Mapping[str, object]]) -> Iterator[_Bar]:
    """Inputs that move the headline, with how far at both ends of their range; None where that is impossible."""
    for row in rows:
        influence = row.get("influence")
        if isinstance(influence, Mapping):
            low, high = influence["low"], influence["high"]
            if any(end is None or abs(end) >= _LEAST_SHOWN for end in (low, high)):
                yield row, low, high


def _chart(bars: Sequence[_Bar], rows: Sequence[Mapping[str, object]], count: int) -> Chart:
    metric, key = moved_figure(rows), str(bars[0][0]["key"])
    ends = [_PERCENT * end for _, *both in bars for end in both if end is not None] or [0.0]
    reach = max(map(abs, ends)) or 1.0
    domain = (min(0.0, *ends) * _ROOM, max(0.0, *ends) * _ROOM) if any(ends) else (-reach, reach)
    fills = {"at the lower end of its range": fill_of(FASTER), "at the upper end": fill_of(SLOWER)}
    names = _names([str(row["key"]) for row, *_ in bars])
    more = [f"{count - len(bars)} more inputs move it less; the table below has them all."] if count > len(bars) else []
    return Chart(
        title=f"Measure this next: {key} moves {metric} most",
        description=f"Bars of how far each input moves {metric}; {key} moves it most, by up to {reach:.3g} %.",
        spec=spans_chart(
            [span for bar in bars for span in _spans(bar, fills, names)],
            f"change of {metric} [%]",
            domain,
            {"no change": 0.0},
        ),
        legend=legend_of(fills),
        notes=more,
    )


def _spans(bar: _Bar, fills: Mapping[str, str], names: Mapping[str, str]) -> list[Span]:
    """Both ends, the one that is further away first, so that it does not hide the other."""
    row, *ends = bar
    tip = {name: str(row.get(name) or "") for name in ("key", "value", "basis", "source")}
    spans = []
    for end, (name, fill) in zip(ends, fills.items(), strict=True):
        change = "impossible" if end is None else format_error(end)
        shown, text = {"where": name, "change": change, **tip}, change if end is None else ""
        spans.append(Span(names[str(row["key"])], 0.0, _PERCENT * (end or 0.0), fill, text, tip=shown))
    return sorted(spans, key=lambda span: -abs(span.end))


def _names(keys: Sequence[str]) -> dict[str, str]:
    """Keys without the way to them, which the tip shows, but for those that would be taken for one another."""
    short = {key: ".".join(key.split(".")[-2:]) for key in keys}
    counts = Counter(short.values())
    return {key: name if counts[name] == 1 else key for key, name in short.items()}


def _numbers(rows: Sequence[Mapping[str, object]]) -> Grid:
    headers = ("input", "value", "basis", ">at lower end", ">at upper end", "source", "note")
    return Grid(headers, [_cells(each) for each in rows])


def _cells(row: Mapping[str, object]) -> tuple[str, ...]:
    influence = row.get("influence")
    if isinstance(influence, Mapping):
        ends = ["impossible" if influence[end] is None else format_error(influence[end], 2) for end in ("low", "high")]
    else:
        ends = ["not measured"] * 2
    texts = [str(row.get(name) or "") for name in ("key", "value", "basis", "source", "note")]
    return (*texts[:3], *ends, *texts[3:])
