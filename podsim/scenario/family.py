"""What scenarios of a family of models are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podsim.scenario.activity import Activity

Sections = Mapping[str, tuple[Any, Any]]
"""Type and default of sections by name; `...` stands for no default."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models."""

    words: str  # one of them in a sentence
    model: Any  # type of the section `model`
    sections: Mapping[Activity, Sections]  # for each activity that makes sense for it
