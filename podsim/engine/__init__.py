"""When things happen: a small discrete-event executor on SimPy that knows nothing of IPUs."""

from podsim.engine.executor import execute
from podsim.engine.trace import PhaseRecord, Record, Trace, expand

__all__ = ["PhaseRecord", "Record", "Trace", "execute", "expand"]
