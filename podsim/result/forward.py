"""The result of forward passes: latency of a batch, throughput, and what bounds each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsim.format import format_count, format_duration_s, format_figure
from podsim.metrics import FORWARD, METRICS, THROUGHPUT
from podsim.report.report import Section, Tile
from podsim.result.base import Result
from podsim.result.memory import memory_blocks
from podsim.result.power import WorkDone
from podsim.result.rows import IpuAccount, MemoryReport, OperationRow
from podsim.result.step import StepReport
from podsim.result.timeline import timeline_section
from podsim.result.where import ipus_chart, largest, longest_operations, waterfall

_DIGITS: Final = 4


@dataclass(frozen=True, kw_only=True, repr=False)
class ForwardResult(Result):
    """The result of simulated forward passes.

    Attributes:
        samples_per_batch: Samples that go through the network together.
        batches_per_call: Batches of each replica that one session call runs.
        replication_factor: Copies of the model.
        parameter_count: Parameters of the model.
        flop_per_batch: Work of matrix products and convolutions of one batch. [FLOP]
        peak_flop_per_s: Of all IPUs that are used. [FLOP/s]
        batch: One batch from its arrival at an idle replica to its result.
        call: A session call in the steady state, in which every replica runs its batches.
        ipus: How each IPU of the first replica spends a call.
        memory: Tenants and capacities of the memories.
        operations: Time of every operation for one batch.
    """

    KIND = FORWARD
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
    def breakdown_ps(self) -> Mapping[str, int]:
        """Time of one session call by kind. [ps]"""
        return self.call.breakdown_ps

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of a session call by what they stand on."""
        return self.call.sources.shares

    @property
    def latency_s(self) -> float:
        """From the arrival of a batch at an idle replica to its result. [s]"""
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
    def bound(self) -> str:
        """What most of a call goes to: `compute`, `exchange`, `links` or `host`."""
        return self.call.bound

    @property
    def breakdown(self) -> dict[str, float]:
        """Time of a call by kind, mean over the IPUs. [s]"""
        return self.call.breakdown

    @property
    def utilization_of_pod(self) -> float:
        """Work over what all IPUs of the pod could do in the same time."""
        return self.utilization * self.simulated.ipus_used / self.simulated.ipu_count

    def headline(self, *, ranged: bool = True) -> Iterator[Tile]:
        """Latency, throughput, utilisation, what runs, power, energy and cost."""
        batch = f" for a batch of {format_count(self.samples_per_batch)}"
        yield self._tile("latency_s", batch, ranged=ranged)
        yield self._tile(THROUGHPUT, ranged=ranged)
        of_all = self._of_all_ipus(self.utilization_of_pod)
        yield self._tile("utilization", label="Utilization", ranged=ranged, notes=of_all)
        yield Tile("IPUs", f"{self.replication_factor} x {len(self.ipus)}")
        yield Tile("Parameters", format_count(self.parameter_count))
        yield Tile("Work", f"{self.flop_per_batch / 1e9:,.3g} GFLOP per batch")
        yield from self.spent_tiles(ranged=ranged)

    def conclusion(self, *, ranged: bool = True) -> str:
        """The time of a session call, its largest parts, and who sets the pace."""
        slowest = max(self.ipus, key=lambda account: account.busy_s, default=None)
        pace = f"; IPU {slowest.ipu} sets the pace" if slowest is not None and len(self.ipus) > 1 else ""
        known = self._range(THROUGHPUT, ranged=ranged)
        rate = f"{format_figure(METRICS[THROUGHPUT], self.throughput_samples_per_s)} samples/s"
        call = (
            f"{format_duration_s(self.call.time_s, _DIGITS)} per call of {format_count(self.batches_per_call)} batches"
        )
        return f"{rate}{f' ({known})' * bool(known)}, {call}: {largest(self.breakdown)}{pace}"

    def _sections(self) -> Iterator[Section]:
        call, batches = "session call", f"a call of {self.batches_per_call} batches"
        charts = [
            waterfall(what, each.breakdown, each.sources, f", bound by {each.bound}")
            for what, each in (("one batch", self.batch), (batches, self.call))
        ]
        yield Section("Where time goes", charts, short=True)
        yield timeline_section(self.trace, self.passes, call)
        is_told = len(self.ipus) > 1
        ipus = ipus_chart(call, self.ipus, self.call.breakdown_ps)
        yield Section("IPUs of one replica", [ipus], short=is_told, plotted=True, paged=is_told)
        yield Section("Longest operations", list(longest_operations(self.operations)), short=True)
        yield Section("Memory", list(memory_blocks(self.memory)), short=True)

    def work(self) -> WorkDone:
        """Session calls in the steady state."""
        rates = {"sample": self.throughput_samples_per_s, "batch": self.batches_per_s}
        return WorkDone(self.call.breakdown_ps, rates, self.call.products)

    def own(self) -> Mapping[str, object]:
        """The numbers of forward passes, in a fixed order of keys."""
        return {
            "latency_s": self.latency_s,
            THROUGHPUT: self.throughput_samples_per_s,
            "batches_per_s": self.batches_per_s,
            "utilization": self.utilization,
            "utilization_of_pod": self.utilization_of_pod,
            "bound": self.bound,
            "samples_per_batch": self.samples_per_batch,
            "batches_per_call": self.batches_per_call,
            "replication_factor": self.replication_factor,
            "parameter_count": self.parameter_count,
            "flop_per_batch": self.flop_per_batch,
            "steps": [step.to_dict() for step in (self.batch, self.call)],
            "ipus": [{"ipu": each.ipu, "stages": each.stages, "seconds": each.seconds} for each in self.ipus],
            "memory": self.memory,
            "operations": self.operations,
            **self.spent(),
        }
