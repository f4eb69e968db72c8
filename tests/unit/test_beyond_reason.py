"""Numbers and texts that nobody means: refused with place and cure, or told, soon and in few words."""

from __future__ import annotations

import pytest

from podsim import SpecError
from podsim.scenario import load_scenario

BERT, RESNET = "bert_v1.1_pod16_closed", "resnet50_v2.0_pod16"


@pytest.mark.parametrize("value", ["nan", ".nan", ".inf", "-.inf", "1e300", "0", "-5", "[1e6, .nan]"])
@pytest.mark.parametrize("key", ["run.samples_to_converge", "run.samples_to_converge.runs"])
def test_samples_that_are_none_are_refused_with_their_place(key: str, value: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(BERT, overrides=[f"{key}={value}"])
    (problem,) = failure.value.problems
    assert (problem.where, problem.key) == (f"--set {key}={value}", "run.samples_to_converge")
    assert problem.do


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        (RESNET, "run.epochs", ".nan"),
        (RESNET, "run.epochs.count", ".inf"),
        (RESNET, "run.epochs.batch_size", "1e300"),
        (BERT, "data.dropout", ".nan"),
        (BERT, "data.packing.sequences_per_pack", ".inf"),
        (BERT, "memory.reserve", ".nan"),
        (BERT, "run.evaluation.samples", "1e300"),
        (BERT, "run.setup", "nan s"),
        (BERT, "system.machine.ipu.clock", "inf GHz"),
        (BERT, "cost", "{price_per_ipu_hour: nan USD}"),
    ],
)
def test_numbers_that_are_not_finite_are_refused(name: str, key: str, value: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(name, overrides=[f"{key}={value}"])
    assert all(problem.where.startswith("--set ") and problem.do for problem in failure.value.problems)


@pytest.mark.parametrize(
    ("name", "override", "far"),
    [
        (BERT, "run.samples_to_converge=1e13", True),
        (BERT, "run.samples_to_converge=1e12", False),
        (BERT, "run.samples_to_converge=[2e6, 1e15]", True),
        (BERT, "run.samples_to_converge={runs: [1e13], batch_size: 1536}", True),
        (RESNET, "run.epochs={count: 200000, batch_size: 3520}", True),
        (RESNET, "run.epochs=100000", False),
    ],
)
def test_a_length_that_no_training_had_is_told(name: str, override: str, far: bool) -> None:
    told = [notice for notice in load_scenario(name, overrides=[override]).notices if "far from any training" in notice]
    assert bool(told) is far


@pytest.mark.parametrize(("count", "refused"), [(10_000, False), (10_001, True), (10**12, True)])
def test_layers_are_planned_one_by_one_and_limited(count: int, refused: bool) -> None:
    """A million would take minutes, and 10^12 all memory there is."""
    overrides = [f"model.layer_count={count}", "parallelism=auto", "batch_size=1536"]
    if not refused:
        assert load_scenario(BERT, overrides=overrides).spec.model.placed_layers == count  # type: ignore[attr-defined]
        return
    with pytest.raises(SpecError, match=r"\[model.layer_count\]: `\d+` is too large\n  do: write 10000 or less"):
        load_scenario(BERT, overrides=overrides)


@pytest.mark.parametrize("key", ["model.size", "model.kind", "system", "base", "parallelism.stages"])
def test_a_long_value_is_told_in_few_words(key: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(BERT, overrides=[f"{key}={'x' * 100_000}"])
    assert all(len(str(problem)) < 1000 for problem in failure.value.problems)


def test_many_problems_are_counted_and_the_first_are_told() -> None:
    """800 faults of one part: each but the first meets one before it, 50 are printed."""
    faults = [{"ipu": 3, "clock": "50 %"}] * 800
    with pytest.raises(SpecError) as failure:
        load_scenario({"base": "template", "faults": faults})
    assert len(failure.value.problems) == 799
    assert str(failure.value).count("is in two faults at one time") == 50
    assert str(failure.value).endswith("\nand 749 more")


def test_requests_are_as_long_as_can_be_served() -> None:
    with pytest.raises(SpecError, match=r"\[generation.prompt_tokens\]: requests of 512,000,000,000 tokens"):
        load_scenario(
            "serving_llama2_7b_pod64", overrides=["serving.lengths=null", "generation.prompt_tokens=512000000000"]
        )
