"""Runs repeated with other inputs, as cheaply as can be: what the probes of all kinds of run have in common."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.engine import Chunks, Trace, execute
from podsim.engine.compiled import is_available
from podsim.program.task import Program
from podsim.result.breakdown import mean_account
from podsim.scenario.assumptions import Parts
from podsim.tiles.model import CostModel


@dataclass
class _Traces:
    """Traces of programs that differ little: most are equal to the first, or in most of their chunks."""

    first: tuple[Program, Trace] | None = None
    chunks: Chunks | None = None

    def of(self, program: Program) -> Trace:
        """The trace of a program."""
        explicit = bool(program.slowdowns)
        if self.first is None:
            self.first = program, execute(program, explicit=explicit)
        known, trace = self.first
        if known == program:
            return trace
        if is_available():  # which takes less time to run a program than it takes to cut it
            return execute(program, explicit=explicit)
        if self.chunks is None:
            self.chunks = Chunks()
            self.chunks.trace(known)  # what the others are compared with, chunk by chunk
        return self.chunks.trace(program) or execute(program, explicit=explicit)


def figures(trace: Trace) -> object:
    """What of a trace an input may move."""
    return trace.makespan_ps, mean_account(trace.lanes)


class BaseProbe:
    """What probes have in common: they forget what they know when they are pickled."""

    metric: str
    _KEPT: tuple[str, ...] = ()

    def __init__(self, model: CostModel | None) -> None:
        self._model = model
        self._traces, self._second = _Traces(), _Traces()  # of the program of the headline, and of another beside it
        self._parts = Parts()

    def __getstate__(self) -> dict[str, object]:
        kept = {name: self.__dict__[name] for name in self._KEPT}
        return kept | {"_model": None, "_traces": _Traces(), "_second": _Traces(), "_parts": Parts()}

    def _costs(self, fresh: CostModel, *, resplit: bool) -> CostModel | None:
        """Costs for other inputs, with the splits of the products that are known."""
        if self._model is None:
            self._model = fresh
        return fresh.with_splits(self._model) or (fresh if resplit else None)
