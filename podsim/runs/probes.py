"""Common parts of probes: a probe runs a scenario again with other inputs, and reuses what these do not change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from podsim import memo
from podsim.engine import Chunks, Trace, execute
from podsim.engine.compiled import Structure, TooLargeError, is_available
from podsim.garbage import no_search
from podsim.placement import Plan
from podsim.program.priced import PricedProgram
from podsim.program.task import Program
from podsim.scenario.assumptions import Parts
from podsim.tiles.model import CostModel


@dataclass
class _Traces:
    """Cache for the traces of similar programs."""

    first: tuple[Program, Trace] | None = None  # the first program with its trace
    chunks: Chunks | None = None  # traces of parts of programs, without a compiled engine
    # structure of the first program, with formulas of its times and their values
    recorded: tuple[PricedProgram, Structure, Sequence[int]] | None = None

    def record(self, plan: Plan, compiled: Callable[[Plan], Program]) -> None:
        """Keep the structure of a plan's program, so that programs of similar plans need not be compiled."""

        def priced_structure() -> tuple[PricedProgram, Structure]:
            priced = PricedProgram(plan, compiled)
            return priced, Structure(priced.program)

        layout = plan.layout, plan.precision, plan.optimizer
        key = (compiled, plan.workload.name, plan.system.name, plan.software.name, *layout)
        # A formula from a file of a user may use functions that numbers of a tape do not have.
        with suppress(TooLargeError, OverflowError, TypeError, AttributeError), no_search():
            priced, structure = memo.STRUCTURES.get(key, priced_structure)
            if (values := priced.values(plan)) is None:  # another shape than the first with this key
                priced, structure = priced_structure()
                values = priced.values(plan)
            self.recorded = None if values is None else (priced, structure, values)

    def trace_of_plan(self, plan: Plan, compiled: Callable[[Plan], Program]) -> Trace:
        """Return the trace of the program of a plan."""
        if self.recorded is not None and self.first is not None:
            priced, structure, first = self.recorded
            if (values := priced.values(plan)) is not None:
                if not structure.differs(values, first):
                    return self.first[1]
                if (trace := structure.run(values)) is not None:
                    return trace
        return self.trace_of(compiled(plan))

    def trace_of(self, program: Program) -> Trace:
        """Return the trace of a program, from the cache if it equals the first program."""
        explicit = bool(program.slowdowns)
        if self.first is None:
            self.first = program, execute(program, explicit=explicit)
        first, trace = self.first
        if first == program:
            return trace
        if is_available():  # the compiled engine runs a program faster than it can be divided into chunks
            return execute(program, explicit=explicit)
        if self.chunks is None:
            self.chunks = Chunks()
            self.chunks.trace(first)  # reference for the chunks of other programs
        return self.chunks.trace(program) or execute(program, explicit=explicit)


class BaseProbe:
    """Base class of probes; pickling drops their caches."""

    metric: str
    """Key of the headline metric."""
    _KEPT: tuple[str, ...] = ()
    """Names of the attributes that are pickled."""

    def __init__(self, model: CostModel | None) -> None:
        self._model = model
        self._traces = _Traces()  # of the program that gives the headline metric
        self._second = _Traces()  # of a second program, such as the prefill
        self._parts = Parts()

    def __getstate__(self) -> dict[str, object]:
        kept = {name: self.__dict__[name] for name in self._KEPT}
        return kept | {"_model": None, "_traces": _Traces(), "_second": _Traces(), "_parts": Parts()}

    def _costs(self, fresh: CostModel, *, resplit: bool) -> CostModel | None:
        """Return costs for other inputs, with the splits of matrix products over tiles from the first call.

        If these splits are not possible, return `fresh` if `resplit` allows new splits, otherwise None.
        """
        if self._model is None:
            self._model = fresh
        return fresh.with_splits(self._model) or (fresh if resplit else None)
