"""MLPerf submissions beside their replays: a frame of them, times to train, gains between rounds, errors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from notebooks.charts import (
    BAR,
    MEASURED_INK,
    OTHER,
    PREDICTED,
    Chart,
    bare_frame,
    chart_of_height,
    draw_pairs,
    write_value,
)
from notebooks.figures import samples_of_update
from podsim.result import reference_data
from podsim.result.reference_data import scenario_name
from podsim.result.result import RunResult
from podsim.runs import simulate
from podsim.validation.reference_data import role_of_update, submissions

if TYPE_CHECKING:
    from pandas import DataFrame, Series


_BENCHMARKS = {"resnet": "ResNet-50", "bert": "BERT"}
_MS_PER_S, _S_PER_MIN = 1000, 60


def mlperf_results(rounds: Collection[str]) -> dict[str, RunResult]:
    """Simulate every IPU submission to the given rounds, by scenario name."""
    names = [scenario_name(row) for benchmark in _BENCHMARKS for row in submissions(benchmark, rounds)]
    return {name: simulate(name) for name in names}


def mlperf_frame(results: Mapping[str, RunResult]) -> DataFrame:
    """Return a row for each submission whose replay is among the results.

    Columns: benchmark, round, division, ipus, role of the weight update, `update_ms` and `measured_update_ms`,
    `train_min` and `measured_train_min`, `samples_per_s`, `shortest_run_min` and `longest_run_min` of the runs logged,
    and `scenario` as the index.
    """
    import pandas as pd

    known = [row for benchmark in _BENCHMARKS for row in submissions(benchmark) if scenario_name(row) in results]
    records = [_record(row, results[scenario_name(row)]) for row in known]
    return pd.DataFrame(records).set_index("scenario").sort_values(["benchmark", "round", "ipus", "division"])


def _record(row: dict[str, str], result: RunResult) -> dict[str, str | float]:
    runs = _logged_runs_min(row)
    return {
        "scenario": scenario_name(row),
        "benchmark": _BENCHMARKS[row["benchmark"]],
        "round": row["round"],
        "division": row["division"],
        "ipus": int(row["ipus"]),
        "role": role_of_update(row),
        "update_ms": result.weight_update_s * _MS_PER_S,
        "measured_update_ms": float(row["step_ms_pure"] or row["step_ms_median"]),
        "train_min": (result.time_to_train_s or float("nan")) / _S_PER_MIN,
        "measured_train_min": float(row["score_physical_min"]),
        "samples_per_s": result.throughput_samples_per_s,
        "shortest_run_min": min(runs, default=float("nan")),
        "longest_run_min": max(runs, default=float("nan")),
    }


def _logged_runs_min(submission: dict[str, str]) -> list[float]:
    """Return the times to train of the single runs of a submission, as far as logs exist. [min]"""
    keys = ("round", "division", "benchmark", "ipus", "framework", "submitter")
    wanted = [submission[key] for key in keys]
    return [
        float(run["ttt_physical_min"])
        for run in reference_data.rows("mlperf_runs")
        if [run[key] for key in keys] == wanted
    ]


def dgx_a100_minutes(round_name: str) -> dict[str, float]:
    """Time to train on one DGX A100 (8 GPUs) in the same round, by benchmark. [min]"""
    found = (row for row in reference_data.rows("mlperf_gpu_reference") if row["round"] == round_name)
    return {_BENCHMARKS[row["benchmark"]]: float(row["score_min"]) for row in found if row["benchmark"] in _BENCHMARKS}


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


def samples_of_run(result: RunResult) -> float:
    """Return the number of samples in all weight updates of a run."""
    return result.throughput_samples_per_s * result.run_breakdown["training"]


_BANDS: Final = ((0.10, "#f2f2f2"), (0.05, "#e2e2e2"))
_MINUTES: Final = (5, 10, 20, 40)


def time_to_train_chart(frame: DataFrame, others: Mapping[str, float], other_name: str) -> Chart:
    """Time to train per benchmark and pod, predicted beside measured, and that of another machine.

    Args:
        frame: Columns `benchmark`, `division`, `ipus`, `train_min`, `measured_train_min`, and `shortest_run_min` and
            `longest_run_min` if measured bars shall have whiskers.
        others: Time of another machine by benchmark. [min]
        other_name: Its name.
    """
    groups = _by_benchmark(frame)
    figure = chart_of_height(4.2)
    columns = figure.subplots(1, len(groups), squeeze=False, width_ratios=[len(rows) + 1 for rows in groups.values()])
    for axes, (benchmark, rows) in zip(columns.flat, groups.items(), strict=True):
        several = rows["division"].nunique() > 1
        labels = [_pod(row["ipus"], row["division"] if several else "") for _, row in rows.iterrows()]
        draw_pairs(axes, labels, rows["train_min"], rows["measured_train_min"], _ranges(rows))
        axes.bar(-1, others[benchmark], 2 * BAR, color=OTHER)
        axes.axhline(others[benchmark], color=OTHER, linewidth=0.8, linestyle=(0, (5, 4)), zorder=0)
        write_value(axes, -1, others[benchmark])
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
    figure = chart_of_height(1.0 + 0.55 * len(shared))
    axes = figure.add_subplot()
    for place, key in enumerate(shared):
        for shift, column, colour, name in (
            (-0.17, "train_min", PREDICTED, "predicted"),
            (0.17, "measured_train_min", MEASURED_INK, "measured"),
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
    bare_frame(axes)
    return figure


def accuracy_chart(frame: DataFrame) -> Chart:
    """Error of every weight update, calibration rows hollow, over bands of 5 and 10 %.

    Args:
        frame: Columns `benchmark`, `round`, `division`, `ipus`, `role`, `update_ms`, `measured_update_ms`.
    """
    figure = chart_of_height(1.1 + 0.28 * len(frame))
    axes = figure.add_subplot()
    for band, shade in _BANDS:
        axes.axvspan(-100 * band, 100 * band, color=shade, linewidth=0, zorder=0)
        axes.text(100 * band, -0.6, f"±{100 * band:.0f} %", ha="right", va="bottom", fontsize=8.5, color=MEASURED_INK)
    axes.axvline(0, color="black", linewidth=0.8, zorder=1)
    errors = 100 * (frame["update_ms"] / frame["measured_update_ms"] - 1)
    beside = axes.get_yaxis_transform()
    for place, (error, (_, row)) in enumerate(zip(errors, frame.iterrows(), strict=True)):
        _error_dot(axes, place, float(error), hollow=row["role"] == "calibration")
        for edge, column in ((1.07, "update_ms"), (1.19, "measured_update_ms")):
            axes.text(edge, place, f"{row[column]:,.1f}", transform=beside, ha="right", va="center", fontsize=8.5)
    for edge, name in ((1.07, "predicted\n[ms]"), (1.19, "measured\n[ms]")):
        axes.text(edge, -0.6, name, transform=beside, ha="right", va="bottom", fontsize=8.5, color=MEASURED_INK)
    axes.set_yticks(range(len(frame)), [_submission(row) for _, row in frame.iterrows()])
    reach = max(100 * _BANDS[0][0], float(errors.abs().max())) + 3
    axes.set(xlim=(-reach, reach), ylim=(len(frame) - 0.4, -0.6))
    axes.set_xlabel("predicted ÷ measured - 1 [%]; hollow: the row was used in fitting a constant", fontsize=9)
    axes.set_title("Error of a weight update", loc="left", fontsize=10.5, pad=26)
    bare_frame(axes)
    return figure


def speedup_chart(frame: DataFrame, results: Mapping[str, RunResult]) -> Chart:
    """Draw the ratios of the last row to the first: IPUs, throughput, time in weight updates, time to train.

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
    figure = chart_of_height(3.6)
    axes = figure.add_subplot()
    predicted, measured = (speedups(frame, results, prefix) for prefix in ("", "measured_"))
    draw_pairs(axes, labels, predicted, measured)
    first, last = frame["ipus"].iloc[0], frame["ipus"].iloc[-1]
    axes.set_title(f"POD{last} over POD{first}: how many times as many, or as fast", loc="left", fontsize=10.5)
    return figure


def _by_benchmark(frame: DataFrame) -> dict[str, DataFrame]:
    return {name: frame[frame["benchmark"] == name] for name in dict.fromkeys(frame["benchmark"])}


def _ranges(rows: DataFrame) -> list[tuple[float, float]]:
    both = rows.reindex(columns=["shortest_run_min", "longest_run_min"])
    return list(zip(both["shortest_run_min"], both["longest_run_min"], strict=True))


def _pod(ipus: int, division: str) -> str:
    return f"POD{ipus}\n{division}".rstrip()


def _submission(row: Series) -> str:
    return f"{row['benchmark']} {row['round']} POD{row['ipus']} {row['division']}"


def _change(axes: Axes, place: float, ends: tuple[float, float], colour: str, name: str) -> None:
    """Draw a line from the earlier to the later value, labelled with both values and their ratio."""
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
    face = "white" if hollow else PREDICTED
    axes.plot(error, place, "o", color=PREDICTED, markerfacecolor=face, markersize=7.5)
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
    """Format a value with its sign, and zero without a sign."""
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text
