"""What was measured alone on one chip or machine, beside its prediction: convolutions, products, transfers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from podsim.result.movement_view import cost_transfer
from podsim.result.plan_view import cost_convolution
from podsim.result.reference_data import rows
from podsim.scenario import System, load_hardware, load_ipu
from podsim.tiles import Chip, MatMulShape, planned_matmul
from podsim.validation.comparison import Comparison
from podsim.validation.reference_data import uncertainty_of

_MACHINE: Final = "dss8440"
_TIMES: Final = {"us": 1e-6}
_RATES: Final = {"GB/s": 1e9, "TB/s": 1e12, "TFLOP/s": 1e12}
_MEMORY: Final = 0.6


def compare_microbenchmarks() -> Iterator[Comparison]:
    """Every row of `microbenchmarks.csv`; its arguments are those of the function that its kind names."""
    pod, _ = load_hardware(_MACHINE, "pod")
    assert isinstance(pod, System)
    for row in rows("microbenchmarks"):
        arguments = dict(_argument(text) for text in row["arguments"].split())
        if arguments.get("system") == _MACHINE:
            arguments["system"] = pod
        time_s, rate_per_s = _predicted(row["kind"], arguments)
        unit = row["unit"]
        predicted = time_s / _TIMES[unit] if unit in _TIMES else rate_per_s / _RATES[unit]
        yield Comparison(
            *(row["group"], row["name"], predicted, float(row["value"]), unit, row["role"], row["source"]),
            uncertainty=uncertainty_of(row),
        )


def _argument(text: str) -> tuple[str, Any]:
    """A keyword and what it is: a number, true, or a word.

    >>> _argument("tiles=1216"), _argument("source=host")
    (('tiles', 1216), ('source', 'host'))
    """
    key, _, value = text.partition("=")
    return key, int(value) if value.isdecimal() else value == "true" or value


def _predicted(kind: str, arguments: dict[str, Any]) -> tuple[float, float]:
    """Time and rate. [s], [FLOP/s or B/s]"""
    match kind:
        case "convolution":
            convolution = cost_convolution(**arguments)
            return convolution.time_s, convolution.flop_per_s
        case "transfer":
            transfer = cost_transfer(**arguments)
            return transfer.time_s, transfer.bytes_per_s
    chip = load_ipu("gc2")
    shape = MatMulShape(arguments["rows"], arguments["inner"], arguments["columns"])
    plan = planned_matmul(Chip(chip), shape, arguments["dtype"], "fp32", _MEMORY)
    time_s = plan.account.cycles / chip.clock_hz
    return time_s, shape.flop / time_s
