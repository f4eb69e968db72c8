"""Bow over GC200: what a higher clock makes of every shipped training workload, and why it is not more.

A workload is a scenario in one of the folders of `scenarios/`, other than `what_if`, that trains on GC200
chips. Scenarios whose weight update is the same to the picosecond are one workload: the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from notebooks.charts import MEASURED_INK, PREDICTED, Chart, chart_of_height, stack_shares
from podsim.result.kinds import COMPUTE, LINKS, ON_CHIP, kind_of
from podsim.result.result import RunResult
from podsim.runs import simulate
from podsim.scenario import Activity, data_file, load_scenario
from podsim.show.matplotlib_charts import plain_frame

if TYPE_CHECKING:
    from pandas import DataFrame

CLOCK, LINK, HOST, STREAMING = "clock", "links", "hosts", "streaming memory"
PIPELINE, UPDATES = "pipeline waits", "update waits"
SHARES = (CLOCK, PIPELINE, LINK, HOST, STREAMING, UPDATES)
_FOLLOW_THE_CLOCK = (CLOCK, PIPELINE)
PUBLISHED_MEAN = 1.42
"""Mean over the workloads of the publication [conductivity2024]."""
_GC200, _BOW = "GC200", "system.machine.ipu=ipu_bow"
_NOT_WORKLOADS = ("what_if", "phased")
_BY_NAME = {
    "host": HOST,
    "host_wait": HOST,
    "streaming": STREAMING,
    "weights_wait": STREAMING,
    "update_wait": UPDATES,
}
_BY_FAMILY = {COMPUTE: CLOCK, ON_CHIP: CLOCK, LINKS: LINK}

_MODELS = {
    "bert": "BERT",
    "conductivity_cnn": "conductivity CNN",
    "decoder": "GPT-2",
    "efficientnet": "EfficientNet",
    "resnet": "ResNet",
    "t5": "T5",
    "vit": "ViT",
}
_RUNS = {"blog": "training", "published": "training", "fine_tuning": "fine-tuning", "mlperf": "MLPerf"}

Progress = Callable[[Sequence[str]], Iterable[str]]


@dataclass(frozen=True, slots=True)
class BowRow:
    """Throughput of one workload on GC200 and on Bow.

    Attributes:
        name: Name of the scenario.
        model: Model family.
        pod: Pod of the scenario.
        gc200_per_s: Samples per second on GC200. [1/s]
        bow_per_s: The same with Bow chips and nothing else changed. [1/s]
        clock_ratio: Clock of Bow over that of GC200.
        shares: Shares of a weight update on GC200, on the IPU that sets the pace: `SHARES`, adding up to 1.
        bow_waits_for_data: Share of a weight update on Bow in which it waits for hosts.
    """

    name: str
    model: str
    pod: str
    gc200_per_s: float
    bow_per_s: float
    clock_ratio: float
    shares: Mapping[str, float]
    bow_waits_for_data: float = 0.0

    @property
    def ratio(self) -> float:
        """Simulated throughput of Bow over that of GC200."""
        return self.bow_per_s / self.gc200_per_s

    @property
    def clock_share(self) -> float:
        """Share of a weight update that a faster clock shortens, waits for other pipeline stages included."""
        return math.fsum(self.shares[name] for name in _FOLLOW_THE_CLOCK)

    @property
    def ratio_of_shares(self) -> float:
        """Amdahl's law: the share of the clock goes faster, the rest stays.

        Source: [amdahl1967].
        """
        return 1 / (self.clock_share / self.clock_ratio + 1 - self.clock_share)

    @property
    def held_back_by(self) -> str:
        """Largest share of the time that the clock does not shorten, as text."""
        stay = (name for name in SHARES if name not in _FOLLOW_THE_CLOCK)
        name = max(stay, key=lambda name: self.shares[name])
        late = f"; data that hosts deliver too late for Bow, {self.bow_waits_for_data:.0%} of its time"
        return f"{name}, {self.shares[name]:.0%}" + (late if self.bow_waits_for_data else "")


def bow_over_gc200(names: Sequence[str] | None = None, progress: Progress = list) -> tuple[BowRow, ...]:
    """Simulate every workload on both chips, in the order of their names.

    Args:
        names: Scenarios; all training workloads that are shipped if left out.
        progress: Progress callback that receives and returns the names of the scenarios.
    """
    seen: set[tuple[object, ...]] = set()
    rows = []
    for name in progress(training_workloads() if names is None else names):
        gc200 = simulate(name)
        program = (gc200.weight_update_ps, *sorted(gc200.breakdown_ps.items()))
        if program not in seen:
            seen.add(program)
            rows.append(_row(name, gc200))
    return tuple(rows)


def training_workloads() -> tuple[str, ...]:
    """Names of the shipped scenarios that train on GC200 chips, but for what-ifs, and phases, whose loads hide work."""
    files = sorted(data_file("scenarios").glob("*/*.yaml"), key=lambda path: path.stem)
    return tuple(path.stem for path in files if path.parent.name not in _NOT_WORKLOADS and _trains_on_gc200(path.stem))


def _trains_on_gc200(name: str) -> bool:
    spec = load_scenario(name).spec
    return spec.activity is Activity.TRAINING and spec.system.machine.ipu.name == _GC200


def _row(name: str, gc200: RunResult) -> BowRow:
    before, after = load_scenario(name), load_scenario(name, overrides=[_BOW])
    clocks_hz = [each.spec.system.machine.ipu.clock_hz for each in (before, after)]
    bow = simulate(after)
    return BowRow(
        name=name,
        model=before.spec.model.kind,
        pod=before.spec.system.name,
        gc200_per_s=gc200.throughput_samples_per_s,
        bow_per_s=bow.throughput_samples_per_s,
        clock_ratio=clocks_hz[1] / clocks_hz[0],
        shares=time_shares(gc200),
        bow_waits_for_data=bow.breakdown_ps.get("host_wait", 0) / bow.weight_update_ps,
    )


def time_shares(result: RunResult) -> dict[str, float]:
    """Shares of a weight update of the IPU that sets the pace: what `SHARES` names."""
    pace = result.slowest_ipu
    times_ps = pace.time_ps if pace else result.breakdown_ps
    shares = dict.fromkeys(SHARES, 0.0)
    for kind, time_ps in times_ps.items():
        shares[_share_of(kind)] += time_ps / result.weight_update_ps
    return shares


def _share_of(kind: str) -> str:
    """Return the share that a kind of time belongs to."""
    return _BY_NAME.get(kind) or _BY_FAMILY.get(kind_of(kind).family, PIPELINE)


def mean_ratio(rows: Sequence[BowRow]) -> float:
    """Mean of the simulated ratios."""
    return math.fsum(row.ratio for row in rows) / len(rows)


def bow_frame(rows: Sequence[BowRow]) -> DataFrame:
    """Return `group`, `ratio`, `ratio_of_shares`, `clock_ratio` and the shares by scenario, for charts."""
    import pandas as pd

    records = [
        {"group": group_of(row), "ratio": row.ratio, "ratio_of_shares": row.ratio_of_shares}
        | {"clock_ratio": row.clock_ratio}
        | dict(row.shares)
        for row in rows
    ]
    return pd.DataFrame(records, index=[row.name for row in rows])


def group_of(row: BowRow) -> str:
    """Model and kind of run of a workload in words, for example `BERT, MLPerf`."""
    (path,) = data_file("scenarios").glob(f"*/{row.name}.yaml")
    return f"{_MODELS.get(row.model, row.model)}, {_RUNS.get(path.parent.name, path.parent.name)}"


_ROW_INCHES: Final = 0.32
_KEYS_IN_A_ROW: Final = 3
_DASHED: Final = (0, (4, 2))


def bow_chart(frame: DataFrame, published: float) -> Chart:
    """Ratio of each workload in the row of its group, beside the mean shares that explain it; least first.

    Args:
        frame: Scenarios as index; columns `group`, `ratio`, `ratio_of_shares`, `clock_ratio`, then one for each share.
        published: The published mean of the ratio.
    """
    means = frame.groupby("group").mean(numeric_only=True).sort_values("ratio")
    figure = chart_of_height(1.9 + _ROW_INCHES * len(means))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1.1])
    for place, group in enumerate(means.index):
        _ratios(left, place, frame[frame["group"] == group])
    left.set_title("Simulated (dots), from mean shares (ring)", loc="left", fontsize=10)
    plain_frame(left)
    clocks = float(frame["clock_ratio"].iloc[0])
    _mark(left, clocks, f"clocks {clocks:.2f} ", "black", "right")
    _mark(left, published, f" published\n mean {published:.2f}", MEASURED_INK, "left")
    left.set(xlim=(0.98, published + 0.12), ylim=(len(means) - 0.4, -2.4))
    left.set_xlabel("throughput on Bow ÷ on GC200", fontsize=9)
    stack_shares(right, means, _KEYS_IN_A_ROW)
    right.set_title("Mean shares of a weight update on GC200", loc="left", fontsize=10)
    right.set_xlabel("share of a weight update [%]", fontsize=9)
    counts = frame["group"].value_counts()
    left.set_yticks(range(len(means)), [f"{group} ({counts[group]})" for group in means.index], fontsize=9)
    left.tick_params(axis="y", length=0)
    return figure


def _ratios(axes: Axes, place: int, rows: DataFrame) -> None:
    """Draw the speed-ups of the workloads of one group, and the mean speed-up that follows from their shares."""
    axes.plot([1, float(rows["ratio"].max())], [place, place], color=PREDICTED, linewidth=0.8, alpha=0.5, zorder=1)
    shares = float(rows["ratio_of_shares"].mean())
    axes.plot(shares, place, "o", color="black", markerfacecolor="none", markersize=11, zorder=2)
    axes.plot(rows["ratio"], [place] * len(rows), "o", color=PREDICTED, markersize=5.5, alpha=0.6, zorder=3)


def _mark(axes: Axes, value: float, text: str, colour: str, side: str) -> None:
    axes.axvline(value, color=colour, linewidth=1, linestyle=_DASHED, zorder=0)
    axes.text(value, -0.9, text, ha=side, va="bottom", fontsize=8.5, color=colour)
