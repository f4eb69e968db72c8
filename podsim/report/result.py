"""The result of a run: every number with what it stands on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Final

from podsim.parallelism.choice import Choice
from podsim.report.breakdown import exact_seconds
from podsim.report.rows import IpuAccount, MemoryReport, OperationRow, PhaseTime, Reference
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

    from podsim.engine.trace import Trace

_JSON_KEYS: Final = (
    "name",
    "description",
    "version",
    "throughput_samples_per_s",
    "weight_update_s",
    "weight_update_ps",
    "time_to_train_s",
    "time_to_train_percentiles",
    "mfu",
    "references",
    "warnings",
    "breakdown",
    "breakdown_ps",
    "run_breakdown",
    "phases",
    "ipus",
    "memory",
    "operations",
    "assumptions",
    "inputs",
    "event_count",
    "scenario",
)


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a simulated training run tells.

    A result is its own proof: the breakdown adds up to the weight update exactly, and assumptions, hashes of
    the inputs and the version say what the numbers stand on.

    Attributes:
        name: Name of the scenario.
        description: Its description.
        version: Version of podsim that made the result.
        throughput_samples_per_s: Samples trained per second of training. [1/s]
        weight_update_ps: Time of one weight update. [ps]
        breakdown_ps: Mean over the IPUs of their time by kind; adds up to `weight_update_ps`. [ps]
        mfu: Model FLOP of a weight update ÷ (peak FLOP/s of all IPUs x its time).
        time_to_train_s: Wall-clock time of the whole run, if its convergence is given. [s]
        time_to_train_percentiles: `p10`, `p50`, `p90` of that time, if convergence is drawn. [s]
        run_breakdown: Time of the run by part, such as `setup`, `training`, `evaluation`. [s]
        phases: The phases of one weight update in order.
        ipus: How each IPU of a replica spends a weight update.
        memory: Tenants and capacities of the memories.
        operations: Time of every operation of the graph.
        references: Measured figures to compare with.
        warnings: What a reader must know before using the numbers.
        assumptions: Every input that is neither published nor measured: `key`, `value`, `basis`, …
        inputs: Path and SHA-256 of every file read.
        event_count: Events that the engine handled.
        scenario: The scenario as resolved.
        choice: How the division was chosen, if that was left open.
        trace: The timeline of one weight update, if recorded; not part of the JSON.
    """

    name: str
    description: str
    version: str
    throughput_samples_per_s: float
    weight_update_ps: int
    breakdown_ps: Mapping[str, int]
    mfu: float
    time_to_train_s: float | None
    time_to_train_percentiles: Mapping[str, float] | None
    run_breakdown: Mapping[str, float]
    phases: tuple[PhaseTime, ...]
    ipus: tuple[IpuAccount, ...]
    memory: MemoryReport
    operations: tuple[OperationRow, ...]
    references: tuple[Reference, ...] = ()
    warnings: tuple[str, ...] = ()
    assumptions: Sequence[Mapping[str, object]]
    inputs: tuple[tuple[str, str], ...]
    event_count: int
    scenario: Mapping[str, object]
    choice: Choice | None = None
    trace: "Trace | None" = None

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
    def breakdown(self) -> dict[str, float]:
        """Time by kind; its values add up to `weight_update_s` exactly, in any order. [s]"""
        return exact_seconds(self.breakdown_ps)

    @property
    def slowest_ipu(self) -> IpuAccount | None:
        """The IPU that waits least, the first of equals: it sets the pace."""
        return max(self.ipus, key=lambda account: account.busy_s, default=None)

    def error_of(self, reference: Reference) -> float | None:
        """Predicted ÷ measured - 1, or None if the result has no such number.

        A drawn time-to-train is compared by its median.
        """
        predicted = getattr(self, reference.quantity)
        if predicted is None and reference.quantity == "time_to_train_s" and self.time_to_train_percentiles:
            predicted = self.time_to_train_percentiles["p50"]
        return None if predicted is None else float(predicted) / reference.measured - 1

    def to_dict(self) -> dict[str, object]:
        """Plain types only, in a fixed order of keys; the trace is left out."""
        result = {key: _plain(getattr(self, key)) for key in _JSON_KEYS}
        result["assumptions"] = [_plain(each) for each in self.assumptions]
        result["ipus"] = [_ipu_dict(account) for account in self.ipus]
        result["inputs"] = [{"path": path, "sha256": digest} for path, digest in self.inputs]
        result["references"] = [
            {
                "quantity": each.quantity,
                "measured": each.measured,
                "label": each.label,
                "error": self.error_of(each),
            }
            for each in self.references
        ]
        if self.choice is not None:
            result["choice"] = _plain(self.choice)
        return result

    def to_json(self) -> str:
        """The result as JSON text, the same bytes for the same result."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def breakdown_frame(self) -> "DataFrame":
        """Time of one weight update by kind: `kind, family, time_s, share`."""
        from podsim.report.frames import breakdown_frame

        return breakdown_frame(self)

    def ipu_frame(self) -> "DataFrame":
        """One row per IPU: `lane, stages, busy_s` and the time of each kind, for example `matmul_s`."""
        from podsim.report.frames import ipu_frame

        return ipu_frame(self)

    def memory_frame(self) -> "DataFrame":
        """One row per IPU, memory and tenant: `ipu, where, tenant, size_bytes, capacity_bytes`."""
        from podsim.report.frames import memory_frame

        return memory_frame(self)

    def operations_frame(self) -> "DataFrame":
        """One row per operation: `stage, block, kind, name, count, total_s` and the time of each kind."""
        from podsim.report.frames import operations_frame

        return operations_frame(self)


def _ipu_dict(account: IpuAccount) -> dict[str, object]:
    return {
        "ipu": account.ipu,
        "lane": account.lane,
        "stages": account.stages,
        "busy_s": account.busy_s,
        "seconds": account.seconds,
    }


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
