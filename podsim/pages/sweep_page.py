"""The page of a study: a figure over the keys that vary, which figure a reader chooses, and the points."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from podsim._version import __version__
from podsim.format import format_counted as counted
from podsim.format import format_significant
from podsim.many.store import STATUS
from podsim.many.sweeps.answer import answer
from podsim.many.sweeps.chart_words import told
from podsim.many.sweeps.names import POINT, REASON
from podsim.many.sweeps.plot import no_column, number_columns, study_chart
from podsim.many.sweeps.rows import DONE
from podsim.many.sweeps.run import Swept
from podsim.metrics import HEADLINES, LATENCY, TIME, UPDATE, metric_of
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Table, columns

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_POINTS: Final = 1500
_MOST_NUMBERS: Final = 60_000
_MOST_FIGURES: Final = 40
_LISTED: Final = 500
_FEW: Final = 10
_COUNTED: Final = {"does not fit": "Points that do not fit", "no plan": "Points without a plan"}
_NUMBER: Final = re.compile(r"\d+\.\d+")
_FEWEST_DIGITS: Final = 4
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Table:
    """The part of the table of a study that a page shows.

    Attributes:
        count: Points of the study.
        keys: Columns that vary, with how many values each has.
        figures: Columns that can be shown, the first of them first; none where no point has figures.
        best: Points that have the first of the figures, the best first, as many as are listed.
        done_count: Points that have it.
        shown: Points of the chart: all, or some evenly chosen ones and the best.
        left_out: Points that could not be simulated, as many as are listed.
        left_out_count: How many there are.
    """

    count: int
    keys: Mapping[str, int]
    figures: Sequence[str]
    best: Sequence[Row]
    done_count: int
    shown: DataFrame
    left_out: Sequence[Row]
    left_out_count: int


def sweep_page(swept: Swept, metric: str | None = None) -> Report:
    """A page of a study.

    Args:
        swept: The study.
        metric: Column that is shown first; samples or tokens per second by default.

    Raises:
        PodsimError: There is no such column.
    """
    study = swept.space.study
    frame = swept.to_frame().replace([math.inf, -math.inf], math.nan)  # no place on an axis
    table = _table(frame, swept.space.keys, metric)
    scenarios = ", ".join([study.scenario] if isinstance(study.scenario, str) else study.scenario)
    varying = [f"{key} with {count:,} values" for key, count in table.keys.items() if key not in study.derived]
    return Report(
        title=study.description or f"A study of {scenarios}",
        about=(f"{scenarios}, podsim {__version__}", f"Varies: {'; '.join(varying) or 'nothing'}"),
        version=__version__,
        inputs=swept.inputs,
        warnings=answer(swept, table.figures[0]).notes if table.figures else (),
        tiles=list(_tiles(swept, table)),
        sections=[*_figures(swept, table), *_points(table), *_left_out(table)],
    )


def _table(frame: DataFrame, study_keys: Sequence[str], metric: str | None) -> _Table:
    numbers = number_columns(frame, study_keys)
    if metric is not None and metric not in numbers:
        raise no_column(metric, numbers)
    first = metric or next((name for name in (*HEADLINES, *numbers) if name in numbers), None)
    most = min(_MOST_FIGURES, max(1, _MOST_NUMBERS // min(MOST_POINTS, len(frame))))
    keys = {key: frame[key].nunique(dropna=False) for key in ("scenario", "variant", *study_keys)}
    keys = {key: count for key, count in keys.items() if count > 1}
    all_points = frame
    for key in keys:
        texts = [_text(value) for value in frame[key]]
        frame = frame.assign(**{key: list(map(shortened(texts).__getitem__, texts))})
    left_out, done = frame[frame[STATUS] != DONE], _ranked(frame, first)
    return _Table(
        count=len(frame),
        keys=keys,
        figures=list(dict.fromkeys((first, *numbers)))[:most] if first else [],
        best=_rows(done[:_LISTED]),
        done_count=len(done),
        shown=_chosen(all_points, done),
        left_out=_rows(left_out[:_LISTED]),
        left_out_count=len(left_out),
    )


def _ranked(frame: DataFrame, figure: str | None) -> DataFrame:
    """Points that have a figure, the best first."""
    if figure is None:
        return frame[:0]
    known = frame[frame[figure].notna()]
    return known.sort_values([figure, POINT], ascending=[not metric_of(figure).more_is_better, True])


def _chosen(frame: DataFrame, done: DataFrame) -> DataFrame:
    """Points of a chart."""
    step = -(-len(frame) // MOST_POINTS)
    return frame[frame[POINT].isin({*frame[POINT][::step], *done[POINT][:1]})]


def _rows(frame: DataFrame) -> list[Row]:
    return [_plain(row) for row in frame.to_dict("records")]


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of a frame in which what is missing is None and numbers are those of Python."""
    plain = {str(name): value.item() if hasattr(value, "item") else value for name, value in row.items()}
    return {name: None if isinstance(value, float) and math.isnan(value) else value for name, value in plain.items()}


def _tiles(swept: Swept, table: _Table) -> Iterator[Tile]:
    if table.figures:
        figure, best = table.figures[0], table.best[0]
        at = ", ".join(f"{_short(key)} {_text(best[key])}" for key in table.keys)
        metric = metric_of(figure)
        which, value = "Most" if metric.more_is_better else "Least", told(figure, float(best[figure]))
        yield Tile(f"{which} {metric.words}", value, (f"at {at}",) if at else ())
    for status, count in swept.by_status.items():
        yield Tile(_COUNTED.get(status, f"Points {status}"), f"{count:,}", (f"of {swept.count:,}",))


def _short(key: str) -> str:
    return key.rpartition(".")[2]


def _text(value: object) -> str:
    """A value of a key; in tables of CSV there is a number that is none where there is nothing."""
    return "none" if value is None or value != value else str(value)


def _rounded(text: str, digits: int) -> str:
    """Decimals are left out; digits before the point never are, and there are no powers of ten."""
    return _NUMBER.sub(lambda match: format_significant(float(match[0]), digits).replace(",", ""), text)


def shortened(texts: Iterable[str]) -> dict[str, str]:
    """Values of a key with as few digits as tell them apart.

    >>> shortened(["1.23456 GHz", "1.9 GHz"])
    {'1.23456 GHz': '1.235 GHz', '1.9 GHz': '1.9 GHz'}
    >>> shortened(["1.23456", "1.23461"])
    {'1.23456': '1.23456', '1.23461': '1.23461'}
    >>> shortened(["13020.5 GB/s"])
    {'13020.5 GB/s': '13020 GB/s'}
    """
    given = list(dict.fromkeys(texts))
    for digits in (_FEWEST_DIGITS, _FEWEST_DIGITS + 2):
        short = [_rounded(text, digits) for text in given]
        if len(set(short)) == len(given):
            return dict(zip(given, short, strict=True))
    return dict(zip(given, given, strict=True))


def _figures(swept: Swept, table: _Table) -> Iterator[Section]:
    if not table.figures:
        return
    count, shown = table.count, len(table.shown)
    notes = [f"{shown:,} of {count:,} points are shown, evenly chosen, and the best."] if shown < count else []
    chart = study_chart(swept.space, table.shown, table.figures, notes)
    if chart is not None:
        yield Section("Over the keys", [chart])


def _points(table: _Table) -> Iterator[Section]:
    """The points, the best first."""
    if not table.figures:
        return
    shown = [table.figures[0], *(name for name in _usual(table) if name != table.figures[0])]
    headers = (">point", *map(_short, table.keys), *(f">{metric_of(name).titled}" for name in shown))
    rows = [
        (str(row[POINT]), *(_text(row[key]) for key in table.keys), *(_number(row[name]) for name in shown))
        for row in table.best
    ]
    more = [f"The best {len(rows)} of {table.done_count:,} points."] if len(rows) < table.done_count else []
    few = rows[:_FEW]
    blocks: list[Part] = [Table(columns(*headers), few, f"The best by {metric_of(table.figures[0]).titled}")]
    if len(rows) > len(few):
        blocks.append(Folded("More points", [Table(columns(*headers), rows, notes=more)]))
    yield Section("Points", blocks)


def _usual(table: _Table) -> list[str]:
    return [name for name in (*HEADLINES, UPDATE, LATENCY, TIME, "mfu") if name in table.figures]


def _number(value: object) -> str:
    return format_significant(float(value), 4) if isinstance(value, (int, float)) else "–"


def _left_out(table: _Table) -> Iterator[Section]:
    count, listed = table.left_out_count, table.left_out
    if not count:
        return
    cells = [
        (str(row[POINT]), *(_text(row[key]) for key in table.keys), row[STATUS], str(row[REASON] or ""))
        for row in listed
    ]
    more = [f"The first {len(listed)} of {count:,}."] if len(listed) < count else []
    grid = Table(columns(">point", *map(_short, table.keys), "status", "reason"), cells, notes=more)
    yield Section("What could not be simulated", [Folded(f"{counted(count, 'point')}, with the reason", [grid])])
