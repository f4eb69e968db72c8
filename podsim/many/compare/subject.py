"""One side of a comparison: the numbers of a result, and what it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim import draws
from podsim.result.influence import StandsOn
from podsim.result.ranges import ranges_line
from podsim.scenario.assumptions import Value

Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One side of a comparison.

    Attributes:
        label: What was given.
        taken: What that was taken for.
        machine: Pod, IPUs in use, chip, clock and software stack.
        version: Version of podsim that made the result.
        activity: `training`, `text generation`, `forward passes` or `serving`.
        metrics: Numbers by name, as results have them; those without a value are left out.
        spans: Time by kind of each stretch of time that is divided, by its name. [ps]
        ranges: P10 and P90 of the metrics that were drawn.
        own_ranges: Ends of the range of each metric that has one in a single run.
        parts: Parts of the run. [s]
        memory: Tenants of the fullest IPU, by memory. [B]
        work: Samples of a weight update; None where none is asked for.
        inputs: The scenario by dotted key, without pod and stack.
        hardware: Pod and stack, by dotted key; empty for results that do not hold them.
        files: (path, SHA-256) of every file read.
        warnings: What a reader must know before using the numbers.
        notes: What a reader must know of how it was found.
        stands_on: What its inputs move; None for results in files.
    """

    label: str
    taken: str
    machine: str
    version: str
    activity: str
    metrics: Mapping[str, float]
    spans: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    own_ranges: Mapping[str, Range] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)
    memory: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    work: float | None = None
    inputs: Mapping[str, Value] = field(default_factory=dict)
    hardware: Mapping[str, Value] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    stands_on: StandsOn | None = field(default=None, compare=False, repr=False)

    @property
    def about(self) -> str:
        """Description in a line: what was given, the machine, and the ranges of its figures."""
        told = ranges_line({name: draws.Range(*ends) for name, ends in self.own_ranges.items()})
        return f"{self.label} ({self.taken}): {self.machine}{f'; {told}' if told else ''}"
