"""The answer of a study: the best points, a chart over the keys that vary, and what could not be simulated.

The table is read once and row by row, however long it is; what an answer shows of it is kept.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import Any, Final

from podsim._version import __version__
from podsim.errors import PodsimError
from podsim.format import format_ends, format_percent
from podsim.metrics import HEADLINES, HIGH, LOW, METRICS, PER_SECOND, THROUGHPUT, UPDATE, find_metric, metric_of
from podsim.report.chart import (
    INK,
    LOOKS,
    NO_FIGURE,
    Axis,
    Bar,
    Bars,
    Chart,
    Curves,
    Fill,
    Key,
    Mark,
    Series,
    Study,
    WayOver,
    band,
    in_proportion,
    is_wide,
)
from podsim.report.report import Folded, Report, Section, Tile
from podsim.report.table import Cell, Cells, Column, Table, columns
from podsim.runs import run
from podsim.scenario.wording import known_here
from podsim.study.store import STATUS, Row
from podsim.study.sweep.chart_words import listed, numbers_and_unit, quantity, short, told, words
from podsim.study.sweep.names import COLUMNS, POINT, REASON, SCENARIO, VARIANT
from podsim.study.sweep.rows import DONE
from podsim.study.sweep.space import StudySpace
from podsim.study.sweep.spec import MeasuredSpec, Value

_BEST, _LISTED, _DRAWN = 5, 500, 5_000
"""Points of the table of the best, of longer tables, and of a chart."""
_MOST_COMPARED: Final = 20_000
"""Points up to which values without effect are looked for, for which all of them have to be in memory."""
_MOST_VALUES: Final = 1_000
"""Values of a key that are counted."""
_MOST_SAID, _MOST_GROUPS, _FEW = 3, 30, 3
_MOST_LINES, _MOST_PANELS, _MOST_TICKS = 4, 6, 10
_SAME: Final = 1e-12
_FULL: Final = 0.5
"""A grid of which fewer cells are filled was not crossed, but sampled."""
_DIGITS: Final = 6
_ROOM: Final = 1.25
"""Room beside bars for their numbers, as a share of the longest."""
_BELOW: Final = 1.5
"""Points without a figure stand so far below the least of a logarithmic axis."""
_COUNTS: Final = ("ipus", "replicas", "replication_factor", "machine_count")
"""Last parts of keys over which a rate would at best be proportional."""
_PLACE: Final = re.compile(r"^.*?\[[^\]]*\]: ")
_NUMBER: Final = re.compile(r"\d[\d.,]*(?: [KMGT]i?B\b)?")
_COUNTED: Final = {"does not fit": "Points that do not fit", "no plan": "Points without a plan"}


def counts_told(by_status: Mapping[str, int]) -> str:
    """How many points there are, and what became of them.

    >>> counts_told({"done": 15, "does not fit": 10}), counts_told({"does not fit": 1})
    ('25 points: 15 done, 10 do not fit', '1 point: 1 does not fit')
    """
    count = sum(by_status.values())
    parts = ", ".join(f"{each:,} {_status(status, each)}" for status, each in by_status.items())
    return f"{count:,} point{'s' * (count != 1)}: {parts}"


def _status(status: str, count: int) -> str:
    return "do not fit" if status == "does not fit" and count != 1 else status


def study_report(
    space: StudySpace,
    rows: Iterable[Row],
    by_status: Mapping[str, int],
    inputs: Sequence[tuple[str, str]],
    metric: str | None = None,
) -> Report:
    """The answer of a study.

    Args:
        space: Its points.
        rows: Its table.
        by_status: How many rows there are by what became of them.
        inputs: (path, SHA-256) of every file read.
        metric: Column by which points are compared; samples or tokens per second by default.

    Raises:
        PodsimError: There is no such column of numbers.
    """
    count = sum(by_status.values())
    seen = _Seen(space, metric, count)
    for number, row in enumerate(rows):
        seen.add(number, row)
    if metric is not None and seen.numbers and metric not in seen.numbers:
        raise no_column(metric, list(seen.numbers))
    study = space.study
    scenarios = ", ".join([study.scenario] if isinstance(study.scenario, str) else study.scenario)
    varying = [f"{key} with {count} values" for key, count in seen.keys.items()]
    title = study.description or f"A study of {scenarios}"
    return Report(
        title=title,
        about=(
            f"{scenarios}, podsim {__version__}",
            f"Varies: {'; '.join(varying) or 'nothing'}",
            counts_told(by_status),
        ),
        version=__version__,
        inputs=inputs,
        verdict=list(seen.verdict()),
        warnings=[*seen.without_effect(), *seen.warnings()],
        tiles=list(_tiles(seen, by_status)),
        sections=list(_sections(space, seen, by_status)),
    )


class _Seen:
    """What one pass over the table of a study finds."""

    def __init__(self, space: StudySpace, metric: str | None, count: int) -> None:
        self.metric, self.count = metric, 0
        self.numbers: dict[str, None] = {}
        self.drawn: list[Row] = []
        self.left_out: list[Row] = []
        self.reasons, self._warnings = _Said(), _Said()
        self._others, self._every = {*COLUMNS, "warnings", *space.keys}, -(-count // _DRAWN)
        self._values: dict[str, set[object]] = {key: set() for key in space.crossed}
        self._best: list[tuple[float, int, Row]] = []
        self.worst: tuple[float, int, Row] | None = None
        self._compared: list[Row] = []

    def add(self, number: int, row: Row) -> None:
        """Take account of a row, of which this is the place in the table."""
        for key, known in self._values.items():
            if len(known) < _MOST_VALUES:
                known.add(row.get(key))
        for name, value in row.items():
            if name not in self.numbers and name not in self._others and _is_figure(value):
                self.numbers[name] = None
        if self.metric is None:
            self.metric = next((name for name in HEADLINES if name in row), next(iter(self.numbers), None))
        if number % self._every == 0:
            self.drawn.append(row)
        if row[STATUS] == DONE:
            self._warnings.add("", row.get("warnings"))
        else:
            self.reasons.add(str(row[STATUS]), _PLACE.sub("", str(row[REASON] or "").partition("\n")[0]))
            if len(self.left_out) < _LISTED:
                self.left_out.append(row)
        value = _figure(row, self.metric)
        if self.metric is None or value is None:
            return
        self.count += 1
        ranked = (-metric_of(self.metric).rank(value), -int(row[POINT]), row)
        (heappush if len(self._best) < _LISTED else heappushpop)(self._best, ranked)
        self.worst = ranked if self.worst is None else min(self.worst, ranked)
        if len(self._compared) <= _MOST_COMPARED:
            self._compared.append(row)

    @property
    def keys(self) -> dict[str, str]:
        """Keys that vary, of each group that varies together the first, and how many values they have."""
        counts = {key: len(known) for key, known in self._values.items() if len(known) > 1}
        return {key: f"{count:,}" + " or more" * (count == _MOST_VALUES) for key, count in counts.items()}

    @property
    def best(self) -> list[Row]:
        """The best points, the best first; not more than are listed."""
        return [row for *_, row in sorted(self._best, key=lambda each: each[:2], reverse=True)]

    def at(self, row: Row) -> str:
        """Where a point stands."""
        return ", ".join(f"{words(key)} {_text(key, row.get(key))}" for key in self.keys) or "the only point"

    def value_of(self, row: Row) -> str:
        """The figure of a point, with its range where it is known."""
        assert self.metric is not None
        between = _between(self.metric, row)
        return told(self.metric, row[self.metric]) + f" ({between})" * bool(between)

    def verdict(self) -> Iterator[str]:
        """The best point and the worst; nothing where none has the figure."""
        if self.metric is None or self.worst is None:
            return
        best, worst, name = self.best[0], self.worst[2], quantity(self.metric, 1.0).name
        if best[self.metric] == worst[self.metric] and self.count > 1:
            yield f"{name} {told(self.metric, best[self.metric])} at each of {self.count:,} points"
            return
        end = f"; worst {self.value_of(worst)} at {self.at(worst)}" if self.count > 1 else ""
        yield f"best {name} {self.value_of(best)} at {self.at(best)}{end}"

    def warnings(self) -> Iterator[str]:
        """What results warn of, the most frequent first."""
        most, left = self._warnings.first()
        for count, _, text in most:
            yield f"at {count:,} point{'s' * (count != 1)}: {text}"
        if left:
            yield f"{left:,} more points warn of something else: see the column `warnings` of the table"

    def without_effect(self) -> list[str]:
        """Values of a key at which the figure is the same, whatever the other keys are, as sentences."""
        if self.metric is None or len(self._compared) > _MOST_COMPARED:
            return []
        return [line for key in self.keys for line in self._without_effect(key, self.metric)][:_MOST_SAID]

    def _without_effect(self, key: str, metric: str) -> Iterator[str]:
        others = [other for other in self.keys if other != key]
        at: dict[object, dict[tuple[object, ...], float]] = {}
        for row in self._compared:
            at.setdefault(row[key], {})[tuple(row[other] for other in others)] = row[metric]
        groups: list[tuple[list[object], dict[tuple[object, ...], float]]] = []
        for value, figures in at.items():
            for alike, known in groups:
                both = known.keys() & figures.keys()
                if both and all(math.isclose(known[each], figures[each], rel_tol=_SAME) for each in both):
                    alike.append(value)
                    known |= figures
                    break
            else:
                groups.append(([value], dict(figures)))
            if len(groups) > _MOST_GROUPS:
                break
        what = quantity(metric, 1.0).name
        for alike, _ in groups:
            if len(alike) == len(at) > 1:
                yield f"{key} changes nothing here: {what} is the same at all {len(at):,} values"
            elif len(alike) >= _FEW or (len(alike) > 1 and not any(map(_is_figure, alike))):
                yield f"{what} is the same for {key} {listed([short(each) for each in alike])}"


class _Said(Counter[tuple[str, str]]):
    """What points say by what became of them, numbers apart, with the first of those that say the same."""

    def __init__(self) -> None:
        super().__init__()
        self._examples: dict[tuple[str, str], str] = {}

    def add(self, status: str, text: object) -> None:
        if text:
            alike = status, _NUMBER.sub("#", str(text))
            self[alike] += 1
            self._examples.setdefault(alike, str(text))

    def first(self) -> tuple[list[tuple[int, str, str]], int]:
        """How many points say what, the most frequent first; and how many say something else."""
        most = [(count, alike[0], self._examples[alike]) for alike, count in self.most_common(_MOST_SAID)]
        return most, self.total() - sum(count for count, *_ in most)


def _is_figure(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _text(key: str, value: object) -> str:
    nothing = "no variant" if key == VARIANT else "none"
    return nothing if value is None or value != value else short(value)


def _range_of(row: Row, metric: str) -> tuple[float, float] | None:
    low, high = row.get(metric + LOW), row.get(metric + HIGH)
    return None if low is None or high is None else (low, high)


def _between(metric: str, row: Row) -> str:
    """The range of a figure beside its value; empty where it is not known."""
    ends = _range_of(row, metric)
    return f"80 %: {format_ends(metric_of(metric), row[metric], *ends)}" if ends else ""


def _tiles(seen: _Seen, by_status: Mapping[str, int]) -> Iterator[Tile]:
    if seen.metric is not None and seen.count:
        metric, best = metric_of(seen.metric), seen.best[0]
        notes = [f"at {seen.at(best)}"] if seen.keys else []
        notes += [text for text in [_between(seen.metric, best)] if text]
        which = "Most" if metric.more_is_better else "Least"
        yield Tile(f"{which} {metric.words}", told(seen.metric, best[seen.metric]), tuple(notes))
    total = sum(by_status.values())
    for status, count in by_status.items():
        yield Tile(_COUNTED.get(status, f"Points {status}"), f"{count:,}", (f"of {total:,}",))


def _sections(space: StudySpace, seen: _Seen, by_status: Mapping[str, int]) -> Iterator[Section]:
    metric, count, best = seen.metric, seen.count, seen.best
    if metric is not None and count:
        drawn = sorted({row[POINT]: row for row in (*seen.drawn, best[0])}.values(), key=lambda row: int(row[POINT]))
        total = sum(by_status.values())
        notes = [f"{len(drawn):,} of {total:,} points are shown, evenly chosen, and the best."]
        title = f"The best {len(best):,} of {count:,} points" if len(best) < count else "The points, the best first"
        numbers = _table(seen, metric, best, title)
        chart = study_chart(space, drawn, metric, notes if len(drawn) < total else (), numbers)
        if chart is not None:
            yield Section("Over the keys", [chart], plotted=True)
        few = best[:_BEST]
        if count > len(few):
            title = f"The best {_BEST} of {count:,} points, and the worst"
            few = [*few, seen.worst[2]] if seen.worst is not None else few
        yield Section("Points", [_table(seen, metric, few, title)], short=True)
    said, left = seen.reasons.first()
    if said:
        more = [f"{left:,} more say something else: see the column `{REASON}` of the table"] if left else []
        reasons = [(f"{each:,}", _status(status, each), text) for each, status, text in said]
        title = "What could not be simulated"
        cells = [
            (str(row[POINT]), *(_text(key, row.get(key)) for key in seen.keys), row[STATUS], str(row[REASON] or ""))
            for row in seen.left_out
        ]
        heads = columns(">point", *map(words, seen.keys), "status", "reason")
        short_of = sum(each for status, each in by_status.items() if status != DONE)
        all_of_them = "Each of them" if len(cells) == short_of else f"The first {len(cells):,} of {short_of:,}"
        table = Table(columns(">points", "status", "why"), reasons, title, more)
        yield Section(title, [table, Folded(all_of_them, [Table(heads, cells)])], short=True)


def _table(seen: _Seen, metric: str, rows: Sequence[Row], title: str) -> Table:
    """Points with the figure, its range where it is known, and how it compares with the first of them."""
    shown, best = quantity(metric, max(abs(row[metric]) for row in rows)), rows[0][metric]
    heads = [*columns(">point", *map(words, seen.keys)), Column(shown.label, is_number=True)]
    has_ranges = any(_range_of(row, metric) for row in rows)
    cells: list[Cells] = []
    for row in rows:
        share, ends = row[metric] / best if best else 1.0, _range_of(row, metric)
        between = " to ".join(short(each / shown.divisor) for each in ends) if ends else "–"
        cells.append(
            (
                f"{row[POINT]:,}",
                *(_text(key, row.get(key)) for key in seen.keys),
                Cell(short(row[metric] / shown.divisor), row[metric] / shown.divisor),
                *([between] if has_ranges else ()),
                Cell(format_percent(share), share),
            )
        )
    return Table([*heads, *columns(*[">80 %"] * has_ranges, ">of the best")], cells, title)


# The chart


def study_chart(
    space: StudySpace, rows: Sequence[Row], metric: str, notes: Sequence[str] = (), numbers: Table | None = None
) -> Chart | None:
    """A figure over the keys that vary; None where none does.

    Lines for a key of numbers, one for each value of a key of a few words; bars for words alone; a heat map for two
    keys, and one for each value of a third; dots for samples; parallel axes for more.

    Args:
        space: The points.
        rows: Those that are drawn.
        metric: Column of the figure.
        notes: What is said below it.
        numbers: What is said beside it.
    """
    found = [_key(rows, name) for name in space.crossed]
    keys = [key for key in found if len(key.values) > 1]
    if not keys:
        return None
    numeric, of_words = [key for key in keys if key.numbers], [key for key in keys if not key.numbers]
    drawn: Curves | Bars | Study
    if len(keys) == len(of_words) == 1:
        what, drawn = "Bars", _bars(keys[0], rows, metric)
    elif len(numeric) == 1 and (not of_words or (len(of_words) == 1 and len(of_words[0].values) <= _MOST_LINES)):
        what, drawn = "Lines", _lines(space, numeric[0], of_words, rows, metric)
        keys = [*numeric, *of_words]
    else:
        over, keys = _drawn_over(keys, len(rows))
        what, drawn = over.value.capitalize(), _study(over, keys, rows, metric)
        said = {
            WayOver.HEAT_MAP: "Grey: could not be simulated, has no such figure, or is not part of the study.",
            WayOver.PARALLEL: "A line is a point of the study, its colour the figure.",
        }
        notes = [said[over], *notes] if over in said else notes
    named = [key.axis.label for key in keys]
    over_keys = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    description = f"{what} of the figure over {over_keys}."
    return Chart(f"Over {over_keys}", description, drawn, numbers=numbers, notes=notes)


def _key(rows: Sequence[Row], name: str) -> Key:
    """A key with its values in order: numbers by size, words in the order in which they appear."""
    given = [_text(name, None) if row.get(name) is None else row[name] for row in rows]
    found = list(dict.fromkeys(given))
    numbers = numbers_and_unit(found)
    unit = numbers[1] if numbers else ""
    if numbers:
        found = [value for _, value in sorted(zip(numbers[0], found, strict=True), key=lambda each: each[0])]
    texts = [short(value).removesuffix(f" {unit}") if unit else short(value) for value in found]
    if len(set(texts)) < len(texts):  # numbers that few digits do not tell apart
        texts = [str(value).removesuffix(f" {unit}") if unit else str(value) for value in found]
    places = {value: place for place, value in enumerate(found)}
    ordered = sorted(numbers[0]) if numbers else []
    return Key(name, Axis(words(name), unit), texts, ordered, [places[value] for value in given])


def _drawn_over(keys: list[Key], count: int) -> tuple[WayOver, list[Key]]:
    """The way to draw a figure over several keys, and the order in which it takes them."""
    by_count = sorted(keys, key=lambda key: len(key.values))
    split, inner = (by_count[:1], by_count[1:]) if len(keys) == 3 else ([], by_count)
    is_full = count >= _FULL * math.prod(len(key.values) for key in keys)
    if is_full and len(inner) == 2 and (not split or len(split[0].values) <= _MOST_PANELS):
        return WayOver.HEAT_MAP, [*inner, *split]
    if len(keys) == 2 and all(key.numbers for key in keys):
        return WayOver.DOTS, by_count
    return WayOver.PARALLEL, keys


def _figure(row: Row, metric: str | None) -> float | None:
    value: Any = row.get(metric or "")
    return float(value) if _is_figure(value) else None


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _study(over: WayOver, keys: Sequence[Key], rows: Sequence[Row], metric: str) -> Study:
    values = [_figure(row, metric) for row in rows]
    shown = quantity(metric, max(abs(value) for value in values if value is not None))
    return Study(
        over,
        keys,
        Axis(shown.name, shown.unit),
        [None if value is None else _rounded(value / shown.divisor) for value in values],
        points=[int(row[POINT]) for row in rows],
        statuses=[str(row[STATUS]) for row in rows],
        more_is_better=metric_of(metric).more_is_better,
    )


def _bars(key: Key, rows: Sequence[Row], metric: str) -> Bars:
    values = [_figure(row, metric) for row in rows]
    largest = max(abs(value) for value in values if value is not None)
    shown = quantity(metric, largest)
    bars = []
    for place in sorted(range(len(rows)), key=key.at.__getitem__):
        value, status = values[place], str(rows[place][STATUS])
        text = f"{short(value / shown.divisor)} {shown.unit}".rstrip() if value is not None else status
        text = "no figure" if value is None and status == DONE else text
        tip = {key.name: key.values[key.at[place]], shown.name: text, POINT: str(rows[place][POINT])}
        end = 0.0 if value is None else _rounded(value / shown.divisor)
        bars.append(Bar(key.values[key.at[place]], 0.0, end, Fill(LOOKS[0][0]), text, tip=tip))
    least = min(0.0, *(bar.end for bar in bars))
    return Bars(bars, Axis(shown.name, shown.unit, (least * _ROOM, largest / shown.divisor * _ROOM or 1.0)))


def _lines(space: StudySpace, key: Key, of_words: Sequence[Key], rows: Sequence[Row], metric: str) -> Curves:
    """Over a key of numbers, a line for each value of a key of words; with bands, what is ideal and what was measured.

    Where the key counts IPUs or replicas both axes are logarithmic, and a rate is ideal in proportion to the first.
    """
    measured = list(measured_points(space.study.measured, metric))
    known = [value for row in rows if (value := _figure(row, metric)) is not None]
    shown = quantity(metric, max(abs(value) for value in (*known, *(value for _, value in measured))))
    at, values = [key.numbers[each] for each in key.at], [_figure(row, metric) for row in rows]
    scales = key.name.rpartition(".")[2] in _COUNTS and metric_of(metric).unit == PER_SECOND
    lines, bands = [], []
    for number, name in enumerate(of_words[0].values if of_words else [shown.name]):
        those = [each for each in range(len(rows)) if not of_words or of_words[0].at[each] == number]
        those = sorted((each for each in those if values[each] is not None), key=at.__getitem__)
        if not those:
            continue
        colour, marker, dashes = LOOKS[number % len(LOOKS)]
        x, y = [at[each] for each in those], [_rounded((values[each] or 0.0) / shown.divisor) for each in those]
        ranges = [_range_of(rows[each], metric) for each in those]
        scaled = [each and (each[0] / shown.divisor, each[1] / shown.divisor) for each in ranges]
        tips = [
            {key.axis.title: key.values[key.at[each]], shown.label: short(height), POINT: str(rows[each][POINT])}
            for each, height in zip(those, y, strict=True)
        ]
        label = f"{of_words[0].axis.title}: {name}" if of_words and of_words[0].name != SCENARIO else name
        dash = dashes if dashes[1] else ()
        lines.append(Series(label, Mark.LINE, x, y, colour, dash, marker, tips))
        bands += band(f"{label}, 80 %", x, scaled, colour)
    first = min(lines, key=lambda line: line.x[0])
    ends = first.x[0], max(line.x[-1] for line in lines)
    ideal = [in_proportion("in proportion", ends, first.y)] if scales and ends[1] > ends[0] > 0 else []
    places: Any = numbers_and_unit([each for each, _ in measured])
    if measured and places:
        heights = [_rounded(value / shown.divisor) for _, value in measured]
        lines.append(Series("measured", Mark.POINTS, places[0], heights, INK, marker="diamond"))
    x_all, y_all = sorted({x for line in lines for x in line.x} | {*at}), [y for line in lines for y in line.y]
    is_log = is_wide(x_all) or (scales and x_all[0] > 0)
    y_log = is_log and (is_wide(y_all) or scales) and min(y_all) > 0
    if missing := [each for each, value in enumerate(values) if value is None]:
        what = " or ".join(sorted({str(rows[each][STATUS]) for each in missing} - {DONE})) or "no such figure"
        foot = min(y_all) / _BELOW if y_log else 0.0
        tips = [{"status": str(rows[each][STATUS]), POINT: str(rows[each][POINT])} for each in missing]
        feet = [at[each] for each in missing], [foot] * len(missing)
        lines.append(Series(what, Mark.POINTS, *feet, NO_FIGURE, marker="cross", tips=tips))
    ticks = x_all if len(x_all) <= _MOST_TICKS else ()
    x_axis = Axis(key.axis.label, key.axis.unit, is_log=is_log, from_zero=False, ticks=ticks)
    return Curves([*bands, *ideal, *lines], x_axis, Axis(shown.name, shown.unit, is_log=y_log, from_zero=not y_log))


def measured_points(given: Sequence[MeasuredSpec], metric: str) -> Iterator[tuple[Value, float]]:
    """Where each scenario stands in a chart of a figure, and what was published of it; others are passed over.

    A rate follows from the time of a weight update, whose samples are known.
    """
    for each in given:
        result = run(each.scenario)
        known = {reference.quantity: reference.measured for reference in reversed(result.references)}
        rate, update = (dict(result.figures()).get(name) for name in (THROUGHPUT, UPDATE))
        if metric in known:
            yield each.at, known[metric]
        elif metric == THROUGHPUT and UPDATE in known and rate is not None and update is not None:
            yield each.at, rate * update / known[UPDATE]


# Figures that are not there


def no_column(column: str, numbers: Sequence[str]) -> PodsimError:
    """The error about a figure that no point has."""
    what = f"the table has no column of numbers `{column}`"
    return PodsimError(what, where="--metric", do=known_here(column, list(numbers), "use another"))


def check_metric(metric: str) -> None:
    """Refuse a column that no table has, before the whole study is simulated.

    Raises:
        PodsimError: It is no figure of results.
    """
    if find_metric(metric) is None:
        raise no_column(metric, list(METRICS))
