"""Discrete-event engine, on SimPy and compiled: takes a program, returns a trace, knows nothing about IPUs."""

from podsim.engine.chunks import Chunks
from podsim.engine.executor import execute
from podsim.engine.trace import PhaseRecord, Record, Trace, expand
from podsim.options import Engine

__all__ = ["Chunks", "Engine", "PhaseRecord", "Record", "Trace", "execute", "expand"]
