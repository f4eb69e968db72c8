"""The result of text generation: latency, throughput, and what bounds each kind of step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from podsim.parallelism.choice import Choice
from podsim.report.rows import MemoryReport, Reference
from podsim.report.step import StepReport
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from podsim.engine.trace import Trace


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
    assumptions: Sequence[Mapping[str, object]]
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
        """From one token of a sequence to its next: one step, or the turns of all batches at the slowest stage. [s]"""
        turns_s = self.batches_in_flight * ps_to_seconds(self.decode.longest_stage_ps)
        return max(self.decode.time_s, turns_s)

    @property
    def steps_per_s(self) -> float:
        """Decode steps of one batch per second. [1/s]"""
        return 1 / self.time_per_output_token_s

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
            "steps": [step.to_dict() for step in (self.prefill, self.decode)],
            "memory": self.memory.to_dict(),
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
