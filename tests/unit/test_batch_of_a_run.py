"""The length of a run holds for the batch it was logged with; elsewhere it is drawn, asked for, or not known."""

from __future__ import annotations

import pytest

from podsim import RunResult, SpecError, simulate

BERT, RESNET = "bert_v1.1_pod64_open", "resnet50_v1.1_pod64"
LOGGED = "{runs: [2275000, 2100000, 2450000], batch_size: 1536}"


def run(name: str, *overrides: str) -> RunResult:
    return simulate(name, overrides=list(overrides))


def accumulated(factor: int) -> str:
    return f"parallelism.accumulation_factor={factor}"


def test_logged_runs_count_at_their_batch() -> None:
    bare = run(BERT, "run.samples_to_converge=[2275000, 2100000, 2450000]")
    logged = run(BERT, f"run.samples_to_converge={LOGGED}")
    assert logged.time_to_train_s == bare.time_to_train_s
    assert logged.warnings == bare.warnings


def test_a_larger_batch_of_bert_draws_from_the_reference_runs() -> None:
    """Twice the packs: as if the reference runs had been asked for, and said."""
    drawn = run(BERT, accumulated(192))
    asked = run(BERT, accumulated(192), "run.samples_to_converge={reference_convergence: true}")
    assert drawn.time_to_train_s is None
    assert drawn.time_to_train_percentiles == asked.time_to_train_percentiles
    (warning,) = (each for each in drawn.warnings if "reference runs" in each)
    assert "1,536" in warning
    assert "3,072" in warning


def test_a_batch_beyond_the_reference_runs_has_no_time_to_train() -> None:
    result = run(RESNET, accumulated(160))
    assert result.time_to_train_s is None
    assert result.time_to_train_percentiles is None
    assert result.throughput_samples_per_s > 0
    (warning,) = (each for each in result.warnings if "no time to train" in each)
    assert "give run.epochs or run.samples as a number" in warning


def test_epochs_of_resnet_are_drawn_between_reference_points() -> None:
    """Reference runs with 8,192 images take 41 to 44 epochs, with 13,056 images 44 to 46; 38 were logged with 3,840."""
    result = run(RESNET, accumulated(8))  # 10,240 images
    training_s = result.run_breakdown["training"]
    epochs = training_s / result.weight_update_s * 10_240 / 1_281_167
    assert 42 < epochs < 46
    assert result.time_to_train_percentiles is not None
    assert result.time_to_train_percentiles["p10"] < result.time_to_train_percentiles["p90"]


def test_another_network_has_no_reference_runs() -> None:
    result = run(
        BERT,
        accumulated(192),
        "model.layer_count=23",
        "parallelism.stages=null",
        "parallelism.layers_per_ipu=[2,3,3,3,3,3,3,3]",
        "memory.available_memory_proportion=0.2",
    )
    assert result.time_to_train_percentiles is None
    assert any("no time to train" in warning for warning in result.warnings)


def test_a_number_laid_over_logged_epochs_counts_at_any_batch() -> None:
    result = run(RESNET, accumulated(4), "run.epochs=40")
    assert result.time_to_train_s is not None
    assert not any("logged" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("{runs: [1000], batch_size: 0}", "`0` is not a batch size"),
        ("{runs: [1000], batch_size: 1.5}", "`1.5` is not a batch size"),
        ("{runs: [], batch_size: 1536}", "the list is empty"),
        ("{runs: 7, batch_size: 1536}", "`7` is not a list of samples"),
        ("{runs: [-1], batch_size: 1536}", "`-1` is not a number of samples"),
        ("{runs: [1000]}", "this mapping is not known"),
        ("{batch_size: 1536, runs: [1000], other: 1}", "this mapping is not known"),
    ],
)
def test_what_no_run_can_be_logged_with(wrong: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        run(BERT, "run.samples_to_converge=null", f"run.samples_to_converge={wrong}")
    assert message in str(caught.value)
    assert "do:" in str(caught.value)
