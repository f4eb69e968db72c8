"""The result of forward passes: latency of a batch, throughput, and what bounds each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.metrics import FORWARD, THROUGHPUT
from podsim.result.base import Result
from podsim.result.power import WorkDone
from podsim.result.rows import IpuAccount, MemoryReport, OperationRow
from podsim.result.step import StepReport


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
