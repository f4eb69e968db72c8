"""The result of text generation: latency, throughput, and what bounds each kind of step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from podsim.format import format_count, format_duration_s, format_significant
from podsim.metrics import GENERATION, STEPS, TOKENS
from podsim.report.report import Section, Tile
from podsim.result.base import Result
from podsim.result.division import division_blocks
from podsim.result.memory import memory_blocks
from podsim.result.power import WorkDone
from podsim.result.rows import MemoryReport
from podsim.result.step import StepReport
from podsim.result.timeline import timeline_section
from podsim.result.where import waterfall
from podsim.units import ps_to_seconds

_DIGITS: Final = 4
_ONE_SCALE: Final = 4
"""Steps of which one is no more than so many times as long as the other are drawn to one scale."""


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

    def headline(self, *, ranged: bool = True) -> Iterator[Tile]:
        """Times of tokens, rates, sequences, power, energy and cost."""
        yield self._tile("time_to_first_token_s", ranged=ranged)
        yield self._tile("time_per_output_token_s", ranged=ranged)
        known = self._range(STEPS, ranged=ranged)
        yield Tile(
            "Steps", f"{format_significant(self.steps_per_s, _DIGITS)}/s", (*self.measured(STEPS),), known, STEPS
        )
        yield self._tile(TOKENS, label="Throughput", ranged=ranged)
        yield self._tile("latency_s", f" for {self.output_tokens} tokens", ranged=ranged)
        yield Tile("Sequences", format_count(self.batch_size * self.batches_in_flight))
        yield from self.spent_tiles(ranged=ranged)

    def conclusion(self, *, ranged: bool = True) -> str:
        """Tokens per second, and when the first and the next ones come."""
        known = self._range(TOKENS, ranged=ranged)
        rate = f"{format_significant(self.tokens_per_s)} tokens/s{f' ({known})' * bool(known)}"
        first, later = (f"after {format_duration_s(step.time_s)}, bound by {step.bound}" for step in self.steps)
        return f"{rate}: first token {first}; next {later}"

    @property
    def steps(self) -> tuple[StepReport, StepReport]:
        """The steps of prefill and of decode."""
        return self.prefill, self.decode

    def _sections(self) -> Iterator[Section]:
        yield Section("Division", division_blocks(self.choice) if self.choice else [], short=True)
        shorter_s, longer_s = sorted(step.time_s for step in self.steps)
        until_s = longer_s if longer_s <= _ONE_SCALE * shorter_s else 0.0
        for step in self.steps:
            what, told = f"a {step.name} step", f", bound by {step.bound}"
            chart = waterfall(what, step.breakdown, step.sources, told, loads_s=step.loads_s, until_s=until_s)
            yield Section(f"{step.name.capitalize()} step", [chart], short=True, plotted=True)
        yield timeline_section(self.trace, self.passes, "decode step", plotted=False)
        yield Section("Memory", list(memory_blocks(self.memory)), short=True, plotted=True)

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
            "steps": [step.to_dict() for step in self.steps],
            "memory": self.memory,
            **self.spent(),
        }
