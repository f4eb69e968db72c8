"""Description of a family of models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podsim.scenario.activity import Activity

Sections = Mapping[str, tuple[Any, Any]]
"""Type and default of sections by name; `...` stands for no default."""


@dataclass(frozen=True, slots=True)
class Family:
    """Family of models: the keys of `model`, and the other sections of a scenario by activity."""

    label: str  # a member of the family in a sentence
    model: Any  # type of the section `model`
    sections: Mapping[Activity, Sections]  # for each possible activity
