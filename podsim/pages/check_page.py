"""The page of a check: the verdict, how far figures have moved, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from podsim._version import __version__
from podsim.format import format_error
from podsim.many.checks.cases import Measured
from podsim.many.checks.show import counted
from podsim.many.checks.verdict import GAIN, KINDS_OF_FINDING, Finding, Verdict
from podsim.pages.charts import Span, spans_chart
from podsim.pages.parts import Block, Chart, Folded, Grid, Page, Section, Tile
from podsim.pages.patterns import FASTER, SLOWER, fill_of, legend_of

_MOST_BARS: Final = 30
_LISTED: Final = 1000
_PERCENT: Final = 100
_ROOM: Final = 1.3
_FILLS: Final = {"better": fill_of(FASTER), "worse": fill_of(SLOWER)}


def check_page(verdict: Verdict, now: Mapping[str, Measured], compared_with: str) -> Page:
    """A page of a verdict.

    Args:
        verdict: What was found.
        now: What each case gives.
        compared_with: What that is compared with, in words.
    """
    files = {path: digest for each in now.values() for path, digest in each["inputs"].items()}
    title = "All scenarios hold" if verdict.holds else "Some scenarios do not hold"
    title = "Nothing was compared" if verdict.is_empty else title
    checked = f"{counted(verdict.case_count, 'scenario')}, {counted(verdict.figure_count, 'figure')}"
    return Page(
        title=title,
        about=(f"{checked}, podsim {__version__}", f"Compared with {compared_with}"),
        version=__version__,
        inputs=sorted(files.items()),
        tiles=list(_tiles(verdict)),
        sections=[*_moved(verdict), *_findings(verdict), _cases(now)],
    )


def _tiles(verdict: Verdict) -> Iterator[Tile]:
    told = "nothing was compared" if verdict.is_empty else "holds" if verdict.holds else "does not hold"
    yield Tile("Verdict", told)
    for kind, meaning in KINDS_OF_FINDING.items():
        count = sum(each.kind == kind for each in verdict.findings)
        if count:
            yield Tile(kind.capitalize(), f"{count:,}", (meaning,))


def _moved(verdict: Verdict) -> Iterator[Section]:
    moved = sorted(
        (each for each in verdict.findings if each.change is not None),
        key=lambda each: (-abs(each.change or 0.0), each.case, each.metric),
    )
    if moved:
        yield Section("What has moved", [_chart(moved[:_MOST_BARS], len(moved))])


def _chart(moved: Sequence[Finding], count: int) -> Chart:
    changes = [_PERCENT * (each.change or 0.0) for each in moved]
    spans = [
        Span(
            _name(each),
            0.0,
            change,
            _FILLS["better" if each.kind == GAIN else "worse"],
            tip={
                "scenario": each.case,
                "figure": each.metric,
                "before": each.before,
                "after": each.after,
                "change": format_error(each.change or 0.0, 2),
                "why": each.why,
            },
        )
        for each, change in zip(moved, changes, strict=True)
    ]
    first = moved[0]
    more = [f"The {len(moved)} that moved most, of {count:,}."] if count > len(moved) else []
    return Chart(
        title=f"{first.case}: {first.metric} moved most, {format_error(first.change or 0.0, 2)}",
        description="Bars of the relative change of each figure beyond its tolerance, what moved most first.",
        spec=spans_chart(
            spans, "change [%]", (min(0.0, *changes) * _ROOM, max(0.0, *changes) * _ROOM), {"no change": 0.0}
        ),
        legend=legend_of(_FILLS),
        notes=more,
    )


def _name(finding: Finding) -> str:
    return f"{finding.metric}, {finding.case}"


def _findings(verdict: Verdict) -> Iterator[Section]:
    headers = ("scenario", "figure", ">before", ">after", ">change", "why")
    blocks: list[Block] = []
    for kind, meaning in KINDS_OF_FINDING.items():
        rows = [_cells(each) for each in verdict.findings if each.kind == kind]
        if rows:
            more = [f"The first {_LISTED:,} of {len(rows):,}."] if len(rows) > _LISTED else []
            used = [place for place in range(len(headers)) if any(row[place] for row in rows)]
            cells = [[row[place] for place in used] for row in rows[:_LISTED]]
            blocks.append(Grid([headers[place] for place in used], cells, f"{kind.capitalize()}: {meaning}", more))
    if blocks:
        yield Section("Findings", blocks)


def _cells(each: Finding) -> tuple[str, ...]:
    change = "" if each.change is None else format_error(each.change, 2)
    return each.case, each.metric, each.before, each.after, change, each.why


def _cases(now: Mapping[str, Measured]) -> Section:
    rows = [
        (name, str(each["status"]), f"{len(each['metrics'])}", str(each["reason"] or "").partition("\n")[0])
        for name, each in now.items()
    ]
    headers = ("scenario", "status", ">figures", "reason")
    return Section("Scenarios", [Folded(f"All {len(rows):,} that were looked at", [Grid(headers, rows)])])
