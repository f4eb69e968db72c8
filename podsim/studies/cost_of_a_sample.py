"""A chart of what scaling costs: the time of one IPU for one sample, by kind of time, on more and more IPUs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from podsim.report.format import format_percent
from podsim.report.kinds import in_kind_order, kind_of
from podsim.report.result import RunResult
from podsim.studies.chart import Chart, bare_frame, chart_of_height
from podsim.studies.speedups import samples_of_update

if TYPE_CHECKING:
    from pandas import DataFrame

_MS_PER_S, _US_PER_S = 1e3, 1e6
_LONG_SAMPLE_S: Final = 5e-3
_TOGETHER: Final = ("matmul", "vector", "reduction", "exchange", "rearrange", "sync", "superstep")
_SMALL_SHARE: Final = 0.005
_SUM_INCHES, _NUMBER_INCHES, _TEXT_INCHES, _YTICKS_INCHES = 2.8, 0.42, 1.0, 0.65
_COLUMN_INCHES, _CHARACTER_INCHES = 0.16, 0.07
_HEADING_CHARACTERS: Final = 20


def cost_of_a_sample_chart(frame: DataFrame, results: Mapping[str, RunResult]) -> Chart:
    """Time of one IPU for one sample, a column for each kind of time: what grows is what scaling costs.

    Rows are pods and all columns have one scale; each column starts at one place for all pods.

    Args:
        frame: Scenarios of one model as index; column `ipus`, smallest pod first, and
            `measured_update_ms` if measured times shall stand beside.
        results: Runs by scenario.
    """
    counts = [samples_of_update(results[name]) / frame["ipus"][name] for name in frame.index]
    parts = [_per_sample(results[name].breakdown, count) for name, count in zip(frame.index, counts, strict=True)]
    logged_ms = frame.get("measured_update_ms", ())
    measured = [ms / _MS_PER_S / count for ms, count in zip(logged_ms, counts, strict=False)]
    figure = chart_of_height(1.1 + 0.46 * len(parts))
    axes = figure.add_subplot()
    left = _columns(axes, parts)
    left = _totals(axes, left, [sum(each.values()) for each in parts], measured)
    figure.set_figwidth(_YTICKS_INCHES + left * _SUM_INCHES / _longest(parts))
    axes.set_yticks(range(len(parts)), [f"POD{ipus}" for ipus in frame["ipus"]])
    axes.set(xlim=(0, left), ylim=(len(parts) - 0.5, -0.5), xticks=[])
    axes.set_title(f"Time of one IPU for one sample [{_unit(_longest(parts))[1]}]", loc="left", fontsize=10.5, pad=38)
    bare_frame(axes)
    axes.spines["bottom"].set_visible(False)
    return figure


def _per_sample(breakdown: Mapping[str, float], count: float) -> dict[str, float]:
    return {kind: breakdown[kind] / count for kind in in_kind_order(breakdown) if breakdown[kind]}


def _longest(parts: Iterable[Mapping[str, float]]) -> float:
    return max(sum(each.values()) for each in parts)


def _columns(axes: Axes, parts: Sequence[Mapping[str, float]]) -> float:
    """A column of bars for each kind, or for several that stay together; returns the right end."""
    longest = _longest(parts)
    inch, left = longest / _SUM_INCHES, 0.0
    for name, kinds in _kinds_of_columns(parts).items():
        shown = [kind for kind in kinds if _peak(parts, [kind]) >= _SMALL_SHARE * longest]
        inside = ", ".join(kind_of(kind).label for kind in shown)
        heading = fill(f"{name}: {inside}", _HEADING_CHARACTERS) if len(shown) > 1 else _broken(name)
        axes.text(left, -0.45, heading, va="bottom", fontsize=8.5)
        for place, each in enumerate(parts):
            _bar(axes, place, left, {kind: each[kind] for kind in kinds if kind in each}, longest)
        least = _COLUMN_INCHES + _CHARACTER_INCHES * max(map(len, heading.splitlines()))
        left += max(_peak(parts, kinds) + _NUMBER_INCHES * inch, least * inch)
    return left


def _broken(name: str) -> str:
    """A name in several lines: a column may then be narrow."""
    return name.replace(" ", "\n").replace("-", "-\n")


def _kinds_of_columns(parts: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """Kinds by heading: work on the chip, which no pod changes, and what is too small stay with their family."""
    columns: dict[str, list[str]] = {}
    for kind in in_kind_order(kind for each in parts for kind in each):
        small = _peak(parts, [kind]) < _SMALL_SHARE * _longest(parts)
        known = kind_of(kind)
        columns.setdefault(known.family if small or kind in _TOGETHER else known.label, []).append(kind)
    return columns


def _peak(parts: Iterable[Mapping[str, float]], kinds: Sequence[str]) -> float:
    return max(sum(each.get(kind, 0.0) for kind in kinds) for each in parts)


def _bar(axes: Axes, place: int, left: float, times: Mapping[str, float], longest: float) -> None:
    """Kinds one behind the other, and their sum."""
    end = left
    for kind, time_s in times.items():
        axes.barh(place, time_s, 0.62, left=end, color=kind_of(kind).colour, linewidth=0)
        end += time_s
    if times:
        text = _time(end - left, longest)
        axes.annotate(text, (end, place), (3, 0), textcoords="offset points", va="center", fontsize=8.5)


def _totals(axes: Axes, left: float, totals: Sequence[float], measured: Sequence[float]) -> float:
    """Two columns of text, predicted and measured: the sums, and how fast an IPU is beside the first pod's."""
    longest = max(totals)
    predicted, logged = ([(_time(each, longest), _rate(each, times)) for each in times] for times in (totals, measured))
    behind = "\n(measured)" if measured else ""
    for column, heading in enumerate((f"total{behind}", f"speed of\nan IPU{behind}")):
        left += _TEXT_INCHES * longest / _SUM_INCHES
        axes.text(left, -0.45, heading, ha="right", va="bottom", fontsize=8.5)
        for place, texts in enumerate(predicted):
            text = f"{texts[column]} ({logged[place][column]})" if measured else texts[column]
            axes.text(left, place, text, ha="right", va="center", fontsize=8.5)
    return left


def _rate(time_s: float, times: Sequence[float]) -> str:
    """How fast an IPU is beside the first one."""
    return format_percent(times[0] / time_s, 0)


def _unit(longest_s: float) -> tuple[float, str, int]:
    """Factor, name and decimals that suit times up to this one."""
    return (_MS_PER_S, "ms", 2) if longest_s > _LONG_SAMPLE_S else (_US_PER_S, "us", 0)


def _time(seconds: float, longest_s: float) -> str:
    factor, _, digits = _unit(longest_s)
    return f"{factor * seconds:.{digits}f}"
