"""The answer of a study for a reader: the best points and the worst, why others have no figures, and what to mind."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop
from math import isclose, isfinite
from typing import Any, Final

from podsim.format import format_percent
from podsim.many.store import STATUS, Row
from podsim.many.sweeps.chart_words import listed, quantity, short, told, words
from podsim.many.sweeps.names import POINT, REASON, SCENARIO, VARIANT
from podsim.many.sweeps.rows import DONE
from podsim.many.sweeps.run import Swept, status_words
from podsim.metrics import HEADLINES, metric_of
from podsim.report.table import Block, Cell, Cells, Passage, Table, columns

_BEST: Final = 5
_MOST_SAID: Final = 3
_MOST_KEYS: Final = 4
"""More columns do not fit into a line of a terminal."""
_MOST_COMPARED: Final = 20_000
"""Points up to which values without effect are looked for, for which all of them have to be in memory."""
_MOST_GROUPS: Final = 30
_FEW: Final = 3
_SAME: Final = 1e-12
_PLACE: Final = re.compile(r"^.*?\[[^\]]*\]: ")
_NUMBER: Final = re.compile(r"\d[\d.,]*(?: [KMGT]i?B\b)?")


@dataclass(frozen=True, slots=True)
class Said:
    """A text that several points say, numbers apart.

    Attributes:
        count: How many points.
        status: What became of them.
        text: What the first of them says.
    """

    count: int
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class StudyAnswer:
    """The answer of a study.

    Attributes:
        metric: The figure by which points are compared; None where no point has one.
        keys: Columns that vary, of each group that varies together the first.
        count: Points that have the figure.
        best: The best of them, the best first.
        worst: The worst of them.
        reasons: Why points have no figures, the most frequent first.
        warnings: What results warn of, the most frequent first.
        same: Values that make no difference to the figure, as sentences.
    """

    metric: str | None
    keys: Sequence[str]
    count: int
    best: Sequence[Row]
    worst: Row | None
    reasons: Sequence[Said]
    warnings: Sequence[Said]
    same: Sequence[str]

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that a reader must know before using the figures."""
        return (*self.same, *_lines(self.warnings, "warning at {points}: ", "warnings"))


def answer(swept: Swept, metric: str | None = None) -> StudyAnswer:
    """The answer of a study, from its table, which is read once and row by row.

    Args:
        swept: The study.
        metric: The figure by which points are compared; samples or tokens per second by default.
    """
    axes = [axis.keys for axis in swept.space.axes]
    values: dict[str, set[object]] = {key: set() for keys in axes for key in keys}
    best: list[tuple[float, int, Row]] = []
    worst: tuple[float, int, Row] | None = None
    said: dict[str, Counter[tuple[str, str]]] = {"reasons": Counter(), "warnings": Counter()}
    examples: dict[tuple[str, str], str] = {}
    compared: list[Row] | None = []
    count = 0
    for row in swept.rows():
        metric = metric or next((name for name in HEADLINES if name in row), None) or _first_figure(row, swept)
        for key, seen in values.items():
            if len(seen) <= 1:
                seen.add(row.get(key))
        done, status = row[STATUS] == DONE, str(row[STATUS])
        text = row.get("warnings") if done else _PLACE.sub("", str(row[REASON] or "").partition("\n")[0])
        if text:
            alike = status, _NUMBER.sub("#", str(text))
            said["warnings" if done else "reasons"][alike] += 1
            examples.setdefault(alike, str(text))
        value: Any = row.get(metric) if metric else None
        if metric is None or not _is_figure(value):
            continue
        count += 1
        ranked = (-metric_of(metric).rank(value), -int(row[POINT]), row)
        (heappush if len(best) < _BEST else heappushpop)(best, ranked)
        worst = ranked if worst is None else min(worst, ranked)
        if compared is not None:
            compared.append(row)
            compared = compared if len(compared) <= _MOST_COMPARED else None
    varied = [[key for key in axis if len(values[key]) > 1] for axis in axes]
    # Of keys that vary together the first tells the others.
    keys = [key for axis in varied for key in (axis if SCENARIO in axis else axis[:1])]
    found = {
        name: [Said(number, alike[0], examples[alike]) for alike, number in counts.most_common()]
        for name, counts in said.items()
    }
    crossed = [tuple(axis) for axis in varied if axis]
    same = list(_without_effect(compared or [], crossed, metric))[:_MOST_SAID] if metric else []
    ordered = [row for *_, row in sorted(best, key=lambda each: each[:2], reverse=True)]
    return StudyAnswer(metric, keys, count, ordered, worst and worst[2], found["reasons"], found["warnings"], same)


def _first_figure(row: Row, swept: Swept) -> str | None:
    """The first column of figures, where there is none that is usual."""
    known = [name for name in row if name not in swept.space.keys]
    after = known[known.index(REASON) + 1 :] if REASON in known else []
    return next((name for name in after if _is_figure(row[name])), None)


def _is_figure(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value)


def _without_effect(rows: Sequence[Row], axes: Sequence[tuple[str, ...]], metric: str) -> Iterator[str]:
    """Values of a key at which the figure is the same, whatever the other keys are."""
    for axis in axes:
        others = [key for other in axes if other is not axis for key in other]
        at: dict[object, dict[tuple[object, ...], float]] = {}
        for row in rows:
            at.setdefault(row[axis[0]], {})[tuple(row[key] for key in others)] = row[metric]
        groups: list[tuple[list[object], dict[tuple[object, ...], float]]] = []
        for value, figures in at.items():
            for alike, known in groups:
                both = known.keys() & figures.keys()
                if both and all(isclose(known[each], figures[each], rel_tol=_SAME) for each in both):
                    alike.append(value)
                    known |= figures
                    break
            else:
                groups.append(([value], dict(figures)))
            if len(groups) > _MOST_GROUPS:
                break
        what, name = quantity(metric, 1.0).name, axis[0]
        for alike, _ in groups:
            if len(alike) == len(at) > 1:
                yield f"{name} changes nothing here: {what} is the same at all {len(at):,} values"
            elif len(alike) >= _FEW or (len(alike) > 1 and not any(map(_is_figure, alike))):
                yield f"{what} is the same for {name} {listed([short(each) for each in alike])}"


def _lines(said: Sequence[Said], begin: str, column: str) -> Iterator[str]:
    """The most frequent of what points say; how many others say something else."""
    for each in said[:_MOST_SAID]:
        points = f"{each.count:,} point{'s' * (each.count != 1)}"
        yield (
            begin.format(points=points, status=status_words(each.status, each.count), count=f"{each.count:,}")
            + each.text
        )
    if left := sum(each.count for each in said[_MOST_SAID:]):
        yield f"{left:,} more say something else: see the column `{column}` of the table"


def place(answer: StudyAnswer, row: Row) -> str:
    """Where a point stands: its values of the keys that vary."""
    return ", ".join(f"{words(key)} {_value(key, row.get(key))}" for key in answer.keys) or "the only point"


def _value(key: str, value: object) -> str:
    return "none" if value is None and key == VARIANT else short(value)


def best_and_worst(answer: StudyAnswer) -> Iterator[str]:
    """The best point and the worst, a line each; nothing where none has the figure."""
    metric = answer.metric
    if metric is None or answer.worst is None:
        return
    best, worst = answer.best[0], answer.worst
    if best[metric] == worst[metric] and answer.count > 1:
        yield f"All    {told(metric, best[metric])} at each of {answer.count:,} points"
        return
    yield f"Best   {told(metric, best[metric])} at {place(answer, best)}"
    if answer.count > 1:
        yield f"Worst  {told(metric, worst[metric])} at {place(answer, worst)}"


def answer_tables(answer: StudyAnswer) -> Iterator[Block]:
    """The best point, the worst and a few between them, then what to mind, and why points have no figures."""
    metric = answer.metric
    yield from map(Passage, best_and_worst(answer))
    differs = metric is not None and answer.worst is not None and answer.best[0][metric] != answer.worst[metric]
    if metric is not None and differs and answer.count >= _FEW and 0 < len(answer.keys) <= _MOST_KEYS:
        yield Passage("")
        yield _table(answer, metric)
        yield Passage("")
    for line in _lines(answer.reasons, "{count} {status}: ", REASON):
        yield Passage(line)
    for line in answer.notes:
        yield Passage(line, style="yellow")


def _table(answer: StudyAnswer, metric: str) -> Table:
    found = [*answer.best, *([] if answer.worst in answer.best or answer.worst is None else [answer.worst])]
    shown = quantity(metric, max(abs(row[metric]) for row in found))
    rows: list[Cells] = []
    for row in found:
        share = row[metric] / found[0][metric] if found[0][metric] else 1.0
        values = (_value(key, row.get(key)) for key in answer.keys)
        figure = Cell(short(row[metric] / shown.divisor), row[metric] / shown.divisor)
        rows.append((f"{row[POINT]:,}", *values, figure, Cell(format_percent(share), share)))
    count = len(answer.best)
    title = f"The best {count} of {answer.count:,} points" + ", and the worst" * (len(rows) > count)
    title = title if count < answer.count else f"All {count} points, the best first"
    return Table(columns(">point", *map(words, answer.keys), f">{shown.label}", ">of the best"), rows, title)
