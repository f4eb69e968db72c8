"""Probes: cheap repetitions of a run with other inputs, and their common parts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from podsim.engine import Chunks, Trace, execute
from podsim.engine.compiled import Structure, TooLargeError, is_available
from podsim.garbage import no_search
from podsim.placement import Plan
from podsim.program.priced import PricedProgram
from podsim.program.task import Program
from podsim.result.breakdown import mean_account
from podsim.scenario.assumptions import Parts
from podsim.tiles.model import CostModel


@dataclass
class _Traces:
    """Traces of similar programs: most equal the first one, or share most chunks with it."""

    first: tuple[Program, Trace] | None = None
    chunks: Chunks | None = None
    priced: tuple[PricedProgram, Structure] | None = None

    def record(self, plan: Plan, compiled: Callable[[Plan], Program]) -> None:
        """Keep the structure of a plan's program, so that programs of similar plans need not be compiled."""
        # A formula from a file of a user may use functions that numbers of a tape do not have.
        with suppress(TooLargeError, OverflowError, TypeError, AttributeError), no_search():
            priced = PricedProgram(plan, compiled)
            self.priced = priced, Structure(priced.program)

    def trace_of_plan(self, plan: Plan, compiled: Callable[[Plan], Program]) -> Trace:
        """Return the trace of the program of a plan."""
        if self.priced is not None and self.first is not None:
            priced, structure = self.priced
            if (values := priced.values(plan)) is not None:
                if not structure.changed(values):
                    return self.first[1]
                if (trace := structure.run(values)) is not None:
                    return trace
        return self.trace_of(compiled(plan))

    def trace_of(self, program: Program) -> Trace:
        """Return the trace of a program."""
        explicit = bool(program.slowdowns)
        if self.first is None:
            self.first = program, execute(program, explicit=explicit)
        known, trace = self.first
        if known == program:
            return trace
        if is_available():  # the compiled engine runs a program faster than it can be divided into chunks
            return execute(program, explicit=explicit)
        if self.chunks is None:
            self.chunks = Chunks()
            self.chunks.trace(known)  # reference for the chunks of other programs
        return self.chunks.trace(program) or execute(program, explicit=explicit)


def figures(trace: Trace) -> object:
    """Return the parts of a trace that an input may change."""
    return trace.makespan_ps, mean_account(trace.lanes)


class BaseProbe:
    """Base class of probes; pickling drops their caches."""

    metric: str
    _KEPT: tuple[str, ...] = ()

    def __init__(self, model: CostModel | None) -> None:
        self._model = model
        self._traces, self._second = (
            _Traces(),
            _Traces(),
        )  # of the program of the headline metric, and of a second program
        self._parts = Parts()

    def __getstate__(self) -> dict[str, object]:
        kept = {name: self.__dict__[name] for name in self._KEPT}
        return kept | {"_model": None, "_traces": _Traces(), "_second": _Traces(), "_parts": Parts()}

    def _costs(self, fresh: CostModel, *, resplit: bool) -> CostModel | None:
        """Return the costs for other inputs, with known splits of products; None if forbidden new splits are needed."""
        if self._model is None:
            self._model = fresh
        return fresh.with_splits(self._model) or (fresh if resplit else None)
