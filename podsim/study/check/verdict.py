"""What has moved since a baseline, what is not as expected, and why: the verdict of a check."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import PurePath
from typing import ClassVar, Final

from podsim._version import __version__
from podsim.format import format_counted, format_error
from podsim.harmless import line
from podsim.metrics import NEITHER, SHARE, metric_of
from podsim.report.chart import FASTER, SLOWER, Axis, Bar, Bars, Chart
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Table, columns
from podsim.result.kinds import KINDS
from podsim.scenario.expectations import FITS, Given, expectation
from podsim.scenario.wording import known_here
from podsim.show.answers import Answered
from podsim.study.check.baseline import Baseline
from podsim.study.check.cases import NOT_READ, Measured
from podsim.study.store import DONE

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
"""What each kind of issue means, the gravest first."""
_PASSING: Final = {ADDED, IMPOSSIBLE}
_CURE: Final = 'agree on what is given with `--accept --reason "…"`, or write `expect:` in the scenarios'
_NAMES: Final = {kind.name: kind.label for kind in KINDS}
_HEADS: Final = ("scenario", "figure", ">before", ">after", ">change", "why")
_MOST_TOLD: Final = 3
_MOST_ROWS: Final = 1000
_MOST_BARS: Final = 30
_PERCENT: Final = 100
_ROOM: Final = 1.3


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that a reader has to know: what a figure of a case, or the case as a whole, was or should be, and is.

    Why is the kind of time that moved most, and the inputs that changed.
    """

    kind: str
    case: str
    metric: str = ""
    before: str = ""
    after: str = ""
    change: float | None = None
    why: str = ""
    files: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Whether the check does not hold because of it."""
        return self.kind not in _PASSING

    @property
    def title(self) -> str:
        """The scenario and the figure."""
        return line(f"{self.case} {self.metric}")

    @property
    def words(self) -> str:
        """What was found, in a line."""
        change = "" if self.change is None else f" ({self.change:+.2%})"
        after = line(self.after)
        moved = f"{line(self.before)} → {after or 'nothing'}{change}" if self.before else after
        return f"{self.kind}: {self.title}: {moved}"

    def cells(self) -> tuple[str, ...]:
        """A row of a table, below `scenario`, `figure`, `before`, `after`, `change` and `why`."""
        change = "" if self.change is None else format_error(self.change, 2)
        return (*map(line, (self.case, self.metric, self.before, self.after)), change, line(self.why))


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Answered):
    """What a check has found.

    Attributes:
        issues: The gravest first.
        now: What each case gives.
        agreed: What that was compared with; None for expectations alone.
        compared_with: The same in words.
    """

    COLUMNS: ClassVar = (*(each.name for each in fields(Issue)), "fails")
    issues: Sequence[Issue]
    now: Mapping[str, Measured] = field(default_factory=dict)
    agreed: Baseline | None = None
    compared_with: str = ""

    @property
    def figure_count(self) -> int:
        """How many figures of the cases were compared."""
        known = {} if self.agreed is None else self.agreed.scenarios
        both = ((known[name], each) for name, each in self.now.items() if name in known and each["status"] != NOT_READ)
        return sum(len({*before["metrics"], *after["metrics"]}) for before, after in both)

    @property
    def expectation_count(self) -> int:
        """How many expectations of the cases were looked at."""
        return sum(_looked_at(each["expect"]) for each in self.now.values())

    @property
    def not_compared(self) -> frozenset[str]:
        """Cases that could be read, and of which nothing was agreed on or expected."""
        return frozenset(name for name, each in self.now.items() if _is_alone(name, each, self.agreed))

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was compared, so that nothing can be said to hold."""
        return self.holds and len(self.not_compared) == len(self.now)

    @property
    def holds(self) -> bool:
        """Whether nothing has moved beyond its tolerance and all is as expected."""
        return not any(each.fails for each in self.issues)

    @property
    def headline(self) -> str:
        """The verdict in a line."""
        what = f"{format_counted(len(self.now), 'scenario')}, {format_counted(self.figure_count, 'figure')}"
        if self.expectation_count:
            what += f", {format_counted(self.expectation_count, 'expectation')}"
        if self.is_empty:
            return f"nothing was compared: {what}; {_CURE}"
        counts = ", ".join(f"{len(found)} {kind}" for kind, found in self._by_kind())
        return f"{'holds' if self.holds else 'does not hold'}: {f'{counts} of ' if counts else ''}{what}"

    def _by_kind(self) -> Iterator[tuple[str, list[Issue]]]:
        for kind in KINDS_OF_ISSUE:
            if found := [each for each in self.issues if each.kind == kind]:
                yield kind, found

    def report(self) -> Report:
        """The verdict as data: the issues by their kind, how far figures have moved, and all cases."""
        chart = _moved_chart([each for each in self.issues if each.change is not None])
        counts = [
            Tile(kind.capitalize(), f"{len(found):,}", (KINDS_OF_ISSUE[kind],)) for kind, found in self._by_kind()
        ]
        told = "nothing was compared" if self.is_empty else "holds" if self.holds else "does not hold"
        return Report(
            title=self.headline,
            about=[f"compared with {self.compared_with}, podsim {__version__}"],
            version=__version__,
            inputs=sorted(
                {path: digest for each in self.now.values() for path, digest in each["inputs"].items()}.items()
            ),
            tiles=[Tile("Verdict", told), *counts],
            sections=[
                *([Section("What has moved", [chart], plotted=True)] if chart else []),
                *([Section("Issues", [_table(*each) for each in self._by_kind()], short=True)] if self.issues else []),
                Section("Scenarios", [_cases(self.now)]),
            ],
        )

    def to_dict(self) -> dict[str, object]:
        """Plain types only."""
        return {
            "holds": self.holds and not self.is_empty,
            "cases": len(self.now),
            "figures": self.figure_count,
            "expectations": self.expectation_count,
            "findings": self._records(),
        }

    def to_json(self) -> str:
        """The verdict as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def _told(self) -> Iterator[str]:
        yield self.headline
        yield from (each.words for each in self.issues[:_MOST_TOLD])

    def _records(self) -> list[dict[str, object]]:
        """A row for each issue; without any, none."""
        return [asdict(each) | {"fails": each.fails} for each in self.issues]

    def _units(self) -> dict[str, str]:
        return {"change": SHARE}


def _table(kind: str, found: Sequence[Issue]) -> Table:
    """Issues of a kind, without columns in which there is nothing."""
    rows = [each.cells() for each in found[:_MOST_ROWS]]
    used = [place for place in range(len(_HEADS)) if any(row[place] for row in rows)]
    more = [f"the first {_MOST_ROWS:,} of {len(found):,}"] * (len(found) > _MOST_ROWS)
    cells = [[row[place] for place in used] for row in rows]
    return Table(columns(*(_HEADS[place] for place in used)), cells, f"{kind}: {KINDS_OF_ISSUE[kind]}", more)


def _cases(now: Mapping[str, Measured]) -> Part:
    rows = [
        (name, str(each["status"]), f"{len(each['metrics'])}", _first_line(each["reason"]))
        for name, each in now.items()
    ]
    return Folded(
        f"All {len(rows):,} that were looked at", [Table(columns("scenario", "status", ">figures", "reason"), rows)]
    )


def _moved_chart(moved: Sequence[Issue]) -> Chart | None:
    """Bars of how far figures have moved beyond their tolerance, the furthest first; None where none has."""
    ranked = sorted(moved, key=lambda each: (-abs(each.change or 0.0), each.case, each.metric))
    if not ranked:
        return None
    shown, fills = ranked[:_MOST_BARS], {"better": FASTER, "worse": SLOWER}
    changes = [_PERCENT * (each.change or 0.0) for each in shown]
    told = [dict(zip((head.strip(">") for head in _HEADS), each.cells(), strict=True)) for each in shown]
    bars = [
        Bar(f"{each.metric}, {each.case}", 0.0, change, fills["better" if each.kind == GAIN else "worse"], tip=tip)
        for each, change, tip in zip(shown, changes, told, strict=True)
    ]
    ends = (min(0.0, *changes) * _ROOM, max(0.0, *changes) * _ROOM)
    return Chart(
        title=f"{shown[0].case}: {shown[0].metric} moved most, {told[0]['change']}",
        description="Bars of the relative change of each figure beyond its tolerance, what moved most first.",
        drawn=Bars(bars, Axis("change", "%", ends), {"no change": 0.0}),
        legend=fills,
        notes=[f"The {len(shown)} that moved most, of {len(moved):,}."] if len(moved) > len(shown) else [],
    )


# What is found


def verdict_on(now: Mapping[str, Measured], agreed: Baseline | None, compared_with: str = "") -> Verdict:
    """Compare what cases give with what was agreed on, in words something, and with what they themselves expect."""
    known = {} if agreed is None else agreed.scenarios
    found = [issue for name, each in now.items() for issue in _issues(name, each, agreed)]
    gone = {name: each["status"] for name, each in known.items() if name not in now}
    found += [Issue(REMOVED, name, before=status) for name, status in gone.items() if status != NOT_READ]
    order = list(KINDS_OF_ISSUE)
    ranked = sorted(found, key=lambda each: (order.index(each.kind), -abs(each.change or 0)))
    return Verdict(ranked, now, agreed, compared_with or ("what scenarios expect" if agreed is None else "a baseline"))


def _issues(name: str, measured: Measured, agreed: Baseline | None) -> Iterator[Issue]:
    status, why = measured["status"], _first_line(measured["reason"])
    if status == NOT_READ:
        yield Issue(BROKEN, name, after=status, why=why)
        return
    yield from _unmet(name, measured)
    if agreed is not None and name in agreed.scenarios:
        yield from _moved(name, agreed.scenarios[name], measured, agreed)
    elif agreed is not None:
        yield Issue(ADDED, name, after=status)
    elif status != DONE and _is_alone(name, measured, agreed):
        yield Issue(IMPOSSIBLE, name, after=status, why=why)


def _is_alone(name: str, measured: Measured, agreed: Baseline | None) -> bool:
    known = agreed is not None and name in agreed.scenarios
    return not known and measured["status"] != NOT_READ and not _looked_at(measured["expect"])


def _looked_at(expect: Given) -> int:
    """How many expectations count: of what is to be impossible, that alone."""
    return 1 if expect.get(FITS) is False else len(expect)


def _unmet(name: str, measured: Measured) -> Iterator[Issue]:
    expect: Given = measured["expect"]
    fits = measured["status"] == DONE
    if expect and fits != expect.get(FITS, True):
        why = _first_line(measured["reason"])
        yield Issue(UNMET, name, FITS, str(not fits).lower(), str(fits).lower(), why=why)
    for metric, given in expect.items() if fits else ():
        if metric == FITS:
            continue
        wanted, value = expectation(metric, given), measured["metrics"].get(metric)
        if value is None:
            near = known_here(metric, list(measured["metrics"]), "name another")
            yield Issue(UNMET, name, metric, wanted.text, "nothing", why=f"there is no such figure; {near}")
        elif not wanted.holds(value):
            yield Issue(UNMET, name, metric, wanted.text, figure(value))


def _moved(name: str, before: Measured, after: Measured, baseline: Baseline) -> Iterator[Issue]:
    if before["status"] != after["status"]:
        kind = BROKEN if before["status"] == DONE else GAIN if after["status"] == DONE else DRIFT
        yield Issue(kind, name, "", before["status"], after["status"], why=_first_line(after["reason"]))
        return
    changed = _changed(before["inputs"], after["inputs"])
    why = _why(before, after, changed)
    for metric, value in before["metrics"].items():
        new = after["metrics"].get(metric)
        if new is None:
            yield Issue(BROKEN, name, metric, figure(value), "nothing", why=why, files=changed)
            continue
        change = new / value - 1 if value else float(new != value)
        if abs(change) > baseline.tolerance_of(name, metric):
            direction = metric_of(metric).better
            kind = MOVED if direction == NEITHER else GAIN if change * direction > 0 else DRIFT
            yield Issue(kind, name, metric, figure(value), figure(new), change, why, changed)
    for metric, value in after["metrics"].items():
        if metric not in before["metrics"]:
            yield Issue(ADDED if baseline.is_revision else MISSING, name, metric, after=figure(value))


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Inputs that are not what they were, by the names that they have now.

    A file of the same content under another name is the same file: earlier versions wrote down names as they were
    typed, and another revision is read from another folder.
    """
    same = {*before.values()} & {*after.values()}
    now = [path for path, digest in after.items() if digest not in same and before.get(path) != digest]
    gone = [path for path, digest in before.items() if digest not in same and path not in after]
    return tuple(sorted([*now, *(path for path in gone if not any(_is_end(path, each) for each in now))]))


def _is_end(one: str, other: str) -> bool:
    """Whether one of two paths is the other as seen from a folder in it."""
    short, long = sorted((PurePath(one).parts, PurePath(other).parts), key=len)
    return long[-len(short) :] == short


def _why(before: Measured, after: Measured, changed: Sequence[str]) -> str:
    """The kind of time that moved most, and the inputs that are not what they were."""
    kinds = {*before["breakdown_ps"], *after["breakdown_ps"]}
    moves = {kind: after["breakdown_ps"].get(kind, 0) - before["breakdown_ps"].get(kind, 0) for kind in sorted(kinds)}
    most = max(moves, key=lambda kind: abs(moves[kind]), default=None)
    time = f"{_NAMES.get(most, most)} {moves[most] / 1e9:+.3g} ms" if most and moves[most] else "no time moved"
    return f"{time}; {', '.join(changed) if changed else 'the code of podsim'}"


def figure(value: float) -> str:
    """A number for readers."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]
