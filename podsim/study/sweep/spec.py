"""The study file: a scenario, the keys that vary, and how their values go together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag

from podsim.errors import BadValueError
from podsim.scenario.base import Spec
from podsim.scenario.quantity import Count, Flag
from podsim.scenario.wording import shown

MOST_POINTS: Final = 10_000_000
Value = bool | int | float | str


def _one_value(given: Any) -> Any:
    if not isinstance(given, Value):
        raise BadValueError(f"needs a number or a text, not {shown(given)}", "write for example `8 GB/s` or `12`")
    if isinstance(given, float) and not math.isfinite(given):
        raise BadValueError(f"needs a finite number, not {given}", "write for example `8 GB/s` or `12`")
    return given


OneValue = Annotated[Value, BeforeValidator(_one_value)]
Values = Annotated[list[OneValue], Field(min_length=1)]
Number = Annotated[Count, Field(le=MOST_POINTS)]


class RangeSpec(Spec):
    """Values from one end to the other."""

    model_config = ConfigDict(alias_generator=lambda name: name.rstrip("_"))

    from_: OneValue
    """The first value; a quantity with its unit, or a number."""
    to: OneValue
    """The last value, in the same unit."""
    count: Number | None = None
    """How many values there are, both ends included; left out where values are sampled."""
    scale: Literal["linear", "log"] = "linear"
    """Whether differences or ratios of neighbours are equal."""
    whole: Flag = False
    """Whether values are rounded to whole numbers, and equal ones taken once."""


class SamplesSpec(Spec):
    """Points drawn from the ranges that have no count."""

    count: Number
    """How many points are drawn; a power of two for Sobol sequences."""
    method: Literal["sobol", "latin_hypercube"] = "sobol"
    """How they are spread over the ranges."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Of the draws."""


class MeasuredSpec(Spec):
    """A scenario of which something was measured, beside the points of a study."""

    at: OneValue
    """The value of the key along which the chart is drawn."""
    scenario: str
    """A shipped scenario with published figures, simulated for its batch alone."""


def _form(given: Any) -> str:
    return "range" if isinstance(given, (Mapping, RangeSpec)) else "list"


Varied = Annotated[Annotated[Values, Tag("list")] | Annotated[RangeSpec, Tag("range")], Discriminator(_form)]
"""A list of values, or a range."""


class CombinedSpec(Spec):
    """How keys that vary go together."""

    names: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values of names that are no keys, for expressions."""
    zipped: Annotated[list[Annotated[list[str], Field(min_length=2)]], Field(default_factory=list)]
    """Groups of keys and names that vary together; all others are crossed."""
    derived: Annotated[Mapping[str, str], Field(default_factory=dict)]
    """Keys that follow from others, with `${...}` for expressions."""
    where: Annotated[list[str], Field(default_factory=list)]
    """Expressions that a point has to meet."""
    samples: SamplesSpec | None = None
    """How ranges without a count are sampled."""


class StudySpec(CombinedSpec):
    """A study: every combination of the values of its keys, simulated."""

    kind: Literal["study"]
    """What the file is."""
    description: str = ""
    """What it is about, in a line."""
    scenario: str | Annotated[list[str], Field(min_length=1)]
    """The scenario that varies, by path or name; or several."""
    all_variants: Flag = False
    """Whether every variant of the file is run as well as the file itself."""
    keys: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values by key of the scenario or its hardware, as `--set` names it."""
    measured: Annotated[list[MeasuredSpec], Field(default_factory=list)]
    """Scenarios with published figures, which charts of lines show."""
