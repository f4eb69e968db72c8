"""A chart of a study: lines for one key, a heat map for two, parallel axes for more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from podsim.errors import PodsimError
from podsim.report.chart_frame import write_figure
from podsim.specs.wording import known_here
from podsim.sweeps.expression import number_of
from podsim.sweeps.names import COLUMNS, STATUS, short
from podsim.sweeps.rows import DONE, Row, row_of
from podsim.sweeps.run import Swept
from podsim.sweeps.space import Space
from podsim.sweeps.table import unit_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_HEADLINES: Final = ("throughput_samples_per_s", "tokens_per_s")
_COLOURS: Final = "viridis"  # readable in grey and by the colour-blind
_LEFT_OUT: Final = "#dddddd"
_MOST_CELLS_WITH_TEXT: Final = 150
_SIZE_INCHES: Final = (10.0, 5.5)
_LIGHT: Final = 0.6
_MOST_TICKS: Final = 10
_FEW_POINTS: Final = 24
_NO_FIGURES: Final = (*COLUMNS, "warnings")


def plot_study(swept: Swept, path: str | Path, metric: str | None = None) -> None:
    """Draw a figure of the results over the keys that vary.

    Args:
        swept: The study.
        path: A .png, .svg or .pdf file to make or replace.
        metric: Column to draw; samples or tokens per second by default.

    Raises:
        PodsimError: The table has no such column of numbers, or nothing varies.
        OutputError: The path cannot be written.
    """
    frame = swept.frame()
    if DONE not in swept.by_status:
        raise PodsimError("no point of this study has figures to draw", do="read the column `reason` of the table")
    column = metric or next((each for each in _HEADLINES if each in frame), "")
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "fi" and frame[name].notna().any()]
    if column not in numbers:
        raise _no_column(column, numbers)
    crossed = ("scenario", "variant", *(key for key in swept.space.keys if key not in swept.space.study.derived))
    keys = [key for key in crossed if frame[key].nunique(dropna=False) > 1]
    if not keys:
        raise PodsimError("no key of this study varies", do="give one of its keys two values or more")
    write_figure(path, lambda: _figure(frame, keys, column, swept.space.study.description), swept.inputs)


def check_metric(space: Space, metric: str) -> None:
    """Refuse a column that will not be there, before the whole study is simulated.

    Args:
        space: The points, of which the first that can be simulated is looked at, in each scenario.
        metric: Column that is asked for.

    Raises:
        PodsimError: None of them has such a column of numbers.
    """
    scenarios = len(space.axes[0].values)
    block = len(space) // scenarios
    starts = (range(place * block, place * block + min(block, _FEW_POINTS)) for place in range(scenarios))
    rows = [row for start in starts if (row := _first_done(space, start))]
    known = dict.fromkeys(
        name for row in rows for name, each in row.items() if name not in _NO_FIGURES and _may_be_number(each)
    )
    if rows and metric not in known and not any(metric.startswith(f"{name}.") for name in known):
        raise _no_column(metric, [name for name in known if any(row.get(name) is not None for row in rows)])


def _first_done(space: Space, numbers: Iterable[int]) -> Row | None:
    points = (point for number in numbers if (point := space.point(number)))
    return next((row for row in map(row_of, points) if row[STATUS] == DONE), None)


def _may_be_number(value: object) -> bool:
    """Nothing may be a number at other points."""
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _no_column(column: str, numbers: Sequence[str]) -> PodsimError:
    what = f"the table has no column of numbers `{column}`"
    return PodsimError(what, where="--metric", do=known_here(column, list(numbers), "use another"))


def _figure(frame: DataFrame, keys: Sequence[str], metric: str, title: str) -> Figure:
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    draw = {1: _line, 2: _heat_map}.get(len(keys), _parallel_axes)
    draw(axes, frame, keys, metric)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    return figure


def _label(metric: str) -> str:
    unit = unit_of(metric)
    return f"{metric.replace('_', ' ')} [{unit}]" if unit else metric.replace("_", " ")


def _line(axes: Axes, frame: DataFrame, keys: Sequence[str], metric: str) -> None:
    (key,) = keys
    at = [number_of(each) for each in frame[key]]
    numeric = all(isinstance(each, (int, float)) for each in at)
    places = at if numeric else list(range(len(frame)))
    done = frame[metric].notna()
    axes.plot(places, frame[metric], marker="o", color="#1b6ca8")
    axes.plot(
        [place for place, each in zip(places, done, strict=True) if not each],
        [0.0] * int((~done).sum()),
        "x",
        color="#9a4a00",
        clip_on=False,
    )
    axes.set_xticks(places, [short(each) for each in frame[key]], rotation=45 if len(frame) > 8 else 0)
    axes.set(xlabel=key, ylabel=_label(metric), ylim=(0, None))
    axes.grid(alpha=0.3)


def _heat_map(axes: Axes, frame: DataFrame, keys: Sequence[str], metric: str) -> None:
    down, across = keys
    rows, columns = (list(dict.fromkeys(frame[key])) for key in (down, across))
    best = frame.groupby([down, across], sort=False, dropna=False)[metric].max()
    cells = [[best.get((row, column), float("nan")) for column in columns] for row in rows]
    axes.set_facecolor(_LEFT_OUT)
    image = axes.imshow(cells, aspect="auto", cmap=_COLOURS, origin="lower")
    axes.set_xticks(range(len(columns)), [short(each) for each in columns], rotation=45 if len(columns) > 8 else 0)
    axes.set_yticks(range(len(rows)), [short(each) for each in rows])
    axes.set(xlabel=across, ylabel=down)
    axes.figure.colorbar(image, ax=axes, label=_label(metric))
    if len(rows) * len(columns) <= _MOST_CELLS_WITH_TEXT:
        _write_cells(axes, cells)


def _write_cells(axes: Axes, cells: Sequence[Sequence[float]]) -> None:
    known_values = [value for line in cells for value in line if value == value]  # the others are not a number
    norm = Normalize(min(known_values), max(known_values))
    for row, line in enumerate(cells):
        for column, value in enumerate(line):
            known = value == value
            colour = "black" if not known or norm(value) > _LIGHT else "white"
            axes.text(column, row, f"{value:.4g}" if known else "–", ha="center", va="center", color=colour, fontsize=8)


def _parallel_axes(axes: Axes, frame: DataFrame, keys: Sequence[str], metric: str) -> None:
    from matplotlib import colormaps

    done = frame[frame[metric].notna()].sort_values(metric)
    norm = Normalize(done[metric].min(), done[metric].max())
    shares = [_shares(frame[key]) for key in keys]
    colours = colormaps[_COLOURS]
    for index, value in zip(done.index, done[metric], strict=True):
        heights = [share[index] for share in shares]
        axes.plot(range(len(keys)), heights, color=colours(norm(value)), alpha=0.6, linewidth=1)
    for place, key in enumerate(keys):
        axes.axvline(place, color="#888888", linewidth=0.8)
        ticks = sorted(dict(zip(frame[key].map(short), shares[place], strict=True)).items(), key=lambda tick: tick[1])
        for text, height in ticks[:: -(-len(ticks) // _MOST_TICKS)]:
            axes.text(place, height, f" {text}", fontsize=8, va="center")
    axes.set_xticks(range(len(keys)), [key.rpartition(".")[2] for key in keys])
    axes.set_yticks([])
    axes.figure.colorbar(_mappable(norm), ax=axes, label=_label(metric))


def _is_number(value: object) -> bool:
    return isinstance(number_of(value), (int, float))


def _mappable(norm: Normalize):  # type: ignore[no-untyped-def]  # noqa: ANN202
    from matplotlib.cm import ScalarMappable

    return ScalarMappable(norm, _COLOURS)


def _shares(values: Series) -> Series:
    """Places on an axis, 0 to 1: numbers by size, other values in the order in which they appear."""
    found = dict.fromkeys(values)
    ranked = sorted(found, key=number_of) if all(_is_number(each) for each in found) else found
    order = {value: place for place, value in enumerate(ranked)}
    return values.map(order) / max(1, len(order) - 1)
