"""The answer to a goal: every system with the scenario's own division and with one that podsim chooses, ranked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podsim.activity import run
from podsim.capacity.goal import CHOSEN, GIVEN, Goal
from podsim.errors import PodsimError
from podsim.parallelism.choice import Candidate
from podsim.report.choice_text import choice_yaml
from podsim.specs import LoadedScenario, load_scenario
from podsim.specs.expectations import Expectation
from podsim.sweeps.rows import figures_of
from podsim.sweeps.workers import spread

if TYPE_CHECKING:
    from podsim.activity import Result

Tell = Callable[[int, int], None]
_AUTO: Final = "parallelism=auto"


@dataclass(frozen=True)
class Option:
    """A system with a division.

    Attributes:
        system: The pod, as it was asked for.
        division: `as given`, or `chosen`.
        title: Name of the pod.
        ipu_count: IPUs of the pod.
        ipus_per_replica: IPUs of one copy of the model.
        replicas: Copies of the model.
        figures: Figures of the result by key; none where there is no result.
        reason: Why it is ruled out; empty if it is not.
        written: The scenario that gives the same, as a file.
        currency: Of its cost, where prices are given.
    """

    system: str
    division: str
    title: str = ""
    ipu_count: int = 0
    ipus_per_replica: int = 0
    replicas: int = 0
    figures: Mapping[str, Any] | None = None
    reason: str = ""
    written: str = ""
    currency: str = ""

    @property
    def name(self) -> str:
        """System and division in a word."""
        return f"{self.system}-{self.division.replace(' ', '-')}"

    @property
    def arithmetic(self) -> str:
        """IPUs of the pod, and how they are divided.

        >>> Option("ipu_pod64", "chosen", ipu_count=64, ipus_per_replica=4, replicas=16).arithmetic
        '64 (= 4 × 16)'
        """
        if not self.ipus_per_replica:
            return f"{self.ipu_count}"
        used = self.ipus_per_replica * self.replicas
        sign = "=" if used == self.ipu_count else f"{used} used,"
        return f"{self.ipu_count} ({sign} {self.ipus_per_replica} × {self.replicas})"


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes:
        goal: What was wanted.
        ranked: Options within all limits, the best first.
        ruled_out: The others, each with its reason; those that come closest first.
    """

    goal: Goal
    ranked: Sequence[Option]
    ruled_out: Sequence[Option]

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {
            "scenario": self.goal.scenario,
            "objective": self.goal.objective,
            "limits": {limit.metric: limit.text for limit in self.goal.limits},
            "ranked": [_plain(each) for each in self.ranked],
            "ruled_out": [_plain(each) for each in self.ruled_out],
        }


def find_systems(goal: Goal, tell: Tell = lambda _done, _total: None, processes: int | None = None) -> Answer:
    """Simulate a goal's scenario on every system, with its own division and with one that podsim chooses.

    Args:
        goal: What is wanted.
        tell: Is told of progress.
        processes: How many systems are looked at at a time; as many as there are cores by default.

    Raises:
        PodsimError: The scenario is wrong, or its results have no such figure as the goal counts or limits.
    """
    load_scenario(goal.scenario, goal.variant, goal.overrides)
    wanted = [(system, division) for system in goal.candidates for division in (GIVEN, CHOSEN)]
    tell(0, len(wanted))
    found: list[Option] = []
    for option in spread(partial(_option, goal), wanted, processes):
        found.append(option)
        tell(len(found), len(wanted))
    _check_figures(goal, found)
    limited = [_limited(goal, option) for option in found]
    kept = [each for each in limited if not each.reason]
    sign = -1 if goal.more_is_better else 1
    ranked = sorted(kept, key=lambda each: (sign * _value(each, goal.objective), each.ipu_count, each.name))
    out = sorted((each for each in limited if each.reason), key=lambda each: (each.figures is None, each.name))
    return Answer(goal, _without_repeats(ranked), out)


def _option(goal: Goal, wanted: tuple[str, str]) -> Option:
    system, division = wanted
    overrides = (f"system={system}", *goal.overrides, *((_AUTO,) if division == CHOSEN else ()))
    try:
        loaded = load_scenario(goal.scenario, goal.variant, overrides)
        result = run(loaded)
    except PodsimError as error:
        return Option(system, division, reason=_cause(error))
    pod = loaded.spec.system
    chosen = result.choice.chosen if result.choice is not None else None
    ipus, replicas = _divided(result)
    return Option(
        system,
        division,
        title=pod.name,
        ipu_count=pod.ipu_count,
        ipus_per_replica=ipus,
        replicas=replicas,
        figures=dict(figures_of(result)),
        written=_written(goal, loaded, chosen),
        currency=result.cost.currency if result.cost is not None else "",
    )


def _divided(result: Result) -> tuple[int, int]:
    """IPUs of a copy, and copies."""
    division = result.scenario.get("parallelism")
    replicas = division.get("replication_factor", 1) if isinstance(division, Mapping) else 1
    used = result.simulated.ipus_used
    return used // replicas, replicas


def _cause(error: PodsimError) -> str:
    """What is wrong, without place and cure."""
    problems = getattr(error, "problems", None)
    text: str = problems[0].message if problems else error.message
    return text.partition("\n")[0]


def _written(goal: Goal, loaded: LoadedScenario, chosen: Candidate | None) -> str:
    """The option as a file that names what it is based on."""
    path, system = Path(goal.scenario), loaded.overrides[0].partition("=")[2]
    base = str(path.resolve()) if path.is_file() else goal.scenario
    lines = [f"base: {base}", f"description: {path.stem} on {system}, planned", f"system: {system}"]
    return "\n".join([*lines, choice_yaml(chosen)] if chosen else lines) + "\n"


def _check_figures(goal: Goal, found: Sequence[Option]) -> None:
    known = next((each.figures for each in found if each.figures is not None), None)
    if known is None:
        return
    for metric in (goal.objective, *(limit.metric for limit in goal.limits)):
        if metric not in known:
            numbers = [name for name, value in known.items() if isinstance(value, (int, float))]
            raise PodsimError(
                f"results of {goal.scenario} have no figure `{metric}`", do=f"use one of: {', '.join(numbers)}"
            )


def _limited(goal: Goal, option: Option) -> Option:
    """An option with the limits that it misses."""
    if option.figures is None:
        return option
    if option.figures[goal.objective] is None:
        return replace(
            option, reason=f"there is no {goal.objective}: {option.figures.get('warnings') or 'none is simulated'}"
        )
    missed = list(_missed(goal.limits, option.figures))
    return replace(option, reason="; ".join(missed)) if missed else option


def _missed(limits: Sequence[Expectation], figures: Mapping[str, Any]) -> Iterator[str]:
    for limit in limits:
        value = figures.get(limit.metric)
        if value is None:
            yield f"no {limit.metric}"
        elif not limit.holds(value):
            bound = limit.high if value >= limit.high else limit.low
            yield f"{limit.metric} {limit.text}: {value / bound - 1:+.1%}" if bound else f"{limit.metric} {limit.text}"


def _value(option: Option, metric: str) -> float:
    assert option.figures is not None
    return float(option.figures[metric])


def _without_repeats(ranked: Sequence[Option]) -> list[Option]:
    """A chosen division that is the given one is listed once."""
    seen: dict[tuple[str, object], Option] = {}
    for option in ranked:
        assert option.figures is not None
        seen.setdefault(
            (option.system, tuple(sorted((key, str(value)) for key, value in option.figures.items()))), option
        )
    return list(seen.values())


def _plain(option: Option) -> dict[str, Any]:
    return {
        "system": option.system,
        "division": option.division,
        "ipus": option.ipu_count,
        "ipus_per_replica": option.ipus_per_replica,
        "replicas": option.replicas,
        "figures": None if option.figures is None else dict(option.figures),
        "reason": option.reason or None,
    }
