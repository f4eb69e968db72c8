"""What was measured alone on one chip or machine, beside its prediction: convolutions, products, transfers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from podsim.result.movement_view import cost_transfer
from podsim.result.plan_view import cost_convolution
from podsim.result.reference_data import rows
from podsim.scenario import System, load_hardware
from podsim.tiles import Chip, MatMulShape, planned_matmul
from podsim.validation.comparison import Comparison
from podsim.validation.reference_data import uncertainty_of

_SECONDS: Final = {"us": 1e-6}
_PER_SECOND: Final = {"GB/s": 1e9, "TB/s": 1e12, "TFLOP/s": 1e12}
_MEMORY: Final = 0.6


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of `microbenchmarks.csv`.

    Attributes:
        id: Its name in the source.
        kind: What was measured: `convolution`, `matmul` or `transfer`.
        arguments: Of the function that predicts it.
        value_si: A time or a rate, in SI units.
        role: `calibration` or `hold-out`.
        row: All of it.
    """

    id: str
    kind: str
    arguments: dict[str, Any]
    value_si: float
    role: str
    row: dict[str, str]


def mk1() -> System:
    """The server that they were measured on."""
    pod, _ = load_hardware("dss8440", "pod")
    assert isinstance(pod, System)
    return pod


def measured(kind: str | None = None) -> list[Measured]:
    """Rows of a kind, or all.

    Args:
        kind: `convolution`, `matmul` or `transfer`.
    """
    factors = _SECONDS | _PER_SECOND
    return [
        Measured(
            *(row["id"], row["kind"], dict(map(_argument, row["arguments"].split()))),
            *(float(row["value"]) * factors[row["unit"]], row["role"], row),
        )
        for row in rows("microbenchmarks")
        if kind in (None, row["kind"])
    ]


def _argument(text: str) -> tuple[str, Any]:
    """A keyword and what it is: a number, true, or a word.

    >>> _argument("tiles=1216"), _argument("source=host")
    (('tiles', 1216), ('source', 'host'))
    """
    key, _, value = text.partition("=")
    return key, int(value) if value.isdecimal() else value == "true" or value


def compare_microbenchmarks() -> Iterator[Comparison]:
    """Every row beside what the function of its kind says."""
    pod = mk1()
    for each in measured():
        time_s, rate_per_s = _predicted(each.kind, each.arguments, pod)
        row = each.row
        unit = row["unit"]
        predicted = time_s / _SECONDS[unit] if unit in _SECONDS else rate_per_s / _PER_SECOND[unit]
        yield Comparison(
            *(row["group"], row["name"], predicted, float(row["value"]), unit, row["role"], row["source"]),
            uncertainty=uncertainty_of(row),
        )


def _predicted(kind: str, arguments: dict[str, Any], pod: System) -> tuple[float, float]:
    """Time and rate. [s], [FLOP/s or B/s]"""
    chip = pod.machine.ipu
    match kind:
        case "convolution":
            convolution = cost_convolution(**arguments | {"ipu": chip})
            return convolution.time_s, convolution.flop_per_s
        case "transfer":
            transfer = cost_transfer(**arguments | {"system": pod})
            return transfer.time_s, transfer.bytes_per_s
    shape = MatMulShape(arguments["rows"], arguments["inner"], arguments["columns"])
    plan = planned_matmul(Chip(chip), shape, arguments["dtype"], "fp32", _MEMORY)
    time_s = plan.account.cycles / chip.clock_hz
    return time_s, shape.flop / time_s
