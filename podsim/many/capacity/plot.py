"""The options of an answer as a chart: the objective against the second figure, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podsim.errors import PodsimError
from podsim.format import format_energy_j
from podsim.many.capacity.answer import Answer
from podsim.many.capacity.front import value
from podsim.many.capacity.option import Option
from podsim.many.capacity.show import headline
from podsim.many.capacity.wording import axis_label
from podsim.metrics import JOULES, SECONDS, WATTS, metric_of
from podsim.show.chart_frame import write_figure

_SIZE_INCHES: Final = (10.0, 5.5)
_FRONT, _OTHER, _OUT = "#1b6ca8", "#888888", "#9a4a00"
_MOST_LABELS: Final = 12
"""Of more points, those of the front alone have names."""
_RIGHT: Final = 0.7
"""Labels of points further right stand to their left."""
_TIMES: Final = ((2 * 86400.0, "d", 86400.0), (7200.0, "h", 3600.0), (120.0, "min", 60.0))
_J_PER_KWH: Final = 3.6e6


def plot_answer(answer: Answer, path: str | Path) -> None:
    """Draw all options with both figures.

    Args:
        answer: What was found.
        path: A .png, .svg or .pdf file to make or replace.

    Raises:
        PodsimError: No option has both figures.
        OutputError: The path cannot be written.
    """
    write_figure(path, lambda: _figure(answer), answer.inputs)


def _figure(answer: Answer) -> Figure:
    first, second = answer.goal.figure, answer.second
    placed = [option for option in (*answer.ranked, *answer.ruled_out) if second and _point(option, first, second)]
    if second is None or not placed:
        raise PodsimError("no option has two figures to draw", do="name the second with --second")
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    _draw(axes, answer, first, second, placed)
    figure.suptitle(headline(answer), x=0.01, ha="left", fontsize=11, fontweight="bold", wrap=True)
    return figure


def _draw(axes: Axes, answer: Answer, first: str, second: str, placed: Sequence[Option]) -> None:
    scales = [_scale(name, [value(option, name) or 0.0 for option in placed]) for name in (first, second)]
    front = list(answer.front)
    ranked = [option for option in placed if option in answer.ranked and option not in front]
    out = [option for option in placed if option in answer.ruled_out]
    looks = ((out, "x", _OUT, "misses a limit"), (ranked, "o", _OTHER, "within all limits"))
    for options, marker, colour, label in looks:
        if options:
            axes.scatter(*_places(options, first, second, scales), marker=marker, color=colour, label=label, zorder=2)
    if front:
        across, up = _places(front, first, second, scales)
        label = "no other beats it in both"
        drawn = "steps-post" if not metric_of(first).more_is_better else "steps-pre"
        axes.plot(across, up, marker="o", color=_FRONT, label=label, drawstyle=drawn, zorder=3)
    axes.margins(0.12)
    labelled = front if len(placed) > _MOST_LABELS else placed
    for (x, y), names in _labels(labelled, first, second, scales).items():
        text = names[0] if len(names) == 1 else f"{names[0]}, and {len(names) - 1} more"
        side = -1 if x > axes.get_xlim()[1] * _RIGHT else 1
        aligned = "left" if side > 0 else "right"
        shift = (6 * side, 5)
        axes.annotate(text, (x, y), xytext=shift, textcoords="offset points", ha=aligned, fontsize=8, color="#333333")
    axes.set_xlabel(_label(first, scales[0], answer.currency))
    axes.set_ylabel(_label(second, scales[1], answer.currency))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)


def _labels(
    options: Sequence[Option], first: str, second: str, scales: Sequence[tuple[str, float]]
) -> dict[tuple[float, float], list[str]]:
    """Names of options by their place, those at the same place together."""
    found: dict[tuple[float, float], list[str]] = {}
    for option in options:
        (x,), (y,) = _places([option], first, second, scales)
        found.setdefault((float(f"{x:.3g}"), float(f"{y:.3g}")), []).append(option.label)
    return found


def _point(option: Option, first: str, second: str) -> bool:
    return value(option, first) is not None and value(option, second) is not None


def _places(
    options: Sequence[Option], first: str, second: str, scales: Sequence[tuple[str, float]]
) -> tuple[list[float], list[float]]:
    across = [(value(option, first) or 0.0) / scales[0][1] for option in options]
    return across, [(value(option, second) or 0.0) / scales[1][1] for option in options]


def _scale(figure: str, values: Sequence[float]) -> tuple[str, float]:
    """Unit of an axis, and what it is in the base unit; empty for the base unit."""
    largest, unit = max(values), metric_of(figure).unit
    if unit == SECONDS:
        return next(((unit, scale) for least, unit, scale in _TIMES if largest >= least), ("", 1.0))
    if unit == JOULES and format_energy_j(largest).endswith("kWh"):
        return "kWh", _J_PER_KWH
    return ("kW", 1000.0) if unit == WATTS and largest >= 1000 else ("", 1.0)


def _label(figure: str, scale: tuple[str, float], currency: str) -> str:
    words = axis_label(figure, currency)
    return f"{words.partition(' [')[0]} [{scale[0]}]" if scale[0] else words
