"""Parts of an inference result: duration and bound of each kind of step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from podsim.result.breakdown import exact_seconds
from podsim.result.kinds import COMPUTE, LINKS, OFF_CHIP, ON_CHIP, kind_of
from podsim.result.rows import PhaseTime
from podsim.result.sources import Sources
from podsim.units import ps_to_seconds

_WEIGHTS_WAIT, _STREAMING_MEMORY = "weights_wait", "streaming memory"
_BOUNDS: Final = {"streaming": _STREAMING_MEMORY, _WEIGHTS_WAIT: _STREAMING_MEMORY, "host_wait": "host"}
_BOUNDS_OF_FAMILIES: Final = {COMPUTE: "compute", ON_CHIP: "exchange", LINKS: "links", OFF_CHIP: "host"}


@dataclass(frozen=True, slots=True)
class StepReport:
    """Report of a step of text generation, a batch, or a session call of several batches.

    The breakdown is the mean over the IPUs and adds up to the time; concurrent loads by I/O tiles are not part of it.
    `longest_stage_ps` is the time of a batch in the slowest stage. `products` are rates of work during products.
    [FLOP/s]
    """

    name: str
    time_ps: int
    breakdown_ps: Mapping[str, int]
    phases: tuple[PhaseTime, ...]
    loads_ps: int = 0
    longest_stage_ps: int = 0
    sources: Sources = field(default_factory=Sources)
    products: Mapping[str, float] = field(default_factory=dict)

    @property
    def time_s(self) -> float:
        """Time of the stretch. [s]"""
        return ps_to_seconds(self.time_ps)

    @property
    def breakdown(self) -> dict[str, float]:
        """Time by kind; adds up to `time_s` exactly. [s]"""
        return exact_seconds(self.breakdown_ps)

    @property
    def breakdown_basis(self) -> dict[str, object]:
        """Shares of the breakdown by basis of the inputs, for each kind of time and in total."""
        return self.sources.to_dict()

    @property
    def loads_s(self) -> float:
        """Loads by I/O tiles while the others work. [s]"""
        return ps_to_seconds(self.loads_ps)

    @property
    def bound(self) -> str:
        """Resource that takes most of the time: `compute`, `exchange`, `links`, `streaming memory` or `host`.

        Waiting for weights counts as streaming memory. Concurrent loads are the bound too if they are waited for and
        take longer than all other work.
        """
        parts, waited_ps = self.time_by_bound, self.breakdown_ps.get(_WEIGHTS_WAIT, 0)
        if waited_ps and self.loads_ps > sum(parts.values()) - waited_ps:
            return _STREAMING_MEMORY
        return max(parts, key=lambda bound: parts[bound])

    @property
    def time_by_bound(self) -> dict[str, int]:
        """Time of the breakdown by resource, without bubbles. [ps]"""
        sums: dict[str, int] = {}
        for kind, time_ps in self.breakdown_ps.items():
            if bound := _BOUNDS.get(kind) or _BOUNDS_OF_FAMILIES.get(kind_of(kind).family):
                sums[bound] = sums.get(bound, 0) + time_ps
        return sums

    def interval_ps(self, in_flight: int) -> int:
        """Return the time between two steps of a batch: one step, or all batches at the slowest stage. [ps]"""
        return max(self.time_ps, in_flight * self.longest_stage_ps)

    def density(self, in_flight: int) -> float:
        """Return the work done in the time of one step, in steps, with `in_flight` batches in flight."""
        return in_flight * self.time_ps / self.interval_ps(in_flight)

    def to_dict(self) -> dict[str, object]:
        """Return plain types in a fixed order of keys."""
        return {
            "name": self.name,
            "time_s": self.time_s,
            "bound": self.bound,
            "loads_s": self.loads_s,
            "breakdown": self.breakdown,
            "breakdown_basis": self.breakdown_basis,
            "phases": [asdict(phase) for phase in self.phases],
        }
