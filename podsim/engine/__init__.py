"""Discrete-event engine, on SimPy and compiled: takes a program, returns a trace, knows nothing about IPUs.

>>> lane = Phase("work", 2, {"a": (Work("think", (("busy", 3),)),)}, "wait")
>>> execute(Program((Group("all", ("a",), (lane,)),))).makespan_ps
6
"""

from podsim.engine.chunks import Chunks
from podsim.engine.control import Control, Observe, Process
from podsim.engine.executor import execute
from podsim.engine.trace import PhaseRecord, Record, Trace, expand
from podsim.options import Engine
from podsim.program.task import (
    Acquire,
    Barrier,
    Exchange,
    Group,
    Jitter,
    Phase,
    Program,
    Release,
    Slowdown,
    Transfer,
    Work,
)

__all__ = [
    "Acquire",
    "Barrier",
    "Chunks",
    "Control",
    "Engine",
    "Exchange",
    "Group",
    "Jitter",
    "Observe",
    "Phase",
    "PhaseRecord",
    "Process",
    "Program",
    "Record",
    "Release",
    "Slowdown",
    "Trace",
    "Transfer",
    "Work",
    "execute",
    "expand",
]
