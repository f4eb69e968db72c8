"""What a computation reads of a scenario: every number that is asked for, and all of a part that is taken whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podsim import run
from podsim.result import influence
from podsim.result.influence import Measure, StandsOn
from podsim.scenario import load_scenario
from podsim.scenario.assumptions import assumptions, watched

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


class _Everything:
    def __contains__(self, key: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(each.key for name in NAMES for each in assumptions(spec_of(name)))


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

            def __call__(self, spec: Any, *, anew: bool) -> Measure | None:
                nonlocal runs
                runs += 1
                return probe(spec, anew=anew)

        return list(StandsOn(stands_on.spec, Counted())), runs

    found, few = rows()
    monkeypatch.setattr(influence, "watched", lambda spec: (spec, _Everything()))
    everything, many = rows()
    assert found == everything
    assert few < many == 1 + 2 * len(assumptions(spec_of(name)))
