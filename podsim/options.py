"""Types of parameters that functions of Python and options of the shell share, without what a simulation imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Engine = Literal["auto", "simpy", "compiled"]
"""Engines; `auto` is the fastest that can run the program."""
Fit = Literal["refuse", "warn"]
"""Treatment of a job that does not fit: an error, or a warning with a result."""
Overrides = Sequence[str] | Mapping[str, Any]
"""`key.path=value` texts, or values by key path, that replace keys of a scenario."""
Factors = Sequence[str] | Mapping[str, float]
"""`NAME=FACTOR` texts, or factors by what they multiply."""
Limits = Sequence[str] | Mapping[str, str]
"""`FIGURE=BOUND` texts, or bounds by figure."""
Division = Literal["given", "chosen"]
"""Layouts of a model: given by the scenario, or chosen by podsim."""
Lease = Literal["machines", "partition", "pod"]
"""Paid machines: those in use, all of a partition, or its whole pod."""
Half = Literal["fp16", "fp32"]
"""Number formats of sums, and of rows of tables."""
Over = Literal["tiles", "ipus"]
"""Participants of a collective."""
