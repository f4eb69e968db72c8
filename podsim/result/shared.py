"""The common part of a result, made from a loaded scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from podsim._version import __version__
from podsim.deferred import Deferred
from podsim.result.bill import price_warnings, today
from podsim.result.envelope import Envelope, envelope_of
from podsim.result.power import Meter
from podsim.result.references import references_of
from podsim.result.rows import Reference
from podsim.result.simulated import Simulated, simulated
from podsim.result.usage import Usage, unused_ipus
from podsim.scenario import LoadedScenario
from podsim.scenario.assumptions import hardware_keys
from podsim.scenario.costs import CostSpec
from podsim.scenario.resolve import Change
from podsim.scenario.without_effect import WithoutEffect, without_effect

if TYPE_CHECKING:
    from podsim.placement.search.choice import Choice


class Shared(TypedDict):
    """The fields of `Result` that follow from the scenario."""

    name: str
    description: str
    version: str
    simulated: Simulated
    references: tuple[Reference, ...]
    warnings: tuple[str, ...]
    without_effect: tuple[WithoutEffect, ...]
    envelope: Envelope
    assumptions: Sequence[Mapping[str, object]]
    inputs: tuple[tuple[str, str], ...]
    scenario: Mapping[str, object]
    hardware: Sequence[tuple[str, str]]
    choice: Choice | None
    meter: Meter
    prices: CostSpec | None


def shared(
    loaded: LoadedScenario,
    usage: Usage,
    stands_on: Sequence[Mapping[str, object]],
    *,
    warnings: Sequence[str] = (),
    files: tuple[tuple[str, str], ...] = (),
    choice: Choice | None = None,
    changes: tuple[Change, ...] = (),
) -> Shared:
    """The fields of a result that every kind has, from a scenario.

    Args:
        loaded: The scenario, its division chosen.
        usage: IPUs that the figures stand for.
        stands_on: Inputs that are neither published nor measured, by their influence.
        warnings: Warnings of this kind of result, beside those of all.
        files: (path, SHA-256) of what was read beside the scenario.
        choice: How the division was chosen, if that was left open.
        changes: What was given beside the file, variant and overrides.
    """
    meter = Meter(loaded.spec.system, usage.ipus_used)
    told = (*loaded.notices, *unused_ipus(loaded.spec, usage, chosen=choice is not None), *warnings)
    return Shared(
        name=loaded.name,
        description=loaded.spec.description,
        version=__version__,
        simulated=simulated(loaded, usage.ipus_used, changes),
        references=() if changes else references_of(loaded),
        warnings=(*told, *price_warnings(loaded.spec.cost, meter, today())),
        without_effect=without_effect(loaded),
        envelope=envelope_of(loaded.spec),
        assumptions=stands_on,
        inputs=(*loaded.inputs, *files),
        scenario=loaded.resolved,
        hardware=Deferred(lambda: hardware_keys(loaded.spec)),
        choice=choice,
        meter=meter,
        prices=loaded.spec.cost,
    )
