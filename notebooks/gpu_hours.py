"""Chip hours for the training of LLaMa: predicted on 64 IPUs, published on GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from notebooks.charts import MEASURED, OTHER, PREDICTED, Chart, chart_of_height
from podsim.result.power import Energy
from podsim.result.reference_data import rows
from podsim.result.result import RunResult
from podsim.runs import simulate
from podsim.show.matplotlib_charts import plain_frame

if TYPE_CHECKING:
    from pandas import DataFrame

MODELS: Final = {"7B": ("llama_7b", "llama2_7b_phased_pod64"), "13B": ("llama_13b", "llama2_13b_phased_pod64")}
"""Rows of published hours, and scenarios of the same shape, by the names that readers know."""
VARIANT: Final = "tokens_2048"
PODS: Final = {"GC200": "ipu_pod64", "Bow": "bow_pod64"}
GPU: Final = "A100"
_PEAK_FLOP_PER_S: Final = 312e12
"""Of an A100 in half precision [korthikanti2022]."""
_LEAST_SHARE: Final = 0.02
_S_PER_HOUR: Final = 3600
_J_PER_MWH: Final = 3.6e9
_HALF: Final = "fp16"


def hours_frame(models: Sequence[str] = tuple(MODELS)) -> DataFrame:
    """Return hours, MFU and energy, with a row for each model and chip.

    Columns: `hours` of one chip for the published tokens, in thousands, `least` and `most` where they are predicted,
    else empty; `mfu`, model FLOP over the peak of the chip; `energy`, in MWh.
    """
    import pandas as pd

    records = [record for model in models for record in _records(model)]
    return pd.DataFrame.from_records(records, index=["model", "chip"])


def _records(model: str) -> Iterator[dict[str, str | float]]:
    """Yield the predicted records of a model by chip, then the published record, for the same number of tokens."""
    name, scenario = MODELS[model]
    (row,) = (row for row in rows("gpu_hours") if row["model"] == name)
    tokens, hours, flop = float(row["tokens"]), float(row["gpu_hours"]), 0.0
    for chip, pod in PODS.items():
        result = _run(scenario, pod)
        flop = tokens * _flop_per_token(result)
        yield {"model": model, "chip": chip, **_predicted(result, tokens)}
    mfu = flop / (hours * _S_PER_HOUR * _PEAK_FLOP_PER_S)
    yield {"model": model, "chip": GPU, "hours": hours / 1e3, "mfu": mfu, "energy": float(row["energy_mwh"])}


def shares_frame() -> DataFrame:
    """Shares of a weight update by kind of time, a row for each model and chip; kinds below 2 % of all are left out."""
    import pandas as pd

    shares = {}
    for model, (_, scenario) in MODELS.items():
        for chip, pod in PODS.items():
            result = _run(scenario, pod)
            parts = {kind: time_s / result.weight_update_s for kind, time_s in result.breakdown.items()}
            shares[model, chip] = {kind: share for kind, share in parts.items() if share >= _LEAST_SHARE}
    return pd.DataFrame(shares).transpose()


def _run(scenario: str, pod: str) -> RunResult:
    return simulate(scenario, variant=VARIANT, overrides=[f"system={pod}"])


def _predicted(result: RunResult, tokens: float) -> dict[str, float]:
    """Hours of one IPU, their range, and what the pod, with its hosts, consumes meanwhile."""
    chips, rate = result.simulated.ipus_used, _tokens_per_s(result)
    hours = chips * tokens / rate / _S_PER_HOUR / 1e3
    ends = result.ranges["weight_update_s"]
    low, high = (end / result.weight_update_s for end in (ends.low, ends.high))
    energy = tokens / rate * _energy(result).mean_power_w / _J_PER_MWH
    return {"hours": hours, "least": low * hours, "most": high * hours, "mfu": result.mfu, "energy": energy}


def _flop_per_token(result: RunResult) -> float:
    """Return the operations per token of the model, forward and backward. [FLOP]"""
    peak = _energy(result).meter.system.machine.ipu.peak_flop_per_s(_HALF)
    return result.mfu * peak * result.simulated.ipus_used / _tokens_per_s(result)


def _tokens_per_s(result: RunResult) -> float:
    assert result.tokens_per_s is not None, "decoders take tokens"
    return result.tokens_per_s


def _energy(result: RunResult) -> Energy:
    assert result.energy is not None, "shipped pods have their powers"
    return result.energy


def chip_hours_chart(frame: DataFrame) -> Chart:
    """Draw the hours of one chip, with the range of predicted hours.

    Args:
        frame: As `hours_frame` gives it.
    """
    chart = chart_of_height(3.2)
    models = frame.index.unique("model")
    colours = {**dict(zip(PODS, (PREDICTED, OTHER), strict=True)), GPU: MEASURED}
    for axes, model in zip(chart.subplots(1, len(models), squeeze=False)[0], models, strict=True):
        part = frame.loc[model]
        axes.barh(part.index, part["hours"], color=[colours[chip] for chip in part.index], height=0.6)
        for place, row in enumerate(part.itertuples()):
            text = f"{row.hours:,.0f}"
            if row.most == row.most:  # a published figure has no range
                axes.plot([row.least, row.most], [place, place], color="black", linewidth=1)
                text += f"  ({row.least:,.0f} to {row.most:,.0f})"
            axes.text(0.0, place + 0.32, text, va="top", fontsize=8.5)
        axes.set_title(f"LLaMa {model}, 10¹² tokens: thousand chip hours", loc="left", fontsize=10)
        axes.invert_yaxis()
        plain_frame(axes)
    return chart
