"""Types of parameters that functions of Python and options of the shell share, without what a simulation imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal


@dataclass(frozen=True, slots=True)
class Shell:
    """Option or argument of the command line, in the `Annotated` type of a parameter."""

    names: tuple[str, ...] | None = None  # empty for an argument, None for the name of the parameter
    metavar: str | None = None
    least: int | None = None  # bounds of a whole number
    most: int | None = None
    completes: str | tuple[str, ...] = ""  # a kind of name, such as `scenarios`, or words
    said: str = ""  # help if the docstring of the function has none
    may_be_left_out: bool = False  # True for a list of arguments that may be empty
    is_argument: bool = False  # True for an argument where it is required, and an option elsewhere
    is_option: bool = True  # False for a parameter of Python alone


PYTHON_ALONE: Final = Shell(is_option=False)
SCENARIO_NAME: Final = Shell(completes="scenarios", is_argument=True)
SCENARIOS: Final = Shell((), "SCENARIO...", completes="scenarios")
VARIANT: Final = Shell(completes="variants")
SYSTEM: Final = Shell(completes="systems")
IPU: Final = Shell(completes=("gc200", "bow", "c600", "gc2"))
BYTES: Final = Shell(("--bytes",))
MEMORY: Final = Shell(("--memory", "--available-memory"))
SHAPE: Final = Shell(())
DURATION: Final = Shell(metavar="TIME")
DIRECTORY: Final = Shell((), "DIR")
FIGURE: Final = Shell(metavar="FIGURE")
TIMES: Final = Shell(metavar="N")
POSITIVE: Final = Shell(least=1)
NOT_NEGATIVE: Final = Shell(least=0)

Engine = Literal["auto", "simpy", "compiled"]
"""Engines; `auto` is the fastest that can run the program."""
Fit = Literal["refuse", "warn"]
"""Treatment of a job that does not fit: an error, or a warning with a result."""
Overrides = Annotated[Sequence[str] | Mapping[str, Any], Shell(("--set",), "KEY=VALUE")]
"""`key.path=value` texts, or values by key path, that replace keys of a scenario."""
Factors = Annotated[Sequence[str] | Mapping[str, float], Shell(metavar="NAME=FACTOR...")]
"""`NAME=FACTOR` texts, or factors by what they multiply."""
Limits = Annotated[Sequence[str] | Mapping[str, str], Shell(("--limit",), "FIGURE=BOUND")]
"""`FIGURE=BOUND` texts, or bounds by figure."""
Division = Literal["given", "chosen"]
"""Layouts of a model: given by the scenario, or chosen by podsim."""
Lease = Literal["machines", "partition", "pod"]
"""Paid machines: those in use, all of a partition, or its whole pod."""
Half = Literal["fp16", "fp32"]
"""Number formats of sums, and of rows of tables."""
Over = Literal["tiles", "ipus"]
"""Participants of a collective."""
