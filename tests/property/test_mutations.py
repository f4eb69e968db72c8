"""A mutated file gives a sound result, or an error that says where and what to do; nothing else, and soon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from podsim.errors import PodsimError, SpecError
from podsim.specs import load_scenario
from tests.property.mutations import mutated
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


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_a_mutated_scenario_is_simulated_or_refused(seed: int, tmp_path: Path) -> None:
    assert outcome(seed, tmp_path / "mutated.yaml") == []
