"""The published rate of LLaMa2-7B at other bandwidths of an IPU's streaming memory.

One IPU was measured, alone; runs of four at a time allow less and need more.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.program.generation import WEIGHTS_WAIT
from podsim.program.transfers import STREAMING
from podsim.result.reference_data import rows
from podsim.runs import generate
from podsim.scenario import load_scenario

SCENARIO = "llama2_7b_pod16_streamed"
_RATES = (5.6, 8, 9.6)
"""From the most that the steps of GPT-J allow to a quarter of what two modules of DDR4 transfer. [GB/s]"""
_KEY = "system.machine.streaming_memory.read_bandwidth_per_ipu"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The prediction at one bandwidth of an IPU's streaming memory.

    Attributes:
        rate: The bandwidth, as a user writes it.
        committed: Whether the specification says so.
        steps_per_s: Predicted steps. [1/s]
        wait_s: How long a step waits for weights. [s]
    """

    rate: str
    committed: bool
    steps_per_s: float
    wait_s: float


def sensitivity() -> tuple[Sensitivity, ...]:
    """The plausible range of the bandwidth, and what the specification says, in order."""
    committed = load_scenario(SCENARIO).spec.system.machine.streaming_memory.read_bytes_per_s.provenance.text
    rates = sorted({committed, *(f"{rate} GB/s" for rate in _RATES)}, key=_number)
    return tuple(_at(rate, committed=rate == committed) for rate in rates)


def _at(rate: str, *, committed: bool) -> Sensitivity:
    result = generate(SCENARIO, overrides=[f"{_KEY}={rate}"])
    waits = result.decode.breakdown
    return Sensitivity(rate, committed, result.steps_per_s, waits.get(STREAMING, 0.0) + waits.get(WEIGHTS_WAIT, 0.0))


def published_rates() -> dict[str, str]:
    """Published tokens per second of LLaMa2-7B by row, as they are quoted. [1/s]"""
    found = (row for row in rows("published_throughput") if row["metric"] == "generation rate")
    return {row["id"]: row["value"] for row in found}


def _number(rate: str) -> float:
    return float(rate.split()[0])
