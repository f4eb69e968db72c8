"""Lines of a result file: `:::MLLOG` and a JSON object. Source: [mlperf_training_rules]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TOKEN: Final = ":::MLLOG"


@dataclass(frozen=True, slots=True)
class Event:
    """One line.

    Attributes:
        key: What it is about.
        time_ms: When, in milliseconds since 1970, or since the first line of a simulated run.
        value: What it says.
        metadata: What else it says.
        line: Line of the file, if it was read from one.
    """

    key: str
    time_ms: float
    value: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
