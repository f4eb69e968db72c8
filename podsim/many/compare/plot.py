"""A chart of a comparison: a waterfall for every stretch of time, from the first result to each of the others."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podsim.errors import PodsimError
from podsim.many.compare.comparison import Comparison
from podsim.many.compare.difference import Step, Waterfall
from podsim.many.compare.wording import change_of, duration_of_ps
from podsim.result.kinds import kind_of
from podsim.show.chart_frame import plain_frame, write_figure
from podsim.units import ps_to_seconds

_MS_PER_S: Final = 1000
_WIDTH_INCHES, _ROW_INCHES, _HEAD_INCHES = 12.0, 0.3, 1.2
_TOTAL, _LESS, _MORE = "#737373", "#2171b5", "#e6750f"  # apart in grey and for the colour-blind
_DIGITS, _CHARACTERS = 4, 150
_ROOM: Final = 1.18
"""Of the axis beyond the longest bar, for the labels."""


def plot_comparison(found: Comparison, path: str | Path) -> None:
    """Draw the waterfalls of a comparison.

    Args:
        found: The comparison.
        path: A .png, .svg or .pdf file to make or replace.

    Raises:
        PodsimError: It has no waterfall.
        OutputError: The path cannot be written.
    """
    drawn = [(letter, each) for letter, other in found.lettered() for each in other.waterfalls]
    if not drawn:
        what = f"results of {found.subjects[0].activity} hold no time by kind, so that there is nothing to draw"
        raise PodsimError(what, where=str(path), do="leave `--plot` out")
    write_figure(path, lambda: _figure(found, drawn), found.inputs)


def _figure(found: Comparison, drawn: list[tuple[str, Waterfall]]) -> Figure:
    rows = [len(_moved(each)) + 2 for _, each in drawn]
    letters = ["A", *(letter for letter, _ in found.lettered())]
    about = [f"{letter}: {each.label}, {each.machine}" for letter, each in zip(letters, found.subjects, strict=True)]
    lines = [line for text in about for line in wrap(text, _CHARACTERS)]
    height_inches = sum(_HEAD_INCHES + _ROW_INCHES * count for count in rows) + _ROW_INCHES * len(lines)
    figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
    grid = figure.subplots(len(drawn), 1, squeeze=False, height_ratios=rows)
    for axes, (letter, each) in zip(grid.flat, drawn, strict=True):
        _draw(axes, letter, each)
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10)
    return figure


def _moved(waterfall: Waterfall) -> list[Step]:
    """Steps that change anything, the largest first."""
    return sorted((step for step in waterfall.steps if step.change_ps), key=lambda step: -abs(step.change_ps))


def _draw(axes: Axes, letter: str, waterfall: Waterfall) -> None:
    steps, a_ms, b_ms = _moved(waterfall), _ms(waterfall.a_ps), _ms(waterfall.b_ps)
    names = ["A", *(kind_of(step.kind).label for step in steps), letter]
    _bar(axes, 0, 0.0, a_ms, _TOTAL, duration_of_ps(waterfall.a_ps, _DIGITS))
    reached_ps, furthest_ms = waterfall.a_ps, a_ms
    for row, step in enumerate(steps, 1):
        ends_ms = sorted((_ms(reached_ps), _ms(reached_ps + step.change_ps)))
        sign, colour = ("-", _LESS) if step.change_ps < 0 else ("+", _MORE)
        label = f"{sign}{duration_of_ps(abs(step.change_ps), _DIGITS - 1)}"
        _bar(axes, row, ends_ms[0], ends_ms[1] - ends_ms[0], colour, label)
        axes.plot([_ms(reached_ps)] * 2, [row - 1, row], color=_TOTAL, linewidth=0.6)
        reached_ps += step.change_ps
        furthest_ms = max(furthest_ms, ends_ms[1])
    _bar(axes, len(steps) + 1, 0.0, b_ms, _TOTAL, duration_of_ps(waterfall.b_ps, _DIGITS))
    axes.set_yticks(range(len(names)), names, fontsize=9)
    axes.set(xlim=(0, max(furthest_ms, b_ms) * _ROOM or 1.0), ylim=(len(names) - 0.45, -0.55))
    axes.tick_params(axis="y", length=0)
    change = f": {change_of(b_ms / a_ms - 1, _DIGITS)}" if a_ms else ""
    axes.set_title(f"{waterfall.span.capitalize()} from A to {letter}{change}", loc="left", fontsize=10.5)
    axes.set_xlabel("time [ms]", fontsize=9)
    plain_frame(axes)


def _bar(axes: Axes, row: int, left: float, length: float, colour: str, label: str) -> None:
    axes.barh(row, length, left=left, height=0.7, color=colour, linewidth=0)
    axes.text(left + length, row, f" {label}", va="center", fontsize=8.5)


def _ms(time_ps: int) -> float:
    return ps_to_seconds(time_ps) * _MS_PER_S
