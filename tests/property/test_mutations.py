"""A mutated file gives a sound result, or an error that says where and what to do; nothing else, and soon."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsim import disk, memo
from podsim.checks.baseline import Baseline, read_baseline
from podsim.checks.verdict import check
from podsim.errors import BadValueError, PodsimError, SpecError
from podsim.mlperf.logged import logged
from podsim.mlperf.read import read_log
from podsim.specs import load_scenario
from podsim.specs.expectations import expectation
from podsim.specs.library import data_file
from podsim.specs.yaml_source import read_yaml
from tests.property.mutations import mutated, slipped, spoiled
from tests.property.runs import complaints, run
from tests.unit.mlperf_logs import BERT
from tests.unit.mlperf_logs import text as log_text

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


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_mutated_scenario_is_simulated_or_refused(seed: int, tmp_path: Path) -> None:
    assert outcome(seed, tmp_path / "mutated.yaml") == []


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


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
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
    told = {each.case for each in check(now, baseline).findings if each.fails}
    assert all(any(change.startswith(case) for case in told) for change in changes)


EXPECTATIONS = ("1529 ± 5 %", "< 30 min", ">= 0.4", "2.2 s +- 50 ms", "<= 1e3 s", "> 1 MiB")


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
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


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_mutated_log_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    path.write_bytes(spoiled(log_text(BERT), seed))
    try:
        found = logged(read_log(path))
    except PodsimError as error:
        assert list(faults(error)) == []
        return
    assert all(0 <= each < math.inf for each in (found.total_s, *found.training_s, *found.evaluation_s))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
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
