"""What a computation reads of a scenario: every number that is asked for, and all of a part that is taken whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from podsim import run
from podsim.result import influence
from podsim.result.influence import Measure, StandsOn
from podsim.scenario import load_scenario
from podsim.scenario.assumptions import Parts, assumptions, differing, watched, with_number

BERT = "bert_v1.1_pod16_open"
LINK = "system.machine.ipu_link"


def spec_of(name: str = BERT) -> Any:
    return load_scenario(name).spec


def test_what_is_asked_for_is_noted_with_its_key() -> None:
    spec, read = watched(spec_of())
    assert read == set()
    assert spec.system.machine.ipu_link.hop_latency_s == spec_of().system.machine.ipu_link.hop_latency_s
    assert {each for each in read if each.startswith(LINK)} == {LINK, f"{LINK}.hop_latency"}


@pytest.mark.parametrize("take", [repr, lambda part: part.model_copy(), lambda part: part.model_dump(), list])
def test_a_part_that_is_taken_whole_is_read(take: Any) -> None:
    spec, read = watched(spec_of())
    take(spec.system.machine.ipu_link)
    assert f"{LINK}.hop_latency" in read
    assert "software.setup" not in read


def test_comparing_reads_both_and_copies_equal_what_they_are_copies_of() -> None:
    spec, read = watched(spec_of())
    assert spec.system.machine.ipu == spec_of().system.machine.ipu
    assert spec_of().system.machine.ipu == spec.system.machine.ipu
    assert "system.machine.ipu.superstep.overhead" in read
    assert isinstance(spec, type(spec_of()))


def test_a_copy_of_a_part_is_watched_as_well() -> None:
    spec, read = watched(spec_of())
    fewer = spec.system.machine.ipu.with_tiles(1000)
    read.clear()
    assert fewer.superstep.overhead_cycles > 0
    assert "system.machine.ipu.superstep.overhead" in read


def test_what_differs_is_told_by_its_key() -> None:
    spec = spec_of()
    assert list(differing(spec, spec)) == list(differing(spec, spec_of())) == []
    moved = with_number(with_number(spec, f"{LINK}.hop_latency", 4.5e-7), "software.host_call", 0.2)
    assert list(differing(spec, moved)) == [f"{LINK}.hop_latency", "software.host_call"]
    assert list(differing(spec, spec.model_copy(update={"run": None}))) == ["run"]


class _Parts:
    """Parts of a made-up run, and those that were made for the last scenario."""

    def __init__(self) -> None:
        self.parts, self.made = Parts(), list[str]()

    def __call__(self, spec: Any) -> tuple[float, float]:
        self.made.clear()
        self.parts.begin(spec)
        hop_s = self._of("hop", lambda: float(spec.system.machine.ipu_link.hop_latency_s))
        self._of("call", lambda: float(spec.software.host_call_s))
        micros = self.parts.register("micros", round(hop_s * 1e6))
        return hop_s, self._of("twice", lambda: 2.0 * micros, "micros")

    def _of(self, name: str, make: Callable[[], float], *made_of: str) -> float:
        def made() -> float:
            self.made.append(name)
            return make()

        return self.parts.reuse(name, made, *made_of)


def test_only_what_has_read_what_differs_is_made_again() -> None:
    spec, run_parts = spec_of(), _Parts()
    hop, call = f"{LINK}.hop_latency", "software.host_call"
    first = with_number(spec, hop, 1.2e-6)
    assert run_parts(watched(first)[0]) == (1.2e-6, 2.0)
    assert run_parts.made == ["hop", "call", "twice"]
    assert run_parts(first) == (1.2e-6, 2.0)
    assert run_parts.made == []
    assert run_parts(with_number(first, call, 0.2)) == (1.2e-6, 2.0)
    assert run_parts.made == ["call"]
    # Rounded to microseconds it is what it was, so that what is made of that stands.
    assert run_parts(with_number(first, hop, 1.4e-6)) == (1.4e-6, 2.0)
    assert run_parts.made == ["hop"]
    assert run_parts(with_number(first, hop, 2.6e-6)) == (2.6e-6, 6.0)
    assert run_parts.made == ["hop", "twice"]
    assert run_parts(first) == (1.2e-6, 2.0)
    assert run_parts.made == []


def test_nothing_stands_without_a_first_run_that_was_watched() -> None:
    spec, run_parts = spec_of(), _Parts()
    for _ in range(2):
        run_parts(spec)
        assert run_parts.made == ["hop", "call", "twice"]


def test_what_is_made_of_a_part_that_was_made_again_is_made_again() -> None:
    spec, hop, parts = spec_of(), f"{LINK}.hop_latency", Parts()

    def twice_the_hop(spec: Any) -> float:
        parts.begin(spec)
        hop_s = parts.reuse("hop", lambda: float(spec.system.machine.ipu_link.hop_latency_s))
        return parts.reuse("twice", lambda: 2 * hop_s, "hop")

    assert twice_the_hop(watched(with_number(spec, hop, 1e-6))[0]) == 2e-6
    assert twice_the_hop(with_number(spec, hop, 3e-6)) == 6e-6


class _Everything:
    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(assumption.key for name in NAMES for assumption in assumptions(spec_of(name)))


NAMES = [BERT, "resnet50_v1.1_pod16", "llama2_7b_pod16_streamed", "e5_large_pod4"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_not_read_moves_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are those of a table for which every input was moved, and took fewer runs."""

    def rows() -> tuple[list[Any], int]:
        result, runs = run(name), 0
        stands_on = result.assumptions
        assert isinstance(stands_on, StandsOn)
        probe = stands_on.probe

        class Counted:
            metric = probe.metric

            def __call__(self, spec: Any, *, resplit: bool) -> Measure | None:
                nonlocal runs
                runs += 1
                return probe(spec, resplit=resplit)

        return list(StandsOn(stands_on.spec, Counted())), runs

    found, few = rows()
    monkeypatch.setattr(influence, "watched", lambda spec: (spec, _Everything()))
    everything, many = rows()
    assert found == everything
    assert few < many == 1 + 2 * len(assumptions(spec_of(name)))
