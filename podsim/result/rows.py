"""Parts of a result: one flat, frozen record type per table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Final

from podsim.engine.trace import PhaseRecord
from podsim.format import format_percent
from podsim.placement.memory import FitVerdict, IpuMemory, fit_verdict
from podsim.result.breakdown import exact_seconds
from podsim.result.kinds import is_waiting
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from podsim.scenario.training import LearningRateSpec

IN_PROCESSOR: Final = "in_processor_memory"
STREAMING: Final = "streaming_memory"


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """Time of one phase of a weight update, all of its repetitions together."""

    name: str
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class IpuAccount:
    """Time of one IPU of a replica in a weight update, by kind; `stages` describes its share of the model."""

    ipu: int
    lane: str
    stages: str
    time_ps: Mapping[str, int]

    @property
    def seconds(self) -> dict[str, float]:
        """Time by kind; adds up exactly to the weight update. [s]"""
        return exact_seconds(self.time_ps)

    @property
    def busy_s(self) -> float:
        """Time in which it works or moves data, rather than waits. [s]"""
        return ps_to_seconds(sum(time for kind, time in self.time_ps.items() if not is_waiting(kind)))

    def to_dict(self) -> dict[str, object]:
        """Return plain values in a fixed order of keys."""
        return {key: getattr(self, key) for key in ("ipu", "lane", "stages", "busy_s", "seconds")}


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """Largest size of one tenant in one memory of one IPU of a replica during a weight update."""

    ipu: int
    tenant: str
    size_bytes: int
    where: str


def by_size(rows: Iterable[MemoryRow]) -> dict[str, int]:
    """Return the largest size of each tenant, the largest first. [B]"""
    sizes: Counter[str] = Counter()
    for row in rows:
        sizes[row.tenant] += row.size_bytes
    return dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Tenants of the memories of a replica, and the capacities of one IPU."""

    rows: tuple[MemoryRow, ...]
    in_processor_memory_bytes: int
    streaming_memory_bytes: int
    fit: FitVerdict = "fits"

    def capacity_bytes(self, where: str) -> int:
        """Return the capacity per IPU of one of the two memories. [B]"""
        return self.streaming_memory_bytes if where == STREAMING else self.in_processor_memory_bytes

    def tenants(self, ipu: int, where: str) -> dict[str, int]:
        """Return the tenants of one memory of one IPU, the largest first. [B]"""
        return by_size(row for row in self.rows if (row.ipu, row.where) == (ipu, where))

    def used_bytes(self, ipu: int, where: str = IN_PROCESSOR) -> int:
        """Return the sum of all tenants. [B]"""
        return sum(self.tenants(ipu, where).values())

    def ipus(self, where: str) -> list[int]:
        """Return the IPUs with tenants in one of the two memories."""
        return sorted({row.ipu for row in self.rows if row.where == where})

    def fullest_ipu(self, where: str = IN_PROCESSOR) -> int | None:
        """Return the IPU with the least free memory, the first of equals; None if this memory is not used."""
        return max(self.ipus(where), key=lambda ipu: self.used_bytes(ipu, where), default=None)


@dataclass(frozen=True, slots=True)
class OperationRow:
    """Time of one operation of the graph, all of its runs in one weight update together, by kind of time. [s]"""

    stage: str
    block: str
    kind: str
    name: str
    count: int
    seconds: Mapping[str, float]

    @property
    def total_s(self) -> float:
        """Time of all runs. [s]"""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class Reference:
    """A measured or published figure to compare the result with."""

    quantity: str  # measured attribute of the result, for example `weight_update_s`
    measured: float  # value in the unit at the end of the quantity's name
    label: str  # text for its origin
    role: str = "hold-out"  # or `calibration` if constants were fitted to it
    source: str = ""  # key of the bibliography, or an address
    score: float | None = None  # published score of the benchmark in the same unit, if it has one


@dataclass(frozen=True, slots=True)
class LearningRate:
    """Schedule of the learning rate that follows from batch and number of weight updates."""

    warm_up_share: float  # share of the weight updates, 0 to 1
    warm_up_updates: int | None  # None if the length of the run is unknown
    update_count: int | None  # weight updates of the run
    scaling: str  # `none` or `linear`
    batch_size: int  # samples, or packs, per weight update of this run
    known_batch_size: int | None  # samples, or packs, per weight update that the rule starts from
    factor: float  # ratio of the peak of this run to the peak at `known_batch_size`
    peak: float | None  # largest rate of this run; None if the scenario has only the rule

    @classmethod
    def from_rule(cls, rule: LearningRateSpec, batch_size: int, update_count: float | None) -> LearningRate:
        """Return the schedule of a rule at a batch size.

        >>> from podsim.scenario.training import LearningRateSpec
        >>> rule = LearningRateSpec(warm_up=0.3, scaling="linear", batch_size=65536, peak=0.006)
        >>> LearningRate.from_rule(rule, 32768, 14076).lines
        ('warm-up over 4,223 of 14,076 weight updates (30 %)', 'peak 0.003: 0.5 x that at a batch of 65,536')
        """
        count, factor = None if update_count is None else round(update_count), rule.factor(batch_size)
        return cls(
            warm_up_share=rule.warm_up,
            warm_up_updates=None if count is None else round(rule.warm_up * count),
            update_count=count,
            scaling=rule.scaling,
            batch_size=batch_size,
            known_batch_size=rule.batch_size,
            factor=factor,
            peak=None if rule.peak is None else rule.peak * factor,
        )

    @property
    def lines(self) -> tuple[str, str]:
        """Warm-up and peak in words."""
        share = format_percent(self.warm_up_share, 0)
        within = f"{share} of the weight updates"
        if self.update_count is not None:
            within = f"{self.warm_up_updates:,} of {self.update_count:,} weight updates ({share})"
        warm_up = f"warm-up over {within}" if self.warm_up_share else "no warm-up"
        peak = "peak" if self.peak is None else f"peak {self.peak:.4g}"
        if self.known_batch_size is None:
            return warm_up, f"{peak} whatever the batch"
        scaled = f"{self.factor:.4g} x that" if self.factor != 1 else "that"
        return warm_up, f"{peak}: {scaled} at a batch of {self.known_batch_size:,}"


def memory_report(memory: Sequence[IpuMemory]) -> MemoryReport:
    """Return the tenants of the IPUs of a replica, without empty ones."""
    rows = tuple(
        MemoryRow(ipu.ipu, tenant.name, tenant.byte_count, tenant.storage)
        for ipu in memory
        for tenant in ipu.tenants
        if tenant.byte_count
    )
    first = memory[0]
    return MemoryReport(rows, first.capacity_bytes, first.streaming_capacity_bytes, fit_verdict(memory))


def phase_times(phases: Iterable[PhaseRecord]) -> tuple[PhaseTime, ...]:
    """Return the time of each phase in order; numbered phases (`fill 0`, `fill 1`, …) are merged into one.

    All replicas have the same phases, so the first group represents all.
    """
    return merged(
        PhaseTime(phase.name, phase.count, ps_to_seconds(phase.end_ps - phase.start_ps))
        for phase in first_group(phases)
    )


def merged(phases: Iterable[PhaseTime]) -> tuple[PhaseTime, ...]:
    """Merge phases whose names are equal, or differ only by a number at the end.

    >>> merged([PhaseTime("fill 0", 1, 0.5), PhaseTime("fill 1", 1, 0.75)])
    (PhaseTime(name='fill', count=2, seconds=1.25),)
    """
    runs: dict[str, list[PhaseTime]] = {}
    for phase in phases:
        name, _, number = phase.name.rpartition(" ")
        runs.setdefault(name if name and number.isdecimal() else phase.name, []).append(phase)
    return tuple(
        PhaseTime(name, sum(phase.count for phase in run), fsum(phase.seconds for phase in run))
        for name, run in runs.items()
    )


def first_group(phases: Iterable[PhaseRecord]) -> list[PhaseRecord]:
    """Return the phases of the first group, in order of time."""
    ordered = sorted(phases, key=lambda phase: (phase.start_ps, phase.end_ps))
    return [phase for phase in ordered if phase.group == ordered[0].group]


def part_of(phase_name: str) -> str:
    """Return the part of the weight update that a phase belongs to: the first word of its name.

    >>> part_of("fill 3"), part_of("update IPUs 1-3: optimizer")
    ('fill', 'update')
    """
    return phase_name.split(maxsplit=1)[0]
