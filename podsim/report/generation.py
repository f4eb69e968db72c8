"""The result of text generation: latency, throughput, and what bounds each kind of step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from podsim.parallelism.choice import Choice
from podsim.report.breakdown import exact_seconds
from podsim.report.kinds import COMPUTE, LINKS, OFF_CHIP, ON_CHIP, kind_of
from podsim.report.rows import MemoryReport, PhaseTime, Reference
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from podsim.engine.trace import Trace

_BOUNDS: Final = {COMPUTE: "compute", ON_CHIP: "exchange", LINKS: "links"}
_STREAMING: Final = ("streaming", "weights_wait")


@dataclass(frozen=True, slots=True)
class StepReport:
    """One kind of step: prefill or decode.

    Attributes:
        name: Which.
        time_ps: One step of one batch, from its input to its sampled token. [ps]
        breakdown_ps: Mean over the IPUs of their time by kind; adds up to `time_ps`. [ps]
        phases: Its phases in order.
    """

    name: str
    time_ps: int
    breakdown_ps: Mapping[str, int]
    phases: tuple[PhaseTime, ...]

    @property
    def time_s(self) -> float:
        """One step. [s]"""
        return ps_to_seconds(self.time_ps)

    @property
    def breakdown(self) -> dict[str, float]:
        """Time by kind; adds up to `time_s` exactly. [s]"""
        return exact_seconds(self.breakdown_ps)

    @property
    def bound(self) -> str:
        """What most of the time goes to: `compute`, `exchange`, `links`, `streaming memory` or `host`."""
        sums: dict[str, int] = {}
        for name, time_ps in self.breakdown_ps.items():
            family = kind_of(name).family
            if name in _STREAMING:
                bound = "streaming memory"
            elif family == OFF_CHIP:
                bound = "host"
            elif family in _BOUNDS:
                bound = _BOUNDS[family]
            else:
                continue
            sums[bound] = sums.get(bound, 0) + time_ps
        return max(sums, key=lambda bound: sums[bound])


@dataclass(frozen=True, kw_only=True)
class GenerationResult:
    """What simulated text generation tells.

    Attributes:
        name: Name of the scenario.
        description: Its description.
        version: Version of podsim that made the result.
        batch_size: Sequences that go through the network together.
        batches_in_flight: Batches one behind the other.
        output_tokens: Tokens generated for a prompt.
        prefill: The step that takes in a prompt and makes its first token.
        decode: The step that makes one more token, in the middle of the output.
        memory: Tenants and capacities of the first IPU of each pipeline stage.
        references: Measured figures to compare with.
        assumptions: Every input that is neither published nor measured.
        inputs: Path and SHA-256 of every file read.
        event_count: Events that the engine handled.
        scenario: The scenario as resolved.
        choice: How the division was chosen, if that was left open.
        trace: The timeline of a decode step, if recorded; not part of the JSON.
    """

    name: str
    description: str
    version: str
    batch_size: int
    batches_in_flight: int
    output_tokens: int
    prefill: StepReport
    decode: StepReport
    memory: MemoryReport
    references: tuple[Reference, ...] = ()
    assumptions: tuple[Mapping[str, object], ...]
    inputs: tuple[tuple[str, str], ...]
    event_count: int
    scenario: Mapping[str, object]
    choice: Choice | None = None
    trace: Trace | None = None

    @property
    def time_to_first_token_s(self) -> float:
        """From the arrival of a prompt at an idle machine to its first token. [s]"""
        return self.prefill.time_s

    @property
    def time_per_output_token_s(self) -> float:
        """From one token of a sequence to its next. [s]"""
        return self.decode.time_s

    @property
    def steps_per_s(self) -> float:
        """Decode steps of one batch per second. [1/s]"""
        return 1 / self.decode.time_s

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all sequences in flight per second of decoding. [1/s]"""
        return self.batch_size * self.batches_in_flight * self.steps_per_s

    @property
    def latency_s(self) -> float:
        """From the arrival of a prompt at an idle machine to its last token. [s]"""
        return self.time_to_first_token_s + (self.output_tokens - 1) * self.time_per_output_token_s

    def to_dict(self) -> dict[str, object]:
        """Plain types only, in a fixed order of keys; the trace is left out."""
        return {
            "name": self.name,
            "description": self.description,
            "version": self.version,
            "time_to_first_token_s": self.time_to_first_token_s,
            "time_per_output_token_s": self.time_per_output_token_s,
            "tokens_per_s": self.tokens_per_s,
            "steps_per_s": self.steps_per_s,
            "latency_s": self.latency_s,
            "steps": [_step_dict(step) for step in (self.prefill, self.decode)],
            "memory": {
                "rows": [
                    {"ipu": row.ipu, "tenant": row.tenant, "size_bytes": row.size_bytes, "where": row.where}
                    for row in self.memory.rows
                ],
                "in_processor_memory_bytes": self.memory.in_processor_memory_bytes,
                "streaming_memory_bytes": self.memory.streaming_memory_bytes,
            },
            "references": [
                {
                    "quantity": each.quantity,
                    "measured": each.measured,
                    "label": each.label,
                    "error": self.error_of(each),
                }
                for each in self.references
            ],
            "assumptions": [dict(each) for each in self.assumptions],
            "inputs": [{"path": path, "sha256": digest} for path, digest in self.inputs],
            "event_count": self.event_count,
            "scenario": dict(self.scenario),
            **({"choice": asdict(self.choice)} if self.choice else {}),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(), indent=2, default=list)

    def error_of(self, reference: Reference) -> float:
        """Predicted ÷ measured - 1."""
        return float(getattr(self, reference.quantity)) / reference.measured - 1


def _step_dict(step: StepReport) -> dict[str, object]:
    return {
        "name": step.name,
        "time_s": step.time_s,
        "bound": step.bound,
        "breakdown": step.breakdown,
        "phases": [{"name": each.name, "count": each.count, "seconds": each.seconds} for each in step.phases],
    }
