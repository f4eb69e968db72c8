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
from typing import Any

import pytest

from podsim import disk, memo
from podsim.errors import BadValueError, PodsimError, SpecError
from podsim.scenario import load_scenario
from podsim.scenario.document import Document
from podsim.scenario.expectations import expectation
from podsim.scenario.library import data_file
from podsim.scenario.yaml_file import read_yaml
from podsim.study.check.measure import read_baseline
from podsim.study.check.verdict import Baseline, verdict_on
from podsim.study.expression import Expression
from podsim.study.plan import find_systems, read_goal
from podsim.study.points import space_of
from podsim.study.sweep import _check_runs
from tests.cases import every_case
from tests.property.mutations import mutated, mutated_expression, mutated_goal, mutated_study, slipped, spoiled
from tests.property.runs import complaints, run
from tests.unit.mlperf_logs import BERT
from tests.unit.mlperf_logs import text as log_text
from tools.mlperf.logged import logged, read_log

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
        assert all(problem.key and problem.do for problem in problems)
    except PodsimError as error:
        assert list(faults(error)) == []


@every_case("seed", lambda: range(FIRST, FIRST + 10 * COUNT, 10))
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


def _agreed() -> dict[str, Any]:
    """Three cases of the shipped baseline, one of which is impossible, with tolerances."""
    data: dict[str, Any] = json.loads(data_file("scenarios/podsim-baseline.json").read_text())
    cases = sorted(data["scenarios"], key=lambda name: data["scenarios"][name]["status"] == "done")
    kept = {name: data["scenarios"][name] for name in (cases[0], cases[-1], cases[-2])}
    return data | {"scenarios": kept, "tolerance": "1 %", "tolerances": {"mfu": "2 %", cases[-1]: "3 %"}}


AGREED = _agreed()


def moved(baseline: Baseline) -> Iterator[str]:
    """What a baseline says otherwise than the one that was agreed on."""
    for name, agreed in AGREED["scenarios"].items():
        kept = baseline.scenarios.get(name)
        if kept is None:
            continue  # told, and harmless: the case is new
        if kept["status"] != agreed["status"]:
            yield f"{name}: {kept['status']}"
        for metric in {*kept["metrics"], *agreed["metrics"]}:
            one, other = (each["metrics"].get(metric) for each in (agreed, kept))
            if one is None or other is None or abs(one - other) > baseline.tolerance_of(name, metric) * abs(other):
                yield f"{name} {metric}: {one} {other}"


@every_case("seed", lambda: range(FIRST, FIRST + COUNT))
def test_a_mutated_baseline_is_refused_or_every_change_of_it_is_told(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    text = slipped(AGREED, seed)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    now = {name: each | {"expect": {}, "reason": None} for name, each in AGREED["scenarios"].items()}
    try:
        baseline = read_baseline(path)
    except PodsimError as error:
        assert list(faults(error)) == []
        return
    changes = list(moved(baseline))
    told = {issue.case for issue in verdict_on(now, baseline).issues if issue.fails}
    assert all(any(change.startswith(case) for case in told) for change in changes)


EXPECTATIONS = ("1529 ± 5 %", "< 30 min", ">= 0.4", "2.2 s +- 50 ms", "<= 1e3 s", "> 1 MiB")


@every_case("seed", lambda: range(FIRST, FIRST + COUNT))
def test_a_mutated_expectation_is_refused_or_has_bounds(seed: int) -> None:
    rng = random.Random(seed)
    text = spoiled(rng.choice(EXPECTATIONS), seed).decode(errors="replace")
    try:
        found = expectation(rng.choice(("latency_s", "mfu", "throughput_samples_per_s", "a_bytes")), text)
    except BadValueError as error:
        assert error.do
        return
    assert found.low <= found.high
    assert any(map(math.isfinite, (found.low, found.high)))


@every_case("seed", lambda: range(FIRST, FIRST + COUNT))
def test_a_mutated_log_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_bytes(spoiled(log_text(BERT), seed))
    try:
        found = logged(read_log(path))
    except PodsimError as error:
        assert list(faults(error)) == []
        return
    assert all(0 <= each < math.inf for each in (found.total_s, *found.training_s, *found.evaluation_s))


@every_case("seed", lambda: range(FIRST, FIRST + COUNT))
def test_a_mutated_entry_of_the_cache_is_made_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a right checksum it is another file, and with one it is of other types: the same is parsed either way."""
    monkeypatch.setenv(disk.SWITCH, str(tmp_path / "kept"))
    file = tmp_path / "s.yaml"
    file.write_text("base: template\nmodel: {layer_count: 3}\n")
    memo.forget()
    known = read_yaml(file)
    (entry,) = (path for path in (tmp_path / "kept").rglob("*") if path.is_file())
    sound = entry.read_bytes()
    entry.write_bytes(spoiled(sound.decode(), seed))
    memo.forget()
    assert read_yaml(file) == known
    assert entry.read_bytes() == sound
    memo.forget()
