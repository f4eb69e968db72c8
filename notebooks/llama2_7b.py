"""How many IPUs for LLaMa2-7B: variants of `llama2_7b_pods` from POD4 to POD64, with both chips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from notebooks.charts import MEASURED_INK, PREDICTED, Chart, chart_of_height, stack_shares
from notebooks.figures import published_row
from podsim.result.inference import GenerationResult
from podsim.runs import generate
from podsim.scenario import GenerationScenario, load_scenario
from podsim.show.matplotlib_charts import plain_frame
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

SCENARIO = "llama2_7b_pods"
STREAMED = ("pod4", "pod8", "pod16", "pod32", "pod64")
RESIDENT = ("int4_resident", "pod32_resident", "pod32_resident_one_stage", "pod64_resident")
BOUNDS = ("compute", "exchange", "links", "streaming memory", "host")
AS_PUBLISHED = "llama2_7b_pod16_streamed"
_PUBLISHED = ("LLM-001", "LLM-002", "LLM-003")
_PODS_OF_SHARDS = {4: "ipu_pod4", 8: "ipu_pod16", 16: "ipu_pod16"}
_BOW = "system.machine.ipu=ipu_bow"


@dataclass(frozen=True, slots=True)
class PodRow:
    """Division of the model over a pod, with its predicted throughput.

    Attributes:
        variant: Variant of the scenario.
        pod: Pod of the variant.
        shards: IPUs that share every layer.
        stages: Groups of such IPUs.
        sequences: Sequences that are generated at a time.
        gc200: The result.
        bow_tokens_per_s: Throughput with Bow chips and nothing else changed. [1/s]
    """

    variant: str
    pod: str
    shards: int
    stages: int
    sequences: int
    gc200: GenerationResult
    bow_tokens_per_s: float

    @property
    def ipu_count(self) -> int:
        """IPUs at work."""
        return self.shards * self.stages

    @property
    def step_parts_s(self) -> Mapping[str, float]:
        """Time of a decode step by bound, summed over the stages. [s]"""
        parts = self.gc200.decode.time_by_bound
        return {bound: ps_to_seconds(self.stages * parts.get(bound, 0)) for bound in BOUNDS}


def rows_of_pods(variants: Sequence[str]) -> tuple[PodRow, ...]:
    """Return a row for each variant, in the given order."""
    return tuple(_row(variant) for variant in variants)


def _row(variant: str) -> PodRow:
    loaded = load_scenario(SCENARIO, variant)
    spec = loaded.require(GenerationScenario)
    return PodRow(
        variant=variant,
        pod=spec.system.name,
        shards=spec.parallelism.tensor_parallel,
        stages=spec.parallelism.pipeline_stages,
        sequences=spec.generation.batch_size * spec.parallelism.batches_in_flight,
        gc200=generate(loaded),
        bow_tokens_per_s=generate(SCENARIO, variant=variant, overrides=[_BOW]).tokens_per_s,
    )


def kept_rates(rows: Sequence[PodRow]) -> dict[int, float]:
    """Tokens per second of the rows that generate one sequence, by number of IPUs. [1/s]"""
    return {row.ipu_count: row.gc200.tokens_per_s for row in rows if row.sequences == 1}


def recomputed_rates() -> dict[int, float]:
    """Tokens per second of one sequence as published, without keys and values kept, by number of IPUs. [1/s]

    The published run shares every layer among 16 IPUs; nothing else differs on the others.
    """
    return {
        shards: generate(AS_PUBLISHED, overrides=[f"system={pod}", f"parallelism.tensor_parallel={shards}"]).steps_per_s
        for shards, pod in _PODS_OF_SHARDS.items()
    }


def published_rates() -> list[tuple[int, float]]:
    """Numbers of IPUs and published steps per second. [1/s]"""
    return [(int(row["ipus"]), float(row["value"])) for row in map(published_row, _PUBLISHED)]


def links_overtake_compute(rows: Sequence[PodRow]) -> PodRow | None:
    """Return the first row in which sums over links take longer than computation on tiles, or None."""
    return next((row for row in rows if row.step_parts_s["links"] > row.step_parts_s["compute"]), None)


def pods_frame(rows: Sequence[PodRow]) -> DataFrame:
    """Return `ipus`, `tokens_per_s`, `sequences` and the shares of a decode step by variant, for charts."""
    import pandas as pd

    records = []
    for row in rows:
        whole_s = sum(row.step_parts_s.values())
        shares = {bound: part_s / whole_s for bound, part_s in row.step_parts_s.items()}
        records.append(
            {"ipus": row.ipu_count, "tokens_per_s": row.gc200.tokens_per_s, "sequences": row.sequences} | shares
        )
    return pd.DataFrame(records, index=[row.variant for row in rows])


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
    """Write the value of a point to its right or left, clear of the line."""
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


_RATES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def pods_chart(frame: DataFrame) -> Chart:
    """Throughput over IPUs before what is proportional to them, beside what a decode step is spent on.

    Args:
        frame: Variants as index, smallest pod first; columns `ipus`, `tokens_per_s`, `sequences`, then the shares.
    """
    figure = chart_of_height(1.7 + 0.42 * len(frame))
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
    _throughput(left, frame)
    stack_shares(right, frame, len(frame.columns))
    right.set_ylim(len(frame) - 0.4, -1.2)
    right.set_title("What a decode step is spent on", loc="left", fontsize=10)
    right.set_xlabel("share of a decode step [%]", fontsize=9)
    _rows(right, frame)
    return figure


def _throughput(axes: Axes, frame: DataFrame) -> None:
    ipus, rates = [float(each) for each in frame["ipus"]], [float(each) for each in frame["tokens_per_s"]]
    axes.plot(ipus, [rates[0] * each / ipus[0] for each in ipus], color=MEASURED_INK, linestyle=_DASHED, linewidth=1)
    axes.plot(ipus, rates, "o", color=PREDICTED, markersize=6)
    for each, rate, sequences in zip(ipus, rates, frame["sequences"], strict=True):
        note = f"{rate:.1f}" if sequences == 1 else f"{rate:.1f}, {sequences} sequences"
        axes.annotate(note, (each, rate), (6, -4), textcoords="offset points", va="top", fontsize=8.5)
    axes.set(xscale="log", yscale="log", xlabel="IPUs")
    counts = sorted(set(ipus))
    axes.set_xticks(counts, [f"{each:.0f}" for each in counts])
    ticks = [rate for rate in _RATES if min(rates) <= rate <= rates[0] * ipus[-1] / ipus[0]]
    axes.set_yticks(ticks, [f"{rate:g}" for rate in ticks])
    axes.minorticks_off()
    axes.set_xlim(right=2.4 * ipus[-1])
    axes.margins(y=0.14)
    axes.set_ylabel("tokens per second", fontsize=9)
    axes.tick_params(axis="y", labelsize=8.5)
    axes.set_title("Throughput; dashed: proportional to IPUs", loc="left", fontsize=10)
    plain_frame(axes)


def _rows(axes: Axes, frame: DataFrame) -> None:
    axes.set_yticks(range(len(frame)), [name.replace("_", " ") for name in frame.index], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
