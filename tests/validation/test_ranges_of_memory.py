"""Uncertain inputs of memory: what is known to have run fits wherever in their ranges they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.errors import DoesNotFitError
from podsim.placement.forward_job import forward_job
from podsim.placement.generation import plan_generation
from podsim.placement.generation_job import generation_job
from podsim.placement.job import training_job
from podsim.placement.plan import make_plan
from podsim.scenario import ForwardScenario, GenerationScenario, LoadedScenario, TrainingScenario, load_scenario
from podsim.scenario.assumptions import assumptions, with_number
from podsim.scenario.scenario import Scenario
from podsim.watch import silent
from tools.make_envelope import compared_titles

_CODE = ("software.code_memory_per_tile", "software.inference_code_memory_per_tile")


def with_most_code(loaded: LoadedScenario) -> Scenario:
    """A compared scenario with as much code as its range has."""
    spec = loaded.spec
    for each in assumptions(spec):
        if each.key in _CODE:
            spec = with_number(spec, each.key, max(each.bounds))
    return spec


def planned(spec: Scenario, folder: Path) -> None:
    """Refuses what does not fit."""
    if isinstance(spec, TrainingScenario):
        make_plan(training_job(spec), advise=False)
    elif isinstance(spec, GenerationScenario):
        plan_generation(generation_job(spec), advise=False)
    else:
        assert isinstance(spec, ForwardScenario)
        make_plan(forward_job(spec, spec.model.read(spec, folder, silent).workload), advise=False)


@pytest.mark.slow
@pytest.mark.parametrize("title", compared_titles())
def test_what_was_published_fits_with_as_much_code_as_there_may_be(title: str) -> None:
    """A draw in which it would not fit is impossible, since it ran."""
    name, _, variant = title.partition("@")
    loaded = load_scenario(name, variant or None)
    planned(with_most_code(loaded), loaded.folder)


def test_more_code_would_not_fit() -> None:
    """The end of the range is where the tightest of them fills its IPUs: 142,066 B for each tile."""
    name = "bert_large_squad_8_ipus_pod16"
    loaded = load_scenario(name, "bow")
    planned(with_number(loaded.spec, _CODE[0], 142_066), loaded.folder)
    with pytest.raises(DoesNotFitError):
        planned(with_number(loaded.spec, _CODE[0], 142_067), loaded.folder)
