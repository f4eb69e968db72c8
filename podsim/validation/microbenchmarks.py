"""Microbenchmarks compared with predictions: parts of a pass, convolutions, products, transfers, graph kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from podsim.program.transfers import HOST
from podsim.result.cost import KernelCost, cost_convolution, cost_multi_slice, cost_multi_update_add, cost_schnet_block
from podsim.result.cost_movement import cost_collective, cost_transfer
from podsim.result.reference_data import rows
from podsim.runs import infer
from podsim.scenario import System, load_hardware, load_scenario
from podsim.tiles import Chip, MatMulShape, planned_matmul
from podsim.validation.comparison import RowComparison
from podsim.validation.reference_data import uncertainty_of

_SECONDS: Final = {"us": 1e-6}
_CYCLES: Final = {"cycles": 1}
_PER_SECOND: Final = {"GB/s": 1e9, "TB/s": 1e12, "TFLOP/s": 1e12}
_MEMORY: Final = 0.6
_EXTENTS: Final = ("inputs", "features", "outputs")


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of `microbenchmarks.csv`."""

    id: str  # its name in the source
    kind: str  # what was measured: `convolution`, `matmul`, `pass`, `transfer` or `collective`
    arguments: dict[str, Any]  # of the function that predicts it
    value_si: float  # a time or a rate, in SI units, or cycles
    role: str  # `calibration` or `hold-out`
    row: dict[str, str]


def mk1() -> System:
    """Return the server on which the microbenchmarks were measured."""
    pod, _ = load_hardware("dss8440", "pod")
    assert isinstance(pod, System)
    return pod


def measured(kind: str | None = None) -> list[Measured]:
    """Return the rows of a kind, or all."""
    factors = _SECONDS | _PER_SECOND | _CYCLES
    return [
        Measured(
            *(row["id"], row["kind"], dict(map(_argument, row["arguments"].split()))),
            *(float(row["value"]) * factors[row["unit"]], row["role"], row),
        )
        for row in rows("microbenchmarks")
        if kind in (None, row["kind"])
    ]


def _argument(text: str) -> tuple[str, Any]:
    """Return a keyword and its value: a number, True or a word.

    >>> _argument("tiles=1216"), _argument("source=host")
    (('tiles', 1216), ('source', 'host'))
    """
    key, _, value = text.partition("=")
    return key, int(value) if value.isdecimal() else value == "true" or value


def compare_microbenchmarks() -> Iterator[RowComparison]:
    """Yield every row with the prediction of the function for its kind."""
    pod = mk1()
    for each in measured():
        row = each.row
        unit = row["unit"]
        if each.kind == "pass":
            predicted = pass_cycles(**each.arguments)
        else:
            time_s, rate_per_s = _predicted(each.kind, each.arguments, pod)
            predicted = time_s / _SECONDS[unit] if unit in _SECONDS else rate_per_s / _PER_SECOND[unit]
        yield RowComparison(
            *(row["group"], row["name"], predicted, float(row["value"]), unit, row["role"], row["source"]),
            uncertainty=uncertainty_of(row),
        )


def compare_graph_kernels() -> Iterator[RowComparison]:
    """Yield gathers, scatter-adds and interaction blocks on one Bow IPU, in a loop.

    The cost of a byte copied by the loop and of an index division is fitted to gathers and scatter-adds only.
    """
    for row in rows("gnn_kernels"):
        kernel, inputs, features, outputs = row["kernel"], *(int(row[f"num_{each}"]) for each in _EXTENTS)
        found, group = _graph_kernel(kernel, inputs, features, outputs)
        name = f"{inputs}x{features}, {outputs}"
        yield RowComparison(group, name, found.cycles, float(row["cycles"]), "cycles", row["role"], row["source"])


def _graph_kernel(kernel: str, inputs: int, features: int, outputs: int) -> tuple[KernelCost, str]:
    """Return the prediction and its group; the inputs of a scatter-add are its updates."""
    match kernel:
        case "gather":
            return cost_multi_slice(inputs, features, outputs, ipu="bow"), "Bow gather"
        case "scatter_add":
            return cost_multi_update_add(outputs, features, inputs, ipu="bow"), "Bow scatter-add"
    return cost_schnet_block(inputs, features, outputs, ipu="bow"), "Bow SchNet block"


def pass_cycles(scenario: str, variant: str | None = None, operation: str = "", part: str = "") -> float:
    """Return the cycles of a forward pass on the chip, or of some operations of one of its blocks."""
    passed = infer(scenario, variant=variant)
    clock_hz = load_scenario(scenario, variant).spec.system.machine.ipu.clock_hz
    if not operation:
        return clock_hz * sum(time_s for kind, time_s in passed.batch.breakdown.items() if kind != HOST)
    found = [row for row in passed.operations if row.name.startswith(operation)]
    wanted = (
        time_s / row.count
        for row in found
        for kind, time_s in row.seconds.items()
        if (kind == part if part else kind != "superstep")
    )
    return clock_hz * sum(wanted)


def _predicted(kind: str, arguments: dict[str, Any], pod: System) -> tuple[float, float]:
    """Return time and rate. [s], [FLOP/s or B/s]"""
    chip = pod.machine.ipu
    match kind:
        case "convolution":
            convolution = cost_convolution(**arguments | {"ipu": chip})
            return convolution.time_s, convolution.flop_per_s
        case "collective":
            between = str(arguments["between"]).split(",") if "between" in arguments else None
            chips = None if between is None else [int(each) for each in between]
            collective = cost_collective(**arguments | {"system": pod, "between": chips, "over": "tiles"})
            return collective.time_s, collective.bytes_per_s
        case "transfer":
            transfer = cost_transfer(**arguments | {"system": pod})
            return transfer.time_s, transfer.bytes_per_s
    shape = MatMulShape(arguments["rows"], arguments["inner"], arguments["columns"])
    plan = planned_matmul(Chip(chip), shape, arguments["dtype"], "fp32", _MEMORY)
    time_s = plan.account.cycles / chip.clock_hz
    return time_s, shape.flop / time_s
