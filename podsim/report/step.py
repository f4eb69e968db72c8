"""The parts of a result of inference: how long each takes, and what bounds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from podsim.report.breakdown import exact_seconds
from podsim.report.kinds import COMPUTE, LINKS, OFF_CHIP, ON_CHIP, kind_of
from podsim.report.rows import PhaseTime
from podsim.units import ps_to_seconds

_BOUNDS: Final = {COMPUTE: "compute", ON_CHIP: "exchange", LINKS: "links"}
_STREAMING: Final = ("streaming", "weights_wait")
_HOST_WAIT: Final = "host_wait"


@dataclass(frozen=True, slots=True)
class StepReport:
    """A stretch of inference: a step of text generation, a batch, or a session call of many.

    Attributes:
        name: Which, for example `decode`.
        time_ps: From its beginning to its end. [ps]
        breakdown_ps: Mean over the IPUs of their time by kind; adds up to `time_ps`. [ps]
        phases: Its phases in order.
    """

    name: str
    time_ps: int
    breakdown_ps: Mapping[str, int]
    phases: tuple[PhaseTime, ...]

    @property
    def time_s(self) -> float:
        """The same. [s]"""
        return ps_to_seconds(self.time_ps)

    @property
    def breakdown(self) -> dict[str, float]:
        """Time by kind; adds up to `time_s` exactly. [s]"""
        return exact_seconds(self.breakdown_ps)

    @property
    def bound(self) -> str:
        """What most of the time goes to: `compute`, `exchange`, `links`, `streaming memory` or `host`."""
        sums: dict[str, int] = {}
        for name, time_ps in self.breakdown_ps.items():
            family = kind_of(name).family
            if name in _STREAMING:
                bound = "streaming memory"
            elif family == OFF_CHIP or name == _HOST_WAIT:
                bound = "host"
            elif family in _BOUNDS:
                bound = _BOUNDS[family]
            else:
                continue
            sums[bound] = sums.get(bound, 0) + time_ps
        return max(sums, key=lambda bound: sums[bound])

    def to_dict(self) -> dict[str, object]:
        """Plain types only, in a fixed order of keys."""
        return {
            "name": self.name,
            "time_s": self.time_s,
            "bound": self.bound,
            "breakdown": self.breakdown,
            "phases": [{"name": each.name, "count": each.count, "seconds": each.seconds} for each in self.phases],
        }
