"""Measured power of one chip compared with predictions: single kernels, and an epoch of training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from podsim.result.power import Energy, Meter, WorkDone
from podsim.result.reference_data import rows
from podsim.scenario import System, load_hardware
from podsim.tiles import Chip, MatMulShape, planned_matmul
from podsim.tiles.vector import ceil_div, elementwise_cycles
from podsim.validation.comparison import NotRun, RowComparison
from podsim.validation.runs import Results, compare_row

_GROUP: Final = "power of a chip"
_S_PER_H, _PS_PER_MS, _PS_PER_S = 3600, 10**9, 10**12
_SIDE, _TRIAD_ELEMENTS, _EPOCH_IMAGES = 4096, 68_000_000, 1_281_167
_TRIAD: Final = ("scale", "add")
_MEMORY: Final = 0.6


def power_titles() -> tuple[str, ...]:
    """Return the scenarios of the rows of chip power."""
    return tuple(row["scenario"] for row in rows("chip_measurements") if row["scenario"])


def compare_power(runs: Results) -> Iterator[RowComparison | NotRun]:
    """Yield the power of kernels, with measured call times, and the energy of an epoch."""
    pod, _ = load_hardware("ipu_pod4", "pod")
    assert isinstance(pod, System)
    measured = list(rows("chip_measurements"))
    times_ms = {(row["model"], row["precision"]): float(row["value"]) for row in measured if row["unit"] == "ms"}
    for row in measured:
        name, published = f"{row['id']}: {row['model']} {row['precision']}", float(row["value"])
        if row["scenario"]:
            predict = partial(_epoch_wh, runs, row["scenario"])
            yield compare_row("energy of a chip", name, predict, published, row["unit"], row)
        elif row["metric"] == "chip power" and row["precision"]:
            time_ps = round(times_ms[row["model"], row["precision"]] * _PS_PER_MS)
            work = _kernel(row["model"], row["precision"], time_ps, pod)
            yield compare_row(_GROUP, name, partial(_chip_w, pod, work), published, row["unit"], row)


def _epoch_wh(runs: Results, title: str) -> float:
    result = runs.training(title)
    assert result.energy is not None
    return result.energy.chip_w * _EPOCH_IMAGES / result.throughput_samples_per_s / _S_PER_H


def _chip_w(pod: System, work: WorkDone) -> float:
    return Energy(Meter(pod, 1), work).chip_w


def _kernel(model: str, precision: str, time_ps: int, pod: System) -> WorkDone:
    """Return the work of a kernel's call: the chip waits outside the kernel, except in a stencil."""
    ipu, dtype = pod.machine.ipu, precision.split(",")[0]
    if model.startswith("triad"):
        each = ceil_div(_TRIAD_ELEMENTS, ipu.tile.count)
        cycles = sum(elementwise_cycles(ipu, function, each, dtype) for function in _TRIAD)
        busy_ps = round(cycles / ipu.clock_hz * _PS_PER_S)
        return WorkDone({"vector": busy_ps, "host_wait": time_ps - busy_ps}, {})
    if model.startswith("matmul"):
        plan = planned_matmul(Chip(ipu), MatMulShape(_SIDE, _SIDE, _SIDE), dtype, "fp32", _MEMORY)
        product_ps, whole_ps = (
            round(each / ipu.clock_hz * _PS_PER_S) for each in (plan.account.matmul, plan.account.cycles)
        )
        format_name = "single_flop" if dtype == "fp32" else "half_partials_float_flop"
        rates = {format_name: plan.shape.flop / product_ps * _PS_PER_S}
        parts = {"matmul": product_ps, "exchange": whole_ps - product_ps, "host_wait": time_ps - whole_ps}
        return WorkDone(parts, {}, rates)
    return WorkDone({"rearrange": time_ps}, {})
