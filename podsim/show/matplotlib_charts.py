"""Charts drawn by matplotlib, for files and notebooks.

Figures are made directly, without pyplot and its global state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from math import isfinite, log2, nan
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, Final, NamedTuple

from matplotlib import colormaps, rc_context, rcdefaults, rcParams
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from podsim.errors import OutputError, PodsimError
from podsim.format import format_significant
from podsim.harmless import terminal, xml
from podsim.report.chart import (
    COLOURS,
    INK,
    LEFT_OUT,
    NO_FIGURE,
    PAPER,
    Axis,
    Bar,
    Bars,
    Chart,
    Curves,
    Fill,
    Key,
    Mark,
    Series,
    Shape,
    Sheet,
    Study,
    TimelineChart,
    TimelineStretch,
    WayOver,
)
from podsim.result.files import check_not_read, check_writable, write_atomically

PLOT_SUFFIXES: Final = (".png", ".svg", ".pdf")
PLAIN: Final = FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}")
"""Numbers of an axis, with separators and without powers."""

_WIDTH_INCHES, _NARROW_INCHES = 14.0, 10.0
_ROW_INCHES, _FRAME_INCHES, _TIMELINE_INCHES, _LEGEND_INCHES = 0.36, 1.15, 2.1, 0.21
_LOW_INCHES, _CURVES_INCHES, _STUDY_INCHES = 2.6, 4.3, 5.0
_DOTS_PER_INCH: Final = 150
_DOTS_PER_INCH_SHOWN: Final = 80
_CLIP: Final = re.compile(rb"\bp[0-9a-f]{10}\b")
_LEFT_INCHES, _TOP_INCHES, _POINTS_PER_INCH, _SPACING = 0.14, 0.1, 72, 1.35
_LABEL_CHARACTERS, _NOTE_CHARACTERS = 36, 150
_CHARACTER_INCHES, _BAR_AXES_INCHES = 0.072, 10.0
_HATCHES: Final = {
    Shape.SOLID: None,
    Shape.RISING: "////",
    Shape.FALLING: "\\\\\\\\",
    Shape.DOTS: "..",
    Shape.LINES: "--",
    Shape.CROSSED: "xxx",
}
_HATCHED_FROM: Final = 0.012
"""Of an axis; narrower bars would be all hatch."""
_MARKERS: Final = {"circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "cross": "x"}
_RULES: Final = ((0, (4, 2)), (0, (1, 2)))
_PART_COLOURS: Final = ("#d9d9d9", "#f2f2f2")
_RIGHT: Final = 0.7
"""Names of points further right stand to their left."""
_LIGHT: Final = 0.6
_MOST_TICKS: Final = 10
_MOST_LABELS: Final = 8
_MOST_CELLS_WITH_TEXT: Final = 150
_LEAST_APART: Final = 0.045
_LARGE_CELL, _WHOLE_CELL = 1e4, 100
_LETTERS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


class _Style(NamedTuple):
    """The look of lines of the head: size [points], weight, colour, and how many characters have an inch."""

    points: float
    weight: str
    colour: str
    characters: float


_TITLE: Final = _Style(13, "bold", "black", 8.2)
_ABOUT: Final = _Style(9.5, "normal", "#555555", 11.8)
_WARNING: Final = _Style(9.5, "normal", NO_FIGURE, 11.8)


def check_plot_path(path: str | Path) -> None:
    """Refuse a path that cannot hold a chart, before the work whose result it is to show.

    Raises:
        OutputError: The suffix is not one that can be drawn, or the path cannot be written.
    """
    suffix = Path(path).suffix
    if suffix.lower() not in PLOT_SUFFIXES:
        what = f"`{suffix}` is not a format for charts" if suffix else "the name of a chart needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {', '.join(PLOT_SUFFIXES)}")
    check_writable(path)


def write_sheet(make: Callable[[], Sheet], path: str | Path, inputs: Iterable[tuple[str, str]]) -> None:
    """Draw charts into a PNG, SVG or PDF file, as the suffix says; the same pixels for the same charts.

    Args:
        make: Makes the charts; called once the path has been checked.
        path: File to make or replace.
        inputs: (path, SHA-256) of every file they stand on, none of which is overwritten.

    Raises:
        OutputError: The suffix is not one that can be drawn, or the path cannot be written.
    """
    check_not_read(path, "plot", inputs)
    check_plot_path(path)
    suffix = Path(path).suffix.lower()
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    buffer = BytesIO()
    with _own_look():
        figure = figure_of(make())
        _settle(figure)
        figure.savefig(buffer, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=undated)
    drawn = buffer.getvalue()
    if suffix == ".svg":  # whose comments hold the texts as they were written
        drawn = _with_numbered_clips(xml(drawn.decode(errors="replace")).encode())
    write_atomically(path, drawn)


class _Drawn(Figure):
    """A figure that a notebook shows where nobody has imported pyplot, which would teach it to."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        with _own_look():
            self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH_SHOWN)
        return buffer.getvalue()


def drawn(sheet: Sheet) -> Figure:
    """Charts as a figure for notebooks, as `write_sheet` draws them."""
    with _own_look():
        return figure_of(sheet)


@contextmanager
def _own_look() -> Iterator[None]:
    """The same charts whatever a matplotlibrc of the user says."""
    with rc_context():
        rcdefaults()
        rcParams["svg.hashsalt"] = "podsim"
        rcParams["text.parse_math"] = False  # a name may hold dollar signs, which would begin a formula
        yield


def _settle(figure: Figure) -> None:
    """Lay axes out on round numbers: the solver of matplotlib's layouts may end on another last digit."""
    engine = figure.get_layout_engine()
    if engine is None:
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for part in (each for row in figure.subfigs for each in (row, *row.subfigs)):
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(6))
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position(original=True).bounds
        axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


def _with_numbered_clips(svg: bytes) -> bytes:
    """Names of clip paths in the order they appear: matplotlib's come from the last digits of the layout."""
    names = dict.fromkeys(_CLIP.findall(svg))
    numbers = {name: b"clip%d" % number for number, name in enumerate(names)}
    return _CLIP.sub(lambda match: numbers[match.group()], svg)


def figure_of(sheet: Sheet) -> Figure:
    """A figure of charts: title, what was simulated and warnings, and the charts below.

    Raises:
        PodsimError: There is no chart.
    """
    if not sheet.rows:
        raise PodsimError(f"there is nothing to draw: {sheet.title}", do="leave the chart out, and print the answer")
    alone = len(sheet.rows) == len(sheet.rows[0]) == 1 and isinstance(sheet.rows[0][0].drawn, (Study, Curves))
    width_inches = _NARROW_INCHES if alone else _WIDTH_INCHES
    lines = list(_head(sheet, width_inches))
    heights = [_SPACING * style.points / _POINTS_PER_INCH for _, style in lines]
    head_inches = _TOP_INCHES + sum(heights) + _TOP_INCHES
    rows_inches = [max(map(_height_inches, row)) for row in sheet.rows]
    figure = _Drawn(figsize=(width_inches, head_inches + sum(rows_inches)), layout="constrained")
    parts = figure.subfigures(1 + len(rows_inches), 1, squeeze=False, height_ratios=[head_inches, *rows_inches])
    head, *below = parts.flat
    below_inches = _TOP_INCHES
    for (text, style), height in zip(lines, heights, strict=True):
        at = _LEFT_INCHES / width_inches, 1 - below_inches / head_inches
        head.text(*at, text, va="top", fontsize=style.points, fontweight=style.weight, color=style.colour)
        below_inches += height
    for part, row in zip(below, sheet.rows, strict=True):
        places = [part] if len(row) == 1 else list(part.subfigures(1, len(row), squeeze=False).flat)
        for place, chart in zip(places, row, strict=True):
            draw(chart, place, titled=not alone and chart.title not in sheet.title, is_first=chart is row[0])
    return figure


def _head(sheet: Sheet, width_inches: float) -> Iterator[tuple[str, _Style]]:
    for texts, style in ((sheet.title.splitlines(), _TITLE), (sheet.about, _ABOUT), (sheet.warnings, _WARNING)):
        for text in texts:
            for line in wrap(text, int(style.characters * width_inches)):
                yield terminal(line), style


def _height_inches(chart: Chart) -> float:
    drawn, legend = chart.drawn, 0.6 + _LEGEND_INCHES * (len(chart.legend) + bool(chart.legend_title))
    notes = 0.15 * len(chart.notes)
    match drawn:
        case Bars():
            lines = sum(max(1, 0.62 * len(_label(row).splitlines())) for row in drawn.rows)
            return max(_FRAME_INCHES + _ROW_INCHES * lines + notes, legend)
        case TimelineChart():
            return max(_TIMELINE_INCHES + _ROW_INCHES * len(drawn.rows), legend)
        case Curves():
            is_low = any(each.mark is Mark.AREA for each in drawn.series)
            return _LOW_INCHES if is_low else _CURVES_INCHES
        case Study():
            return _STUDY_INCHES


def draw(chart: Chart, place: Figure | SubFigure, *, titled: bool = True, is_first: bool = True) -> None:
    """Draw a chart, with its title unless another says it; one legend of series is enough in a row."""
    axes: Axes | None = None
    match chart.drawn:
        case Bars():
            axes = place.subplots()
            _draw_bars(axes, chart.drawn)
        case Curves():
            axes = place.subplots()
            _draw_curves(axes, chart.drawn, with_legend=is_first)
        case TimelineChart():
            _draw_timeline(place, chart.drawn)
        case Study():
            _draw_study(place, chart.drawn)
    if axes is not None:
        if titled:
            axes.set_title(fill(chart.title, 115), loc="left", fontsize=10.5)
        if chart.notes:
            lines = [line for note in chart.notes for line in wrap(note, _NOTE_CHARACTERS)]
            axes.set_xlabel("\n".join([axes.get_xlabel(), *lines]), fontsize=9)
    if chart.legend:
        handles = [Patch(label=text, **_filled(each)) for text, each in chart.legend.items()]
        place.legend(
            handles=handles, loc="outside right upper", frameon=False, title=chart.legend_title or None, fontsize=9.5
        )


def plain_frame(axes: Axes) -> None:
    """Only the horizontal axis, with small numbers."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="x", labelsize=8.5)


def write_on_bar(axes: Axes, x: float, y: float, text: str, background: str, points: float = 8.5) -> None:
    """Text in the middle of a bar, in a colour that is easy to read on that of the bar."""
    axes.text(x, y, text, ha="center", va="center", fontsize=points, color=Fill(background).ink)


def _filled(fill_of: Fill, *, hatched: bool = True) -> dict[str, Any]:
    """The keywords of a patch with a fill; its edge is the ink of its hatch."""
    hatch = _HATCHES[fill_of.shape] if hatched else None
    ink = "#ffffff66" if fill_of.ink == PAPER else "#00000055"
    return {"facecolor": fill_of.colour, "hatch": hatch, "edgecolor": ink, "linewidth": 0}


def _label(row: str) -> str:
    return fill(row, _LABEL_CHARACTERS, break_long_words=False)


def _draw_bars(axes: Axes, drawn: Bars) -> None:
    rows, (low, high) = {row: number for number, row in enumerate(drawn.rows)}, drawn.ends
    for bar in drawn.bars:
        length = bar.end - bar.start
        hatched = abs(length) >= _HATCHED_FROM * (high - low)
        axes.barh(rows[bar.row], length, left=bar.start, height=0.76, **_filled(bar.fill, hatched=hatched))
        if bar.text:
            _write_at(axes, bar, rows[bar.row], (low, high))
    for (name, at), dashes in zip(drawn.rules.items(), _RULES, strict=False):
        axes.axvline(at, color="black", linewidth=0.9, linestyle=dashes if at else "-", label=name)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8.5)
    axes.set(xlim=(low, high), ylim=(len(rows) - 0.45, -0.55))
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(drawn.x.title, fontsize=9)
    plain_frame(axes)


def _write_at(axes: Axes, bar: Bar, row: int, ends: tuple[float, float]) -> None:
    """The text of a bar: on it if it is wide enough, or on the side of it where there is room."""
    side, at = bar.side(ends), bar.text_at(ends)
    if side == "inside":
        width_inches = abs(bar.end - bar.start) / (ends[1] - ends[0]) * _BAR_AXES_INCHES
        if width_inches >= _CHARACTER_INCHES * (len(bar.text) + 1):
            write_on_bar(axes, at, row, bar.text, bar.fill.colour)
        return
    shift, aligned = (4, "left") if side == "right" else (-4, "right")
    axes.annotate(bar.text, (at, row), (shift, 0), textcoords="offset points", ha=aligned, va="center", fontsize=8.5)


def _scale_to(axes: Axes, axis: Axis, which: str, values: Sequence[float]) -> None:
    """Set limits, ticks and title of an axis of numbers."""
    line = getattr(axes, f"{which}axis")
    if axis.is_log:
        getattr(axes, f"set_{which}scale")("log", base=2 if axis.ticks else 10)
        line.set_major_locator(LogLocator(subs=(1, 2, 5)))
        line.set_minor_locator(NullLocator())
    elif axis.ends is not None:
        getattr(axes, f"set_{which}lim")(*axis.ends)
    elif axis.from_zero:
        getattr(axes, f"set_{which}lim")(0, 1.08 * max(values, default=0.0) or 1)
    line.set_major_formatter(PLAIN)
    if axis.ticks:
        told = _apart(axis.ticks, log2 if axis.is_log else float)
        getattr(axes, f"set_{which}ticks")(told, [PLAIN(each) for each in told])
        line.set_minor_locator(NullLocator())
    getattr(axes, f"set_{which}label")(axis.title, fontsize=9)


def _apart(places: Sequence[float], scale: Callable[[float], float]) -> list[float]:
    """The places of an axis whose labels do not lie over each other."""
    kept: list[float] = []
    span = scale(places[-1]) - scale(places[0])
    for place in places:
        if not kept or scale(place) - scale(kept[-1]) >= _LEAST_APART * span:
            kept.append(place)
    return kept


def _draw_curves(axes: Axes, drawn: Curves, *, with_legend: bool) -> None:
    for each in drawn.series:
        _draw_series(axes, each)
    over = drawn.y.from_zero and not drawn.y.is_log
    axes.margins(0.12)
    _scale_to(axes, drawn.x, "x", [at for each in drawn.series for at in each.x])
    _scale_to(axes, drawn.y, "y", [at for each in drawn.series for at in each.y] if over else [])
    if all(float(at).is_integer() for each in drawn.series if each.mark is Mark.AREA for at in each.y):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True)) if drawn.series[0].mark is Mark.AREA else None
    for each in drawn.series:
        _write_texts(axes, each)
    for (name, at), dashes in zip(drawn.rules.items(), _RULES, strict=False):
        axes.axvline(at, color=INK, linewidth=0.9, linestyle=dashes)
        height, aligned = (0.04, "bottom") if dashes is _RULES[0] else (0.96, "top")
        where: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "left", "va": aligned}
        axes.text(at, height, f" {name}", fontsize=8.5, rotation=90, **where)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    if with_legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9, loc="best", ncols=1)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_series(axes: Axes, series: Series) -> None:
    label, x, y = series.name or "_", list(series.x), list(series.y)
    look: dict[str, Any] = {"color": series.colour, "label": label, "zorder": 3}
    dashes: Any = (0, series.dash) if series.dash else "-"
    match series.mark:
        case Mark.AREA:
            axes.stairs(y, x, fill=True, color=series.colour, label=label)
        case Mark.LEVELS:
            axes.stairs(y, x, color=series.colour, linewidth=1.2, label=label, baseline=None)
        case Mark.BAND:
            axes.fill_between(x, y, list(series.to), color=series.colour, alpha=0.2, linewidth=0, label=label)
        case Mark.POINTS:
            axes.plot(x, y, linestyle="", marker=_MARKERS[series.marker], markersize=7, **look)
        case Mark.STEPS_AFTER | Mark.STEPS_BEFORE:
            steps = "steps-post" if series.mark is Mark.STEPS_AFTER else "steps-pre"
            axes.plot(x, y, drawstyle=steps, linestyle=dashes, **{**look, "zorder": 2})
        case Mark.LINE:
            axes.plot(x, y, marker=_MARKERS[series.marker], markersize=4, linewidth=1.8, linestyle=dashes, **look)


def _write_texts(axes: Axes, series: Series) -> None:
    """The names of points, on the side with room; those at the same place together."""
    together: dict[tuple[float, float], list[str]] = {}
    for x, y, text in zip(series.x, series.y, series.texts, strict=False):
        if text:
            together.setdefault((float(f"{x:.3g}"), float(f"{y:.3g}")), []).append(text)
    low, high = axes.get_xlim()
    for (x, y), names in together.items():
        text = names[0] if len(names) == 1 else f"{names[0]}, and {len(names) - 1} more"
        side = -1 if x > low + (high - low) * _RIGHT else 1
        aligned = "left" if side > 0 else "right"
        shift = (6 * side, 5)
        axes.annotate(text, (x, y), xytext=shift, textcoords="offset points", ha=aligned, fontsize=8, color="#333333")


def _draw_timeline(place: Figure | SubFigure, drawn: TimelineChart) -> None:
    """An overview of the whole, over windows in which every row is a bar."""
    windows = list(drawn.stretches[1:]) or [TimelineStretch(f"The whole {drawn.what}", *drawn.stretches[0][1:])]
    lengths = [window.end - window.start for window in windows]
    grid = place.add_gridspec(
        2,
        len(windows),
        height_ratios=[0.55, 1.0 + _ROW_INCHES * len(drawn.rows)],
        width_ratios=[max(0.6, length / max(lengths)) for length in lengths],
    )
    _draw_overview(place.add_subplot(grid[0, :]), drawn, windows)
    first: Axes | None = None
    for column, window in enumerate(windows):
        axes = place.add_subplot(grid[1, column], sharey=first)
        _draw_window(axes, drawn, window)
        title = f"{'ABC'[column]}   {window.title}" if len(windows) > 1 else window.title
        axes.set_title(title, loc="left", fontsize=10)
        axes.tick_params(axis="y", length=0, labelleft=first is None)
        first = first or axes


def _draw_overview(axes: Axes, drawn: TimelineChart, windows: Sequence[TimelineStretch]) -> None:
    """The whole as a strip of its parts, with the windows below marked on it."""
    end = drawn.stretches[0].end
    for number, part in enumerate(drawn.parts):
        length = part.end - part.start
        axes.barh(0, length, left=part.start, height=0.8, color=_PART_COLOURS[number % 2], edgecolor="#888888", lw=0.6)
        if length > 0.04 * end:
            axes.text(part.start + length / 2, 0, part.title, ha="center", va="center", fontsize=9)
    for number, window in enumerate(windows if len(windows) > 1 else ()):
        axes.axvspan(window.start, window.end, color="#f0a000", alpha=0.3, lw=0.8)
        # Short windows lie close together at the start: the letter of the second goes to its right.
        at, side = (window.end, "left") if number == 1 else ((window.start + window.end) / 2, "center")
        axes.text(at, 0.5, "ABC"[number], ha=side, va="bottom", fontsize=9)
    axes.set(xlim=(0, end), ylim=(-0.45, 0.85), yticks=[])
    # The letters of short windows at the start stand between the strip and its title.
    axes.set_title(f"One {drawn.what}", loc="left", fontsize=10.5, pad=12)
    axes.set_xlabel(f"time since the start of the {drawn.what} [{drawn.x.unit}]", fontsize=9)
    plain_frame(axes)


def _draw_window(axes: Axes, drawn: TimelineChart, window: TimelineStretch) -> None:
    rows = {row: number for number, row in enumerate(drawn.rows)}
    shortest = _HATCHED_FROM * (window.end - window.start)
    groups: dict[tuple[int, Fill, bool], list[tuple[float, float]]] = {}
    for piece in drawn.pieces:
        start, end = max(piece.start, window.start), min(piece.end, window.end)
        if start < end:
            group = groups.setdefault((rows[piece.row], piece.fill, end - start >= shortest), [])
            group.append((start, end - start))
    for (row, fill_of, hatched), spans in groups.items():
        # Thousands of corners would make a vector file of many MB.
        axes.broken_barh(spans, (row - 0.41, 0.82), rasterized=not hatched, **_filled(fill_of, hatched=hatched))
    for part in drawn.parts:
        if window.start < part.start < window.end:
            axes.axvline(part.start, color="black", lw=0.8, ls=_RULES[0])
    axes.set(xlim=(window.start, window.end), ylim=(len(rows) - 0.45, -0.55))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlabel(f"[{drawn.x.unit}]", fontsize=9)
    plain_frame(axes)


def _draw_study(place: Figure | SubFigure, drawn: Study) -> None:
    """The figure over the keys; points without it stay visible, as crosses or as grey cells."""
    norm = Normalize(min(drawn.known), max(drawn.known))
    match drawn.over:
        case WayOver.HEAT_MAP:
            _draw_heat_maps(place, drawn, norm)
        case WayOver.DOTS:
            _draw_dots(place.add_subplot(), drawn, norm)
        case WayOver.PARALLEL:
            _draw_parallel(place.add_subplot(), drawn, norm)
    # `figure.axes` of a part would be those of all parts.
    place.colorbar(ScalarMappable(norm, COLOURS), ax=list(place.axes), label=drawn.figure.title, format=PLAIN)


def _draw_heat_maps(place: Figure | SubFigure, drawn: Study, norm: Normalize) -> None:
    """The first key upwards and the second across; a map for each value of the third."""
    down, across, *split = drawn.keys
    count = len(split[0].values) if split else 1
    columns = min(count, 2 if count in (2, 4) else 3)
    grid = place.subplots(-(-count // columns), columns, squeeze=False)
    best: dict[tuple[int, int, int], float] = {}
    better = max if drawn.more_is_better else min
    for point, value in enumerate(drawn.values):
        at = (split[0].at[point] if split else 0, down.at[point], across.at[point])
        if value is not None:
            best[at] = better(best.get(at, value), value)
    for number, axes in enumerate(grid.flat):
        if number >= count:
            axes.remove()
            continue
        cells = [[best.get((number, row, column), nan) for column in range(len(across.values))]
                 for row in range(len(down.values))]  # fmt: skip
        _draw_heat_map(axes, cells, down, across, norm)
        if split:
            axes.set_title(f"{split[0].axis.title} {split[0].values[number]}", fontsize=10)
            axes.label_outer()


def _draw_heat_map(axes: Axes, cells: list[list[float]], down: Key, across: Key, norm: Normalize) -> None:
    axes.set_facecolor(LEFT_OUT)
    axes.imshow(cells, aspect="auto", cmap=COLOURS, origin="lower", norm=norm)
    for key, set_ticks in ((across, axes.set_xticks), (down, axes.set_yticks)):
        every = -(-len(key.values) // (2 * _MOST_TICKS))
        set_ticks(range(0, len(key.values), every), list(key.values)[::every])
    axes.tick_params(axis="x", rotation=45 if len(across.values) > _MOST_LABELS else 0)
    axes.set(xlabel=across.axis.title, ylabel=down.axis.title)
    if len(down.values) * len(across.values) > _MOST_CELLS_WITH_TEXT:
        return
    for row, line in enumerate(cells):
        for column, value in enumerate(line):
            known = isfinite(value)
            colour = "black" if not known or norm(value) > _LIGHT else "white"
            text = cell(value, float(norm.vmax or 0)) if known else "–"
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)


def cell(value: float, most: float) -> str:
    """A number in a heat map, in five characters.

    >>> cell(15702.0, 15702.0), cell(1073.4, 15702.0), cell(1073.4, 2009.0), cell(0.1234, 0.2)
    ('15.7k', '1.07k', '1,073', '0.123')
    >>> cell(1.302e6, 1.302e6), cell(999_900.0, 999_900.0)
    ('1.3M', '1,000k')
    """
    if most >= _LARGE_CELL:
        divisor, letter = next((each for each in _LETTERS if most >= each[0]), _LETTERS[-1])
        return f"{format_significant(value / divisor)}{letter}"
    return f"{value:,.0f}" if most >= _WHOLE_CELL else format_significant(value)


def _draw_dots(axes: Axes, drawn: Study, norm: Normalize) -> None:
    down, across = drawn.keys
    places = [(across.numbers[at], down.numbers[up]) for at, up in zip(across.at, down.at, strict=True)]
    known = [(place, value) for place, value in zip(places, drawn.values, strict=True) if value is not None]
    at, up = zip(*(place for place, _ in known), strict=True)
    axes.scatter(at, up, c=[value for _, value in known], norm=norm, cmap=COLOURS, s=45.0)
    missing = [place for place, value in zip(places, drawn.values, strict=True) if value is None]
    if missing:
        axes.plot(*zip(*missing, strict=True), "x", color=NO_FIGURE, label="no figure")
        axes.legend(frameon=False, fontsize=9)
    axes.set(xlabel=across.axis.title, ylabel=down.axis.title)


def _draw_parallel(axes: Axes, drawn: Study, norm: Normalize) -> None:
    """A line for each point through its value of every key, the best in front."""
    for point in drawn.order:
        value = drawn.values[point]
        if value is not None:
            heights = [key.place(point) for key in drawn.keys]
            axes.plot(range(len(heights)), heights, color=colormaps[COLOURS](norm(value)), alpha=0.6, linewidth=1)
    for place, key in enumerate(drawn.keys):
        axes.axvline(place, color="#888888", linewidth=0.8)
        most = max(1, len(key.values) - 1)
        for number, text in list(enumerate(key.values))[:: -(-len(key.values) // _MOST_TICKS)]:
            axes.text(place, number / most, f" {text}", fontsize=8, va="center")
    axes.set_xticks(range(len(drawn.keys)), [key.axis.title for key in drawn.keys])
    axes.set(yticks=[], xlim=(-0.1, len(drawn.keys) - 0.75))
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
