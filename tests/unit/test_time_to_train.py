"""Time to train after a change of batch or pod: the work stays, and what a log says holds for its batch alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim import RunResult, SpecError, simulate
from podsim.placement import make_plan
from podsim.placement.job import training_job
from podsim.result.rows import LearningRate
from podsim.runs.limits import convergence_condition
from podsim.scenario import TrainingScenario, load_scenario, shipped_names
from podsim.scenario.training import LearningRateSpec
from podsim.scenario.transformer_training import LoggedUpdates, RunSpec, whole_updates
from podsim.show.html_page import write_page

BERT = "bert_large_phase1_pod16"  # 8 sequences x 2,048 micro-batches x 4 replicas
SAMPLES = 7038 * 65_536
HOUR_S, DAY_S = 3600, 86_400
LOG = {"base": BERT, "run": {"samples": None, "weight_updates": 7038}}
NO_TIME = "no time to train"


def run(source: Any, *overrides: str, variant: str | None = None) -> RunResult:
    return simulate(source, variant=variant, overrides=list(overrides))


def updates(result: RunResult) -> float | None:
    assert result.outcome is not None
    return result.outcome.update_count


def condition(source: str, *overrides: str) -> str | None:
    """Return why the time to train of a scenario is conditional, without running it."""
    spec = load_scenario(source, overrides=list(overrides)).require(TrainingScenario)
    per_pack = make_plan(training_job(spec)).workload.samples_per_micro_batch / spec.parallelism.micro_batch_size
    return convergence_condition(spec, spec.parallelism.batch_size * per_pack)


# The table of three changes


def test_four_times_the_replicas_take_a_quarter_of_the_time() -> None:
    """461,242,368 sequences in batches of 262,144 are 1,759.5 updates, each a little longer than on 16 IPUs."""
    result = run(BERT, "system=ipu_pod64", "parallelism.replication_factor=16")
    assert updates(result) == 1760
    assert result.time_to_train_s == pytest.approx(8.4 * HOUR_S, rel=0.005)
    assert result.time_to_train_s == pytest.approx((run(BERT).time_to_train_s or 0.0) / 4, rel=0.02)


def test_half_the_batch_takes_as_long_as_the_whole() -> None:
    """Twice the updates, each of half the time and half a call more."""
    result = run(BERT, "parallelism.accumulation_factor=1024")
    assert updates(result) == 14_076
    assert result.time_to_train_s == pytest.approx(33.6 * HOUR_S, rel=0.005)
    assert result.time_to_train_s == pytest.approx(run(BERT).time_to_train_s, rel=0.02)


def test_two_trillion_tokens_stay_two_trillion() -> None:
    """2^20 tokens an update: 2e12 / 2^20 = 1,907,348.6 updates, at 13.945 s are 307.9 days."""
    result = run("llama2_7b_phased_pod64", "parallelism.accumulation_factor=32")
    assert updates(result) == 1_907_349
    assert result.weight_update_s == pytest.approx(13.945, abs=0.0006)
    assert result.time_to_train_s == pytest.approx(307.9 * DAY_S, rel=0.0005)


# The ends of a run


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("samples: 65537", 2),  # one more than a batch
        ("samples: 65536", 1),
        ("tokens: 16777216", 2),  # 131,072 sequences of 128 tokens
        ("tokens: 16777217", 3),
        ("epochs: 2", 4),  # 2 x 100,000 sequences are 3.05 batches
    ],
)
def test_weight_updates_follow_from_the_end(end: str, expected: int) -> None:
    key, _, value = end.partition(": ")
    data = {"samples_per_epoch": 100_000} if key == "epochs" else {}
    scenario = {"base": BERT, "data": data, "run": {"samples": None, key: float(value)}}
    assert updates(run(scenario)) == expected


def test_tokens_of_packs_are_tokens_of_their_sequences() -> None:
    """A pack of 512 tokens holds 2.0368 sequences, and 1,536 packs make an update: 786,432 tokens."""
    ended = {"samples_to_converge": None, "evaluation": None}
    ten = run({"base": "bert_v1.1_pod64_open", "run": ended | {"tokens": 7_864_320}})
    more = run({"base": "bert_v1.1_pod64_open", "run": ended | {"tokens": 7_864_400}})
    assert (updates(ten), updates(more)) == (10, 11)


def test_one_end_is_needed_and_samples_of_images_have_no_tokens() -> None:
    with pytest.raises(SpecError, match="`samples` and `tokens` are both given"):
        load_scenario(BERT, overrides=["run.tokens=1e9"])
    with pytest.raises(SpecError, match="samples of this model are not made of tokens"):
        load_scenario("vit_base_pod16", overrides=["run={tokens: 1e9, samples: null, epochs: null}"])


@pytest.mark.parametrize("batch", [3200, 6400])
def test_images_end_after_samples_whatever_the_batch(batch: int) -> None:
    """Ten epochs of 1,281,167 images: as long as ten epochs, and refused next to epochs or below a batch."""
    name, size = "resnet50_v1.1_pod16", f"parallelism.accumulation_factor={batch // 320}"
    found = podsim.simulate(name, overrides=[size, "run.epochs=null", "run.samples=12811670"])
    ten = podsim.simulate(name, overrides=[size, "run.epochs=10"])
    assert found.time_to_train_s == pytest.approx(ten.time_to_train_s)
    with pytest.raises(SpecError, match="`samples` and `epochs` are both given"):
        load_scenario(name, overrides=["run.samples=12811670"])
    with pytest.raises(SpecError, match="100 samples are less than a batch of 3200"):
        load_scenario(name, overrides=["run.epochs=null", "run.samples=100"])


@pytest.mark.parametrize(
    "wrong", ["run.samples=0", "run.samples=many", "run.tokens=-1", "run.weight_updates=1.5", "run.samples=true"]
)
def test_an_end_that_is_no_amount_is_refused_with_its_key(wrong: str) -> None:
    with pytest.raises(SpecError, match=wrong.partition("=")[0].replace(".", r"\.")):
        load_scenario(BERT, overrides=[*([] if wrong.startswith("run.samples") else ["run.samples=null"]), wrong])


def test_no_shipped_scenario_ends_after_weight_updates() -> None:
    """They are no replays of logs by their updates, so each trains the same work at any batch."""
    work = {}
    for name in shipped_names()["scenarios"]:
        loaded = load_scenario(name)
        spec = loaded.spec
        if isinstance(spec, TrainingScenario) and isinstance(spec.run, RunSpec):
            assert spec.run.weight_updates is None, name
            if {"samples", "tokens"} & set(loaded.written.document.data.get("run", {})):
                work[name] = spec.run
    assert len(work) == 21
    assert work["bert_large_phase1_pod4"].samples == SAMPLES
    assert {work[f"bert_large_phase2_pod{pod}"].samples for pod in (4, 16, 64)} == {2137 * 16_384}
    assert work["gpt3_175b_pod256"].samples == 286_000 * 128
    assert work["mixtral_8x7b_phased_pod64"].tokens == 2e12


@pytest.mark.parametrize(("samples", "batch"), [(0.1 * 3, 0.1), (2.0368 * 1536 * 795, 2.0368 * 1536)])
def test_rounding_of_factors_adds_no_update(samples: float, batch: float) -> None:
    assert whole_updates(samples, batch) == round(samples / batch)


# Weight updates of a log


def test_logged_updates_count_at_their_batch() -> None:
    result = run(LOG)
    assert updates(result) == 7038
    assert result.time_to_train_s == run(BERT).time_to_train_s
    assert result.warnings == ()


def given(tmp_path: Path) -> Path:
    path = tmp_path / "log.yaml"
    path.write_text(
        f"base: {BERT}\nrun: {{samples: null, weight_updates: 7038}}\nvariants:\n"
        "  twice: {parallelism: {accumulation_factor: 4096}}\n"
        "  own: {parallelism: {accumulation_factor: 1024}, run: {weight_updates: 14076}}\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    ("variant", "overrides", "batch"),
    [
        ("twice", (), "131,072"),
        (None, ("parallelism.replication_factor=2",), "32,768"),
        (None, ("parallelism.micro_batch_size=4",), "32,768"),
        ("own", ("parallelism.accumulation_factor=2048",), "65,536"),
        (None, ("parallelism=auto", "batch_size=32768"), "32,768"),
    ],
)
def test_logged_updates_have_no_time_at_another_batch(
    tmp_path: Path, variant: str | None, overrides: tuple[str, ...], batch: str
) -> None:
    result = run(given(tmp_path), *overrides, variant=variant)
    assert (result.time_to_train_s, result.time_to_train_percentiles, result.run_breakdown) == (None, None, {})
    assert result.throughput_samples_per_s > 0
    (warning,) = (each for each in result.warnings if NO_TIME in each)
    assert f"the batch is {batch}" in warning
    assert f"`run.weight_updates=null` and `run.samples={SAMPLES}`" in warning


def test_what_the_warning_says_to_write_gives_the_time(tmp_path: Path) -> None:
    twice = ("parallelism.accumulation_factor=4096", "run.weight_updates=null", f"run.samples={SAMPLES}")
    assert updates(run(given(tmp_path), *twice)) == 3519


@pytest.mark.parametrize(
    "overrides",
    [
        (),  # the batch of the file
        ("parallelism.accumulation_factor=1024", "run.weight_updates=14076"),  # given together
        ("run.weight_updates=14076", "parallelism.accumulation_factor=1024"),  # in any order
        ("parallelism.accumulation_factor=4096", "parallelism.micro_batch_size=4"),  # another way to the same batch
        ("parallelism=auto",),  # which keeps the batch
    ],
)
def test_logged_updates_have_a_time_where_their_batch_stays(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    result = run(given(tmp_path), *overrides)
    assert result.time_to_train_s is not None
    assert not any(NO_TIME in each for each in result.warnings)


def test_a_variant_with_updates_of_its_own_has_its_own_batch(tmp_path: Path) -> None:
    assert updates(run(given(tmp_path), variant="own")) == 14_076


def test_the_loaded_scenario_holds_the_batch_however_it_is_changed(tmp_path: Path) -> None:
    """The loader writes it where layers are merged, and a second change of the loaded scenario keeps it."""
    loaded = load_scenario(given(tmp_path))
    assert loaded.spec.run == RunSpec(weight_updates=LoggedUpdates(count=7038, batch_size=65_536))  # type: ignore[attr-defined]
    changed = load_scenario(loaded, overrides=["parallelism.accumulation_factor=512"])
    assert changed.spec.run == loaded.spec.run  # type: ignore[attr-defined]
    assert run(changed).time_to_train_s is None


def test_samples_to_converge_without_a_batch_are_noted_when_a_loaded_scenario_changes() -> None:
    """As when it is loaded with the change: 2 million samples were given beside a batch of 1,536."""
    source = {"base": "template", "run": {"samples_to_converge": 2e6, "evaluation": None}}
    changed = load_scenario(load_scenario(source), overrides=["parallelism.accumulation_factor=384"])
    assert any("given beside a batch of 1,536" in each for each in changed.notices)


def test_updates_with_their_batch_hold_wherever_they_are_written() -> None:
    """`--set` alone would take the batch of what it is laid over."""
    logged = "run={samples: null, weight_updates: {count: 10, batch_size: 32768}}"
    assert run(BERT, logged).time_to_train_s is None
    assert updates(run(BERT, logged, "parallelism.accumulation_factor=1024")) == 10


def test_sweeps_plans_and_comparisons_leave_the_time_out_and_say_why(tmp_path: Path) -> None:
    path = given(tmp_path)
    study = {"kind": "study", "scenario": str(path), "keys": {"parallelism.accumulation_factor": [512, 2048]}}
    frame = podsim.sweep(study, processes=1).to_frame().set_index("parallelism.accumulation_factor")
    assert frame["time_to_train_s"].notna().to_dict() == {512: False, 2048: True}
    assert NO_TIME in frame["warnings"][512]
    found = podsim.compare(path, f"{path}@twice")
    assert any(NO_TIME in each for each in found.report().warnings)
    plan = podsim.plan(path, overrides=["parallelism.accumulation_factor=4096"], systems=["ipu_pod16"], draws=0)
    assert plan.goal.figure == "throughput_samples_per_s"
    assert any(NO_TIME in each for each in plan.report().warnings)


# Rules and scores of MLPerf


def test_another_batch_of_the_open_division_names_the_change_of_rules() -> None:
    result = run("bert_v1.1_pod64_open", "parallelism.accumulation_factor=192")
    (warning,) = result.warnings[:1]
    assert "open division" in warning
    assert "reference runs of the closed division" in warning
    closed = run("bert_v1.1_pod64_closed", "parallelism.accumulation_factor=192")
    assert not any("division" in each for each in closed.warnings)


def test_a_replayed_submission_has_the_score_beside_the_time_of_its_log() -> None:
    """Official 10.5637 min; by the logs 9.4487 min to the last evaluation."""
    result = run("bert_v1.1_pod64_closed")
    (time,) = (each for each in result.references if each.quantity == "time_to_train_s")
    assert time.measured == pytest.approx(9.4487 * 60)
    assert time.score == pytest.approx(10.5637 * 60)
    (tile,) = (each for each in result.headline() if each.key == "time_to_train_s")
    assert tile.notes[0].startswith("measured 9.449 min, error")
    assert tile.notes[1] == "MLPerf's published score 10.56 min; 9.449 min is the time in its logs"
    stored = json.loads(result.to_json())
    assert [each["score"] for each in stored["references"]] == [None, pytest.approx(633.822)]


# Batches that were validated


@pytest.mark.parametrize(
    ("source", "overrides", "expected"),
    [
        (BERT, (), None),  # LAMB, phase 1: 65,536
        (BERT, ("parallelism.replication_factor=3", "parallelism.accumulation_factor=2731"), "up to 65,536 sequences"),
        (BERT, ("optimizer.kind=adamw", "parallelism.accumulation_factor=80"), None),  # 2,560
        (BERT, ("optimizer.kind=adamw", "parallelism.accumulation_factor=81"), "512 to 2,560"),
        (BERT, ("optimizer.kind=adamw", "parallelism.accumulation_factor=15"), "512 to 2,560"),  # 480
        (BERT, ("optimizer.kind=sgd",), None),  # nothing is published
        ("bert_large_phase2_pod16", ("parallelism.accumulation_factor=4096",), None),  # phase 2: 32,768
        ("bert_large_phase2_pod16", ("parallelism.accumulation_factor=4097",), "up to 32,768 sequences"),
        ("bert_large_phase1_packed_pod16", (), None),  # 54,784 packs of 1.17 sequences
        ("bert_v1.1_pod64_open", ("parallelism.accumulation_factor=1100",), None),  # logged: reference runs
        ("bert_large_squad_pod16", (), None),  # fine-tuning
        ("llama2_7b_phased_pod64", (), None),  # no limit is published
    ],
)
def test_batches_outside_the_validated_ones_are_conditional(
    source: str, overrides: tuple[str, ...], expected: str | None
) -> None:
    found = condition(source, *overrides)
    assert found is None if expected is None else found is not None and expected in found


def test_a_conditional_time_says_so_in_text_json_and_page(tmp_path: Path) -> None:
    result = run(BERT, "parallelism.accumulation_factor=8192")
    (tile,) = (each for each in result.headline() if each.key == "time_to_train_s")
    assert tile.value.endswith("h if it converges")
    assert "262,144" in json.loads(result.to_json())["time_to_train_condition"]
    page = tmp_path / "page.html"
    write_page(result.report(), page)
    assert "h if it converges" in page.read_text(encoding="utf-8")
    assert any("if it converges" in each for each in result.warnings)
    assert "time_to_train_condition" not in json.loads(run(BERT).to_json())


def test_a_plan_says_that_its_time_is_conditional() -> None:
    plan = podsim.plan(BERT, overrides=["parallelism.accumulation_factor=8192"], systems=["ipu_pod16"], draws=0)
    assert plan.best is not None
    assert "h if it converges" in plan.to_dict()["verdict"][0]
    assert any("262,144" in each for each in plan.report().warnings)


@pytest.mark.parametrize(
    ("overrides", "count"),
    [
        (("parallelism.accumulation_factor=999",), 0),
        (("parallelism.accumulation_factor=1000",), 1),
        (
            (
                "parallelism.accumulation_factor=1000",
                "precision.gradient_accumulation=fp32",
                "memory.available_memory_proportion=0.1",
            ),
            1,
        ),
    ],
)
def test_a_thousand_micro_batches_are_noted(overrides: tuple[str, ...], count: int) -> None:
    notes = run(BERT, *overrides).notes
    assert len(notes) == count
    for note in notes:
        assert "1,000 micro-batches per weight update" in note
        assert f"their sums {'FP32' if len(overrides) > 1 else 'FP16'}" in note
        assert "loss scaling" in note


# The learning rate


def test_the_schedule_follows_from_the_batch() -> None:
    """Half the batch: 14,076 updates, of which 30 % are 4,222.8, and half the rate."""
    rule = "{warm_up: 0.3, scaling: linear, batch_size: 65536, peak: 0.006}"
    result = run(BERT, f"optimizer.learning_rate={rule}", "parallelism.accumulation_factor=1024")
    rate = result.learning_rate
    assert rate is not None
    assert (rate.warm_up_updates, rate.update_count, rate.factor, rate.peak) == (4223, 14_076, 0.5, 0.003)
    (tile,) = (each for each in result.headline() if each.label == "Learning rate")
    assert tile.value == "warm-up over 4,223 of 14,076 weight updates (30 %)"
    assert tile.notes == ("peak 0.003: 0.5 x that at a batch of 65,536",)
    assert json.loads(result.to_json())["learning_rate"]["warm_up_updates"] == 4223
    assert result.time_to_train_s == run(BERT, "parallelism.accumulation_factor=1024").time_to_train_s


def test_the_blog_warms_up_for_thirteen_percent_of_phase_2() -> None:
    """13 % of 2,137 are 277.81; the blog's 2,100 would be 98 %."""
    rate = run("bert_large_phase2_pod16").learning_rate
    assert rate is not None
    assert (rate.warm_up_updates, rate.update_count) == (278, 2137)


@pytest.mark.parametrize(
    ("rule", "lines"),
    [
        ({}, ("no warm-up", "peak whatever the batch")),
        ({"warm_up": 0.1, "peak": 0.5}, ("warm-up over 10 % of the weight updates", "peak 0.5 whatever the batch")),
    ],
)
def test_a_schedule_without_an_end_or_a_rule(rule: dict[str, float], lines: tuple[str, str]) -> None:
    assert LearningRate.from_rule(LearningRateSpec(**rule), 64, None).lines == lines


@pytest.mark.parametrize(
    "rule", ["{scaling: linear, batch_size: null}", "{scaling: none, batch_size: 64}", "{warm_up: 1.0}", "{peak: 0.0}"]
)
def test_a_rule_that_does_not_add_up_is_refused(rule: str) -> None:
    with pytest.raises(SpecError, match="learning_rate"):
        load_scenario(BERT, overrides=[f"optimizer.learning_rate={rule}"])
