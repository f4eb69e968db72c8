"""Runs a program, on the engine that is asked for or on the faster one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from podsim.engine.compiled import is_available, run_compiled
from podsim.engine.trace import Trace
from podsim.errors import EngineError
from podsim.options import Engine
from podsim.program.task import Program

ENGINES: tuple[str, ...] = get_args(Engine)


def execute(
    program: Program,  # groups of lanes with their phases
    *,
    explicit: bool = True,
    record: bool = False,  # keep a timeline, which only SimPy does
    tie_seed: int | None = None,  # shuffle the order of events at one instant, on SimPy; the answer must not change
    watch: Iterable[int] = (),
    engine: Engine = "auto",
) -> Trace:
    """Run a program to its end.

    `explicit`: run every repetition of every phase, but for those that are seen to be like the one before, whose
    outcome is the same; otherwise each repeated phase is run once and its time multiplied. That gives the same answer
    if all repetitions are alike: the lanes of a group start each of them together, and groups that share a channel or a
    barrier must too; `watch`: numbers of events after which it is asked for the next number, so that it sees how far
    the run is; once it has no more, the run goes on to its end; `engine`: `simpy`, or `compiled`, which gives the same
    answer sooner; `auto` takes `compiled` where it can.
    """
    if engine != "simpy":
        reason = _why_not(record=record, shuffled=tie_seed is not None)
        trace = None if reason else run_compiled(program, explicit=explicit, watch=watch)
        if trace is not None:
            return trace
        if engine == "compiled":
            raise EngineError(reason or "times are too long for the compiled engine", do="leave the engine to podsim")
    from podsim.engine.reference import run_on_simpy

    return run_on_simpy(program, explicit=explicit, record=record, tie_seed=tie_seed, watch=watch)


def _why_not(*, record: bool, shuffled: bool) -> str:
    """Why the compiled engine cannot be used; empty if it can."""
    if not is_available():
        return "podsim was installed without a C compiler, so there is no compiled engine"
    if record or shuffled:
        return "the compiled engine keeps no timeline, which a chart or a trace needs"
    return ""
