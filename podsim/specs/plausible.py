"""Quantities that are possible but far from anything real: most often a slip of the unit."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.quantity import quantities, quantity_of
from podsim.specs.scenario import Scenario
from podsim.specs.wording import counted


def unusual(spec: Scenario) -> Iterator[str]:
    """A note on each such quantity."""
    for key, number, field in quantities(spec):
        quantity = quantity_of(field)
        if quantity and quantity.usual and not quantity.is_usual(number):
            least, most = quantity.usual
            what = f"{key}: `{number.provenance.text}` is far from anything built ({least} to {most})"
            yield f"{what}; the result stands on it as it is written"
    system = spec.system
    if system.host_count > system.whole_machine_count:
        servers, machines = counted(system.host_count, "host server"), counted(system.whole_machine_count, "machine")
        yield f"system.host_count: {servers} for {machines} are more than any pod has; the result counts on all of them"
