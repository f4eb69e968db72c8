"""The published rate of LLaMa2-7B at other bandwidths of streaming memory.

That bandwidth is not published. It is the one quantity of the prediction that may be tuned, within its range.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.activity import generate
from podsim.report.reference_data import rows
from podsim.specs import load_scenario

SCENARIO = "llama2_7b_pod16_streamed"
_RATES = (6, 8, 10, 12, 14, 16)
_MEMORY = "system.machine.streaming_memory"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The prediction at one bandwidth of an IPU's streaming memory.

    Attributes:
        rate: The bandwidth, as a user writes it.
        committed: Whether the specification says so.
        steps_per_s: Prediction with the memory that a machine's IPUs share as specified. [1/s]
        fed_steps_per_s: The same if that memory feeds all of them at this rate. [1/s]
    """

    rate: str
    committed: bool
    steps_per_s: float
    fed_steps_per_s: float


def sensitivity() -> tuple[Sensitivity, ...]:
    """From the least that was proven to the end of the range, and what the specification says, in order."""
    machine = load_scenario(SCENARIO).spec.system.machine
    committed = machine.streaming_memory.read_bytes_per_s.provenance.text
    rates = sorted({committed, *(f"{rate} GB/s" for rate in _RATES)}, key=_number)
    return tuple(_at(rate, machine.ipu_count, committed=rate == committed) for rate in rates)


def _at(rate: str, ipu_count: int, *, committed: bool) -> Sensitivity:
    own = f"{_MEMORY}.read_bandwidth_per_ipu={rate}"
    shared = f"{_MEMORY}.bandwidth_per_machine={ipu_count * _number(rate):g} GB/s"
    alone, fed = (generate(SCENARIO, overrides=overrides).steps_per_s for overrides in ([own], [own, shared]))
    return Sensitivity(rate, committed, alone, fed)


def shared_rate() -> str:
    """Bandwidth of the memory that the IPUs of a machine share, as specified."""
    return load_scenario(SCENARIO).spec.system.machine.streaming_memory.machine_bytes_per_s.provenance.text


def published_rates() -> dict[str, str]:
    """Published tokens per second of LLaMa2-7B by row, as they are quoted. [1/s]"""
    found = (row for row in rows("published_throughput") if row["metric"] == "generation rate")
    return {row["id"]: row["value"] for row in found}


def _number(rate: str) -> float:
    return float(rate.split()[0])
