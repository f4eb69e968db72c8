"""What a chart of a study is drawn of: lines, bars, heat maps, dots and parallel axes.

Points without a figure stay visible: as crosses at the foot, or as grey cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING, Any, Final

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from podsim.many.sweeps.chart_words import Quantity, axis_title, cell, numbers_and_unit, short, words

if TYPE_CHECKING:
    from pandas import DataFrame, Series

COLOURS: Final = "viridis"  # readable in grey and by the colour-blind
SERIES: Final = (("#1b6ca8", "o", "-"), ("#e6750f", "s", "--"), ("#1f9e80", "^", "-."), ("#6a2c86", "D", ":"))
"""Colour, marker and line of each: any of the three tells them apart."""
PLAIN: Final = FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}")
"""Numbers of an axis, with separators and without powers."""
_MEASURED_INK: Final = "#222222"
_NO_FIGURE, _LEFT_OUT = "#9a4a00", "#dddddd"
_CLEAR: Final = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
_LIGHT: Final = 0.6
_BESIDE: Final = 1.25
"""Room beside bars for their numbers, as a share of the longest."""
_MOST_TICKS: Final = 10
_MOST_LABELS: Final = 8
_MOST_CELLS_WITH_TEXT: Final = 150
_LOGARITHMIC_FROM: Final = 12
_LEAST_APART: Final = 0.045


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn.

    Attributes:
        frame: The table.
        metric: The figure, a column of it.
        quantity: How the figure is shown.
        measured: Places and values that were measured.
    """

    frame: DataFrame
    metric: str
    quantity: Quantity
    measured: Sequence[tuple[Any, float]] = ()

    def figures(self, frame: DataFrame) -> Series:
        """The figures of some rows, in the unit of the axis."""
        return frame[self.metric] / self.quantity.divisor


def lines(axes: Axes, drawn: Drawn, across: str, of: str | None) -> None:
    """The figure over a key of numbers, a line for each value of another."""
    groups = [(None, drawn.frame)] if of is None else list(drawn.frame.groupby(of, sort=False, dropna=False))
    for place, (value, rows) in enumerate(groups):
        colour, marker, dashes = SERIES[place % len(SERIES)]
        at = _numbers(rows[across])
        ordered = sorted(zip(at, drawn.figures(rows), strict=True))
        label = None if value is None else f"{words(str(of))}: {short(value)}" if of != "scenario" else str(value)
        axes.plot(*zip(*ordered, strict=True), marker=marker, linestyle=dashes, color=colour, label=label, markersize=5)
    if drawn.measured:
        places = _numbers([at for at, _ in drawn.measured])
        shown = [value / drawn.quantity.divisor for _, value in drawn.measured]
        axes.plot(places, shown, "+", color=_MEASURED_INK, label="measured", markersize=13, markeredgewidth=2)
    every = sorted({*_numbers(drawn.frame[across]), *(_numbers([at for at, _ in drawn.measured]))})
    _scales(axes, every, [*drawn.figures(drawn.frame).dropna()])
    _without_figure(axes, drawn, across)
    axes.set(xlabel=axis_title(across, list(drawn.frame[across])), ylabel=drawn.quantity.label)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)


def _numbers(values: Sequence[Any] | Series) -> list[float]:
    found = numbers_and_unit(list(values))
    assert found is not None
    return found[0]


def _scales(axes: Axes, places: Sequence[float], values: Sequence[float]) -> None:
    """Ratios where numbers span a wide range, with a tick at each of a few places; 0 at the foot otherwise."""
    if places[0] > 0 and places[-1] / places[0] >= _LOGARITHMIC_FROM:
        axes.set_xscale("log", base=2)
    if axes.get_xscale() == "log" and min(values) > 0 and max(values) / min(values) >= _LOGARITHMIC_FROM:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, max(values) * 1.08 or 1)
    axes.yaxis.set_major_formatter(PLAIN)
    if len(places) <= _MOST_TICKS:
        told = _apart(places, log2 if axes.get_xscale() == "log" else float)
        axes.set_xticks(told, [short(each) for each in told])
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        axes.xaxis.set_major_formatter(PLAIN)


def _apart(places: Sequence[float], scale: Callable[[float], float]) -> list[float]:
    """The places of an axis whose labels do not lie over each other."""
    kept: list[float] = []
    span = scale(places[-1]) - scale(places[0])
    for place in places:
        if not kept or scale(place) - scale(kept[-1]) >= _LEAST_APART * span:
            kept.append(place)
    return kept


def _without_figure(axes: Axes, drawn: Drawn, across: str) -> None:
    """Crosses at the foot for points without a figure."""
    missing = drawn.frame[drawn.frame[drawn.metric].isna()]
    if len(missing):
        foot = [axes.get_ylim()[0]] * len(missing)
        what = " or ".join(sorted({str(each) for each in missing["status"]} - {"done"})) or "no such figure"
        axes.plot(_numbers(missing[across]), foot, "x", color=_NO_FIGURE, clip_on=False, label=what, zorder=3)


def bars(axes: Axes, drawn: Drawn, along: str) -> None:
    """The figure of each value of a key of words."""
    values, figures = list(drawn.frame[along]), drawn.figures(drawn.frame)
    axes.barh(range(len(values)), figures.fillna(0), color=SERIES[0][0], height=0.6)
    for place, (figure, status) in enumerate(zip(figures, drawn.frame["status"], strict=True)):
        text = (
            f" {short(float(figure))} {drawn.quantity.unit}"
            if figure == figure
            else f" {status if status != 'done' else 'no figure'}"
        )
        axes.text(0 if figure != figure else figure, place, text, va="center", fontsize=9)
    axes.set_yticks(range(len(values)), [short(each) for each in values])
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter(PLAIN)
    axes.set(xlabel=drawn.quantity.label, xlim=(0, figures.max() * _BESIDE))
    axes.spines[["top", "right"]].set_visible(False)


def heat_map(axes: Axes, drawn: Drawn, down: str, across: str, norm: Normalize) -> None:
    """The figure over two keys; the best where other keys vary as well."""
    rows, columns = (_ordered(drawn.frame[key]) for key in (down, across))
    best = drawn.figures(drawn.frame).groupby([drawn.frame[down], drawn.frame[across]], sort=False, dropna=False).max()
    cells = [[float(best.get((row, column), float("nan"))) for column in columns] for row in rows]
    axes.set_facecolor(_LEFT_OUT)
    axes.imshow(cells, aspect="auto", cmap=COLOURS, origin="lower", norm=norm)
    for values, set_ticks in ((columns, axes.set_xticks), (rows, axes.set_yticks)):
        found = numbers_and_unit(values)
        texts = [short(each) for each in (found[0] if found else values)]
        every = -(-len(texts) // (2 * _MOST_TICKS))
        set_ticks(range(0, len(texts), every), texts[::every])
    axes.tick_params(axis="x", rotation=45 if len(columns) > _MOST_LABELS else 0)
    axes.set(xlabel=axis_title(across, columns), ylabel=axis_title(down, rows))
    if len(rows) * len(columns) <= _MOST_CELLS_WITH_TEXT:
        _write_cells(axes, cells, norm)


def _ordered(values: Series) -> list[Any]:
    """Values of an axis once each: numbers by size, words in the order in which they appear."""
    found = list(dict.fromkeys(values))
    numbers = numbers_and_unit(found)
    return found if numbers is None else [value for _, value in sorted(zip(numbers[0], found, strict=True))]


def _write_cells(axes: Axes, cells: Sequence[Sequence[float]], norm: Normalize) -> None:
    for row, line in enumerate(cells):
        for column, value in enumerate(line):
            known = value == value  # the others are not a number
            colour = "black" if not known or norm(value) > _LIGHT else "white"
            text = cell(value, float(norm.vmax or 0)) if known else "–"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)


def dots(axes: Axes, drawn: Drawn, down: str, across: str, norm: Normalize) -> None:
    """Points of two keys that were sampled, in the colour of their figure."""
    done = drawn.frame[drawn.metric].notna()
    at, up = _numbers(drawn.frame[across]), _numbers(drawn.frame[down])
    known, missing = ([place for place, there in enumerate(done) if there == wanted] for wanted in (True, False))
    places = [at[each] for each in known], [up[each] for each in known]
    axes.scatter(places[0], places[1], c=drawn.figures(drawn.frame)[done], norm=norm, cmap=COLOURS, s=45.0)
    if missing:
        places = [at[each] for each in missing], [up[each] for each in missing]
        axes.plot(*places, "x", color=_NO_FIGURE, label="no figure")
        axes.legend(frameon=False, fontsize=9)
    axes.set(xlabel=axis_title(across, list(drawn.frame[across])), ylabel=axis_title(down, list(drawn.frame[down])))


def parallel_axes(axes: Axes, drawn: Drawn, keys: Sequence[str], norm: Normalize) -> None:
    """A line for each point through its value of every key, the best in front."""
    figures = drawn.figures(drawn.frame).dropna().sort_values()
    shares = [_shares(drawn.frame[key]) for key in keys]
    lines_up = [share[figures.index] for share in shares]
    for value, *heights in zip(figures, *lines_up, strict=True):
        axes.plot(range(len(keys)), heights, color=colormaps[COLOURS](norm(value)), alpha=0.6, linewidth=1)
    for place, key in enumerate(keys):
        axes.axvline(place, color="#888888", linewidth=0.8)
        ticks = dict(zip(shares[place], drawn.frame[key].map(short), strict=True))
        for height in sorted(ticks)[:: -(-len(ticks) // _MOST_TICKS)]:
            axes.text(place, height, f" {ticks[height]}", fontsize=8, va="center", bbox=_CLEAR)
    axes.set_xticks(range(len(keys)), [words(key) for key in keys])
    axes.set(yticks=[], xlim=(-0.1, len(keys) - 0.75))
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)


def _shares(values: Series) -> Series:
    """Places on an axis, 0 to 1, in the order of the axis."""
    order = {value: place for place, value in enumerate(_ordered(values))}
    return values.map(order) / max(1, len(order) - 1)


def mappable(norm: Normalize) -> ScalarMappable:
    """What a bar of colours is made of."""
    return ScalarMappable(norm, COLOURS)
