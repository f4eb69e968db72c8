"""The result of text generation: latency, throughput, and what bounds each kind of step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.metrics import GENERATION, TOKENS
from podsim.result.base import Result
from podsim.result.power import WorkDone
from podsim.result.rows import MemoryReport
from podsim.result.step import StepReport
from podsim.units import ps_to_seconds


@dataclass(frozen=True, kw_only=True, repr=False)
class GenerationResult(Result):
    """The result of simulated text generation.

    Attributes:
        batch_size: Sequences that go through the network together.
        batches_in_flight: Batches one behind the other.
        output_tokens: Tokens generated for a prompt.
        prefill: The step that takes in a prompt and makes its first token.
        decode: The step that makes one more token, in the middle of the output.
        memory: Tenants and capacities of the first IPU of each pipeline stage.
    """

    KIND = GENERATION
    batch_size: int
    batches_in_flight: int
    output_tokens: int
    prefill: StepReport
    decode: StepReport
    memory: MemoryReport

    @property
    def breakdown_ps(self) -> Mapping[str, int]:
        """Time of one decode step by kind. [ps]"""
        return self.decode.breakdown_ps

    @property
    def breakdown(self) -> dict[str, float]:
        """The same in seconds. [s]"""
        return self.decode.breakdown

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of a decode step by what they stand on."""
        return self.decode.sources.shares

    @property
    def time_to_first_token_s(self) -> float:
        """From the arrival of a prompt at an idle machine to its first token. [s]"""
        return self.prefill.time_s

    @property
    def time_per_output_token_s(self) -> float:
        """From one token of a sequence to its next: one step, or the turns of all batches at the slowest stage. [s]"""
        return ps_to_seconds(self.decode.interval_ps(self.batches_in_flight))

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

    def work(self) -> WorkDone:
        """Decode steps of all batches in flight."""
        rates = {"token": self.tokens_per_s}
        step, density = self.decode, self.decode.density(self.batches_in_flight)
        return WorkDone(step.breakdown_ps, rates, step.products, density)

    def own(self) -> Mapping[str, object]:
        """The numbers of text generation, in a fixed order of keys."""
        return {
            "time_to_first_token_s": self.time_to_first_token_s,
            "time_per_output_token_s": self.time_per_output_token_s,
            TOKENS: self.tokens_per_s,
            "steps_per_s": self.steps_per_s,
            "latency_s": self.latency_s,
            "steps": [step.to_dict() for step in (self.prefill, self.decode)],
            "memory": self.memory,
            **self.spent(),
        }
