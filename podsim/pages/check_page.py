"""The page of a check: the verdict, how far figures have moved, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from podsim._version import __version__
from podsim.format import format_error
from podsim.many.checks.cases import Measured
from podsim.many.checks.show import counted, moved_chart
from podsim.many.checks.verdict import KINDS_OF_FINDING, Finding, Verdict
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Table, columns

_LISTED: Final = 1000


def check_page(verdict: Verdict, now: Mapping[str, Measured], compared_with: str) -> Report:
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
    chart = moved_chart(verdict.findings)
    moved = [Section("What has moved", [chart])] if chart else []
    return Report(
        title=title,
        about=(f"{checked}, podsim {__version__}", f"Compared with {compared_with}"),
        version=__version__,
        inputs=sorted(files.items()),
        tiles=list(_tiles(verdict)),
        sections=[*moved, *_findings(verdict), _cases(now)],
    )


def _tiles(verdict: Verdict) -> Iterator[Tile]:
    told = "nothing was compared" if verdict.is_empty else "holds" if verdict.holds else "does not hold"
    yield Tile("Verdict", told)
    for kind, meaning in KINDS_OF_FINDING.items():
        count = sum(each.kind == kind for each in verdict.findings)
        if count:
            yield Tile(kind.capitalize(), f"{count:,}", (meaning,))


def _findings(verdict: Verdict) -> Iterator[Section]:
    headers = ("scenario", "figure", ">before", ">after", ">change", "why")
    blocks: list[Part] = []
    for kind, meaning in KINDS_OF_FINDING.items():
        rows = [_cells(each) for each in verdict.findings if each.kind == kind]
        if rows:
            more = [f"The first {_LISTED:,} of {len(rows):,}."] if len(rows) > _LISTED else []
            used = [place for place in range(len(headers)) if any(row[place] for row in rows)]
            cells = [[row[place] for place in used] for row in rows[:_LISTED]]
            blocks.append(
                Table(columns(*[headers[place] for place in used]), cells, f"{kind.capitalize()}: {meaning}", more)
            )
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
    return Section("Scenarios", [Folded(f"All {len(rows):,} that were looked at", [Table(columns(*headers), rows)])])
