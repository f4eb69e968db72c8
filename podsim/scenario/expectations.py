"""Expected results of a scenario: `expect: {time_to_train_s: < 30 min, throughput_samples_per_s: 1529 ± 5 %}`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from podsim.errors import BadValueError
from podsim.metrics import BYTES, JOULES, PER_SECOND, SECONDS, WATTS, metric_of
from podsim.scenario.document import KeyPath
from podsim.units import parse_quantity

FITS: Final = "fits"
_BOUND: Final = re.compile(r"\s*(<=|>=|<|>)\s*(.+)")
_AROUND: Final = re.compile(r"\s*(.+?)\s*(?:±|\+-)\s*(.+)")
_DO: Final = "write for example `1529 ± 5 %`, `< 30 min` or `>= 0.4`"
_DIMENSIONS: Final = {SECONDS: "s", BYTES: "bytes", WATTS: "w", JOULES: "j", PER_SECOND: "count"}
Given = Mapping[str, bool | float | str]


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected bounds of a metric."""

    metric: str  # key of the metric in a result
    text: str  # as it was written
    low: float  # least expected value
    high: float  # largest expected value
    open_ended: bool = False  # True if the bounds are excluded

    def holds(self, value: float) -> bool:
        """Return True if a value is within the bounds."""
        return self.low < value < self.high if self.open_ended else self.low <= value <= self.high


def expectation(metric: str, given: float | str) -> Expectation:
    """Parse expected bounds into the SI base unit.

    >>> expectation("weight_update_s", "600 ms ± 5 %").low
    0.57
    >>> expectation("time_to_train_s", "< 30 min").high
    1800.0
    """
    known = metric_of(metric)
    metric, text, dimension = known.key, str(given), _DIMENSIONS.get(known.unit, "ratio")
    if bound := _BOUND.fullmatch(text):
        sign, value = bound[1], parse_quantity(bound[2], dimension)
        ends = (-float("inf"), value) if sign[0] == "<" else (value, float("inf"))
        return Expectation(metric, text, *ends, open_ended=len(sign) == 1)
    if around := _AROUND.fullmatch(text):
        value = parse_quantity(around[1], dimension)
        width = (
            abs(value) * parse_quantity(around[2], "ratio")
            if "%" in around[2]
            else parse_quantity(around[2], dimension)
        )
        if width < 0:
            raise BadValueError(f"`{around[2]}` is below 0, so that nothing is as expected", _DO)
        return Expectation(metric, text, value - width, value + width)
    raise BadValueError(f"`{text}` has no bounds", _DO)


def findings(expect: Given | None) -> Iterator[tuple[KeyPath, str, str]]:
    """Yield invalid expectations: key, problem, cure."""
    for metric, given in (expect or {}).items():
        if (metric == FITS) != isinstance(given, bool):
            yield (
                ("expect", metric),
                f"`{given}` does not go with `{metric}`",
                "write `fits: true`, and bounds for figures",
            )
            continue
        try:
            if not isinstance(given, bool):
                expectation(metric, given)
        except BadValueError as error:
            yield ("expect", metric), str(error), error.do
