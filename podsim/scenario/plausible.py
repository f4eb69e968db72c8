"""Quantities that are possible but far from anything real: most often a slip of the unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from podsim.scenario.quantity import quantities
from podsim.scenario.scenario import Scenario
from podsim.scenario.wording import counted

_LONGEST: Final = {"samples_to_converge": 1e12, "weight_updates": 1e9, "epochs": 1e5}
"""More than any training has had: of samples, weight updates and passes over the data."""


def unusual(spec: Scenario) -> Iterator[str]:
    """A note on each such quantity."""
    for key, number, declared in quantities(spec):
        quantity = declared.quantity
        if quantity and quantity.usual and not quantity.is_usual(number):
            least, most = quantity.usual
            what = f"{key}: `{number.provenance.text}` is far from anything built ({least} to {most})"
            yield f"{what}; the result stands on it as it is written"
    yield from _long_runs(getattr(spec, "run", None))
    system = spec.system
    if system.host_count > system.whole_machine_count:
        servers, machines = counted(system.host_count, "host server"), counted(system.whole_machine_count, "machine")
        yield f"system.host_count: {servers} for {machines} are more than any pod has; the result counts on all of them"


def _long_runs(run: Any) -> Iterator[str]:
    """A note on a run that goes on for longer than any did."""
    for key, limit in _LONGEST.items():
        longest = max(_numbers(getattr(run, key, None)), default=0.0)
        if longest > limit:
            what = f"run.{key}: {longest:g} is far from any training there has been (up to {limit:g})"
            yield f"{what}; the result stands on it as it is written"


def _numbers(end: Any) -> tuple[float, ...]:
    """What an end of a run is made of: a number, several, or those that were logged."""
    if isinstance(end, (int, float)):
        return (end,)
    if isinstance(end, tuple):
        return end
    return tuple(getattr(end, "runs", ())) or ((end.count,) if hasattr(end, "count") else ())
