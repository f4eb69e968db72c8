"""What is read from a file: the workload, and what of the file it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podsim.models.block import Workload
from podsim.scenario.wording import counted


@dataclass(frozen=True, slots=True)
class Unmapped:
    """An operator that is not simulated.

    Attributes:
        operator: Its name.
        count: How often it occurs.
        reason: Why, if it is not that the operator is unknown.
        share: Its part of the graph's work, or of its elements. [1]
        unit: `FLOP`, `elements`, or nothing where sizes are not known.
    """

    operator: str
    count: int
    reason: str
    share: float
    unit: str

    def __str__(self) -> str:
        """The operator in words.

        >>> str(Unmapped("TopK", 2, "", 0.012, "elements"))
        'TopK (2 times, about 1.2 % of elements)'
        """
        times = "once" if self.count == 1 else f"{self.count} times"
        part = f", about {100 * self.share:.2g} % of {self.unit}" if self.unit else ", size not known"
        return f"{self.operator} ({times}{part}{f'; {self.reason}' if self.reason else ''})"


@dataclass(frozen=True, slots=True)
class Graph:
    """A model from a file.

    Attributes:
        workload: The model for one batch.
        source: Path and SHA-256 of the file.
        node_count: Operators that work on inputs.
        dimensions: Those that the file leaves open, with the sizes that were given.
        inputs: Name and shape of each input.
        unmapped: Operators that are not simulated.
        notes: What else a reader must know.
    """

    workload: Workload
    source: tuple[str, str]
    node_count: int
    dimensions: tuple[tuple[str, int], ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    unmapped: tuple[Unmapped, ...]
    notes: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for results that are based on the graph."""
        return tuple(self._warnings())

    def _warnings(self) -> Iterator[str]:
        if self.unmapped:
            count = sum(each.count for each in self.unmapped)
            listed = "; ".join(map(str, self.unmapped))
            verbs = ("is", "costs") if count == 1 else ("are", "cost")
            whole = counted(self.node_count, "operator")
            yield f"{count} of {whole} {verbs[0]} not simulated and {verbs[1]} nothing: {listed}"
        yield from self.notes
