"""Uncertain inputs of memory: what is known to have run fits wherever in their ranges they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsim.placement.forward_job import forward_job
from podsim.placement.generation import generation_job, plan_generation
from podsim.placement.job import training_job
from podsim.placement.memory import FitVerdict, fit_verdict
from podsim.placement.plan import make_plan
from podsim.result.reference_data import rows, scenario_name
from podsim.scenario import ForwardScenario, GenerationScenario, LoadedScenario, TrainingScenario, load_scenario
from podsim.scenario.assumptions import assumptions, with_number
from podsim.scenario.scenario import Scenario
from podsim.validation.comparison import RowComparison
from podsim.validation.fits import compare_fits
from podsim.watch import silent

_TITLES = {
    *(scenario_name(row) for row in rows("mlperf_submissions")),
    *(title for row in rows("published_throughput") for title in row["scenario"].split()),
}
"""Scenarios that a published figure is held against; a variant stands behind `@`."""
_CODE = ("software.code_memory_per_tile", "software.inference_code_memory_per_tile")


def with_most_code(loaded: LoadedScenario) -> Scenario:
    """A compared scenario with as much code as its range has."""
    spec = loaded.spec
    for assumption in assumptions(spec):
        if assumption.key in _CODE:
            spec = with_number(spec, assumption.key, max(assumption.bounds))
    return spec


def planned(spec: Scenario, folder: Path) -> FitVerdict:
    """Return if a scenario fits, with as much code as it says."""
    if isinstance(spec, TrainingScenario):
        memory = make_plan(training_job(spec), advise=False).memory
    elif isinstance(spec, GenerationScenario):
        memory = plan_generation(generation_job(spec), advise=False).memory
    else:
        assert isinstance(spec, ForwardScenario)
        memory = make_plan(forward_job(spec, spec.model.read(spec, folder, silent).workload), advise=False).memory
    return fit_verdict(memory)


@pytest.mark.slow
@pytest.mark.parametrize("title", sorted(_TITLES))
def test_what_was_published_fits_with_as_much_code_as_there_may_be(title: str) -> None:
    """A draw in which it would not fit is impossible, since it ran."""
    name, _, variant = title.partition("@")
    loaded = load_scenario(name, variant or None)
    assert planned(with_most_code(loaded), loaded.folder) == "fits"


def test_more_code_would_not_fit() -> None:
    """The end of the range is where the tightest of them fills its IPUs: 134,230 B for each tile."""
    name = "bert_large_squad_8_ipus_pod16"
    loaded = load_scenario(name, "bow")
    assert planned(with_number(loaded.spec, _CODE[0], 134_230), loaded.folder) == "fits"
    assert planned(with_number(loaded.spec, _CODE[0], 134_231), loaded.folder) == "cannot tell"


def test_more_code_of_inference_would_not_fit() -> None:
    """BERT-Large answers 4 sequences of 128 tokens on one IPU, with all that the library allows for temporaries."""
    changes = ["system=ipu_pod4", "software=popart_sdk_2.5", "model.size=large", "forward.batch_size=4"]
    loaded = load_scenario("bert_base_c600", overrides=[*changes, "memory.available_memory_proportion=0.6"])
    assert planned(with_most_code(loaded), loaded.folder) == "fits"
    assert planned(with_number(loaded.spec, _CODE[1], 55_000), loaded.folder) == "cannot tell"


def test_what_was_refused_is_refused_and_what_ran_is_not() -> None:
    """Batches of PopRT's tables on a C600."""
    found = [row for row in compare_fits() if isinstance(row, RowComparison)]
    assert {row.name.rpartition(": ")[2] for row in found} == {"refused", "ran"}
    assert [row.name for row in found if row.error] == []
