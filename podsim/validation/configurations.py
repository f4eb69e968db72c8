"""Configurations of rows, whatever a row is called: rows of one configuration say one thing about the model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from podsim.result.envelope import numbers_of
from podsim.scenario import load_scenario
from podsim.scenario.scenario import Scenario
from podsim.validation.comparison import Comparison

_WORDS: Final = frozenset({"basis", "description", "name", "note", "range", "source"})
"""Keys that no time follows from."""
_OF_A_RUN: Final = frozenset({"samples_to_converge"})
"""Keys that say how a run went, and not what was run: two submissions of one configuration converge differently."""


@dataclass(frozen=True, slots=True)
class Described:
    """The run of a row, by which groups of rows are left out of a fit.

    Attributes:
        activity: `training`, `forward` or `generation`.
        family: Kind of model, for example `bert`.
        stack: Software stack.
        chip: Kind of IPU.
        ipus: How many of them.
    """

    activity: str
    family: str
    stack: str
    chip: str
    ipus: int


def described(row: Comparison) -> Described | None:
    """Configuration of the first scenario of a row; None for a vertex or a product."""
    return _described(row.scenarios[0]) if row.scenarios else None


@cache
def _described(title: str) -> Described:
    spec = loaded(title)
    return Described(
        activity=str(spec.activity),
        family=str(spec.model.kind),
        stack=spec.software.name,
        chip=spec.system.machine.ipu.name,
        ipus=numbers_of(spec)["ipu_count"],
    )


def loaded(title: str) -> Scenario:
    """The scenario of a title, with `@` before a variant."""
    name, _, variant = title.partition("@")
    return load_scenario(name, variant or None).spec


@cache
def same_runs(titles: tuple[str, ...]) -> dict[str, str]:
    """By title, the first title that runs the same."""
    firsts: dict[str, str] = {}
    return {title: firsts.setdefault(configuration(loaded(title), _OF_A_RUN), title) for title in titles}


def configuration(spec: Scenario, without: Collection[str] = ()) -> str:
    """All that times follow from, as a text.

    Args:
        spec: The scenario.
        without: Keys to leave out.
    """
    return repr(_without(spec.model_dump(mode="json", exclude_none=True), _WORDS | frozenset(without)))


def _without(data: Any, keys: Collection[str]) -> Any:
    if isinstance(data, dict):
        return {key: _without(each, keys) for key, each in data.items() if key not in keys}
    return [_without(each, keys) for each in data] if isinstance(data, list) else data
