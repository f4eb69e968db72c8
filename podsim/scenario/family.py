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
    """A family of models.

    Attributes:
        words: One of them in a sentence.
        model: Type of the section `model`.
        sections: For each activity that makes sense for it, the other sections as this family has them.
    """

    words: str
    model: Any
    sections: Mapping[Activity, Sections]
