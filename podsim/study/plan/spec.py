"""The goal file: what is to run, what counts, what limits it, and what is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from podsim.draws import MOST_DRAWS
from podsim.scenario.base import Spec
from podsim.scenario.quantity import Count, CountOrZero
from podsim.scenario.serving import Rate
from podsim.study.points import CombinedSpec, Varied

GIVEN: Final = "as given"
CHOSEN: Final = "chosen"
SEQUENCE: Final = "sequence"
TOGETHER: Final = "together"
DRAWS: Final = 50
SERVED_DRAWS: Final = 20
"""Of a plan for requests, in which each draw serves all of them again."""
TRIALS: Final = 200
_Limits = Annotated[Mapping[str, str | list[str]], Field(default_factory=dict)]
_Division = Literal["as given", "chosen"]


class JobSpec(Spec):
    """One of several jobs."""

    name: str | None = None
    """What it is called; its scenario if left out."""
    scenario: str
    """What is to run, by path or name."""
    variant: str | None = None
    """Its variant."""
    overrides: Annotated[list[str], Field(default_factory=list)]
    """`key.path=value` texts that hold for it alone."""
    limits: _Limits
    """Bounds of its own figures."""
    ipus: Count | None = None
    """Its partition where jobs run side by side; equal parts of the pod if left out."""


class GoalSpec(CombinedSpec):
    """A goal file."""

    kind: Literal["goal"]
    """What the file is."""
    description: str = ""
    """What it is about, in a line."""
    scenario: str | None = None
    """What is to run, by path or name; or `jobs`."""
    variant: str | None = None
    """Its variant."""
    jobs: Annotated[list[JobSpec], Field(min_length=1)] | None = None
    """Several things that are to run, in place of `scenario`."""
    order: Literal["sequence", "together"] = SEQUENCE
    """Whether jobs run after one another, or side by side on partitions of one pod."""
    objective: str = "time_to_train_s"
    """Figure that counts, by its key in a result or a short name: `time`, `cost`, `energy`, …"""
    second: str | None = None
    """Figure that it is weighed against; time, or cost or energy, if left out."""
    limits: _Limits
    """Bounds of figures by their key, such as `time_to_train_s: < 12 h`."""
    deadline: str | None = None
    """Most time to train."""
    budget: str | None = None
    """Most cost of a run, with its currency."""
    request_rate: Rate | None = None
    """Requests per second that are to be served; that of the scenario if left out."""
    systems: Annotated[list[str], Field(min_length=1)] | None = None
    """Pods to look at, by path or name, or partitions, `32 of ipu_pod64`; all shipped pods if left out."""
    divisions: Annotated[list[_Division], Field(min_length=1)] | None = None
    """Whether the scenario's own division is looked at, one that podsim chooses, or both."""
    lease: Literal["machines", "partition", "pod"] | None = None
    """Whether cost counts machines in use, the partition or the whole pod; as the scenario says if left out."""
    overrides: Annotated[list[str], Field(default_factory=list)]
    """`key.path=value` texts that hold for all of them."""
    vary: Annotated[Mapping[str, Varied], Field(default_factory=dict)]
    """Values by key of the scenario or its hardware, as the `keys` of a study."""
    trials: Count = TRIALS
    """Most candidates; a goal with more is refused."""
    draws: Annotated[int, Field(strict=True, ge=0, le=MOST_DRAWS)] | None = None
    """How often uncertain inputs are drawn to see how sure the ranking is; 50 times if left out, 20 for requests."""
    seed: CountOrZero = 0
    """Of the draws."""
