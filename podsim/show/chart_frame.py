"""What all charts of results have in common: title, what was simulated and warnings, above the drawing.

Figures are made directly, without pyplot and its global state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Final, TypeVar

from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from podsim.errors import OutputError
from podsim.harmless import terminal, xml
from podsim.result.base import Result
from podsim.result.files import check_not_read, check_writable, write_atomically
from podsim.result.ranges import ranges_line

R = TypeVar("R", bound=Result)
PLOT_SUFFIXES: Final = (".png", ".svg", ".pdf")
WIDTH_INCHES: Final = 14.0

_DOTS_PER_INCH: Final = 150
_CLIP: Final = re.compile(rb"\bp[0-9a-f]{10}\b")
_LUMINANCE: Final = (0.299, 0.587, 0.114)
_LEFT_INCHES, _TOP_INCHES, _POINTS_PER_INCH, _SPACING = 0.14, 0.1, 72, 1.35


@dataclass(frozen=True, slots=True)
class _Style:
    """How lines of the head are written: size [points], weight, colour, and where they are broken."""

    points: float
    weight: str
    colour: str
    characters: int


_TITLE: Final = _Style(13, "bold", "black", 115)
_ABOUT: Final = _Style(9.5, "normal", "#555555", 165)
WARNING_INK: Final = "#9a4a00"
_WARNING: Final = _Style(9.5, "normal", WARNING_INK, 165)


def framed(result: Result, title: str, body_inches: float) -> tuple[Figure, SubFigure]:
    """A figure with its head written, and the part below it to draw in.

    Args:
        result: What it is about.
        title: What the chart shows, in one line or more.
        body_inches: Height of the part below the head.
    """
    lines = list(_head(result, title))
    heights = [_SPACING * style.points / _POINTS_PER_INCH for _, style in lines]
    head_inches = _TOP_INCHES + sum(heights) + _TOP_INCHES
    figure = Figure(figsize=(WIDTH_INCHES, head_inches + body_inches), layout="constrained")
    head, body = figure.subfigures(2, 1, squeeze=False, height_ratios=[head_inches, body_inches]).flat
    below_inches = _TOP_INCHES
    for (text, style), height in zip(lines, heights, strict=True):
        place = _LEFT_INCHES / WIDTH_INCHES, 1 - below_inches / head_inches
        head.text(*place, text, va="top", fontsize=style.points, fontweight=style.weight, color=style.colour)
        below_inches += height
    return figure, body


def _head(result: Result, title: str) -> Iterator[tuple[str, _Style]]:
    told = [f"verdict: {each}" for each in result.verdict] + [f"warning: {each}" for each in result.warnings]
    about = [*result.about, *filter(None, [ranges_line(result.ranges)])]
    for texts, style in ((title.splitlines(), _TITLE), (about, _ABOUT), (told, _WARNING)):
        for text in texts:
            for line in wrap(text, style.characters):
                yield terminal(line), style


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


def write_chart(result: R, path: str | Path, draw: Callable[[R], Figure]) -> None:
    """Draw a result into a PNG, SVG or PDF file, as the suffix says; the same pixels for the same result.

    Args:
        result: What to show.
        path: File to make or replace.
        draw: Draws such a result; called once the path has been checked.

    Raises:
        OutputError: The suffix is not one that can be drawn, or the path cannot be written.
    """
    write_figure(path, lambda: draw(result), result.inputs)


def write_figure(path: str | Path, make: Callable[[], Figure], inputs: Iterable[tuple[str, str]]) -> None:
    """Write a figure as `write_chart` does.

    Args:
        path: File to make or replace.
        make: Makes the figure; called once the path has been checked.
        inputs: (path, SHA-256) of every file it stands on, none of which is overwritten.

    Raises:
        OutputError: As of `write_chart`.
    """
    check_not_read(path, "plot", inputs)
    check_plot_path(path)
    suffix = Path(path).suffix.lower()
    undated = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    buffer = BytesIO()
    with rc_context():
        rcdefaults()  # the same bytes whatever a matplotlibrc of the user says
        rcParams["svg.hashsalt"] = "podsim"
        rcParams["text.parse_math"] = False  # a name may hold dollar signs, which would begin a formula
        figure = make()
        _settle(figure)
        figure.savefig(buffer, format=suffix[1:], dpi=_DOTS_PER_INCH, metadata=undated)
    drawn = buffer.getvalue()
    if suffix == ".svg":  # whose comments hold the texts as they were written
        drawn = _with_numbered_clips(xml(drawn.decode(errors="replace")).encode())
    write_atomically(path, drawn)


def _settle(figure: Figure) -> None:
    """Lay axes out on round numbers: the solver of matplotlib's layouts may end on another last digit."""
    engine = figure.get_layout_engine()
    if engine is None:
        return
    engine.execute(figure)
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position(original=True).bounds
        axes.set_position((round(left, 6), round(bottom, 6), round(width, 6), round(height, 6)))


def _with_numbered_clips(svg: bytes) -> bytes:
    """Names of clip paths in the order they appear: matplotlib's come from the last digits of the layout."""
    names = dict.fromkeys(_CLIP.findall(svg))
    numbers = {name: b"clip%d" % number for number, name in enumerate(names)}
    return _CLIP.sub(lambda match: numbers[match.group()], svg)


def plain_frame(axes: Axes) -> None:
    """Only the horizontal axis, with small numbers."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="x", labelsize=8.5)


def write_on_bar(axes: Axes, x: float, y: float, text: str, background: str, points: float = 8.5) -> None:
    """Text in the middle of a bar, in a colour that is easy to read on that of the bar."""
    axes.text(x, y, text, ha="center", va="center", fontsize=points, color=_text_colour(background))


def legend_entry(colour: str, label: str) -> Patch:
    """A patch of a legend."""
    return Patch(facecolor=colour, edgecolor="#666666", linewidth=0.4, label=label)


def _text_colour(background: str) -> str:
    """Black or white, whichever is easier to read on a background."""
    luminance = sum(weight * part for weight, part in zip(_LUMINANCE, to_rgb(background), strict=True))
    return "white" if luminance < 0.5 else "black"
