"""Many scenarios: a study names keys and values, and every combination becomes a row of one table."""

from podsim.study.sweep.run import SweepResult, sweep

Swept = SweepResult
"""Its name until 0.12."""

__all__ = ["SweepResult", "Swept", "sweep"]
