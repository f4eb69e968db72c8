"""When things happen: a small discrete-event executor on SimPy that knows nothing of IPUs."""

from podsim.engine.executor import execute
from podsim.engine.pieces import Pieces
from podsim.engine.trace import PhaseRecord, Record, Trace, expand

__all__ = ["PhaseRecord", "Pieces", "Record", "Trace", "execute", "expand"]
