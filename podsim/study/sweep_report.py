"""Report of a study: the best points, a chart over the keys that vary, and the points that failed.

The table is read once, row by row; only the rows to show are kept.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from typing import Any, Final

from podsim import metrics
from podsim._version import __version__
from podsim.errors import PodsimError
from podsim.format import format_bytes, format_ends, format_figure, format_percent
from podsim.metrics import HIGH, LOW, find_metric, metric_of
from podsim.report import chart
from podsim.report.report import Folded, Report, Section, Tile
from podsim.report.table import Cell, Cells, Column, Table, columns
from podsim.runs import run
from podsim.scenario.wording import known_here
from podsim.study.expression import number_of
from podsim.study.points import MeasuredSpec, StudySpace, Value, number_and_unit, short
from podsim.study.store import COLUMNS, DONE, POINT, REASON, SCENARIO, STATUS, VARIANT, Row

_BEST, _LISTED, _DRAWN = 5, 500, 5_000  # most points of the table of best points, of longer tables, and of a chart
_MOST_COMPARED: Final = 20_000
"""Most points for which keys without effect are detected, because all points have to be in memory."""
_MOST_MESSAGES, _MOST_LINES, _MOST_PANELS, _MOST_TICKS = 3, 4, 6, 10
_SAME: Final = 1e-12
_FULL: Final = 0.5  # share of filled cells below which a grid was sampled
_DIGITS: Final = 6
_ROOM: Final = 1.25  # length of an axis over the longest bar, for the numbers
_BELOW: Final = 1.5  # factor below the smallest value at which points without the metric are drawn
_COUNTS: Final = ("ipus", "replicas", "replication_factor", "machine_count")
"""Last parts of keys of counts, to which a rate is ideally proportional."""
_PLACE: Final = re.compile(r"^.*?\[[^\]]*\]: ")
_NUMBER: Final = re.compile(r"\d[\d.,]*(?: [KMGT]i?B\b)?")
_COUNTED: Final = {"does not fit": "Points that do not fit", "no plan": "Points without a plan"}
_UNITS_OF_AXES: Final = {
    metrics.SECONDS: ((7200, 3600.0, "h"), (300, 60.0, "min"), (1, 1.0, "s"), (1e-3, 1e-3, "ms"), (0, 1e-6, "µs")),
    metrics.BYTES: ((2.0**30, 2.0**30, "GiB"), (0.0, 2.0**20, "MiB")),
    metrics.PER_SECOND: ((1e5, 1000.0, "1,000 "), (0.0, 1.0, "")),
}
"""Units of axes by unit of a metric: largest value from which on each is used, divisor, and name."""
_SHORT: Final = {"ipu": "IPU", "ipus": "IPUs", "gw": "GW", "mfu": "MFU", "llama": "LLaMa"}
_MessageCounts = dict[tuple[str, str], list[Any]]
"""Number of points, status and first text, by status and text without numbers."""


# Text


def counts_text(by_status: Mapping[str, int]) -> str:
    """Return the summary line of completed, failed and skipped points.

    >>> counts_text({"done": 15, "does not fit": 10}), counts_text({"does not fit": 1})
    ('25 points: 15 done, 10 do not fit', '1 point: 1 does not fit')
    """
    parts = ", ".join(f"{count:,} {_status(status, count)}" for status, count in by_status.items())
    return f"{_points(sum(by_status.values()))}: {parts}"


def _points(count: int) -> str:
    return f"{count:,} point{'s' * (count != 1)}"


def _status(status: str, count: int) -> str:
    return "do not fit" if status == "does not fit" and count != 1 else status


def quantity(metric: str, most: float = 1.0) -> tuple[chart.Axis, float]:
    """Return the axis of a metric with largest value `most`, and the divisor that converts values to its unit.

    >>> axis, divisor = quantity("throughput_samples_per_s", 250_000.0)
    >>> axis.title, divisor
    ('throughput [1,000 samples/s]', 1000.0)
    """
    entry = find_metric(metric)
    if entry is None:
        return chart.Axis(key_text(metric)), 1.0
    if entry.unit not in _UNITS_OF_AXES:
        return chart.Axis(entry.label, entry.unit if entry.unit in (metrics.WATTS, metrics.JOULES) else ""), 1.0
    divisor, unit = next((size, text) for least, size, text in _UNITS_OF_AXES[entry.unit] if most >= least)
    if entry.unit == metrics.PER_SECOND:
        return chart.Axis("rate" if entry.label == entry.counted else entry.label, f"{unit}{entry.counted}/s"), divisor
    return chart.Axis(entry.label, unit), divisor


def metric_text(metric: str, value: float) -> str:
    """Format a metric with its unit, as all commands write it.

    >>> metric_text("throughput_samples_per_s", 250_000.0), metric_text("time_to_train_s", 90.0)
    ('250,000 samples/s', '90 s')
    """
    entry = metric_of(metric)
    if entry.unit == metrics.BYTES:
        return format_bytes(value)
    return f"{format_figure(entry, value)} {f'{entry.counted}/s' * (entry.unit == metrics.PER_SECOND)}".rstrip()


def key_text(name: str) -> str:
    """Return the last two parts of a key path as text, or the last one of a short path.

    >>> key_text("system.machine.ipu_link.bandwidth_per_direction"), key_text("parallelism.replication_factor")
    ('IPU link: bandwidth per direction', 'replication factor')
    """
    parts = name.split(".")
    last = parts[-2:] if len(parts) > 2 else parts[-1:]
    return ": ".join(" ".join(_SHORT.get(word, word) for word in part.split("_")) for part in last)


def _joined(texts: Sequence[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def _value_text(key: str, value: object) -> str:
    missing = "no variant" if key == VARIANT else "none"
    return missing if value is None or value != value else short(value)  # `value != value`: not a number


def no_column(column: str, numbers: Sequence[str]) -> PodsimError:
    """Return the error for a metric that is not among the columns of numbers."""
    what = f"the table has no column of numbers `{column}`"
    return PodsimError(what, where="--metric", do=known_here(column, list(numbers), "use another"))


def check_metric(metric: str) -> None:
    """Raise `PodsimError` for an unknown metric; callers check this before the study is simulated."""
    if find_metric(metric) is None:
        raise no_column(metric, list(metrics.METRICS))


# The report


def study_report(
    space: StudySpace,
    rows: Iterable[Row],
    by_status: Mapping[str, int],
    inputs: Sequence[tuple[str, str]],
    metric: str | None = None,
) -> Report:
    """Return the report of a study.

    Args:
        space: Points of the study.
        rows: Rows of the table, read once.
        by_status: Number of rows by status.
        inputs: (path, SHA-256) of every file read.
        metric: Metric to compare points by; samples or tokens per second by default.

    Raises:
        PodsimError: No point has this metric.
    """
    table = _TableStatistics(space, rows, by_status, metric)
    scenarios = ", ".join(space.study.scenarios)
    varying = "; ".join(f"{key} with {count:,} values" for key, count in table.keys.items())
    about = f"{scenarios}, podsim {__version__}", f"Varies: {varying or 'nothing'}", counts_text(by_status)
    return Report(
        title=space.study.description or f"A study of {scenarios}",
        about=about,
        version=__version__,
        inputs=inputs,
        verdict=list(table.verdict()),
        warnings=[*table.without_effect(), *table.warnings()],
        tiles=list(table.tiles()),
        sections=list(table.sections()),
    )


class _TableStatistics:
    """Statistics of a study's table, collected in one pass, and the parts of its report."""

    def __init__(
        self, space: StudySpace, rows: Iterable[Row], by_status: Mapping[str, int], metric: str | None
    ) -> None:
        self._space, self._by_status, self._metric = space, by_status, metric or ""
        self._total, self._count = sum(by_status.values()), 0
        self._drawn: list[Row] = []  # evenly chosen rows for the chart
        self._failed: list[Row] = []  # the first rows of points that were not simulated
        self._compared: list[Row] = []  # rows with the metric, up to a number
        self._reasons: _MessageCounts = {}
        self._warnings: _MessageCounts = {}
        values: dict[str, set[object]] = {key: set() for key in space.crossed}
        numbers: dict[str, None] = {}
        best: list[tuple[float, int, Row]] = []
        worst: tuple[float, int, Row] | None = None
        others, drawn_every = {*COLUMNS, "warnings", *space.keys}, -(-self._total // _DRAWN)
        for place, row in enumerate(rows):
            for key, values_of_key in values.items():
                values_of_key.add(row.get(key))
            new = (name for name in row.keys() - numbers.keys() - others if _figure(row, name) is not None)
            numbers |= dict.fromkeys(sorted(new, key=list(row).index))
            self._metric = self._metric or next((name for name in (*metrics.HEADLINES, *numbers) if name in row), "")
            if place % drawn_every == 0:
                self._drawn.append(row)
            if row[STATUS] == DONE:
                _count(self._warnings, DONE, row.get("warnings"))
            else:
                _count(self._reasons, row[STATUS], _PLACE.sub("", str(row[REASON] or "").partition("\n")[0]))
                self._failed += [row] * (len(self._failed) < _LISTED)
            if (figure := _figure(row, self._metric)) is not None:
                self._count += 1
                ranked = (-metric_of(self._metric).rank(figure), -int(row[POINT]), row)
                (heappush if len(best) < _LISTED else heappushpop)(best, ranked)
                worst = ranked if worst is None else min(worst, ranked)
                self._compared += [row] * (len(self._compared) <= _MOST_COMPARED)
        if metric is not None and numbers and metric not in numbers:
            raise no_column(metric, list(numbers))
        self._best = [row for *_, row in sorted(best, reverse=True)]
        self._worst = worst[2] if worst else {}
        self.keys = {key: len(distinct) for key, distinct in values.items() if len(distinct) > 1}
        """Number of values of each key that varies."""

    def _values(self, row: Row) -> list[str]:
        return [_value_text(key, row.get(key)) for key in self.keys]

    def _point_text(self, row: Row) -> str:
        pairs = zip(map(key_text, self.keys), self._values(row), strict=True)
        return ", ".join(map(" ".join, pairs)) or "the only point"

    def _range_text(self, row: Row) -> str:
        """Return the range of the metric at a point, such as `80 %: 3.1 to 3.3`; empty if unknown."""
        ends = _range_of(row, self._metric)
        return f"80 %: {format_ends(metric_of(self._metric), row[self._metric], *ends)}" if ends else ""

    def verdict(self) -> Iterator[str]:
        """Yield the best point and the worst; nothing if no point has the metric."""
        if not self._count:
            return

        def value_at(row: Row) -> str:
            interval = self._range_text(row)
            return f"{metric_text(metric, row[metric])}{f' ({interval})' * bool(interval)} at {self._point_text(row)}"

        metric, best, name = self._metric, self._best[0], quantity(self._metric)[0].label
        if best[metric] == self._worst[metric] and self._count > 1:
            yield f"{name} {metric_text(metric, best[metric])} at each of {self._count:,} points"
        else:
            yield f"best {name} {value_at(best)}" + f"; worst {value_at(self._worst)}" * (self._count > 1)

    def warnings(self) -> Iterator[str]:
        """Yield the warnings of results, the most frequent first."""
        most, left = _most_frequent(self._warnings)
        yield from (f"at {_points(count)}: {text}" for count, _, text in most)
        if left:
            yield f"{left:,} more points warn of something else: see the column `warnings` of the table"

    def without_effect(self) -> Iterator[str]:
        """Yield a warning for each key that does not change the metric, whatever the values of the other keys."""
        if len(self._compared) > _MOST_COMPARED:
            return
        for key in self.keys:
            by_others: dict[tuple[object, ...], dict[object, float]] = {}
            for row in self._compared:
                others = tuple(row[other] for other in self.keys if other != key)
                by_others.setdefault(others, {})[row[key]] = row[self._metric]
            compared = {value for figures in by_others.values() if len(figures) > 1 for value in figures}
            ends = [(min(figures.values()), max(figures.values())) for figures in by_others.values()]
            same = all(math.isclose(low, high, rel_tol=_SAME) for low, high in ends)
            if same and compared and compared == {row[key] for row in self._compared}:
                what = quantity(self._metric)[0].label
                yield f"{key} changes nothing here: {what} is the same at all {len(compared):,} values"

    def tiles(self) -> Iterator[Tile]:
        """Yield the best value and the number of points by status."""
        if self._count:
            metric, best = metric_of(self._metric), self._best[0]
            notes = (f"at {self._point_text(best)}" if self.keys else "", self._range_text(best))
            label = f"{'Most' if metric.more_is_better else 'Least'} {metric.phrase}"
            yield Tile(label, metric_text(self._metric, best[self._metric]), tuple(filter(None, notes)))
        for status, count in self._by_status.items():
            yield Tile(_COUNTED.get(status, f"Points {status}"), f"{count:,}", (f"of {self._total:,}",))

    def sections(self) -> Iterator[Section]:
        """Yield the chart, the best points and the worst, and the points that were not simulated."""
        count, best = self._count, self._best
        if count:
            by_point = {int(row[POINT]): row for row in (*self._drawn, best[0])}
            drawn = [by_point[point] for point in sorted(by_point)]
            some = f"{len(drawn):,} of {self._total:,} points are shown, evenly chosen, and the best."
            title = f"The best {len(best):,} of {count:,} points" if len(best) < count else "The points, the best first"
            notes = [some] if len(drawn) < self._total else []
            if drawing := _study_chart(self._space, drawn, self._metric, notes, self._table(best, title)):
                yield Section("Over the keys", [drawing], plotted=True)
            if count > _BEST:
                title, best = f"The best {_BEST} of {count:,} points, and the worst", [*best[:_BEST], self._worst]
            yield Section("Points", [self._table(best, title)], short=True)
        frequent, left = _most_frequent(self._reasons)
        if frequent:
            title = "What could not be simulated"
            reasons = [(f"{many:,}", _status(status, many), text) for many, status, text in frequent]
            more = [f"{left:,} more say something else: see the column `{REASON}` of the table"] if left else []
            table = Table(columns(">points", "status", "why"), reasons, title, more)
            cells = [(str(row[POINT]), *self._values(row), row[STATUS], row[REASON] or "") for row in self._failed]
            heads = columns(">point", *map(key_text, self.keys), "status", "reason")
            failed = self._total - self._by_status.get(DONE, 0)
            fold_title = "Each of them" if len(cells) == failed else f"The first {len(cells):,} of {failed:,}"
            yield Section(title, [table, Folded(fold_title, [Table(heads, cells)])], short=True)

    def _table(self, rows: Sequence[Row], title: str) -> Table:
        """Return a table of points: the metric, its range if known, and its ratio to the first row."""
        metric, best = self._metric, rows[0][self._metric]
        axis, divisor = quantity(metric, max(abs(row[metric]) for row in rows))
        ranged = any(_range_of(row, metric) for row in rows)
        cells: list[Cells] = []
        for row in rows:
            share, ends = row[metric] / best if best else 1.0, _range_of(row, metric)
            interval = " to ".join(short(end / divisor) for end in ends) if ends else "–"
            figure = Cell(short(row[metric] / divisor), row[metric] / divisor)
            point: Cells = [f"{row[POINT]:,}", *self._values(row), figure]
            cells.append([*point, *[interval] * ranged, Cell(format_percent(share), share)])
        heads = [*columns(">point", *map(key_text, self.keys)), Column(axis.title, is_number=True)]
        return Table([*heads, *columns(*[">80 %"] * ranged, ">of the best")], cells, title)


def _count(counts: _MessageCounts, status: str, text: object) -> None:
    """Count a text; texts that differ only in numbers are counted together."""
    if text:
        counts.setdefault((status, _NUMBER.sub("#", str(text))), [0, status, str(text)])[0] += 1


def _most_frequent(counts: _MessageCounts) -> tuple[list[list[Any]], int]:
    """Return number, status and text of the most frequent texts, and the number of points with other texts."""
    ranked = sorted(counts.values(), key=lambda entry: -entry[0])
    return ranked[:_MOST_MESSAGES], sum(count for count, *_ in ranked[_MOST_MESSAGES:])


def _figure(row: Row, name: str) -> float | None:
    """Return a column's finite number at a point, or None."""
    value: Any = row.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def _range_of(row: Row, metric: str) -> tuple[float, float] | None:
    low, high = row.get(metric + LOW), row.get(metric + HIGH)
    return None if low is None or high is None else (low, high)


# The chart


def _study_chart(
    space: StudySpace, rows: Sequence[Row], metric: str, notes: Sequence[str], numbers: Table
) -> chart.Chart | None:
    """Return a chart of a metric over the keys that vary; None if no key varies.

    One key of numbers gives a line, and a second key with a few texts a line for each text. One key of texts gives
    bars. Two keys give a heat map, for each value of a third. Samples give dots, and more keys parallel axes.
    """
    keys = [key for key in (_key(rows, name) for name in space.crossed) if len(key.values) > 1]
    if not keys:
        return None
    numeric, textual = [key for key in keys if key.numbers], [key for key in keys if not key.numbers]
    is_lines = len(numeric) == 1 and (not textual or (len(textual) == 1 and len(textual[0].values) <= _MOST_LINES))
    measured = list(measured_points(space.study.measured, metric)) if is_lines else []
    values = [_figure(row, metric) for row in rows]
    shown = [*(value for value in values if value is not None), *(value for _, value in measured)]
    axis, divisor = quantity(metric, max(map(abs, shown)))
    heights = [None if value is None else _rounded(value / divisor) for value in values]
    drawn: chart.Curves | chart.Bars | chart.Study
    if len(keys) == len(textual) == 1:
        name, drawn = "Bars", _bars(keys[0], rows, heights, axis)
    elif is_lines:
        keys = [*numeric, *textual]
        published = [(place, _rounded(value / divisor)) for place, value in measured]
        name, drawn = "Lines", _lines(keys, rows, heights, axis, divisor, metric, published)
    else:
        plot, keys = _plot_and_keys(keys, len(rows))
        name, points, statuses = plot.value.capitalize(), [row[POINT] for row in rows], [row[STATUS] for row in rows]
        drawn = chart.Study(plot, keys, axis, heights, points, statuses, metric_of(metric).more_is_better)
        explained = {
            chart.StudyPlot.HEAT_MAP: "Grey: could not be simulated, has no such figure, or is not part of the study.",
            chart.StudyPlot.PARALLEL: "A line is a point of the study, its colour the figure.",
        }
        notes = [explained[plot], *notes] if plot in explained else notes
    over_keys = _joined([key.axis.label for key in keys])
    return chart.Chart(
        f"Over {over_keys}", f"{name} of the figure over {over_keys}.", drawn, numbers=numbers, notes=notes
    )


def _numbers_and_unit(values: Sequence[Any]) -> tuple[list[float], str] | None:
    """Return numbers in their common unit, or else in the SI base unit; None if a value is not a number.

    >>> _numbers_and_unit(["8 GB/s", "12.5 GB/s"]), _numbers_and_unit([4, 16]), _numbers_and_unit(["a", 2])
    (([8.0, 12.5], 'GB/s'), ([4.0, 16.0], ''), None)
    """
    pairs = [number_and_unit(value) for value in values]
    if all(pairs) and len({pair[1] for pair in pairs if pair}) == 1:
        return [pair[0] for pair in pairs if pair], next(pair[1] for pair in pairs if pair)
    numbers = [number_of(value) for value in values]
    if any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in numbers):
        return None
    return [float(number) for number in numbers], ""


def _key(rows: Sequence[Row], name: str) -> chart.Key:
    """Return a key with its values in order: numbers by size, texts by first appearance."""
    values_of_rows = [_value_text(name, None) if row.get(name) is None else row[name] for row in rows]
    values = list(dict.fromkeys(values_of_rows))
    numbers, unit = _numbers_and_unit(values) or ([], "")
    if numbers:
        values = [value for _, value in sorted(zip(numbers, values, strict=True), key=lambda pair: pair[0])]
    texts = [short(value).removesuffix(f" {unit}") if unit else short(value) for value in values]
    if len(set(texts)) < len(texts):  # numbers that are equal with few digits
        texts = [str(value).removesuffix(f" {unit}") if unit else str(value) for value in values]
    places = {value: place for place, value in enumerate(values)}
    indices = [places[value] for value in values_of_rows]
    return chart.Key(name, chart.Axis(key_text(name), unit), texts, sorted(numbers), indices)


def _plot_and_keys(keys: list[chart.Key], count: int) -> tuple[chart.StudyPlot, list[chart.Key]]:
    """Return the kind of chart for several keys and `count` points, and the keys in the order of the chart."""
    by_count = sorted(keys, key=lambda key: len(key.values))
    split, inner = (by_count[:1], by_count[1:]) if len(keys) == 3 else ([], by_count)
    is_full = count >= _FULL * math.prod(len(key.values) for key in keys)
    if is_full and len(inner) == 2 and (not split or len(split[0].values) <= _MOST_PANELS):
        return chart.StudyPlot.HEAT_MAP, [*inner, *split]
    if len(keys) == 2 and all(key.numbers for key in keys):
        return chart.StudyPlot.DOTS, by_count
    return chart.StudyPlot.PARALLEL, keys


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _bars(key: chart.Key, rows: Sequence[Row], heights: Sequence[float | None], axis: chart.Axis) -> chart.Bars:
    bars = []
    for place in sorted(range(len(rows)), key=key.at.__getitem__):
        row, height, status = rows[place], heights[place], str(rows[place][STATUS])
        missing = "no figure" if status == DONE else status
        text = missing if height is None else f"{short(height)} {axis.unit}".rstrip()
        value = key.values[key.at[place]]
        tip = {key.name: value, axis.label: text, POINT: str(row[POINT])}
        bars.append(chart.Bar(value, 0.0, height or 0.0, chart.Fill(chart.LOOKS[0][0]), text, tip=tip))
    return chart.Bars(bars, chart.bar_axis(axis.label, axis.unit, bars, _ROOM))


def _lines(
    keys: Sequence[chart.Key],
    rows: Sequence[Row],
    heights: Sequence[float | None],
    axis: chart.Axis,
    divisor: float,
    metric: str,
    measured: Sequence[tuple[Value, float]],
) -> chart.Curves:
    """Return lines over a key of numbers, one for each value of a key of texts if there is one.

    If the key counts IPUs or replicas and the metric is a rate, both axes are logarithmic, and a line shows the rate in
    proportion to the count.

    Args:
        keys: The key of numbers, then the key of texts.
        rows: Rows of the points.
        heights: The metric of each row in the unit of the axis, None if missing.
        axis: Axis of the metric.
        divisor: Size of the axis's unit in the SI unit.
        metric: Name of the metric.
        measured: Positions and heights of measured scenarios.
    """
    key, *textual = keys
    x_of_rows = [key.numbers[place] for place in key.at]
    scales = key.name.rpartition(".")[2] in _COUNTS and metric_of(metric).unit == metrics.PER_SECOND
    lines, bands = [], []
    for number, name in enumerate(textual[0].values if textual else [axis.label]):
        points = [(x_of_rows[place], height, place) for place, height in enumerate(heights) if height is not None]
        points = [point for point in points if not textual or textual[0].at[point[2]] == number]
        if not points:
            continue
        points.sort(key=lambda point: point[0])
        colour, marker, dashes = chart.LOOKS[number % len(chart.LOOKS)]
        x, y = [point[0] for point in points], [point[1] for point in points]
        ends = [_range_of(rows[place], metric) for *_, place in points]
        ranges = [interval and (interval[0] / divisor, interval[1] / divisor) for interval in ends]
        tips = [
            {key.axis.title: key.values[key.at[place]], axis.title: short(height), POINT: str(rows[place][POINT])}
            for _, height, place in points
        ]
        label = f"{textual[0].axis.label}: {name}" if textual and textual[0].name != SCENARIO else name
        lines.append(chart.Series(label, chart.Mark.LINE, x, y, colour, dashes if dashes[1] else (), marker, tips))
        bands += chart.band(f"{label}, 80 %", x, ranges, colour)
    first = min(lines, key=lambda line: line.x[0])
    span = first.x[0], max(line.x[-1] for line in lines)
    ideal = [chart.in_proportion("in proportion", span, first.y)] if scales and span[1] > span[0] > 0 else []
    if measured and (positions := _numbers_and_unit([place for place, _ in measured])):
        published = [height for _, height in measured]
        lines.append(chart.Series("measured", chart.Mark.POINTS, positions[0], published, chart.INK, marker="diamond"))
    x_all, y_all = sorted({x for line in lines for x in line.x} | {*x_of_rows}), [y for line in lines for y in line.y]
    x_log = chart.is_wide(x_all) or (scales and x_all[0] > 0)
    y_log = x_log and (chart.is_wide(y_all) or scales) and min(y_all) > 0
    if missing := [place for place, height in enumerate(heights) if height is None]:
        label = " or ".join(sorted({str(rows[place][STATUS]) for place in missing} - {DONE})) or "no such figure"
        foot = min(y_all) / _BELOW if y_log else 0.0
        tips = [{STATUS: str(rows[place][STATUS]), POINT: str(rows[place][POINT])} for place in missing]
        feet = [x_of_rows[place] for place in missing], [foot] * len(missing)
        lines.append(chart.Series(label, chart.Mark.POINTS, *feet, chart.NO_FIGURE, marker="cross", tips=tips))
    ticks = x_all if len(x_all) <= _MOST_TICKS else ()
    x_axis = chart.Axis(key.axis.label, key.axis.unit, is_log=x_log, from_zero=False, ticks=ticks)
    y_axis = chart.Axis(axis.label, axis.unit, is_log=y_log, from_zero=not y_log)
    return chart.Curves([*bands, *ideal, *lines], x_axis, y_axis)


def measured_points(specs: Sequence[MeasuredSpec], metric: str) -> Iterator[tuple[Value, float]]:
    """Yield the position and the published value of each scenario that has a published value of the metric.

    If only the time of a weight update is published, the throughput follows from its samples.
    """
    for spec in specs:
        result = run(spec.scenario)
        published = {reference.quantity: reference.measured for reference in reversed(result.references)}
        rate, update_s = (dict(result.figures()).get(name) for name in (metrics.THROUGHPUT, metrics.UPDATE))
        if metric in published:
            yield spec.at, published[metric]
        elif metric == metrics.THROUGHPUT and metrics.UPDATE in published and rate is not None and update_s is not None:
            yield spec.at, rate * update_s / published[metrics.UPDATE]
