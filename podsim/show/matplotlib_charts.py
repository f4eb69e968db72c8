"""Charts drawn by matplotlib, for files and notebooks, without pyplot and its global state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import product
from math import isnan, log2, nan
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, Final

from matplotlib import colormaps, rc_context, rcdefaults, rcParams
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from podsim.errors import OutputError, PodsimError
from podsim.escaped import terminal, xml
from podsim.report import chart as data
from podsim.report.chart import Axis, Bars, Chart, Curves, Fill, Mark, Shape, Study, StudyPlot, TimelineChart
from podsim.result.files import check_not_read, check_writable, write_atomically

PLAIN: Final = FuncFormatter(lambda value, _: f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}")
"""Formatter of axis numbers, with thousands separators and without powers of ten."""

_UNDATED: Final = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Metadata that keeps the date out of a file, by suffix."""
_WIDTH_INCHES, _NARROW_INCHES = 14.0, 10.0
_ROW_INCHES, _FRAME_INCHES, _TIMELINE_INCHES, _LEGEND_INCHES, _NOTE_INCHES = 0.36, 1.15, 2.1, 0.21, 0.15
_LOW_INCHES, _CURVES_INCHES, _STUDY_INCHES = 2.6, 4.3, 5.0
_DOTS_PER_INCH, _DOTS_PER_INCH_SHOWN = 150, 80
_LEFT_INCHES, _TOP_INCHES, _POINTS_PER_INCH, _SPACING = 0.14, 0.1, 72, 1.35
_LABEL_CHARACTERS, _NOTE_CHARACTERS, _TITLE_CHARACTERS = 36, 150, 115
_CHARACTER_INCHES, _BAR_AXES_INCHES = 0.072, 10.0
_HEAD: Final = (
    (13.0, "bold", "black", 8.2),
    (9.5, "normal", "#555555", 11.8),
    (9.5, "normal", data.NO_FIGURE, 11.8),
)
"""Size [points], weight, colour, and characters per inch of title, description, and warnings."""
_HATCHES: Final = {
    Shape.SOLID: None,
    Shape.RISING: "////",
    Shape.FALLING: "\\\\\\\\",
    Shape.DOTS: "..",
    Shape.LINES: "--",
    Shape.CROSSED: "xxx",
}
_HATCHED_FROM: Final = 0.012
"""Smallest share of an axis for a hatched bar; narrower bars are plain."""
_MARKERS: Final = {"circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "cross": "x"}
_RULES: Final = ((0, (4, 2)), (0, (1, 2)))
_PART_COLOURS: Final = ("#d9d9d9", "#f2f2f2")
_RIGHT: Final = 0.7
"""Share of the axis beyond which names of points are to their left."""
_LEAST_APART: Final = 0.045
"""Smallest distance of tick labels, as a share of the axis."""


def check_plot_path(path: str | Path) -> None:
    """Raise `OutputError` if a chart cannot be written to a path; callers check this before a simulation."""
    suffix = Path(path).suffix
    if suffix.lower() not in _UNDATED:
        what = f"`{suffix}` is not a format for charts" if suffix else "the name of a chart needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {', '.join(_UNDATED)}")
    check_writable(path)


def write_sheet(make: Callable[[], data.Sheet], path: str | Path, inputs: Iterable[tuple[str, str]]) -> None:
    """Draw the charts of `make()` into a PNG, SVG or PDF file; the same charts give the same pixels.

    Raises:
        OutputError: The suffix is not a format, or the file is one of `inputs` (path, SHA-256) or not writable.
    """
    check_not_read(path, "plot", inputs)
    check_plot_path(path)
    suffix = Path(path).suffix.lower()
    buffer = BytesIO()
    with _podsim_style():
        figure = figure_of(make())
        _round_layout(figure)
        figure.savefig(buffer, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=_UNDATED[suffix])
    content = buffer.getvalue()
    # Comments of an SVG hold texts without escapes.
    write_atomically(path, xml(content.decode(errors="replace")).encode() if suffix == ".svg" else content)


class _NotebookFigure(Figure):
    """A figure that a notebook shows even if pyplot is not imported."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        with _podsim_style():
            self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH_SHOWN)
        return buffer.getvalue()


@contextmanager
def _podsim_style() -> Iterator[None]:
    """Apply podsim's own style, independent of the user's matplotlibrc."""
    with rc_context():
        rcdefaults()
        rcParams["svg.hashsalt"] = "podsim"
        rcParams["text.parse_math"] = False  # a name may hold dollar signs, which would begin a formula
        yield


def _round_layout(figure: Figure) -> None:
    """Round the layout of axes, since the last digit of matplotlib's layout solver may vary."""
    if (engine := figure.get_layout_engine()) is None:
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for part in (subfigure for row in figure.subfigs for subfigure in (row, *row.subfigs)):
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(6))
    for axes in figure.axes:
        left, bottom, width, height = (round(bound, 6) for bound in axes.get_position(original=True).bounds)
        axes.set_position((left, bottom, width, height))


@_podsim_style()
def figure_of(sheet: data.Sheet) -> Figure:
    """Return a figure of charts below a title, a description and warnings; raise `PodsimError` without charts."""
    if not sheet.rows:
        raise PodsimError(f"there is nothing to draw: {sheet.title}", do="leave the chart out, and print the answer")
    alone = len(sheet.rows) == len(sheet.rows[0]) == 1 and isinstance(sheet.rows[0][0].drawn, (Study, Curves))
    width_inches = _NARROW_INCHES if alone else _WIDTH_INCHES
    lines = [
        (terminal(line), points, _SPACING * points / _POINTS_PER_INCH, {"fontweight": weight, "color": colour})
        for texts, (points, weight, colour, characters) in zip(
            (sheet.title.splitlines(), sheet.about, sheet.warnings), _HEAD, strict=True
        )
        for text in texts
        for line in wrap(text, int(characters * width_inches))
    ]
    head_inches = _TOP_INCHES + sum(height for *_, height, _ in lines) + _TOP_INCHES
    rows_inches = [max(map(_height_inches, row)) for row in sheet.rows]
    figure = _NotebookFigure(figsize=(width_inches, head_inches + sum(rows_inches)), layout="constrained")
    parts = figure.subfigures(1 + len(rows_inches), 1, squeeze=False, height_ratios=[head_inches, *rows_inches])
    head, *below = parts.flat
    below_inches = _TOP_INCHES
    for text, points, height, look in lines:
        head.text(_LEFT_INCHES / width_inches, 1 - below_inches / head_inches, text, va="top", fontsize=points, **look)
        below_inches += height
    for part, row in zip(below, sheet.rows, strict=True):
        places = [part] if len(row) == 1 else list(part.subfigures(1, len(row), squeeze=False).flat)
        for place, chart in zip(places, row, strict=True):
            title = "" if alone or chart.title in sheet.title else chart.title
            _draw(chart, place, title, is_first=chart is row[0])
    return figure


def _height_inches(chart: Chart) -> float:
    legend = 0.6 + _LEGEND_INCHES * (len(chart.legend) + bool(chart.legend_title))
    match chart.drawn:
        case Bars(rows=rows):
            lines = sum(max(1, 0.62 * len(_label(row).splitlines())) for row in rows)
            return max(_FRAME_INCHES + _ROW_INCHES * lines + _NOTE_INCHES * len(chart.notes), legend)
        case TimelineChart(rows=rows):
            return max(_TIMELINE_INCHES + _ROW_INCHES * len(rows), legend)
        case Curves(series=series):
            return _LOW_INCHES if any(curve.mark is Mark.AREA for curve in series) else _CURVES_INCHES
        case Study():
            return _STUDY_INCHES


def _draw(chart: Chart, place: Figure | SubFigure, title: str, *, is_first: bool) -> None:
    """Draw a chart and its title, if any; only the first chart of a row has a legend of series."""
    match chart.drawn:
        case Bars() | Curves():
            axes = place.subplots()
            if isinstance(chart.drawn, Bars):
                _draw_bars(axes, chart.drawn)
            else:
                _draw_curves(axes, chart.drawn, with_legend=is_first)
            axes.set_title(fill(title, _TITLE_CHARACTERS), loc="left", fontsize=10.5)
            lines = [line for note in chart.notes for line in wrap(note, _NOTE_CHARACTERS)]
            axes.set_xlabel("\n".join([axes.get_xlabel(), *lines]), fontsize=9)
        case TimelineChart():
            _draw_timeline(place, chart.drawn)
        case Study():
            _draw_study(place, chart.drawn)
    if chart.legend:
        handles = [Patch(label=text, **_patch_look(swatch)) for text, swatch in chart.legend.items()]
        look: dict[str, Any] = {"loc": "outside right upper", "frameon": False, "fontsize": 9.5}
        place.legend(handles=handles, title=chart.legend_title or None, **look)


def plain_frame(axes: Axes) -> None:
    """Show only the horizontal axis, with small numbers."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="x", labelsize=8.5)


def write_on_bar(axes: Axes, x: float, y: float, text: str, background: str, points: float = 8.5) -> None:
    """Write text in the middle of a bar, in a colour that contrasts with the bar."""
    axes.text(x, y, text, ha="center", va="center", fontsize=points, color=Fill(background).ink)


def _patch_look(swatch: Fill, *, hatched: bool = True) -> dict[str, Any]:
    """Return matplotlib's keywords for a patch with a fill; the edge colour is the colour of the hatch."""
    hatch = _HATCHES[swatch.shape] if hatched else None
    ink = "#ffffff66" if swatch.ink == data.PAPER else "#00000055"
    return {"facecolor": swatch.colour, "hatch": hatch, "edgecolor": ink, "linewidth": 0}


def _label(row: str) -> str:
    return fill(row, _LABEL_CHARACTERS, break_long_words=False)


def _draw_bars(axes: Axes, drawn: Bars) -> None:
    rows, (low, high) = {row: number for number, row in enumerate(drawn.rows)}, drawn.ends
    for bar in drawn.bars:
        row, length = rows[bar.row], bar.end - bar.start
        hatched = abs(length) >= _HATCHED_FROM * (high - low)
        axes.barh(row, length, left=bar.start, height=0.76, **_patch_look(bar.fill, hatched=hatched))
        side, text_x = bar.text_place((low, high))
        if side != "inside":
            shift, aligned = (4, "left") if side == "right" else (-4, "right")
            look: dict[str, Any] = {"textcoords": "offset points", "ha": aligned, "va": "center", "fontsize": 8.5}
            if bar.text:
                axes.annotate(bar.text, (text_x, row), (shift, 0), **look)
        elif bar.text and abs(length) / (high - low) * _BAR_AXES_INCHES >= _CHARACTER_INCHES * (len(bar.text) + 1):
            write_on_bar(axes, text_x, row, bar.text, bar.fill.colour)
    for (name, x), dashes in zip(drawn.rules.items(), _RULES, strict=False):
        axes.axvline(x, color="black", linewidth=0.9, linestyle=dashes if x else "-", label=name)
    axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8.5)
    axes.set(xlim=(low, high), ylim=(len(rows) - 0.45, -0.55), xlabel=drawn.x.title)
    axes.tick_params(axis="y", length=0)
    plain_frame(axes)


def _set_up_axis(axes: Axes, axis: Axis, which: str, values: Sequence[float]) -> None:
    """Set limits, ticks and title of an axis of numbers; `which` is `x` or `y`."""
    line = getattr(axes, f"{which}axis")
    if axis.is_log:
        getattr(axes, f"set_{which}scale")("log", base=2 if axis.ticks else 10)
        line.set_major_locator(LogLocator(subs=(1, 2, 5)))
        line.set_minor_locator(NullLocator())
    elif axis.ends is not None or axis.from_zero:
        axes.set(**{f"{which}lim": axis.ends or (0, 1.08 * max(values, default=0.0) or 1)})
    line.set_major_formatter(PLAIN)
    if axis.ticks:
        scale: Callable[[float], float] = log2 if axis.is_log else float
        least = _LEAST_APART * (scale(axis.ticks[-1]) - scale(axis.ticks[0]))
        labelled: list[float] = []  # ticks whose labels do not overlap
        for tick in axis.ticks:
            if not labelled or scale(tick) - scale(labelled[-1]) >= least:
                labelled.append(tick)
        line.set_ticks(labelled, [PLAIN(tick) for tick in labelled])
        line.set_minor_locator(NullLocator())
    line.set_label_text(axis.title, fontsize=9)


def _draw_curves(axes: Axes, drawn: Curves, *, with_legend: bool) -> None:
    for series in drawn.series:
        _draw_series(axes, series)
    axes.margins(0.12)
    _set_up_axis(axes, drawn.x, "x", [x for series in drawn.series for x in series.x])
    _set_up_axis(axes, drawn.y, "y", [y for series in drawn.series for y in series.y])
    heights = [y for series in drawn.series if series.mark is Mark.AREA for y in series.y]
    if drawn.series[0].mark is Mark.AREA and all(float(height).is_integer() for height in heights):
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    for series in drawn.series:
        _write_texts(axes, series)
    for (name, x), dashes in zip(drawn.rules.items(), _RULES, strict=False):
        axes.axvline(x, color=data.INK, linewidth=0.9, linestyle=dashes)
        height, aligned = (0.04, "bottom") if dashes is _RULES[0] else (0.96, "top")
        where: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "ha": "left", "va": aligned}
        axes.text(x, height, f" {name}", fontsize=8.5, rotation=90, **where)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    if with_legend and axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9, loc="best", ncols=1)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_series(axes: Axes, series: data.Series) -> None:
    x, y = list(series.x), list(series.y)
    look: dict[str, Any] = {"color": series.colour, "label": series.name or "_"}
    dashes: Any = (0, series.dash) if series.dash else "-"
    match series.mark:
        case Mark.AREA:
            axes.stairs(y, x, fill=True, **look)
        case Mark.LEVELS:
            axes.stairs(y, x, linewidth=1.2, baseline=None, **look)
        case Mark.BAND:
            axes.fill_between(x, y, list(series.to), alpha=0.2, linewidth=0, **look)
        case Mark.POINTS:
            axes.plot(x, y, linestyle="", marker=_MARKERS[series.marker], markersize=7, zorder=3, **look)
        case Mark.STEPS_AFTER | Mark.STEPS_BEFORE:
            steps = "steps-post" if series.mark is Mark.STEPS_AFTER else "steps-pre"
            axes.plot(x, y, drawstyle=steps, linestyle=dashes, zorder=2, **look)
        case Mark.LINE:
            marker = _MARKERS[series.marker]
            axes.plot(x, y, marker=marker, markersize=4, linewidth=1.8, linestyle=dashes, zorder=3, **look)


def _write_texts(axes: Axes, series: data.Series) -> None:
    """Write the names of points on the side with room; points at the same place share a text."""
    together: dict[tuple[float, float], list[str]] = {}
    for x, y, text in zip(series.x, series.y, series.texts, strict=False):
        if text:
            together.setdefault((float(f"{x:.3g}"), float(f"{y:.3g}")), []).append(text)
    low, high = axes.get_xlim()
    for (x, y), (name, *more) in together.items():
        text = f"{name}, and {len(more)} more" if more else name
        shift, aligned = (-6, "right") if x > low + (high - low) * _RIGHT else (6, "left")
        look: dict[str, Any] = {"ha": aligned, "fontsize": 8, "color": "#333333"}
        axes.annotate(text, (x, y), xytext=(shift, 5), textcoords="offset points", **look)


def _draw_timeline(place: Figure | SubFigure, drawn: TimelineChart) -> None:
    """Draw an overview of the whole, above windows in which every row is a bar."""
    whole, *windows = drawn.stretches
    windows = windows or [data.TimelineStretch(f"The whole {drawn.what}", whole.start, whole.end)]
    lengths = [window.end - window.start for window in windows]
    heights = [0.55, 1.0 + _ROW_INCHES * len(drawn.rows)]
    widths = [max(0.6, length / max(lengths)) for length in lengths]
    grid = place.add_gridspec(2, len(windows), height_ratios=heights, width_ratios=widths)
    letters = "ABC" if len(windows) > 1 else " "
    _draw_overview(place.add_subplot(grid[0, :]), drawn, dict(zip(letters, windows, strict=False)))
    first: Axes | None = None
    for column, (letter, window) in enumerate(zip(letters, windows, strict=False)):
        axes = place.add_subplot(grid[1, column], sharey=first)
        _draw_window(axes, drawn, window)
        axes.set_title(f"{letter}   {window.title}".strip(), loc="left", fontsize=10)
        axes.tick_params(axis="y", length=0, labelleft=first is None)
        first = first or axes


def _draw_overview(axes: Axes, drawn: TimelineChart, windows: dict[str, data.TimelineStretch]) -> None:
    """Draw the whole as a strip of its parts, and mark the windows below on it."""
    end = drawn.stretches[0].end
    for number, part in enumerate(drawn.parts):
        length = part.end - part.start
        axes.barh(0, length, left=part.start, height=0.8, color=_PART_COLOURS[number % 2], edgecolor="#888888", lw=0.6)
        if length > 0.04 * end:
            axes.text(part.start + length / 2, 0, part.title, ha="center", va="center", fontsize=9)
    for letter, window in windows.items() if len(windows) > 1 else ():
        axes.axvspan(window.start, window.end, color="#f0a000", alpha=0.3, lw=0.8)
        # Short windows at the start are close together, so the second letter is to the right of its window.
        at, side = (window.end, "left") if letter == "B" else ((window.start + window.end) / 2, "center")
        axes.text(at, 0.5, letter, ha=side, va="bottom", fontsize=9)
    axes.set(xlim=(0, end), ylim=(-0.45, 0.85), yticks=[])
    # The padding leaves room for the letters between the strip and its title.
    axes.set_title(f"One {drawn.what}", loc="left", fontsize=10.5, pad=12)
    axes.set_xlabel(f"time since the start of the {drawn.what} [{drawn.x.unit}]", fontsize=9)
    plain_frame(axes)


def _draw_window(axes: Axes, drawn: TimelineChart, window: data.TimelineStretch) -> None:
    rows = {row: number for number, row in enumerate(drawn.rows)}
    shortest = _HATCHED_FROM * (window.end - window.start)
    groups: dict[tuple[int, Fill, bool], list[tuple[float, float]]] = {}
    for bar in drawn.bars:
        start, end = max(bar.start, window.start), min(bar.end, window.end)
        if start < end:
            group = groups.setdefault((rows[bar.row], bar.fill, end - start >= shortest), [])
            group.append((start, end - start))
    for (row, swatch, hatched), spans in groups.items():
        # Short bars are rasterised: as vectors, thousands of them would make a file of many MB.
        axes.broken_barh(spans, (row - 0.41, 0.82), rasterized=not hatched, **_patch_look(swatch, hatched=hatched))
    for part in drawn.parts:
        if window.start < part.start < window.end:
            axes.axvline(part.start, color="black", lw=0.8, ls=_RULES[0])
    axes.set(xlim=(window.start, window.end), ylim=(len(rows) - 0.45, -0.55))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_xlabel(f"[{drawn.x.unit}]", fontsize=9)
    plain_frame(axes)


def _draw_study(place: Figure | SubFigure, drawn: Study) -> None:
    """Draw a metric over the keys of a study; points without the metric are crosses or grey cells."""
    norm = Normalize(*drawn.ends)
    match drawn.plot:
        case StudyPlot.HEAT_MAP:
            _draw_heat_maps(place, drawn, norm)
        case StudyPlot.DOTS:
            _draw_dots(place.add_subplot(), drawn, norm)
        case StudyPlot.PARALLEL:
            _draw_parallel(place.add_subplot(), drawn, norm)
    # `figure.axes` of a subfigure would hold the axes of all subfigures.
    place.colorbar(ScalarMappable(norm, data.COLOURS), ax=list(place.axes), label=drawn.figure.title, format=PLAIN)


def _draw_heat_maps(place: Figure | SubFigure, drawn: Study, norm: Normalize) -> None:
    """Draw the first key on the vertical axis and the second on the horizontal one; a map for each value of a third."""
    down, across, *split = drawn.keys
    count = len(split[0].values) if split else 1
    columns = min(count, 2 if count in (2, 4) else 3)
    grid = place.subplots(-(-count // columns), columns, squeeze=False)
    maps = [[[nan] * len(across.values) for _ in down.values] for _ in range(count)]
    for point in drawn.order:  # from the worst to the best
        if (value := drawn.values[point]) is not None:
            maps[split[0].at[point] if split else 0][down.at[point]][across.at[point]] = value
    for axes in grid.flat[count:]:
        axes.remove()
    for number, (axes, cells) in enumerate(zip(grid.flat, maps, strict=False)):
        axes.set_facecolor(data.LEFT_OUT)
        axes.imshow(cells, aspect="auto", cmap=data.COLOURS, origin="lower", norm=norm)
        for key, line in ((across, axes.xaxis), (down, axes.yaxis)):
            step = -(-len(key.values) // 20)  # at most 20 labels
            line.set_ticks(range(0, len(key.values), step), list(key.values)[::step])
        axes.tick_params(axis="x", rotation=45 if across.is_crowded else 0)
        axes.set(xlabel=across.axis.title, ylabel=down.axis.title)
        for row, column in product(range(len(down.values)), range(len(across.values))) if drawn.has_texts else ():
            text, ink = ("–", "black") if isnan(cells[row][column]) else drawn.text(cells[row][column])
            axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=8)
        if split:
            axes.set_title(f"{split[0].axis.title} {split[0].values[number]}", fontsize=10)
            axes.label_outer()


def _draw_dots(axes: Axes, drawn: Study, norm: Normalize) -> None:
    down, across = drawn.keys
    places = [(across.numbers[x], down.numbers[y]) for x, y in zip(across.at, down.at, strict=True)]
    dots = [(*place, value) for place, value in zip(places, drawn.values, strict=True) if value is not None]
    x, y, values = zip(*dots, strict=True)
    axes.scatter(x, y, c=values, norm=norm, cmap=data.COLOURS, s=45.0)
    missing = [place for place, value in zip(places, drawn.values, strict=True) if value is None]
    if missing:
        axes.plot(*zip(*missing, strict=True), "x", color=data.NO_FIGURE, label="no figure")
        axes.legend(frameon=False, fontsize=9)
    axes.set(xlabel=across.axis.title, ylabel=down.axis.title)


def _draw_parallel(axes: Axes, drawn: Study, norm: Normalize) -> None:
    """Draw a line for each point through its value of every key, with the best lines in front."""
    for point in drawn.order:
        if (value := drawn.values[point]) is not None:
            heights = [key.place(point) for key in drawn.keys]
            colour = colormaps[data.COLOURS](norm(value))
            axes.plot(range(len(heights)), heights, color=colour, alpha=0.6, linewidth=1)
    for place, key in enumerate(drawn.keys):
        axes.axvline(place, color="#888888", linewidth=0.8)
        for height, text in key.ticks.items():
            axes.text(place, height, f" {text}", fontsize=8, va="center")
    axes.set_xticks(range(len(drawn.keys)), [key.axis.title for key in drawn.keys])
    axes.set(yticks=[], xlim=(-0.1, len(drawn.keys) - 0.75))
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
