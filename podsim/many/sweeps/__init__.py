"""Many scenarios: a study names keys and values, and every combination becomes a row of one table."""

from podsim.many.sweeps.run import Swept, sweep

__all__ = ["Swept", "sweep"]
