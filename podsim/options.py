"""Types of parameters that functions of Python and options of the shell share, without what a simulation imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

Engine = Literal["auto", "simpy", "compiled"]
"""What runs programs; `auto` takes the faster one that can."""
Fit = Literal["refuse", "warn"]
"""What becomes of a job that is larger than the memories: an error, or a warning and a result all the same."""
Overrides = Sequence[str] | Mapping[str, Any]
"""`key.path=value` texts, or values by key path, that replace keys of a scenario."""
Factors = Sequence[str] | Mapping[str, float]
"""`NAME=FACTOR` texts, or factors by what they multiply."""
Limits = Sequence[str] | Mapping[str, str]
"""`FIGURE=BOUND` texts, or bounds by figure."""
Division = Literal["given", "chosen"]
"""Divisions of a model over IPUs: as its scenario says, or chosen."""
Lease = Literal["machines", "partition", "pod"]
"""What is paid for: machines in use, all of a partition, or its whole pod."""
Half = Literal["fp16", "fp32"]
"""Number formats of sums, and of rows of tables."""
Over = Literal["tiles", "ipus"]
"""What takes part in a collective."""
