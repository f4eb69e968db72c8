"""Sequences that are made when they are first looked at."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

from podsim import load, memo, simulate
from podsim.lazy import LazySequence


def test_items_are_made_once_when_they_are_first_looked_at() -> None:
    calls = []

    def make() -> Iterator[int]:
        calls.append("made")
        yield from (1, 2, 3)

    items = LazySequence(make)
    assert not calls
    assert items[0] == 1 and items[1:] == (2, 3) and len(items) == 3
    assert items == (1, 2, 3) and list(items) == [1, 2, 3]
    assert calls == ["made"]


def test_they_travel_as_a_tuple() -> None:
    copy = pickle.loads(pickle.dumps(LazySequence(lambda: "ab")))
    assert copy == ("a", "b") and isinstance(copy, tuple)


def test_runs_that_differ_in_links_share_what_their_operations_cost() -> None:
    """Nothing of a stage's cost depends on a link, unless an operation waits for other replicas."""
    key = "system.machine.ipu_link.bandwidth_per_direction"
    for name, shares in (("bert_v1.1_pod16_open", True), ("resnet50_v1.1_pod16", False)):
        slow, fast = (shared_costs(name, f"{key}={each} GB/s") for each in (8, 16))
        assert (slow is fast) == shares


def shared_costs(name: str, *overrides: str) -> object:
    from podsim.placement.job import training_job
    from podsim.placement.plan import shared_cost_model
    from podsim.scenario import TrainingScenario

    return shared_cost_model(training_job(load(name, overrides=overrides).require(TrainingScenario)))


def test_a_shared_model_gives_the_numbers_of_a_fresh_one() -> None:
    name, clock = "bert_v1.1_pod16_open", "system.machine.ipu.clock=1.5 GHz"
    memo.forget()
    fresh = [simulate(name, overrides=overrides).to_json() for overrides in ([], [clock])]
    again = [simulate(name, overrides=overrides).to_json() for overrides in ([clock], [])]
    assert again == fresh[::-1]


def test_files_are_read_once_while_they_are_held(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"

    def described(text: str) -> str:
        path.write_text(f"base: bert_v1.1_pod16_open\ndescription: {text}\n")
        return load(path).spec.description

    assert [described("one"), described("two")] == ["one", "two"]
    with memo.files_held():
        assert [described("three"), described("four")] == ["three", "three"]
    assert described("five") == "five"


def test_the_same_name_in_two_folders_stays_two_files_while_they_are_held(tmp_path: Path) -> None:
    for folder, clock in (("a", "1.2 GHz"), ("b", "1.6 GHz")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.yaml").write_text(
            f"kind: pod\nbase: ipu_pod16\nmachine: {{ipu: {{clock: {clock}}}}}\n"
        )
        (tmp_path / folder / "s.yaml").write_text("base: bert_v1.1_pod16_open\nsystem: mine.yaml\n")
    with memo.files_held():
        clocks = [load(tmp_path / folder / "s.yaml").spec.system.machine.ipu.clock_hz for folder in "aba"]
    assert clocks == [1.2e9, 1.6e9, 1.2e9]
