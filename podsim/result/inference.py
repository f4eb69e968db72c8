"""Results of text generation and of forward passes: latency, throughput, and the bound of each kind of step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsim.format import format_count, format_duration_s, format_figure, format_significant
from podsim.metrics import FORWARD, GENERATION, METRICS, STEPS, THROUGHPUT, TOKENS
from podsim.report.report import Section, Tile, Topic
from podsim.result.base import Result
from podsim.result.power import WorkDone
from podsim.result.rows import IpuAccount, MemoryReport, OperationRow
from podsim.result.step import StepReport
from podsim.result.timeline import timeline_section
from podsim.result.where import ipus_chart, largest, longest_operations, memory_blocks, pace, waterfall
from podsim.units import ps_to_seconds

_DIGITS: Final = 4
_ONE_SCALE: Final = 4
"""Largest ratio of two step times that are drawn on one scale."""


class InferenceResult(Result):
    """A result whose breakdown is that of one of its steps."""

    @property
    @abstractmethod
    def step(self) -> StepReport:
        """The step that sets the throughput."""

    @property
    def breakdown_ps(self) -> Mapping[str, int]:
        """Time of a decode step, or of a session call, by kind. [ps]"""
        return self.step.breakdown_ps

    @property
    def breakdown(self) -> dict[str, float]:
        """The same, mean over the IPUs. [s]"""
        return self.step.breakdown

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of a decode step, or of a session call, by basis of its inputs."""
        return self.step.sources.shares


@dataclass(frozen=True, kw_only=True, repr=False)
class GenerationResult(InferenceResult):
    """Result of simulated text generation.

    Attributes:
        batch_size: Sequences that go through the network together.
        batches_in_flight: Batches that are in the pipeline at the same time.
        output_tokens: Tokens generated for a prompt.
        prefill: Step that reads a prompt and generates its first token.
        decode: Step that generates one more token, in the middle of the output.
        memory: Tenants and capacities of the first IPU of each pipeline stage.
    """

    KIND = GENERATION
    SPECIFIC_KEYS = (
        *("time_to_first_token_s", "time_per_output_token_s", TOKENS, STEPS, "latency_s", "steps", "memory"),
        *("energy", "cost"),
    )
    batch_size: int
    batches_in_flight: int
    output_tokens: int
    prefill: StepReport
    decode: StepReport
    memory: MemoryReport

    @property
    def step(self) -> StepReport:
        """The step that makes one more token."""
        return self.decode

    @property
    def steps(self) -> tuple[StepReport, StepReport]:
        """The steps of prefill and of decode."""
        return self.prefill, self.decode

    @property
    def time_to_first_token_s(self) -> float:
        """Time from the arrival of a prompt at an idle machine to its first token. [s]"""
        return self.prefill.time_s

    @property
    def time_per_output_token_s(self) -> float:
        """Time between two tokens of a sequence: a decode step, or the time of all batches at the slowest stage. [s]"""
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
        """Time from the arrival of a prompt at an idle machine to its last token. [s]"""
        return self.time_to_first_token_s + (self.output_tokens - 1) * self.time_per_output_token_s

    def headline(self) -> Iterator[Tile]:
        """Yield tiles with times of tokens, rates, sequences, power, energy and cost."""
        yield self._tile("time_to_first_token_s")
        yield self._tile("time_per_output_token_s")
        steps = f"{format_significant(self.steps_per_s, _DIGITS)}/s"
        yield Tile("Steps", steps, (*self._measured(STEPS),), self._range(STEPS), STEPS)
        yield self._tile(TOKENS, label="Throughput")
        yield self._tile("latency_s", f" for {self.output_tokens} tokens")
        yield Tile("Sequences", format_count(self.batch_size * self.batches_in_flight))
        yield from self.spent_tiles()

    def conclusion(self) -> str:
        """Return tokens per second, and the times of the first and of further tokens."""
        rate = f"{format_significant(self.tokens_per_s)} tokens/s{self._bracketed_range(TOKENS)}"
        first, later = (f"after {format_duration_s(step.time_s)}, bound by {step.bound}" for step in self.steps)
        return f"{rate}: first token {first}; next {later}"

    def _sections(self) -> Iterator[Section]:
        yield self._division
        shorter_s, longer_s = sorted(step.time_s for step in self.steps)
        until_s = longer_s if longer_s <= _ONE_SCALE * shorter_s else 0.0
        for step in self.steps:
            what, told = f"a {step.name} step", f", bound by {step.bound}"
            chart = waterfall(what, step.breakdown, step.sources, told, loads_s=step.loads_s, until_s=until_s)
            topic = Topic.TIME if step is self.decode else None
            yield Section(f"{step.name.capitalize()} step", [chart], topic, short=True, plotted=True)
        yield timeline_section(self.trace, self.passes, "decode step", plotted=False)
        yield Section("Memory", list(memory_blocks(self.memory)), Topic.MEMORY, short=True, plotted=True)

    def work(self) -> WorkDone:
        """Return the decode steps of all batches in flight."""
        density = self.decode.density(self.batches_in_flight)
        return WorkDone(self.breakdown_ps, {"token": self.tokens_per_s}, self.decode.products, density)


@dataclass(frozen=True, kw_only=True, repr=False)
class ForwardResult(InferenceResult):
    """Result of simulated forward passes.

    Attributes:
        samples_per_batch: Samples that go through the network together.
        batches_per_call: Batches of each replica that one session call runs.
        replication_factor: Copies of the model.
        parameter_count: Parameters of the model.
        flop_per_batch: Work of matrix products and convolutions of one batch. [FLOP]
        peak_flop_per_s: Peak of all IPUs in use. [FLOP/s]
        batch: Report of one batch, from its arrival at an idle replica to its result.
        call: Report of a session call in the steady state, in which every replica runs its batches.
        ipus: Time of each IPU of the first replica in a call, by kind.
        memory: Tenants and capacities of the memories.
        operations: Time of every operation for one batch.
    """

    KIND = FORWARD
    SPECIFIC_KEYS = (
        *("latency_s", THROUGHPUT, "batches_per_s", "utilization", "utilization_of_pod", "bound", "samples_per_batch"),
        *("batches_per_call", "replication_factor", "parameter_count", "flop_per_batch", "steps", "ipus", "memory"),
        *("operations", "energy", "cost"),
    )
    samples_per_batch: float
    batches_per_call: int
    replication_factor: int
    parameter_count: int
    flop_per_batch: int
    peak_flop_per_s: float
    batch: StepReport
    call: StepReport
    ipus: tuple[IpuAccount, ...]
    memory: MemoryReport
    operations: Sequence[OperationRow]

    @property
    def step(self) -> StepReport:
        """A session call in the steady state."""
        return self.call

    @property
    def steps(self) -> tuple[StepReport, StepReport]:
        """Reports of one batch and of a session call."""
        return self.batch, self.call

    @property
    def bound(self) -> str:
        """Resource that takes most of a call: `compute`, `exchange`, `links` or `host`."""
        return self.call.bound

    @property
    def latency_s(self) -> float:
        """Time from the arrival of a batch at an idle replica to its result. [s]"""
        return self.batch.time_s

    @property
    def batches_per_s(self) -> float:
        """Batches of all replicas in the steady state. [1/s]"""
        return self.batches_per_call * self.replication_factor / self.call.time_s

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples of all replicas in the steady state. [1/s]"""
        return self.samples_per_batch * self.batches_per_s

    @property
    def utilization(self) -> float:
        """Work over what all IPUs in use could do in the same time."""
        return self.flop_per_batch * self.batches_per_s / self.peak_flop_per_s

    @property
    def utilization_of_pod(self) -> float:
        """Work over what all IPUs of the pod could do in the same time."""
        return self.utilization * self.simulated.ipus_used / self.simulated.ipu_count

    def headline(self) -> Iterator[Tile]:
        """Yield tiles with latency, throughput, utilisation, number of copies, power, energy and cost."""
        yield self._tile("latency_s", f" for a batch of {format_count(self.samples_per_batch)}")
        yield self._tile(THROUGHPUT)
        yield self._tile("utilization", label="Utilization", notes=self._pod_share_note(self.utilization_of_pod))
        yield Tile("IPUs", f"{self.replication_factor} x {len(self.ipus)}")
        yield Tile("Parameters", format_count(self.parameter_count))
        yield Tile("Work", f"{self.flop_per_batch / 1e9:,.3g} GFLOP per batch")
        yield from self.spent_tiles()

    def conclusion(self) -> str:
        """Return the time of a session call, its largest parts, and the slowest IPU."""
        rate = f"{format_figure(METRICS[THROUGHPUT], self.throughput_samples_per_s)} samples/s"
        per_call = f"per call of {format_count(self.batches_per_call)} batches"
        call = f"{format_duration_s(self.call.time_s, _DIGITS)} {per_call}"
        return f"{rate}{self._bracketed_range(THROUGHPUT)}, {call}: {largest(self.breakdown)}{pace(self.ipus)}"

    def _sections(self) -> Iterator[Section]:
        whats = "one batch", f"a call of {self.batches_per_call} batches"
        charts = [
            waterfall(what, step.breakdown, step.sources, f", bound by {step.bound}")
            for what, step in zip(whats, self.steps, strict=True)
        ]
        yield Section("Where time goes", charts, Topic.TIME, short=True)
        yield timeline_section(self.trace, self.passes, "session call")
        is_told = len(self.ipus) > 1
        ipus = ipus_chart("session call", self.ipus, self.breakdown_ps)
        yield Section("IPUs of one replica", [ipus], short=is_told, plotted=True, paged=is_told)
        yield Section("Longest operations", list(longest_operations(self.operations)), short=True)
        yield Section("Memory", list(memory_blocks(self.memory)), Topic.MEMORY, short=True)

    def work(self) -> WorkDone:
        """Return the session calls in the steady state."""
        rates = {"sample": self.throughput_samples_per_s, "batch": self.batches_per_s}
        return WorkDone(self.breakdown_ps, rates, self.call.products)

    def specific_numbers(self) -> Mapping[str, object]:
        """Return the numbers that only forward passes have, in a fixed order of keys."""
        ipus = [{"ipu": each.ipu, "stages": each.stages, "seconds": each.seconds} for each in self.ipus]
        return {**super().specific_numbers(), "ipus": ipus}
