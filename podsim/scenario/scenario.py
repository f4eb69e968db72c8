"""Scenarios: a system, a software stack, a model and its use."""

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
"""Key of the problem, message, cure."""


_Wanted = TypeVar("_Wanted", bound="Scenario")


class Scenario(Spec):
    """Scenario of any activity; each activity adds sections, whose keys depend on the family of models."""

    activity: ClassVar[Activity]
    description: str = ""
    """Topic of the scenario."""
    system: System
    """The pod: a name, a file, or a mapping with `base`."""
    software: Software
    """The software stack: a name, a file, or a mapping with `base`."""
    model: ModelSpec
    """The model."""
    cost: CostSpec | None = None
    """Prices for the cost of a run; if left out, only energy is reported."""
    expect: Mapping[str, bool | float | str] | None = None
    """Expected bounds of metrics by key, such as `time_to_train_s: < 30 min`, for `podsim check`."""

    @abstractmethod
    def division_findings(self) -> Iterator[Finding]:
        """Yield problems of the division over IPUs."""

    @abstractmethod
    def model_findings(self) -> Iterator[Finding]:
        """Yield contradictions that do not depend on the layout."""

    def require(self, wanted: type[_Wanted], do: str | None = None, name: str = "the scenario") -> _Wanted:
        """Return the scenario if it has the wanted activity, or raise an error."""
        if isinstance(self, wanted):
            return self
        what = f"{name} describes {self.activity.label}, not {wanted.activity.label}"
        raise PodsimError(what, do=do or f"use podsim.run, or {self.activity.verb}")

    def findings(self) -> Iterator[Finding]:
        """Yield all contradictions."""
        yield from self.division_findings()
        yield from self.model_findings()
        yield from self.common_findings()

    def common_findings(self) -> Iterator[Finding]:
        """Yield problems of `expect` and `cost`, the sections that all activities have."""
        yield from expectation_findings(self.expect)
        if self.cost is not None:
            yield from self.cost.findings(self.system)
