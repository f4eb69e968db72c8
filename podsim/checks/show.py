"""A verdict for its readers: a terminal, a pull request, GitHub's annotations, JUnit, a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Final
from xml.etree import ElementTree as ET

from podsim.checks.verdict import KINDS_OF_FINDING, Finding, Verdict

_ROWS_IN_COMMENT: Final = 8
_COMMENT: Final = "<!-- podsim check -->"
"""By which a comment of an earlier run is found, to be edited in place."""


def as_text(verdict: Verdict) -> str:
    """The verdict, then what was found, the gravest first."""
    lines = [_headline(verdict)]
    for kind, group in groupby(verdict.findings, key=lambda each: each.kind):
        lines += ["", f"{kind}: {KINDS_OF_FINDING[kind]}"]
        for each in group:
            lines.append(f"  {_title(each)}: {_change(each)}" if _change(each) else f"  {_title(each)}")
            if each.why:
                lines.append(f"      {each.why}")
    return "\n".join(lines)


def as_markdown(verdict: Verdict, _places: Mapping[str, str] | None = None) -> str:
    """One comment: the verdict in bold, eight rows, the rest folded."""
    lines = [_COMMENT, f"**{_headline(verdict)}**"]
    rows = [_row(each) for each in verdict.findings]
    if rows:
        head = ["| | scenario | figure | before | after | change | why |", "|---|---|---|--:|--:|--:|---|"]
        lines += ["", *head, *rows[:_ROWS_IN_COMMENT]]
        if len(rows) > _ROWS_IN_COMMENT:
            more = f"<summary>{len(rows) - _ROWS_IN_COMMENT} more</summary>"
            lines += ["", f"<details>{more}", "", *head, *rows[_ROWS_IN_COMMENT:], "", "</details>"]
    return "\n".join(lines)


def as_github(verdict: Verdict, places: Mapping[str, str]) -> str:
    """Annotations at the files of the scenarios, then the verdict.

    Args:
        verdict: What was found.
        places: The file of each case.
    """
    lines = [
        f"::{'error' if each.fails else 'notice'} file={places.get(each.case, '')},title=podsim check::"
        f"{_escaped(f'{each.kind}: {_title(each)}: {_change(each)} {each.why}')}"
        for each in verdict.findings
    ]
    return "\n".join([*lines, _headline(verdict)])


def as_junit(verdict: Verdict, cases: Sequence[str]) -> str:
    """A suite with a test per case.

    Args:
        verdict: What was found.
        cases: Names of all cases.
    """
    names = list(dict.fromkeys((*cases, *(each.case for each in verdict.findings))))
    failing = {each.case for each in verdict.findings if each.fails}
    suite = ET.Element("testsuite", name="podsim check", tests=str(len(names)), failures=str(len(failing)))
    for name in names:
        test = ET.SubElement(suite, "testcase", classname="podsim", name=name)
        found = [each for each in verdict.findings if each.case == name and each.fails]
        if found:
            failure = ET.SubElement(test, "failure", message=f"{found[0].kind}: {_title(found[0])}")
            failure.text = "\n".join(f"{_title(each)}: {_change(each)}; {each.why}" for each in found)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def as_json(verdict: Verdict) -> str:
    """Everything, for a program."""
    data = {
        "holds": verdict.holds,
        "cases": verdict.case_count,
        "figures": verdict.figure_count,
        "expectations": verdict.expectation_count,
        "findings": [asdict(each) | {"fails": each.fails} for each in verdict.findings],
    }
    return json.dumps(data, indent=2, ensure_ascii=False)


def _headline(verdict: Verdict) -> str:
    what = f"{counted(verdict.case_count, 'scenario')}, {counted(verdict.figure_count, 'figure')}"
    if verdict.expectation_count:
        what += f", {counted(verdict.expectation_count, 'expectation')}"
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
    return f"{finding.case} {finding.metric}".strip()


def _change(finding: Finding) -> str:
    change = "" if finding.change is None else f" ({finding.change:+.2%})"
    return f"{finding.before} → {finding.after or 'nothing'}{change}" if finding.before else finding.after


def _row(finding: Finding) -> str:
    change = "" if finding.change is None else f"{finding.change:+.2%}"
    cells = (finding.kind, finding.case, finding.metric, finding.before, finding.after, change, finding.why)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _escaped(text: str) -> str:
    """As commands of GitHub's runners have it."""
    return text.strip().replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
