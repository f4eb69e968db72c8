"""The published rate of LLaMa2-7B at other bandwidths of a machine's streaming memory.

That bandwidth is not published: it is fitted, with a standard error, to this run among others.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.program.generation import WEIGHTS_WAIT
from podsim.result.reference_data import rows
from podsim.runs import generate
from podsim.scenario import load_scenario

SCENARIO = "llama2_7b_pod16_streamed"
_RATES = (23.7, 25, 26, 27, 28, 29)
"""From the least that the run can have needed, all its weights at 7.02 tokens/s, to five standard errors up. [GB/s]"""
_SHARED = "system.machine.streaming_memory.bandwidth_per_machine"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The prediction at one bandwidth of a machine's streaming memory.

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
    committed = load_scenario(SCENARIO).spec.system.machine.streaming_memory.machine_bytes_per_s.provenance.text
    rates = sorted({committed, *(f"{rate} GB/s" for rate in _RATES)}, key=_number)
    return tuple(_at(rate, committed=rate == committed) for rate in rates)


def _at(rate: str, *, committed: bool) -> Sensitivity:
    result = generate(SCENARIO, overrides=[f"{_SHARED}={rate}"])
    return Sensitivity(rate, committed, result.steps_per_s, result.decode.breakdown.get(WEIGHTS_WAIT, 0.0))


def published_rates() -> dict[str, str]:
    """Published tokens per second of LLaMa2-7B by row, as they are quoted. [1/s]"""
    found = (row for row in rows("published_throughput") if row["metric"] == "generation rate")
    return {row["id"]: row["value"] for row in found}


def _number(rate: str) -> float:
    return float(rate.split()[0])
