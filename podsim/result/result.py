"""Result of a training run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Self

from podsim.format import format_duration_s, format_figure
from podsim.metrics import (
    CONDITION,
    IF_IT_CONVERGES,
    METRICS,
    PERCENTILES,
    THROUGHPUT,
    TIME,
    TOKENS,
    TRAINING,
    UPDATE,
)
from podsim.report.report import Section, Tile, Topic
from podsim.result.base import Result
from podsim.result.breakdown import exact_seconds
from podsim.result.faults import FaultReport, fault_tables
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.power import WorkDone
from podsim.result.rows import IpuAccount, LearningRate, MemoryReport, OperationRow, PhaseTime
from podsim.result.sources import Sources
from podsim.result.standing import noise_table
from podsim.result.timeline import timeline_section
from podsim.result.training_times import TrainingOutcome
from podsim.result.where import (
    ipus_chart,
    largest,
    longest_operations,
    memory_blocks,
    pace,
    phases_line,
    sharing_lines,
    waterfall,
)
from podsim.scenario.software import Noise
from podsim.show.frames import frame_of_rows
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

    from podsim.draws import Noisy

_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Drift:
    """Relative slowdown from start to end of logged runs with at least `machines` machines."""

    machines: int
    least: float
    most: float

    @classmethod
    def from_noise(cls, noise: Noise | None, machines: int) -> Self | None:
        """Return the slowdown of runs on `machines` machines; None if no such run was logged."""
        drift = noise.drift_on(machines) if noise else None
        if noise is None or drift is None:
            return None
        return cls(noise.drift_machine_count or 1, *(drift.provenance.range or (float(drift), float(drift))))

    @property
    def on_average(self) -> tuple[float, float]:
        """Least and most over whole runs; what grows evenly is half as much as at the end."""
        return self.least / 2, self.most / 2

    @property
    def note(self) -> str:
        """Note that times do not include the slowdown, with its range."""
        ends = (f"{100 * low:.1f} to {100 * high:.1f} %" for low, high in ((self.least, self.most), self.on_average))
        slower = " slower at their end, ".join(ends)
        return f"without drift; runs on {self.machines} machines and more were {slower} on average"


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult(Result):
    """Result of a simulated training run.

    The breakdown adds up to the weight update exactly. Assumptions, hashes of the inputs and the version document how
    the numbers were computed.

    Attributes:
        throughput_samples_per_s: Samples trained per second of training. [1/s]
        weight_update_ps: Time of one weight update. [ps]
        breakdown_ps: Mean over the IPUs of their time by kind; adds up to `weight_update_ps`. [ps]
        shared_ps: `contention` of the breakdown: kinds of transfers that lost time, with the kinds that they shared
            channels with. [ps]
        mfu: Model FLOP of a weight update ÷ (peak FLOP/s of the IPUs in use x its time).
        time_to_train_s: Wall-clock time of the whole run, if its convergence is known. [s]
        time_to_train_percentiles: `p10`, `p50`, `p90` of the time to train, if convergence is sampled. [s]
        time_to_train_condition: Why the time assumes that the run converges; None for batch sizes known to converge.
        learning_rate: Schedule of the learning rate, if the scenario gives its rule.
        run_breakdown: Time of the run by part, such as `setup`, `training`, `evaluation`. [s]
        phases: The phases of one weight update in order.
        ipus: Time of each IPU of a replica in a weight update, by kind.
        memory: Tenants and capacities of the memories.
        operations: Time of every operation of the graph.
        sources: Basis of the inputs for each line of the breakdown.
        noise: Result of runs with noise, if requested.
        drift: Slowdown of logged runs of this size; only times with noise contain it.
        outcome: Runs that the time to train is computed from; not part of the JSON.
        faults: Cost of slow parts of the pod, if the scenario names any.
        tokens_per_sample: Tokens of a sample, if it is a sequence of tokens only.
        products: Rate of work during products, by format; not part of the JSON. [FLOP/s]
    """

    KIND = TRAINING
    SPECIFIC_KEYS = (
        *(THROUGHPUT, UPDATE, "weight_update_ps", TIME, PERCENTILES, "mfu", "mfu_of_pod", "breakdown", "breakdown_ps"),
        *("breakdown_basis", "run_breakdown", "phases", "ipus", "memory", "operations", TOKENS, "faults", "energy"),
        *("cost", "shared_ps", "noise", "drift", CONDITION, "learning_rate"),
    )
    throughput_samples_per_s: float
    weight_update_ps: int
    breakdown_ps: Mapping[str, int]
    shared_ps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    mfu: float
    time_to_train_s: float | None
    time_to_train_percentiles: Mapping[str, float] | None
    run_breakdown: Mapping[str, float]
    phases: tuple[PhaseTime, ...]
    ipus: tuple[IpuAccount, ...]
    memory: MemoryReport
    operations: Sequence[OperationRow]
    sources: Sources = field(default_factory=Sources)
    noise: Noisy | None = None
    drift: Drift | None = None
    outcome: TrainingOutcome | None = None
    faults: FaultReport | None = None
    tokens_per_sample: int | None = None
    time_to_train_condition: str | None = None
    learning_rate: LearningRate | None = None
    products: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a breakdown that does not add up; such a result is a bug of its maker."""
        total_ps = sum(self.breakdown_ps.values())
        if total_ps != self.weight_update_ps:
            raise ValueError(f"breakdown adds up to {total_ps} ps, the weight update is {self.weight_update_ps} ps")

    @property
    def weight_update_s(self) -> float:
        """Time of one weight update. [s]"""
        return ps_to_seconds(self.weight_update_ps)

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens trained per second of training, if samples are sequences of them. [1/s]"""
        return None if self.tokens_per_sample is None else self.tokens_per_sample * self.throughput_samples_per_s

    @property
    def breakdown(self) -> dict[str, float]:
        """Time by kind; its values add up to `weight_update_s` exactly, in any order. [s]"""
        return exact_seconds(self.breakdown_ps)

    @property
    def breakdown_basis(self) -> dict[str, object]:
        """Shares of the breakdown by basis of the inputs, for each kind of time and in total."""
        return self.sources.to_dict()

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of a weight update by basis of its inputs."""
        return self.sources.shares

    @property
    def slowest_ipu(self) -> IpuAccount | None:
        """The IPU that waits least, the first of equals: it sets the pace."""
        return max(self.ipus, key=attrgetter("busy_s"), default=None)

    @property
    def mfu_of_pod(self) -> float:
        """Model FLOP of a weight update ÷ (peak FLOP/s of all IPUs of the pod x its time)."""
        return self.mfu * self.simulated.ipus_used / self.simulated.ipu_count

    def predicted(self, quantity: str) -> float | None:
        """Return the predicted value of a metric, if there is one; the median of a simulated time to train."""
        drawn = self.time_to_train_percentiles
        if quantity == TIME and self.time_to_train_s is None and drawn:
            return drawn["p50"]
        return super().predicted(quantity)

    def work(self) -> WorkDone:
        """Return the weight updates, and the run they belong to."""
        rates = {"sample": self.throughput_samples_per_s, "weight_update": 1 / self.weight_update_s}
        return WorkDone(
            self.breakdown_ps, rates, self.products, run_parts=self.run_breakdown, run_s=self.predicted(TIME)
        )

    def headline(self) -> Iterator[Tile]:
        """Yield tiles with throughput, weight update, time to train, MFU, power, energy and cost."""
        percentiles, tokens_per_s = self.time_to_train_percentiles, self.tokens_per_s
        drift = [self.drift.note] if self.drift and self.noise is None else []
        tokens = [] if tokens_per_s is None else [f"{format_figure(METRICS[TOKENS], tokens_per_s)} tokens/s"]
        has_time = self.time_to_train_s is not None or percentiles is not None
        yield self._tile(THROUGHPUT, notes=tokens)
        yield self._tile(UPDATE, notes=[] if has_time else drift)
        condition = f" {IF_IT_CONVERGES}" if self.time_to_train_condition else ""
        if self.time_to_train_s is not None:
            yield self._tile(TIME, condition, notes=drift)
        elif percentiles is not None:
            low, middle, high = (format_duration_s(percentiles[name]) for name in ("p10", "p50", "p90"))
            yield self._tile(TIME, f"{middle} (median){condition}", notes=[f"P10 to P90 {low} to {high}", *drift])
        if self.learning_rate is not None:
            warm_up, peak = self.learning_rate.lines
            yield Tile("Learning rate", warm_up, (peak,))
        yield self._tile("mfu", notes=self._pod_share_note(self.mfu_of_pod))
        yield from self.spent_tiles()

    def conclusion(self) -> str:
        """Return the time of a weight update, its largest parts, and the slowest IPU."""
        update = f"{format_duration_s(self.weight_update_s, _DIGITS)} per weight update{self._bracketed_range(UPDATE)}"
        return f"{update}: {largest(self.breakdown)}{pace(self.ipus)}"

    def _sections(self) -> Iterator[Section]:
        what, count = "weight update", len(self.ipus) if self.faults is None else self.simulated.ipus_used
        over = f", mean over {count} IPUs" if count > 1 else ""
        yield Section("Noise", [noise_table(self.noise)] if self.noise else [], short=True)
        yield self._division
        time = waterfall(f"one {what}", self.breakdown, self.sources, over)
        slowed = sharing_lines(self.breakdown_ps, self.shared_ps)
        yield Section("Where time goes", [time, *slowed, *phases_line(self.phases)], Topic.TIME, short=True)
        faults = fault_tables(self.faults, self.simulated.ipus_used) if self.faults else ()
        yield Section("Faults", list(faults), short=True)
        yield timeline_section(self.trace, self.passes, what)
        ipus = [ipus_chart(what, self.ipus, self.breakdown_ps)] if self.ipus else []
        yield Section("IPUs of one replica", ipus, short=True, plotted=True)
        yield Section("Longest operations", list(longest_operations(self.operations)), short=True)
        yield Section("Memory", list(memory_blocks(self.memory)), Topic.MEMORY, short=True)

    def breakdown_frame(self) -> DataFrame:
        """Return the time of one weight update by kind: `kind, family, time_s, share`."""
        times_s, whole_s = self.breakdown, self.weight_update_s or 1.0
        rows = [(kind, kind_of(kind).family, times_s[kind], times_s[kind] / whole_s) for kind in in_kind_order(times_s)]
        return frame_of_rows(("kind", "family", "time_s", "share"), rows)

    def ipu_frame(self) -> DataFrame:
        """Return one row per IPU: `lane, stages, busy_s` and the time of each kind, for example `matmul_s`."""
        return _frame_by_kind(self.ipus, "ipu", "lane", "stages", "busy_s").set_index("ipu")

    def memory_frame(self) -> DataFrame:
        """Return one row per IPU, memory and tenant: `ipu, where, tenant, size_bytes, capacity_bytes`."""
        capacity = self.memory.capacity_bytes
        rows = [(row.ipu, row.where, row.tenant, row.size_bytes, capacity(row.where)) for row in self.memory.rows]
        return frame_of_rows(("ipu", "where", "tenant", "size_bytes", "capacity_bytes"), rows)

    def operations_frame(self) -> DataFrame:
        """Return one row per operation: `stage, block, kind, name, count, total_s` and the time of each kind."""
        return _frame_by_kind(self.operations, "stage", "block", "kind", "name", "count", "total_s")


def _frame_by_kind(records: Iterable[Any], *columns: str) -> DataFrame:
    """Return a data frame with attributes of records and their times by kind."""
    known = [(attrgetter(*columns)(record), record.seconds) for record in records]
    kinds = in_kind_order(kind for _, seconds in known for kind in seconds)
    rows = [(*cells, *(seconds.get(kind, 0.0) for kind in kinds)) for cells, seconds in known]
    return frame_of_rows((*columns, *(f"{kind}_s" for kind in kinds)), rows)
