"""A verdict for its readers: a terminal, a pull request, GitHub's annotations, JUnit, a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Final
from xml.etree import ElementTree as ET

from podsim import harmless
from podsim.format import format_error
from podsim.many.checks.verdict import GAIN, KINDS_OF_FINDING, Finding, Verdict
from podsim.report.chart import FASTER, SLOWER, Axis, Bar, Bars, Chart
from podsim.report.table import Table, columns
from podsim.show.markdown import to_markdown

NOTHING: Final = "nothing was compared"
CURE: Final = 'agree on what is given with `--accept --reason "…"`, or write `expect:` in the scenarios'
_ROWS_IN_COMMENT: Final = 8
_MOST_BARS: Final = 30
_PERCENT: Final = 100
_ROOM: Final = 1.3
_COMMENT: Final = "<!-- podsim check -->"
"""By which a comment of an earlier run is found, to be edited in place."""


def as_text(verdict: Verdict) -> str:
    """The verdict, then what was found, the gravest first."""
    lines = [headline(verdict)]
    for kind, group in groupby(verdict.findings, key=lambda each: each.kind):
        lines += ["", f"{kind}: {KINDS_OF_FINDING[kind]}"]
        for each in group:
            lines.append(f"  {_title(each)}: {_change(each)}" if _change(each) else f"  {_title(each)}")
            if each.why:
                lines.append(f"      {_why(each)}")
    return "\n".join(lines)


def as_markdown(verdict: Verdict, _places: Mapping[str, str] | None = None) -> str:
    """One comment: the verdict in bold, eight rows, the rest folded."""
    lines = [_COMMENT, f"**{headline(verdict)}**"]
    table = verdict_table(verdict)
    if rows := table.rows[:_ROWS_IN_COMMENT]:
        lines += ["", to_markdown(replace(table, title="", rows=rows)).rstrip()]
    if more := table.rows[_ROWS_IN_COMMENT:]:
        folded = to_markdown(replace(table, title="", rows=more)).rstrip()
        lines += ["", f"<details><summary>{len(more)} more</summary>", "", folded, "", "</details>"]
    return "\n".join(lines)


def verdict_table(verdict: Verdict) -> Table:
    """What was found, below the verdict."""
    rows = [
        (*(each.kind, each.case, each.metric, each.before, each.after), _percent(each.change), each.why)
        for each in verdict.findings
    ]
    heads = columns("", "scenario", "figure", ">before", ">after", ">change", "why")
    return Table(heads, rows, headline(verdict))


def in_a_line(finding: Finding) -> str:
    """A finding in a line."""
    return f"{finding.kind}: {_title(finding)}: {_change(finding)}"


def as_github(verdict: Verdict, places: Mapping[str, str], lines: Mapping[str, int] | None = None) -> str:
    """Annotations, then the verdict: one for each file that changed, at the line where it did.

    A finding that no file of its own explains stands at the file of its scenario.

    Args:
        verdict: What was found.
        places: Paths of files by what findings call them: the scenarios by their cases, and the inputs that changed.
        lines: The line that is to blame, by those paths.
    """
    told: dict[tuple[bool, str], list[Finding]] = {}
    for each in verdict.findings:
        changed = [places[file] for file in each.files if file in places]
        for path in changed or [places.get(each.case, "")]:
            told.setdefault((each.fails, path), []).append(each)
    annotations = [
        _annotation("error" if fails else "notice", path, (lines or {}).get(path), found)
        for (fails, path), found in told.items()
    ]
    if verdict.is_empty:
        annotations.append(f"::error title=podsim check::{harmless.github(headline(verdict))}")
    return "\n".join([*annotations, headline(verdict)])


def _annotation(level: str, path: str, line: int | None, found: Sequence[Finding]) -> str:
    """One annotation for all that was found at a file, the gravest in words."""
    place = [f"file={harmless.github(path, of_property=True)}"] if path else []
    place += [f"line={line}"] if line else []
    first = found[0]
    more = f"; and {counted(len(found) - 1, 'more finding')}" if len(found) > 1 else ""
    said = f"{first.kind}: {_title(first)}: {_change(first)} {_why(first)}".strip() + more
    return f"::{level} {','.join([*place, 'title=podsim check'])}::{harmless.github(said)}"


def as_junit(verdict: Verdict, cases: Sequence[str]) -> str:
    """A suite with a test per case.

    Args:
        verdict: What was found.
        cases: Names of all cases.
    """
    names = list(dict.fromkeys((*cases, *(each.case for each in verdict.findings))))
    failing = {each.case for each in verdict.findings if each.fails}
    alone = [name for name in names if name in verdict.not_compared and name not in failing]
    counts = {"tests": len(names), "failures": len(failing), "skipped": len(alone)}
    suite = ET.Element("testsuite", {"name": "podsim check"} | {key: str(count) for key, count in counts.items()})
    for name in names:
        test = ET.SubElement(suite, "testcase", classname="podsim", name=harmless.xml(name))
        found = [each for each in verdict.findings if each.case == name and each.fails]
        if found:
            message = harmless.xml(f"{found[0].kind}: {_title(found[0])}")
            failure = ET.SubElement(test, "failure", message=message)
            failure.text = harmless.xml("\n".join(f"{_title(each)}: {_change(each)}; {_why(each)}" for each in found))
        elif name in alone:
            ET.SubElement(test, "skipped", message=NOTHING)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def as_json(verdict: Verdict) -> str:
    """Everything, for a program."""
    data = {
        "holds": verdict.holds and not verdict.is_empty,
        "cases": verdict.case_count,
        "figures": verdict.figure_count,
        "expectations": verdict.expectation_count,
        "findings": [asdict(each) | {"fails": each.fails} for each in verdict.findings],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def headline(verdict: Verdict) -> str:
    """The verdict in a line."""
    what = f"{counted(verdict.case_count, 'scenario')}, {counted(verdict.figure_count, 'figure')}"
    if verdict.expectation_count:
        what += f", {counted(verdict.expectation_count, 'expectation')}"
    if verdict.is_empty:
        return f"nothing was compared: {what}; {CURE}"
    if not verdict.findings:
        return f"holds: {what}"
    counts = ", ".join(f"{count} {kind}" for kind, count in _counts(verdict.findings))
    return f"{'holds' if verdict.holds else 'does not hold'}: {counts} of {what}"


def counted(count: int, what: str) -> str:
    """A count and what is counted.

    >>> counted(1, "scenario"), counted(2000, "figure")
    ('1 scenario', '2,000 figures')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def _counts(findings: Sequence[Finding]) -> Iterator[tuple[str, int]]:
    for kind in KINDS_OF_FINDING:
        count = sum(each.kind == kind for each in findings)
        if count:
            yield kind, count


def _title(finding: Finding) -> str:
    return harmless.line(f"{finding.case} {finding.metric}")


def _why(finding: Finding) -> str:
    return harmless.line(finding.why)


def _change(finding: Finding) -> str:
    change = "" if finding.change is None else f" ({_percent(finding.change)})"
    after = harmless.line(finding.after)
    return f"{harmless.line(finding.before)} → {after or 'nothing'}{change}" if finding.before else after


def _percent(change: float | None) -> str:
    return "" if change is None else f"{change:+.2%}"


def moved_chart(findings: Sequence[Finding]) -> Chart | None:
    """Bars of how far figures have moved beyond their tolerance, the furthest first; None where none has."""
    moved = sorted(
        (each for each in findings if each.change is not None),
        key=lambda each: (-abs(each.change or 0.0), each.case, each.metric),
    )
    if not moved:
        return None
    shown, fills = moved[:_MOST_BARS], {"better": FASTER, "worse": SLOWER}
    changes = [_PERCENT * (each.change or 0.0) for each in shown]
    bars = [
        Bar(
            f"{each.metric}, {each.case}",
            0.0,
            change,
            fills["better" if each.kind == GAIN else "worse"],
            tip={
                "scenario": each.case,
                "figure": each.metric,
                "before": each.before,
                "after": each.after,
                "change": format_error(each.change or 0.0, 2),
                "why": each.why,
            },
        )
        for each, change in zip(shown, changes, strict=True)
    ]
    ends = (min(0.0, *changes) * _ROOM, max(0.0, *changes) * _ROOM)
    first, count = shown[0], len(moved)
    return Chart(
        title=f"{first.case}: {first.metric} moved most, {format_error(first.change or 0.0, 2)}",
        description="Bars of the relative change of each figure beyond its tolerance, what moved most first.",
        drawn=Bars(bars, Axis("change", "%", ends), {"no change": 0.0}),
        legend=fills,
        notes=[f"The {len(shown)} that moved most, of {count:,}."] if count > len(shown) else [],
    )
