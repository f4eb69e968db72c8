"""Where `plan`, `compare`, `sweep` and `whatif` find what all commands share."""

from __future__ import annotations

from podsim.cli.flags import Plot
from podsim.cli.outputs import write_chart

__all__ = ["Plot", "write_chart"]
