"""Execution of a program on the requested engine, by default on the faster one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from podsim.engine.compiled import is_available, run_compiled
from podsim.engine.control import Observe, Process
from podsim.engine.trace import Trace
from podsim.errors import EngineError
from podsim.options import Engine
from podsim.program.task import Program

ENGINES: tuple[str, ...] = get_args(Engine)


def execute(
    program: Program,  # groups of lanes with their phases
    *,
    explicit: bool = True,
    record: bool = False,  # keep a timeline; needs SimPy
    tie_seed: int | None = None,  # seed of a random order of simultaneous events; needs SimPy, the result is the same
    watch: Iterable[int] = (),
    engine: Engine = "auto",
    observe: Observe | None = None,
    processes: Sequence[Process] = (),
) -> Trace:
    """Run a program to its end and return the trace.

    `explicit`: run every repetition of every phase; the compiled engine skips repetitions that cannot differ from the
    one before. Otherwise each repeated phase runs once and its time is multiplied. The two agree if all repetitions
    are equal, that is if groups that share a channel or a barrier start each repetition together.
    `watch`: iterator that reports progress. Each number is the number of events until the next number is requested;
    when there are no more numbers, the run goes on to its end without reports.
    `observe`: function called at the start and the end of each task and exchange; needs SimPy.
    `processes`: generators of the caller, which wait and change speeds of channels while the program runs; need SimPy.
    `engine`: `simpy`, or `compiled`, which gives the same trace faster; `auto` uses `compiled` where possible.
    """
    if engine != "simpy":
        reason = _why_not(record=record, shuffled=tie_seed is not None, watched=bool(observe or processes))
        trace = None if reason else run_compiled(program, explicit=explicit, watch=watch)
        if trace is not None:
            return trace
        if engine == "compiled":
            raise EngineError(reason or "times are too long for the compiled engine", do="leave the engine to podsim")
    from podsim.engine.reference import run_on_simpy

    keeps = {"record": record, "tie_seed": tie_seed, "observe": observe, "processes": processes}
    return run_on_simpy(program, explicit=explicit, watch=watch, **keeps)  # type: ignore[arg-type]


def _why_not(*, record: bool, shuffled: bool, watched: bool) -> str:
    """Return why the compiled engine cannot be used, or "" if it can."""
    if not is_available():
        return "podsim was installed without a C compiler, so there is no compiled engine"
    if watched:
        return "the compiled engine calls no functions of Python, which observing and processes need"
    if record or shuffled:
        return "the compiled engine keeps no timeline, which a chart or a trace needs"
    return ""
