"""Verdict of a check for people and pipelines: changes, unmet expectations and their causes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Final
from xml.etree import ElementTree as ET

from podsim import escaped
from podsim._version import __version__
from podsim.errors import PodsimError
from podsim.escaped import line
from podsim.format import format_counted, format_error
from podsim.git import first_change, top_of
from podsim.metrics import NEITHER, SHARE, metric_of
from podsim.report.chart import FASTER, SLOWER, Bar, Bars, Chart, bar_axis
from podsim.report.report import Folded, Report, Section, Tile
from podsim.report.table import Table, columns
from podsim.result.kinds import KINDS
from podsim.scenario.expectations import FITS, Given, expectation
from podsim.scenario.library import data_file
from podsim.scenario.wording import known_here
from podsim.show.answers import JsonAnswer
from podsim.show.markdown import to_markdown
from podsim.study.store import DONE
from podsim.units import parse_quantity

Measured = Mapping[str, Any]
"""Result of a case, as in JSON: `status`, `reason`, `metrics`, `breakdown_ps`, `inputs` and `expect`."""
NOT_READ: Final = "not read"
"""Status of a scenario whose file is wrong."""
BROKEN, UNMET, DRIFT, GAIN, ADDED, REMOVED = "broken", "unmet", "drift", "gain", "added", "removed"
MOVED, MISSING, IMPOSSIBLE = "moved", "missing", "impossible"
KINDS_OF_ISSUE: Final = {
    BROKEN: "worked and now fails, or cannot be read",
    UNMET: "is not as the scenario expects",
    DRIFT: "got worse",
    MOVED: "moved, where neither more nor less is better",
    GAIN: "got better",
    MISSING: "has no figure in the baseline, so that nothing holds it",
    ADDED: "is new",
    REMOVED: "is in the baseline and nowhere else",
    IMPOSSIBLE: "has no figures; nothing was agreed on or expected",
}
"""Meaning of each kind of issue, the most severe first."""
_PASSING: Final = {ADDED, IMPOSSIBLE}
_GRAVITY: Final = {kind: place for place, kind in enumerate(KINDS_OF_ISSUE)}
_CURE: Final = 'agree on what is given with `--accept --reason "…"`, or write `expect:` in the scenarios'
_NAMES: Final = {kind.name: kind.label for kind in KINDS}
_HEADS: Final = ("scenario", "figure", ">before", ">after", ">change", "why")
_MOST_ROWS: Final = 1000
_MOST_BARS: Final = 30
_PERCENT: Final = 100
_ROOM: Final = 1.3
_ROWS_IN_COMMENT: Final = 8
_COMMENT: Final = "<!-- podsim check -->"
"""Mark by which a pipeline finds the comment of an earlier run, to edit it."""


@dataclass(frozen=True)
class Baseline:
    """Reference metrics of a check: the agreed metrics, or the metrics of another revision."""

    scenarios: Mapping[str, Measured] = field(default_factory=dict)  # by case
    tolerance: str = "1 %"  # allowed relative change without an entry in `tolerances`
    tolerances: Mapping[str, str] = field(default_factory=dict)  # by metric, by case, or by `case metric`
    reason: str = ""  # why these metrics were accepted
    version: str = __version__
    is_revision: bool = False  # True for another revision, which may have fewer metrics

    def tolerance_of(self, case: str, metric: str) -> float:
        """Return the allowed relative change of a metric."""
        keys = (key for key in (f"{case} {metric}", case, metric) if key in self.tolerances)
        return parse_quantity(next((self.tolerances[key] for key in keys), self.tolerance), "ratio")

    def for_case(self, case: str) -> Baseline:
        """Return the baseline with the metrics of one case only."""
        return replace(self, scenarios={name: entry for name, entry in self.scenarios.items() if name == case})

    def with_measured(self, scenarios: Mapping[str, Measured], reason: str) -> Baseline:
        """Return a baseline with new metrics, without tolerances that apply to none of them."""
        keys = uses(scenarios)
        tolerances = {key: share for key, share in self.tolerances.items() if key in keys}
        return Baseline(scenarios, self.tolerance, tolerances, reason)


def uses(scenarios: Mapping[str, Measured]) -> set[str]:
    """Return the keys a tolerance may have: cases, metrics, and pairs of both."""
    pairs = {(name, metric) for name, entry in scenarios.items() for metric in entry["metrics"]}
    return {*scenarios, *(metric for _, metric in pairs), *(f"{name} {metric}" for name, metric in pairs)}


@dataclass(frozen=True, slots=True)
class Issue:
    """Finding of a check about a metric or a case."""

    kind: str  # one of `KINDS_OF_ISSUE`
    case: str
    metric: str = ""  # empty if the issue is about the whole case
    before: str = ""  # agreed or expected value
    after: str = ""  # current value
    change: float | None = None  # relative change
    why: str = ""  # kind of time that changed most, and changed inputs
    files: tuple[str, ...] = ()  # changed inputs

    @property
    def fails(self) -> bool:
        """True if the check fails because of this issue."""
        return self.kind not in _PASSING

    @property
    def title(self) -> str:
        """Names of the case and the metric."""
        return line(f"{self.case} {self.metric}")

    @property
    def text_line(self) -> str:
        """Issue as one line of text."""
        change = "" if self.change is None else f" ({self.change:+.2%})"
        after = line(self.after)
        values = f"{line(self.before)} → {after or 'nothing'}{change}" if self.before else after
        return f"{self.kind}: {self.title}: {values}"

    def cells(self) -> tuple[str, ...]:
        """Return a table row for the columns `scenario`, `figure`, `before`, `after`, `change` and `why`."""
        change = "" if self.change is None else format_error(self.change, 2)
        return (*map(line, (self.case, self.metric, self.before, self.after)), change, line(self.why))


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(JsonAnswer):
    """Result of a check.

    Attributes:
        issues: Issues, the most severe first.
        now: Current metrics of each case.
        agreed: Baseline; None if only expectations were checked.
        compared_with: Name of the baseline.
        paths: File of each case.
        home: Folder to which names of inputs are relative.
    """

    COLUMNS: ClassVar = (*(column.name for column in fields(Issue)), "fails")
    issues: Sequence[Issue]
    now: Mapping[str, Measured] = field(default_factory=dict)
    agreed: Baseline | None = None
    compared_with: str = ""
    paths: Mapping[str, Path] = field(default_factory=dict)
    home: Path = Path()

    @property
    def figure_count(self) -> int:
        """Number of compared metrics in all cases."""
        known = {} if self.agreed is None else self.agreed.scenarios
        both = ((known[name], now) for name, now in self.now.items() if name in known and now["status"] != NOT_READ)
        return sum(len({*before["metrics"], *after["metrics"]}) for before, after in both)

    @property
    def expectation_count(self) -> int:
        """Number of checked expectations in all cases."""
        return sum(_checked_count(now["expect"]) for now in self.now.values())

    @property
    def not_compared(self) -> frozenset[str]:
        """Cases that could be read, but have neither a baseline nor expectations."""
        return frozenset(name for name, now in self.now.items() if _is_uncompared(name, now, self.agreed))

    @property
    def is_empty(self) -> bool:
        """True if no case was compared with anything, so that the check proves nothing."""
        return self.holds and len(self.not_compared) == len(self.now)

    @property
    def holds(self) -> bool:
        """True if all metrics are within their tolerances and all expectations are met."""
        return not any(issue.fails for issue in self.issues)

    @property
    def headline(self) -> str:
        """Verdict in one line, with the number of issues of each kind."""
        checked = f"{format_counted(len(self.now), 'scenario')}, {format_counted(self.figure_count, 'figure')}"
        if self.expectation_count:
            checked += f", {format_counted(self.expectation_count, 'expectation')}"
        if self.is_empty:
            return f"nothing was compared: {checked}; {_CURE}"
        counts = ", ".join(f"{len(issues)} {kind}" for kind, issues in self._by_kind().items())
        return f"{'holds' if self.holds else 'does not hold'}: {f'{counts} of ' if counts else ''}{checked}"

    def _by_kind(self) -> dict[str, list[Issue]]:
        return {kind: [*issues] for kind, issues in groupby(self.issues, lambda issue: issue.kind)}

    def report(self) -> Report:
        """Return the verdict as a report: issues by kind, changes of metrics, and all cases."""
        by_kind, chart = self._by_kind(), _change_chart([issue for issue in self.issues if issue.change is not None])
        cases = [
            (name, str(now["status"]), f"{len(now['metrics'])}", _first_line(now["reason"]))
            for name, now in self.now.items()
        ]
        listed = Table(columns("scenario", "status", ">figures", "reason"), cases)
        result = "nothing was compared" if self.is_empty else "holds" if self.holds else "does not hold"
        counts = [Tile(kind.capitalize(), f"{len(same):,}", (KINDS_OF_ISSUE[kind],)) for kind, same in by_kind.items()]
        return Report(
            title=self.headline,
            about=[f"compared with {self.compared_with}, podsim {__version__}"],
            version=__version__,
            inputs=sorted({read for now in self.now.values() for read in now["inputs"].items()}),
            tiles=[Tile("Verdict", result), *counts],
            sections=[
                *([Section("What has moved", [chart], plotted=True)] if chart else []),
                *([Section("Issues", [_table(*same) for same in by_kind.items()], short=True)] if by_kind else []),
                Section("Scenarios", [Folded(f"All {len(cases):,} that were looked at", [listed])]),
            ],
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain types."""
        return {
            "holds": self.holds and not self.is_empty,
            "cases": len(self.now),
            "figures": self.figure_count,
            "expectations": self.expectation_count,
            "findings": self._records(),
        }

    def _summary_lines(self) -> Iterator[str]:
        yield self.headline
        yield from (issue.text_line for issue in self.issues[:3])

    def _records(self) -> list[dict[str, object]]:
        return [asdict(issue) | {"fails": issue.fails} for issue in self.issues]

    def _units(self) -> dict[str, str]:
        return {"change": SHARE}


def _table(kind: str, issues: Sequence[Issue]) -> Table:
    """Return a table of the issues of a kind, without empty columns."""
    rows = [issue.cells() for issue in issues[:_MOST_ROWS]]
    used = [place for place in range(len(_HEADS)) if any(row[place] for row in rows)]
    more = [f"the first {_MOST_ROWS:,} of {len(issues):,}"] * (len(issues) > _MOST_ROWS)
    cells = [[row[place] for place in used] for row in rows]
    return Table(columns(*(_HEADS[place] for place in used)), cells, f"{kind}: {KINDS_OF_ISSUE[kind]}", more)


def _change_chart(issues: Sequence[Issue]) -> Chart | None:
    """Return a bar chart of changes beyond tolerance, the largest first; None without issues."""
    shown = sorted(issues, key=lambda issue: (-abs(issue.change or 0.0), issue.case, issue.metric))[:_MOST_BARS]
    if not shown:
        return None
    heads, fills = [head.strip(">") for head in _HEADS], {"better": FASTER, "worse": SLOWER}
    bars = [
        Bar(
            f"{issue.metric}, {issue.case}",
            *(0.0, _PERCENT * (issue.change or 0.0)),
            fills["better" if issue.kind == GAIN else "worse"],
            tip=dict(zip(heads, issue.cells(), strict=True)),
        )
        for issue in shown
    ]
    return Chart(
        title=f"{shown[0].case}: {shown[0].metric} moved most, {bars[0].tip['change']}",
        description="Bars of the relative change of each figure beyond its tolerance, what moved most first.",
        drawn=Bars(bars, bar_axis("change", "%", bars, _ROOM), {"no change": 0.0}),
        legend=fills,
        notes=[f"The {len(shown)} that moved most, of {len(issues):,}."] if len(issues) > len(shown) else [],
    )


# Issues


def verdict_on(
    now: Mapping[str, Measured],
    agreed: Baseline | None,
    compared_with: str = "",
    paths: Mapping[str, Path] | None = None,
    home: Path = Path(),
) -> Verdict:
    """Return the verdict on cases, by comparison with a baseline and with the expectations in the scenarios.

    Args:
        now: Current metrics of each case.
        agreed: Baseline; None to check only expectations.
        compared_with: Name of the baseline.
        paths: File of each case.
        home: Folder to which names of inputs are relative.
    """
    baseline = {} if agreed is None else agreed.scenarios
    issues = [issue for name, measured in now.items() for issue in _issues(name, measured, agreed)]
    gone = {name: before["status"] for name, before in baseline.items() if name not in now}
    issues += [Issue(REMOVED, name, before=status) for name, status in gone.items() if status != NOT_READ]
    issues.sort(key=lambda issue: (_GRAVITY[issue.kind], -abs(issue.change or 0)))
    name = compared_with or ("what scenarios expect" if agreed is None else "a baseline")
    return Verdict(issues, now, agreed, name, paths or {}, home)


def _issues(name: str, measured: Measured, agreed: Baseline | None) -> Iterator[Issue]:
    """Yield the issues of a case."""
    status, why, expect = measured["status"], _first_line(measured["reason"]), measured["expect"]
    if status == NOT_READ:
        yield Issue(BROKEN, name, after=status, why=why)
        return
    fits = status == DONE
    if expect and fits != expect.get(FITS, True):
        yield Issue(UNMET, name, FITS, str(not fits).lower(), str(fits).lower(), why=why)
    for metric, bounds in expect.items() if fits else ():
        if metric == FITS:
            continue
        wanted, value = expectation(metric, bounds), measured["metrics"].get(metric)
        if value is None:
            cure = known_here(metric, list(measured["metrics"]), "name another")
            yield Issue(UNMET, name, metric, wanted.text, "nothing", why=f"there is no such figure; {cure}")
        elif not wanted.holds(value):
            yield Issue(UNMET, name, metric, wanted.text, _figure(value))
    if agreed is not None and name in agreed.scenarios:
        yield from _case_issues(name, agreed.scenarios[name], measured, agreed)
    elif agreed is not None:
        yield Issue(ADDED, name, after=status)
    elif status != DONE and _is_uncompared(name, measured, agreed):
        yield Issue(IMPOSSIBLE, name, after=status, why=why)


def _is_uncompared(name: str, measured: Measured, agreed: Baseline | None) -> bool:
    has_baseline = agreed is not None and name in agreed.scenarios
    return not has_baseline and measured["status"] != NOT_READ and not _checked_count(measured["expect"])


def _checked_count(expect: Given) -> int:
    """Return the number of expectations to check: only `fits` counts for a case that must not fit."""
    return 1 if expect.get(FITS) is False else len(expect)


def _case_issues(name: str, before: Measured, after: Measured, baseline: Baseline) -> Iterator[Issue]:
    """Yield the differences of a case from its baseline."""
    if before["status"] != after["status"]:
        kind = BROKEN if before["status"] == DONE else GAIN if after["status"] == DONE else DRIFT
        yield Issue(kind, name, "", before["status"], after["status"], why=_first_line(after["reason"]))
        return
    files = _changed(before["inputs"], after["inputs"])
    old_ps, new_ps = before["breakdown_ps"], after["breakdown_ps"]
    changes_ps = {kind: new_ps.get(kind, 0) - old_ps.get(kind, 0) for kind in sorted({*old_ps, *new_ps})}
    most = max(changes_ps, key=lambda kind: abs(changes_ps[kind]), default=None)
    time = (
        f"{_NAMES.get(most, most)} {changes_ps[most] / 1e9:+.3g} ms" if most and changes_ps[most] else "no time moved"
    )
    why = f"{time}; {', '.join(files) if files else 'the code of podsim'}"
    for metric, value in before["metrics"].items():
        new = after["metrics"].get(metric)
        if new is None:
            yield Issue(BROKEN, name, metric, _figure(value), "nothing", why=why, files=files)
            continue
        change = new / value - 1 if value else float(new != value)
        if abs(change) > baseline.tolerance_of(name, metric):
            direction = metric_of(metric).better
            kind = MOVED if direction == NEITHER else GAIN if change * direction > 0 else DRIFT
            yield Issue(kind, name, metric, _figure(value), _figure(new), change, why, files)
    for metric, value in after["metrics"].items():
        if metric not in before["metrics"]:
            yield Issue(ADDED if baseline.is_revision else MISSING, name, metric, after=_figure(value))


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the inputs that changed, by their current names.

    Files of equal content are the same file, whatever their names: earlier versions stored names as typed, and another
    revision is read from another folder.
    """
    same = {*before.values()} & {*after.values()}
    now = [path for path, digest in after.items() if digest not in same and before.get(path) != digest]
    gone = [path for path, digest in before.items() if digest not in same and path not in after]
    ends = [f"/{path}" for path in now]  # one path may be the other one, relative to an inner folder
    gone = [path for path in gone if not any(end.endswith(f"/{path}") or f"/{path}".endswith(end) for end in ends)]
    return tuple(sorted([*now, *gone]))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


# Pipelines


def as_comment(verdict: Verdict) -> str:
    """Return a comment for a pull request: the verdict in bold, eight rows, all other rows folded."""
    rows = [(issue.kind, *issue.cells()) for issue in verdict.issues]
    table = Table(columns("", *_HEADS), rows[:_ROWS_IN_COMMENT])
    lines = [_COMMENT, f"**{verdict.headline}**"]
    if rows:
        lines += ["", to_markdown(table).rstrip()]
    if more := rows[_ROWS_IN_COMMENT:]:
        folded = to_markdown(replace(table, rows=more)).rstrip()
        lines += ["", f"<details><summary>{len(more)} more</summary>", "", folded, "", "</details>"]
    return "".join(f"{text}\n" for text in lines)


def as_github(verdict: Verdict) -> str:
    """Return the verdict, below annotations for GitHub.

    Each changed input has an annotation at its first changed line. An issue without changed inputs is annotated at the
    file of its scenario.
    """
    try:
        top = Path(os.environ.get("GITHUB_WORKSPACE") or top_of(Path.cwd(), "", "")).resolve()
    except PodsimError:
        top = Path.cwd().resolve()

    def shown_path(file: Path) -> str:
        path = file.resolve()
        return path.relative_to(top).as_posix() if path.is_relative_to(top) else str(file)

    lines: dict[str, int | None] = {}  # first changed line, by path
    issues_at: dict[tuple[bool, str], list[Issue]] = {}  # by failure and path
    for issue in verdict.issues:
        places = []
        for name in issue.files:
            file = next((path for path in (verdict.home / name, data_file(name)) if path.is_file()), None)
            if file is None:  # deleted
                continue
            places.append(path := shown_path(file))
            if path not in lines:
                agreed = {} if verdict.agreed is None else verdict.agreed.scenarios[issue.case]["inputs"]
                lines[path] = first_change(file, agreed.values())
        own = verdict.paths.get(issue.case)
        for path in places or ["" if own is None else shown_path(own)]:
            issues_at.setdefault((issue.fails, path), []).append(issue)
    annotations = []
    for (fails, path), issues in issues_at.items():
        place = [f"file={escaped.github(path, of_property=True)}"] if path else []
        place += [f"line={lines[path]}"] if lines.get(path) else []
        more = f"; and {format_counted(len(issues) - 1, 'more finding')}" if len(issues) > 1 else ""
        message = f"{issues[0].text_line} {line(issues[0].why)}".strip() + more
        level = f"::{'error' if fails else 'notice'} {','.join([*place, 'title=podsim check'])}"
        annotations.append(f"{level}::{escaped.github(message)}")
    if verdict.is_empty:
        annotations.append(f"::error title=podsim check::{escaped.github(verdict.headline)}")
    return "".join(f"{text}\n" for text in (*annotations, verdict.headline))


def as_junit(verdict: Verdict) -> str:
    """Return a JUnit suite with a test for each case."""
    names = list(dict.fromkeys((*verdict.now, *(issue.case for issue in verdict.issues))))
    failing = {name: [issue for issue in verdict.issues if issue.case == name and issue.fails] for name in names}
    skipped = {name for name in verdict.not_compared if not failing[name]}
    counts = {"tests": len(names), "failures": sum(map(bool, failing.values())), "skipped": len(skipped)}
    suite = ET.Element("testsuite", {"name": "podsim check"} | {key: str(count) for key, count in counts.items()})
    for name, issues in failing.items():
        test = ET.SubElement(suite, "testcase", classname="podsim", name=escaped.xml(name))
        if issues:
            failure = ET.SubElement(test, "failure", message=escaped.xml(f"{issues[0].kind}: {issues[0].title}"))
            failure.text = escaped.xml("\n".join(f"{issue.text_line}; {line(issue.why)}" for issue in issues))
        elif name in skipped:
            ET.SubElement(test, "skipped", message="nothing was compared")
    ET.indent(suite)
    return f"{ET.tostring(suite, encoding='unicode', xml_declaration=True)}\n"
