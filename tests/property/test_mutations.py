"""A mutated file gives a sound result, or an error that says where and what to do; nothing else, and soon."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from podsim.capacity import find_systems, read_goal
from podsim.errors import BadValueError, PodsimError, SpecError
from podsim.specs import load_scenario
from podsim.specs.document import Document
from podsim.sweeps.expression import Expression
from podsim.sweeps.run import _check_runs
from podsim.sweeps.space import space_of
from tests.property.mutations import mutated, mutated_expression, mutated_goal, mutated_study
from tests.property.runs import complaints, run

COUNT = int(os.environ.get("PODSIM_MUTATIONS", "30"))
FIRST = int(os.environ.get("PODSIM_FIRST_MUTATION", "0"))


def faults(error: PodsimError) -> Iterator[str]:
    """What an error leaves open."""
    if isinstance(error, SpecError):
        for problem in error.problems:
            if not (problem.where or problem.key or "key `" in problem.message):
                yield f"no place: {problem}"
            if not problem.do:
                yield f"no cure: {problem}"
        return
    if not error.where:
        yield f"no place: {error}"
    if not error.do:
        yield f"no cure: {error}"


def outcome(seed: int, path: Path) -> list[str]:
    """What is wrong with what podsim makes of a mutation; a spoiled text is written to the path."""
    data = mutated(seed)
    if isinstance(data, bytes):
        path.write_bytes(data)
    try:
        return list(complaints(run(load_scenario(str(path) if isinstance(data, bytes) else data))))
    except PodsimError as error:
        return list(faults(error))


def goal_outcome(seed: int, path: Path, most_systems: int = 2) -> list[str]:
    """What is wrong with what podsim makes of a mutated goal, which is written to the path."""
    data = mutated_goal(seed)
    path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
    try:
        goal = read_goal(path)
    except PodsimError as error:
        return list(faults(error))
    # A goal that lost a line asks for more, and that is sound but takes long.
    goal = replace(goal, draws=0, trials=min(goal.trials, 3), systems=goal.candidates[:most_systems])
    try:
        json.dumps(find_systems(replace(goal, divisions=("as given",)), processes=1).to_dict(), allow_nan=False)
    except SpecError as error:
        return [f"no cure: {problem}" for problem in error.problems if not problem.do]
    except PodsimError as error:
        return [] if error.do else [f"no cure: {error}"]
    return []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT // 3))
def test_a_mutated_goal_is_answered_or_refused(seed: int, tmp_path: Path) -> None:
    assert goal_outcome(seed, tmp_path / "goal.yaml") == []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_mutated_scenario_is_simulated_or_refused(seed: int, tmp_path: Path) -> None:
    assert outcome(seed, tmp_path / "mutated.yaml") == []


FEW = 100


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_mutated_study_has_points_or_is_refused(seed: int) -> None:
    """Its first points have values or problems with a place; what one of them simulates is another test's business."""
    try:
        space = space_of(Document(mutated_study(seed)))
        numbers = list(islice(space.numbers(), FEW))
        if numbers or len(space) <= FEW:
            _check_runs(space, numbers)
        problems = [point.problem for number in numbers if (point := space.point(number)) and point.problem]
        assert all(each.key and each.do for each in problems)
    except PodsimError as error:
        assert list(faults(error)) == []


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 10 * COUNT, 10))
def test_a_mutated_expression_has_a_finite_value_or_is_refused(seed: int) -> None:
    """Ten expressions for each seed, evaluated at two points."""
    rng = random.Random(seed)
    for _ in range(10):
        valid = rng.choice(
            ("1536 % (4 * a) == 0", "not a > 4 or round(b / 3, 1) >= 2.7 and b ** 2 < 1e4", "c == '1.2 GHz'")
        )
        text = mutated_expression(rng, valid)
        for a in (4, -(10**300)):
            try:
                value = Expression(text).value({"a": a, "b": 2.5, "c": "1.2 GHz", "replicas": 2, "rate": 8})
            except BadValueError as error:
                assert error.do
            else:
                assert isinstance(value, str) or math.isfinite(value)
