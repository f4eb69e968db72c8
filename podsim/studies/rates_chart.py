"""A chart of text generation on more and more IPUs: the rate of one sequence, and the time of a token."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes

from podsim.report.chart_frame import plain_frame
from podsim.studies.chart import MEASURED_INK, Chart, chart_of_height

Points = Mapping[int, float]

_STYLES: Final = (("o", "#2171b5"), ("^", "#1f9e80"), ("s", "#6a2c86"), ("v", "#e6750f"))
_TICKS: Final = tuple(digit * 10.0**power for power in range(-2, 5) for digit in (1, 2, 5))
_MS_PER_S: Final = 1e3
_DASHED: Final = (0, (4, 2))


def rates_chart(predicted: Mapping[str, Points], published: Sequence[tuple[int, float]]) -> Chart:
    """Tokens per second over IPUs beside milliseconds per token, both axes logarithmic.

    Args:
        predicted: Tokens of one sequence per second by number of IPUs, for each way to run the model. [1/s]
        published: Numbers of IPUs with their published rates. [1/s]
    """
    figure = chart_of_height(4.0)
    left, right = figure.subplots(1, 2)
    _panel(left, predicted, published, 1)
    _panel(right, _times_ms(predicted), [(ipus, _MS_PER_S / rate) for ipus, rate in published], -1)
    left.set_title("Tokens per second of one sequence", loc="left", fontsize=10)
    right.set_title("Time of a token [ms]", loc="left", fontsize=10)
    left.set_ylabel("tokens per second, logarithmic", fontsize=9)
    right.set_ylabel("milliseconds per token, logarithmic", fontsize=9)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _times_ms(predicted: Mapping[str, Points]) -> dict[str, Points]:
    return {name: {ipus: _MS_PER_S / rate for ipus, rate in points.items()} for name, points in predicted.items()}


def _panel(axes: Axes, predicted: Mapping[str, Points], published: Sequence[tuple[int, float]], power: int) -> None:
    """Points of each series before a line that is proportional to the IPUs, or to their reciprocal."""
    for number, ((name, points), (marker, colour)) in enumerate(zip(predicted.items(), _STYLES, strict=False)):
        ipus, values = list(points), list(points.values())
        ideal = [values[0] * (each / ipus[0]) ** power for each in ipus]
        axes.plot(ipus, ideal, color=colour, linestyle=_DASHED, linewidth=0.9)
        axes.plot(ipus, values, marker, color=colour, markersize=7, label=f"predicted: {name}")
        for each, value in points.items():
            _note(axes, (each, value), colour, power, right=number % 2 == 0)
    places, values = [ipus for ipus, _ in published], [value for _, value in published]
    axes.plot(places, values, "D", color=MEASURED_INK, markerfacecolor="none", markersize=10, label="published")
    axes.plot([], [], color=MEASURED_INK, linestyle=_DASHED, linewidth=0.9, label="proportional to IPUs")
    _scales(axes, [each for points in predicted.values() for each in points])


def _note(axes: Axes, point: tuple[int, float], colour: str, power: int, *, right: bool) -> None:
    """The value of a point, at one of the two sides where no line goes on."""
    side = 1 if right else -1
    axes.annotate(
        f"{point[1]:.3g}",
        point,
        (9 * side, -6 * side * power),
        textcoords="offset points",
        ha="left" if right else "right",
        va="center",
        fontsize=8.5,
        color=colour,
    )


def _scales(axes: Axes, ipus: Iterable[int]) -> None:
    counts = sorted(set(ipus))
    axes.set(xscale="log", yscale="log", xlabel="IPUs", xlim=(0.65 * counts[0], 1.5 * counts[-1]))
    axes.set_xticks(counts, [f"{each}" for each in counts])
    low, high = axes.get_ylim()
    ticks = [tick for tick in _TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    plain_frame(axes)
    axes.tick_params(labelsize=9)
