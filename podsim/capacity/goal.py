"""What is wanted: the scenario, the figure that counts, the limits, and the systems to look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from podsim.errors import BadValueError, Problem, SpecError
from podsim.report.base import more_is_better
from podsim.specs import shipped_names
from podsim.specs.base import Spec
from podsim.specs.document import Document
from podsim.specs.expectations import Expectation, expectation
from podsim.specs.load import validated
from podsim.specs.yaml_source import read_yaml

GIVEN, CHOSEN = "as given", "chosen"


class GoalSpec(Spec):
    """A goal file."""

    kind: Literal["goal"]
    """What the file is."""
    description: str = ""
    """What it is about, in a line."""
    scenario: str
    """What is to run, by path or name."""
    variant: str | None = None
    """Its variant."""
    objective: str = "time_to_train_s"
    """Figure that counts, by its key in a result: rates and shares of peaks are maximised, others minimised."""
    limits: Annotated[Mapping[str, str], Field(default_factory=dict)]
    """Bounds of figures by their key, such as `time_to_train_s: < 12 h`."""
    systems: Annotated[list[str], Field(min_length=1)] | None = None
    """Pods to look at, by path or name; all that are shipped if left out."""
    overrides: Annotated[list[str], Field(default_factory=list)]
    """`key.path=value` texts that hold for all of them."""


@dataclass(frozen=True)
class Goal:
    """What is wanted.

    Attributes:
        scenario: What is to run.
        variant: Its variant.
        objective: Figure that counts.
        limits: Bounds of figures.
        systems: Pods to look at.
        overrides: `key.path=value` texts that hold for all of them.
        description: What it is about.
    """

    scenario: str
    variant: str | None = None
    objective: str = "time_to_train_s"
    limits: tuple[Expectation, ...] = ()
    systems: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    description: str = ""

    @property
    def more_is_better(self) -> bool:
        """Whether the figure that counts is to be large."""
        return more_is_better(self.objective)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Pods to look at; all that are shipped where none is named."""
        return self.systems or tuple(shipped_names()["systems"])


def read_goal(path: Path) -> Goal:
    """Read a goal file.

    Raises:
        SpecError: It is wrong; each problem with its place.
    """
    document = read_yaml(path, str(path))
    spec = validated(GoalSpec, document)
    problems = list(_wrong_limits(spec, document))
    if problems:
        raise SpecError(problems)
    beside = path.parent / spec.scenario
    scenario = str(beside) if Path(spec.scenario).suffix and beside.is_file() else spec.scenario
    return Goal(
        scenario=scenario,
        variant=spec.variant,
        objective=spec.objective,
        limits=tuple(expectation(metric, text) for metric, text in spec.limits.items()),
        systems=tuple(spec.systems or ()),
        overrides=tuple(spec.overrides),
        description=spec.description,
    )


def is_goal(path: Path) -> bool:
    """Whether a file says that it is a goal."""
    return path.is_file() and path.suffix in {".yaml", ".yml"} and read_yaml(path).data.get("kind") == "goal"


def _wrong_limits(spec: GoalSpec, document: Document) -> Iterator[Problem]:
    for metric, text in spec.limits.items():
        try:
            expectation(metric, text)
        except BadValueError as error:
            yield Problem(document.where(("limits", metric)), f"limits.{metric}", str(error), error.do)
