"""Lines of a result file: `:::MLLOG` and a JSON object. Source: [mlperf_training_rules]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOKEN: Final = ":::MLLOG"


@dataclass(frozen=True, slots=True)
class Event:
    """Line of a result file."""

    key: str  # subject of the line
    time_ms: float  # time in milliseconds since 1970, or since the first line of a simulated run
    value: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)  # further values
    line: int = 0  # line of the file, if it was read from one
