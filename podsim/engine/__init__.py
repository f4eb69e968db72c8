"""When things happen: a small discrete-event engine that knows nothing of IPUs, on SimPy and compiled."""

from podsim.engine.executor import execute
from podsim.engine.pieces import Pieces
from podsim.engine.trace import PhaseRecord, Record, Trace, expand
from podsim.options import Engine

__all__ = ["Engine", "PhaseRecord", "Pieces", "Record", "Trace", "execute", "expand"]
