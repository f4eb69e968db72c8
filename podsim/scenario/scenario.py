"""Scenarios: a system, a software stack, a model, and what is asked of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, TypeVar

from podsim.errors import PodsimError
from podsim.scenario.activity import Activity
from podsim.scenario.base import Spec
from podsim.scenario.costs import CostSpec
from podsim.scenario.document import KeyPath
from podsim.scenario.expectations import findings as expectation_findings
from podsim.scenario.families.base import ModelSpec
from podsim.scenario.hardware import System
from podsim.scenario.software import Software

Finding = tuple[KeyPath, str, str]
"""Key to blame, what is wrong, what to do."""


_Wanted = TypeVar("_Wanted", bound="Scenario")


class Scenario(Spec):
    """One question; each activity adds the sections that it needs, each family of models says what they hold."""

    activity: ClassVar[Activity]
    description: str = ""
    """What the scenario is about."""
    system: System
    """The pod: a name, a file, or a mapping with `base`."""
    software: Software
    """The software stack: a name, a file, or a mapping with `base`."""
    model: ModelSpec
    """The model."""
    cost: CostSpec | None = None
    """Prices, for what a run costs; left out, energy alone is told."""
    expect: Mapping[str, bool | float | str] | None = None
    """Bounds of figures of the result by their key, such as `time_to_train_s: < 30 min`, for `podsim check`."""

    @abstractmethod
    def division_findings(self) -> Iterator[Finding]:
        """Problems of the division over IPUs."""

    @abstractmethod
    def model_findings(self) -> Iterator[Finding]:
        """What does not add up however the model is divided."""

    def of(self, wanted: type[_Wanted], do: str | None = None, name: str = "the scenario") -> _Wanted:
        """The same, if it is of an activity."""
        if isinstance(self, wanted):
            return self
        what = f"{name} describes {self.activity.words}, not {wanted.activity.words}"
        raise PodsimError(what, do=do or f"use podsim.run, or {self.activity.verb}")

    def findings(self) -> Iterator[Finding]:
        """Everything that does not add up."""
        yield from self.division_findings()
        yield from self.model_findings()
        yield from self.findings_beside()

    def findings_beside(self) -> Iterator[Finding]:
        """Expectations that are none, and prices that do not go together."""
        yield from expectation_findings(self.expect)
        if self.cost is not None:
            yield from self.cost.findings(self.system)
