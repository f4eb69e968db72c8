"""What has moved since a baseline, what is not as expected, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import PurePath
from typing import ClassVar, Final

from podsim.many.checks.baseline import Baseline
from podsim.many.checks.cases import NOT_READ, Measured, expectations_of
from podsim.many.sweeps.rows import DONE
from podsim.metrics import NEITHER, SHARE, metric_of
from podsim.report.chart import Sheet
from podsim.result.kinds import KINDS
from podsim.scenario.expectations import FITS, Given, expectation
from podsim.scenario.wording import known_here
from podsim.show.answers import Answered, nothing_to_draw
from podsim.show.html_page import to_html

BROKEN, UNMET, DRIFT, GAIN, ADDED, REMOVED = "broken", "unmet", "drift", "gain", "added", "removed"
MOVED, MISSING = "moved", "missing"
IMPOSSIBLE: Final = "impossible"
_MOST_TOLD: Final = 3
KINDS_OF_FINDING: Final = {
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
"""What each kind of finding means, the gravest first."""
_HARMLESS: Final = {ADDED, IMPOSSIBLE}
_NAMES: Final = {kind.name: kind.label for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a reader has to know.

    Attributes:
        kind: One of `KINDS_OF_FINDING`.
        case: The scenario and variant.
        metric: The figure; empty for the case as a whole.
        before: What it was, or what was expected.
        after: What it is.
        change: After ÷ before - 1, where both are numbers.
        why: The kind of time that moved most, and the inputs that changed.
        files: Those inputs.
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
        return self.kind not in _HARMLESS


@dataclass(frozen=True, slots=True, repr=False)
class Verdict(Answered):
    """What a check has found.

    Attributes:
        findings: The gravest first.
        case_count: How many cases were checked.
        figure_count: How many of their figures were compared.
        expectation_count: How many expectations of theirs were looked at.
        not_compared: Cases of which nothing was agreed on or expected.
    """

    COLUMNS: ClassVar = (*(each.name for each in fields(Finding)), "fails")
    findings: Sequence[Finding]
    case_count: int
    figure_count: int
    expectation_count: int = 0
    not_compared: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was compared, so that nothing can be said to hold."""
        return self.holds and len(self.not_compared) == self.case_count

    @property
    def holds(self) -> bool:
        """Whether nothing has moved beyond its tolerance and all is as expected."""
        return not any(each.fails for each in self.findings)

    def _told(self) -> Iterator[str]:
        from podsim.many.checks.show import headline, in_a_line

        yield headline(self)
        yield from map(in_a_line, self.findings[:_MOST_TOLD])

    def _repr_html_(self) -> str:
        """The verdict and what was found, for notebooks."""
        from podsim.many.checks.show import verdict_table

        return to_html(verdict_table(self))

    def _sheet(self) -> Sheet:
        from podsim.many.checks.show import headline, moved_chart

        chart = moved_chart(self.findings)
        if chart is None:
            raise nothing_to_draw("no figure has moved", "print the verdict")
        return Sheet(headline(self), [[chart]])

    def _records(self) -> list[dict[str, object]]:
        """A row for each finding; without any, none."""
        return [asdict(each) | {"fails": each.fails} for each in self.findings]

    def _units(self) -> dict[str, str]:
        return {"change": SHARE}


def check(now: Mapping[str, Measured], baseline: Baseline | None) -> Verdict:
    """Compare what cases give with a baseline, and with what they themselves expect.

    Args:
        now: What each case gives.
        baseline: What was agreed on; None for expectations alone.
    """
    found: list[Finding] = []
    count = 0
    alone: set[str] = set()
    for name, measured in now.items():
        if measured["status"] == NOT_READ:
            found.append(Finding(BROKEN, name, after=NOT_READ, why=_first_line(measured["reason"])))
            continue
        found += _unmet(name, measured)
        agreed = None if baseline is None else baseline.scenarios.get(name)
        if agreed is None and not _looked_at(expectations_of(measured)):
            alone.add(name)
        if baseline is None:
            if measured["status"] != DONE and name in alone:
                found.append(Finding(IMPOSSIBLE, name, after=measured["status"], why=_first_line(measured["reason"])))
        elif agreed is None:
            found.append(Finding(ADDED, name, after=measured["status"]))
        else:
            found += _moved(name, agreed, measured, baseline)
            count += len({*agreed["metrics"], *measured["metrics"]})
    known = {} if baseline is None else baseline.scenarios
    gone = {name: each["status"] for name, each in known.items() if name not in now}
    found += [Finding(REMOVED, name, before=status) for name, status in gone.items() if status != NOT_READ]
    order = list(KINDS_OF_FINDING)
    ranked = sorted(found, key=lambda each: (order.index(each.kind), -abs(each.change or 0)))
    expectations = sum(_looked_at(expectations_of(each)) for each in now.values())
    return Verdict(ranked, len(now), count, expectations, frozenset(alone))


def _looked_at(expect: Given) -> int:
    """How many expectations count: of what is to be impossible, that alone."""
    return 1 if expect.get(FITS) is False else len(expect)


def _unmet(name: str, measured: Measured) -> Iterator[Finding]:
    expect = expectations_of(measured)
    fits = measured["status"] == DONE
    if expect and fits != expect.get(FITS, True):
        yield Finding(UNMET, name, FITS, _flag(not fits), _flag(fits), why=_first_line(measured["reason"]))
    for metric, given in expect.items() if fits else ():
        if metric == FITS:
            continue
        wanted, value = expectation(metric, given), measured["metrics"].get(metric)
        if value is None or not wanted.holds(value):
            near = known_here(metric, list(measured["metrics"]), "name another")
            why = f"there is no such figure; {near}" if value is None else ""
            yield Finding(UNMET, name, metric, wanted.text, "nothing" if value is None else figure(value), why=why)


def _moved(name: str, before: Measured, after: Measured, baseline: Baseline) -> Iterator[Finding]:
    if before["status"] != after["status"]:
        kind = BROKEN if before["status"] == DONE else GAIN if after["status"] == DONE else DRIFT
        yield Finding(kind, name, "", before["status"], after["status"], why=_first_line(after["reason"]))
        return
    changed = _changed(before["inputs"], after["inputs"])
    why = _why(before, after, changed)
    for metric, value in before["metrics"].items():
        new = after["metrics"].get(metric)
        if new is None:
            yield Finding(BROKEN, name, metric, figure(value), "nothing", why=why, files=changed)
            continue
        change = new / value - 1 if value else float(new != value)
        if abs(change) > baseline.tolerance_of(name, metric):
            direction = metric_of(metric).better
            kind = MOVED if direction == NEITHER else GAIN if change * direction > 0 else DRIFT
            yield Finding(kind, name, metric, figure(value), figure(new), change, why, changed)
    for metric in (each for each in after["metrics"] if each not in before["metrics"]):
        kind = ADDED if baseline.is_revision else MISSING
        yield Finding(kind, name, metric, after=figure(after["metrics"][metric]))


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


def _flag(value: object) -> str:
    return str(value).lower()


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]
