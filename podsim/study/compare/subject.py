"""One side of a comparison: the numbers of a result, and what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim import draws
from podsim.result.influence import StandsOn, ranges_line
from podsim.scenario.assumptions import Value

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One side of a comparison: what was given, what that was taken for, and what a result of an activity holds."""

    label: str
    taken: str
    machine: str
    version: str
    activity: str
    metrics: Mapping[str, float]
    spans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Time by kind of each stretch of time that is divided. [ps]"""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """P10 and P90 of the metrics that were drawn."""
    own_ranges: Mapping[str, Range] = field(default_factory=dict)
    """Ends of the range of each metric that has one in a single run."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Parts of the run. [s]"""
    memory: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Tenants of the fullest IPU, by memory. [B]"""
    work: float | None = None
    """Samples of a weight update."""
    inputs: Mapping[str, Value] = field(default_factory=dict)
    """The scenario by dotted key, without pod and stack."""
    hardware: Mapping[str, Value] = field(default_factory=dict)
    """Pod and stack by dotted key; empty for results that do not hold them."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and SHA-256 of every file read."""
    warnings: tuple[str, ...] = ()
    stands_on: StandsOn | None = field(default=None, compare=False, repr=False)
    """What its inputs move; None for results in files."""

    @property
    def about(self) -> str:
        """Description in a line: what was given, the machine, and the ranges of its figures."""
        told = ranges_line({name: draws.Range(*ends) for name, ends in self.own_ranges.items()})
        return f"{self.label} ({self.taken}): {self.machine}{f'; {told}' if told else ''}"
