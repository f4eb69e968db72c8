"""Charts of many runs: predictions beside measurements, and what scaling costs.

Figures are made directly, without pyplot and its global state. Whatever is predicted is blue, whatever was measured
is grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podsim.report.format import format_percent
from podsim.report.kinds import in_kind_order, kind_of
from podsim.report.result import RunResult

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_PREDICTED: Final = "#2171b5"
_MEASURED: Final = "#bdbdbd"
_MEASURED_INK: Final = "#555555"
_OTHER: Final = "#e6750f"
_BANDS: Final = ((0.10, "#f2f2f2"), (0.05, "#e2e2e2"))
_BAR: Final = 0.42
_WIDTH_INCHES: Final = 11.0
_DOTS_PER_INCH: Final = 100
_MINUTES: Final = (5, 10, 20, 40)
_MS_PER_S, _US_PER_S = 1e3, 1e6
_LONG_SAMPLE_S: Final = 5e-3
_TOGETHER: Final = ("matmul", "vector", "reduction", "exchange", "rearrange", "sync", "superstep")
_SMALL_SHARE: Final = 0.005
_SUM_INCHES, _NUMBER_INCHES, _COLUMN_INCHES, _TEXT_INCHES, _YTICKS_INCHES = 4.0, 0.4, 0.68, 1.15, 0.7
_HEADING_CHARACTERS: Final = 20
_CLEAR: Final = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}


class Chart(Figure):
    """A figure that notebooks show as it is, the same bytes for the same figure."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
        return buffer.getvalue()


def time_to_train_chart(frame: DataFrame, others: Mapping[str, float], other_name: str) -> Chart:
    """Time to train per benchmark and pod, predicted beside measured, and that of another machine.

    Args:
        frame: Columns `benchmark`, `division`, `ipus`, `train_min`, `measured_train_min`.
        others: Time of another machine by benchmark. [min]
        other_name: Its name.
    """
    groups = _by_benchmark(frame)
    figure = _figure(4.2)
    columns = figure.subplots(1, len(groups), squeeze=False, width_ratios=[len(rows) + 1 for rows in groups.values()])
    for axes, (benchmark, rows) in zip(columns.flat, groups.items(), strict=True):
        several = rows["division"].nunique() > 1
        labels = [_pod(row["ipus"], row["division"] if several else "") for _, row in rows.iterrows()]
        _pairs(axes, labels, rows["train_min"], rows["measured_train_min"])
        axes.bar(-1, others[benchmark], 2 * _BAR, color=_OTHER)
        axes.axhline(others[benchmark], color=_OTHER, linewidth=0.8, linestyle=(0, (5, 4)), zorder=0)
        _number(axes, -1, others[benchmark])
        axes.set_xticks(range(-1, len(rows)), [other_name, *labels])
        axes.set_title(f"{benchmark}: time to train [min]", loc="left", fontsize=10.5)
    return figure


def rounds_chart(frame: DataFrame, rounds: tuple[str, str]) -> Chart:
    """Time to train in two rounds, for every pod and division that took part in both.

    Args:
        frame: Columns `benchmark`, `round`, `division`, `ipus`, `train_min`, `measured_train_min`.
        rounds: The earlier and the later one.
    """
    keys = ["benchmark", "ipus", "division"]
    before, after = (frame[frame["round"] == name].set_index(keys) for name in rounds)
    shared = [key for key in before.index if key in after.index]
    figure = _figure(1.0 + 0.55 * len(shared))
    axes = figure.add_subplot()
    for place, key in enumerate(shared):
        for shift, column, colour, name in (
            (-0.17, "train_min", _PREDICTED, "predicted"),
            (0.17, "measured_train_min", _MEASURED_INK, "measured"),
        ):
            ends = float(before.loc[key, column]), float(after.loc[key, column])
            _change(axes, place + shift, ends, colour, name if place == 0 else "")
    axes.set_yticks(range(len(shared)), [f"{benchmark} POD{ipus} {division}" for benchmark, ipus, division in shared])
    axes.set(xscale="log", ylim=(len(shared) - 0.45, -0.55))
    axes.set_xlim(right=1.75 * axes.get_xlim()[1])
    axes.set_xticks(_MINUTES, [str(minutes) for minutes in _MINUTES])
    axes.set_xticks([], minor=True)
    axes.set_title(f"Time to train in rounds {rounds[0]} (hollow) and {rounds[1]} (filled)", loc="left", fontsize=10.5)
    axes.set_xlabel("time to train [min], logarithmic: equal lengths are equal gains", fontsize=9)
    _plain_frame(axes)
    return figure


def accuracy_chart(frame: DataFrame) -> Chart:
    """Error of every weight update, calibration rows hollow, over bands of 5 and 10 %.

    Args:
        frame: Columns `benchmark`, `round`, `division`, `ipus`, `role`, `update_ms`, `measured_update_ms`.
    """
    figure = _figure(1.1 + 0.28 * len(frame))
    axes = figure.add_subplot()
    for band, shade in _BANDS:
        axes.axvspan(-100 * band, 100 * band, color=shade, linewidth=0, zorder=0)
        axes.text(100 * band, -0.6, f"±{100 * band:.0f} %", ha="right", va="bottom", fontsize=8.5, color=_MEASURED_INK)
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    errors = 100 * (frame["update_ms"] / frame["measured_update_ms"] - 1)
    beside = axes.get_yaxis_transform()
    for place, (error, (_, row)) in enumerate(zip(errors, frame.iterrows(), strict=True)):
        _error_dot(axes, place, float(error), hollow=row["role"] == "calibration")
        for edge, column in ((1.09, "update_ms"), (1.19, "measured_update_ms")):
            axes.text(edge, place, f"{row[column]:,.1f}", transform=beside, ha="right", va="center", fontsize=8.5)
    for edge, name in ((1.09, "predicted\n[ms]"), (1.19, "measured\n[ms]")):
        axes.text(edge, -0.6, name, transform=beside, ha="right", va="bottom", fontsize=8.5, color=_MEASURED_INK)
    axes.set_yticks(range(len(frame)), [_submission(row) for _, row in frame.iterrows()])
    reach = max(100 * _BANDS[0][0], float(errors.abs().max())) + 3
    axes.set(xlim=(-reach, reach), ylim=(len(frame) - 0.4, -0.6))
    axes.set_xlabel("predicted ÷ measured - 1 [%]; hollow: the row was used in fitting a constant", fontsize=9)
    axes.set_title("Error of a weight update", loc="left", fontsize=10.5, pad=26)
    _plain_frame(axes)
    return figure


def cost_of_a_sample_chart(frame: DataFrame, results: Mapping[str, RunResult]) -> Chart:
    """Time of one IPU for one sample, a column for each kind of time: what grows is what scaling costs.

    Rows are pods and all columns have one scale; each column starts at one place for all pods.

    Args:
        frame: Scenarios of one model as index; columns `ipus`, `measured_update_ms`, smallest pod first.
        results: Runs by scenario.
    """
    counts = [samples_of_update(results[name]) / frame["ipus"][name] for name in frame.index]
    parts = [_per_sample(results[name].breakdown, count) for name, count in zip(frame.index, counts, strict=True)]
    measured = [ms / _MS_PER_S / count for ms, count in zip(frame["measured_update_ms"], counts, strict=True)]
    figure = _figure(1.1 + 0.46 * len(parts))
    axes = figure.add_subplot()
    left = _columns(axes, parts)
    left = _totals(axes, left, [sum(each.values()) for each in parts], measured)
    figure.set_figwidth(_YTICKS_INCHES + left * _SUM_INCHES / _longest(parts))
    axes.set_yticks(range(len(parts)), [f"POD{ipus}" for ipus in frame["ipus"]])
    axes.set(xlim=(0, left), ylim=(len(parts) - 0.5, -0.5), xticks=[])
    axes.set_title(f"Time of one IPU for one sample [{_unit(_longest(parts))[1]}]", loc="left", fontsize=10.5, pad=38)
    _plain_frame(axes)
    axes.spines["bottom"].set_visible(False)
    return figure


def speedup_chart(frame: DataFrame, results: Mapping[str, RunResult]) -> Chart:
    """From so many times the IPUs to so many times shorter a run, last row of the frame over its first.

    Args:
        frame: Scenarios as index; columns `ipus`, `update_ms`, `measured_update_ms`, `train_min`, `measured_train_min`.
        results: Runs by scenario.
    """
    labels = [
        "IPUs",
        "samples per second\n(a sample costs more)",
        "time in weight updates\n(the run takes more samples)",
        "time to train\n(checkpoints, validation)",
    ]
    figure = _figure(3.6)
    axes = figure.add_subplot()
    steps = [speedups(frame, results, prefix) for prefix in ("", "measured_")]
    _pairs(axes, labels, *steps)
    first, last = frame["ipus"].iloc[0], frame["ipus"].iloc[-1]
    axes.set_title(f"POD{last} over POD{first}: how many times as many, or as fast", loc="left", fontsize=10.5)
    return figure


def speedups(frame: DataFrame, results: Mapping[str, RunResult], prefix: str) -> list[float]:
    """Ratios of the last row to the first: IPUs, samples per second, time in weight updates, time to train.

    Args:
        frame: Scenarios as index; columns `ipus`, and `update_ms` and `train_min` behind the prefix.
        results: Runs by scenario; the number of samples comes from them.
        prefix: Of the columns: nothing or `measured_`.
    """
    small, large = frame.index[0], frame.index[-1]
    updates, trains = frame[f"{prefix}update_ms"], frame[f"{prefix}train_min"]
    samples = samples_of_update(results[large]) / samples_of_update(results[small])
    rate = samples * updates[small] / updates[large]
    work = samples_of_run(results[large]) / samples_of_run(results[small])
    return [frame["ipus"][large] / frame["ipus"][small], rate, rate / work, trains[small] / trains[large]]


def samples_of_update(result: RunResult) -> float:
    """Samples of one weight update."""
    return result.throughput_samples_per_s * result.weight_update_s


def samples_of_run(result: RunResult) -> float:
    """Samples of all weight updates of a run."""
    return result.throughput_samples_per_s * result.run_breakdown["training"]


def _figure(height: float) -> Chart:
    return Chart(figsize=(_WIDTH_INCHES, height), layout="constrained")


def _by_benchmark(frame: DataFrame) -> dict[str, DataFrame]:
    return {name: frame[frame["benchmark"] == name] for name in dict.fromkeys(frame["benchmark"])}


def _pod(ipus: int, division: str) -> str:
    return f"POD{ipus}\n{division}".rstrip()


def _submission(row: Series) -> str:
    return f"{row['benchmark']} {row['round']} POD{row['ipus']} {row['division']}"


def _pairs(axes: Axes, labels: Sequence[str], predicted: Iterable[float], measured: Iterable[float]) -> None:
    """Two bars for each label, with their heights written on them and their names in the first pair."""
    for shift, values, colour, name, ink in (
        (-_BAR / 2, list(predicted), _PREDICTED, "predicted", "white"),
        (_BAR / 2, list(measured), _MEASURED, "measured", "black"),
    ):
        for place, value in enumerate(values):
            axes.bar(place + shift, value, 0.95 * _BAR, color=colour)
            _number(axes, place + shift, value)
        axes.text(shift, 0.04 * values[0], name, rotation=90, ha="center", va="bottom", fontsize=9, color=ink)
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.margins(y=0.1)
    _plain_frame(axes)


def _number(axes: Axes, place: float, value: float) -> None:
    axes.annotate(
        f"{value:.1f}", (place, value), (0, 3), textcoords="offset points", ha="center", fontsize=8.5, bbox=_CLEAR
    )


def _change(axes: Axes, place: float, ends: tuple[float, float], colour: str, name: str) -> None:
    """A line from the earlier value to the later one, with both and their ratio in words."""
    before, after = ends
    axes.plot(ends, (place, place), color=colour, linewidth=1.6, zorder=1)
    axes.plot(before, place, "o", color=colour, markerfacecolor="white", markersize=7)
    axes.plot(after, place, "o", color=colour, markersize=7)
    text = f"{before:.1f} → {after:.1f} min, {_signed(100 * (after / before - 1), 0)} %  {name}"
    axes.annotate(
        text.rstrip(),
        (max(ends), place),
        (9, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=colour,
    )


def _error_dot(axes: Axes, place: int, error: float, *, hollow: bool) -> None:
    face = "white" if hollow else _PREDICTED
    axes.plot(error, place, "o", color=_PREDICTED, markerfacecolor=face, markersize=7.5)
    side = 1 if error >= 0 else -1
    axes.annotate(
        _signed(error, 1),
        (error, place),
        (9 * side, 0),
        textcoords="offset points",
        ha="left" if side > 0 else "right",
        va="center",
        fontsize=8.5,
    )


def _signed(value: float, digits: int) -> str:
    """With its sign, and zero without one."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


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
        heading = fill(f"{name}: {inside}", _HEADING_CHARACTERS) if len(shown) > 1 else name.replace(" ", "\n")
        axes.text(left, -0.45, heading, va="bottom", fontsize=8.5)
        for place, each in enumerate(parts):
            _bar(axes, place, left, {kind: each[kind] for kind in kinds if kind in each}, longest)
        least = _COLUMN_INCHES if len(shown) == 1 else 2 * _COLUMN_INCHES
        left += max(_peak(parts, kinds) + _NUMBER_INCHES * inch, least * inch)
    return left


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
    pairs = list(zip(totals, measured, strict=True))
    sums = [f"{_time(total, longest)} ({_time(logged, longest)})" for total, logged in pairs]
    rates = [
        f"{format_percent(totals[0] / total, 0)} ({format_percent(measured[0] / logged, 0)})" for total, logged in pairs
    ]
    for heading, texts in (("total\n(measured)", sums), ("speed of an IPU\n(measured)", rates)):
        left += _TEXT_INCHES * longest / _SUM_INCHES
        axes.text(left, -0.45, heading, ha="right", va="bottom", fontsize=8.5)
        for place, text in enumerate(texts):
            axes.text(left, place, text, ha="right", va="center", fontsize=8.5)
    return left


def _unit(longest_s: float) -> tuple[float, str, int]:
    """Factor, name and decimals that suit times up to this one."""
    return (_MS_PER_S, "ms", 2) if longest_s > _LONG_SAMPLE_S else (_US_PER_S, "us", 0)


def _time(seconds: float, longest_s: float) -> str:
    factor, _, digits = _unit(longest_s)
    return f"{factor * seconds:.{digits}f}"


def _plain_frame(axes: Axes) -> None:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=9)
