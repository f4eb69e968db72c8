"""A verdict for what reads it in a pipeline: a comment on a pull request, GitHub's annotations, JUnit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from podsim import harmless
from podsim.errors import PodsimError
from podsim.format import format_counted
from podsim.git import first_change, top_of
from podsim.report.table import Table, columns
from podsim.show.markdown import to_markdown
from podsim.study.check.cases import Case, input_file
from podsim.study.check.verdict import Issue, Verdict

_ROWS_IN_COMMENT: Final = 8
_COMMENT: Final = "<!-- podsim check -->"
"""By which a comment of an earlier run is found, to be edited in place."""


def as_comment(verdict: Verdict) -> str:
    """One comment: the verdict in bold, eight rows, the rest folded."""
    rows = [(each.kind, *each.cells()) for each in verdict.issues]
    table = Table(columns("", "scenario", "figure", ">before", ">after", ">change", "why"), rows[:_ROWS_IN_COMMENT])
    lines = [_COMMENT, f"**{verdict.headline}**"]
    if rows:
        lines += ["", to_markdown(table).rstrip()]
    if more := rows[_ROWS_IN_COMMENT:]:
        folded = to_markdown(replace(table, rows=more)).rstrip()
        lines += ["", f"<details><summary>{len(more)} more</summary>", "", folded, "", "</details>"]
    return "\n".join(lines)


def as_github(verdict: Verdict, cases: Sequence[Case]) -> str:
    """Annotations, then the verdict: one for each file that changed, at the first line that did where git knows it.

    An issue that no file of its own explains stands at the file of its scenario.
    """
    top = _workspace()
    places = {case.name: _seen_from(top, case.path) for case in cases}
    lines: dict[str, int | None] = {}
    told: dict[tuple[bool, str], list[Issue]] = {}
    for issue in verdict.issues:
        changed = []
        for file in (found for name in issue.files if (found := input_file(name, cases[0].home))):
            changed.append(path := _seen_from(top, file))
            if path not in lines:
                agreed = () if verdict.agreed is None else verdict.agreed.scenarios[issue.case]["inputs"].values()
                lines[path] = first_change(file, partial(_is_one_of, frozenset(agreed)), file.read_bytes())
        for path in changed or [places.get(issue.case, "")]:
            told.setdefault((issue.fails, path), []).append(issue)
    annotations = [
        _annotation("error" if fails else "notice", path, lines.get(path), found)
        for (fails, path), found in told.items()
    ]
    if verdict.is_empty:
        annotations.append(f"::error title=podsim check::{harmless.github(verdict.headline)}")
    return "\n".join([*annotations, verdict.headline])


def _is_one_of(digests: frozenset[str], content: bytes) -> bool:
    return sha256(content).hexdigest() in digests


def _workspace() -> Path:
    """The folder from which GitHub names files: the checkout, or the repository, or where the command runs."""
    try:
        return Path(os.environ.get("GITHUB_WORKSPACE") or top_of(Path.cwd(), "", ""))
    except PodsimError:
        return Path.cwd()


def _seen_from(top: Path, file: Path) -> str:
    path, folder = file.resolve(), top.resolve()
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(file)


def _annotation(level: str, path: str, line: int | None, found: Sequence[Issue]) -> str:
    """One annotation for all that was found at a file, the gravest in words."""
    place = [f"file={harmless.github(path, of_property=True)}"] if path else []
    place += [f"line={line}"] if line else []
    more = f"; and {format_counted(len(found) - 1, 'more finding')}" if len(found) > 1 else ""
    said = f"{found[0].words} {harmless.line(found[0].why)}".strip() + more
    return f"::{level} {','.join([*place, 'title=podsim check'])}::{harmless.github(said)}"


def as_junit(verdict: Verdict) -> str:
    """A suite with a test for each case."""
    names = list(dict.fromkeys((*verdict.now, *(each.case for each in verdict.issues))))
    failing = {each.case for each in verdict.issues if each.fails}
    alone = verdict.not_compared - failing
    counts = {"tests": len(names), "failures": len(failing), "skipped": len(alone)}
    suite = ET.Element("testsuite", {"name": "podsim check"} | {key: str(count) for key, count in counts.items()})
    for name in names:
        test = ET.SubElement(suite, "testcase", classname="podsim", name=harmless.xml(name))
        found = [each for each in verdict.issues if each.case == name and each.fails]
        if found:
            message = harmless.xml(f"{found[0].kind}: {found[0].title}")
            failure = ET.SubElement(test, "failure", message=message)
            failure.text = harmless.xml("\n".join(f"{each.words}; {harmless.line(each.why)}" for each in found))
        elif name in alone:
            ET.SubElement(test, "skipped", message="nothing was compared")
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)
