"""What a framework adds to a run: session calls, stacked samples, a process that feeds."""

from __future__ import annotations

import pytest

from podsim import load, simulate
from podsim.placement import Plan
from podsim.program.compile import compile_program, replicas_of
from podsim.program.feed import Feed
from podsim.scenario import shipped_names
from podsim.scenario.training import TrainingScenario
from tests.examples import plan_of

IMAGENET = 1_281_167
BERT, VIT, RESNET, TF_RESNET = (
    "bert_base_squad_pod16",
    "vit_base_pod16",
    "resnet50_pytorch_pod16",
    "resnet50_v1.1_pod16",
)
CALL = ("software.host_call=100 ms", "software.collation_bandwidth=1 GB/s")
ONE_IMAGE_BYTES = 3 * 224 * 224
SEQUENCE_BYTES = 384 * 4 * 4
"""Of SQuAD: 384 tokens, each of four numbers of four bytes."""


def call_s(name: str, *overrides: str) -> float:
    """What the host takes for a weight update beside its data."""
    base = simulate(name, overrides=[*overrides, "software.host_call=0 ms"])
    return simulate(name, overrides=[*overrides, *CALL]).weight_update_s - base.weight_update_s


# Session calls


def test_pytorch_calls_once_for_every_weight_update() -> None:
    assert plan_of(RESNET).layout.updates_per_session_call == 1


def test_tensorflow_calls_five_times_an_epoch() -> None:
    assert plan_of(TF_RESNET).layout.updates_per_session_call == pytest.approx(IMAGENET / 3200 / 5)


@pytest.mark.parametrize("name", [RESNET, TF_RESNET])
def test_what_the_scenario_says_counts(name: str) -> None:
    assert plan_of(name, "parallelism.updates_per_session_call=4").layout.updates_per_session_call == 4


@pytest.mark.parametrize(("name", "calls"), [("efficientnet_b4_pod64", 1), ("resnet50_v1.1_pod16", 5)])
def test_calls_of_an_epoch_that_a_scenario_does_not_say_are_an_assumption(name: str, calls: int) -> None:
    """Examples call once between lines of their log; the submissions of MLPerf say that they call five times."""
    plan, few = plan_of(name), plan_of(name, "software.session_calls_per_epoch=3")
    batch = plan.layout.batch_size
    assert plan.layout.updates_per_session_call == pytest.approx(IMAGENET / batch / calls)
    assert few.layout.updates_per_session_call == pytest.approx(IMAGENET / batch / (3 if calls == 1 else calls))
    assumed = {assumption["key"] for assumption in simulate(name).assumptions}
    assert ("software.session_calls_per_epoch" in assumed) == (calls == 1)


# PopTorch's defaults


@pytest.mark.parametrize(
    ("name", "depth"), [(RESNET, 1), ("efficientnet_b4_pytorch_pod16", 1), (VIT, 2), (TF_RESNET, 3), (BERT, 1)]
)
def test_buffers_are_as_deep_as_the_scenario_or_the_framework_says(name: str, depth: int) -> None:
    assert plan_of(name).layout.prefetch_depth == depth


def test_pipelines_of_pytorch_recompute() -> None:
    """Unless they say otherwise, and no scenario that ships does."""
    for scenario_name in shipped_names()["scenarios"]:
        spec = load(scenario_name).spec
        if isinstance(spec, TrainingScenario) and spec.software.framework == "PyTorch":
            assert spec.parallelism.ipus_per_replica == 1 or spec.parallelism.recomputes(spec.software), scenario_name


@pytest.mark.parametrize(("clips", "turns"), [("true", 4), ("false", 2)])
def test_ipus_that_clip_gradients_update_one_after_the_other(clips: str, turns: int) -> None:
    """PopTorch's schedule without overlap; IPU 0 is the last with it and without."""
    program = compile_program(plan_of("bert_large_squad_pod16", f"optimizer.gradient_clipping={clips}"))
    titles = [phase.name for phase in program.groups[0].phases if phase.name.endswith(": optimizer")]
    assert len(titles) == turns
    assert titles[-1] == "update IPU 0: optimizer"


# Stacked samples


def test_samples_are_stacked_before_each_call() -> None:
    """32 micro-batches of one sequence for each of four replicas, of one process."""
    assert call_s(BERT, "parallelism.accumulation_factor=32") == pytest.approx(0.1 + 4 * 32 * SEQUENCE_BYTES / 1e9)


def test_two_processes_stack_at_the_same_time() -> None:
    halves = ("parallelism.accumulation_factor=32", "parallelism.replicas_per_process=2")
    assert call_s(BERT, *halves) == pytest.approx(0.1 + 2 * 32 * SEQUENCE_BYTES / 1e9)


def test_calls_are_shared_by_their_updates_and_samples_are_not() -> None:
    shared = ("parallelism.accumulation_factor=32", "parallelism.updates_per_session_call=4")
    assert call_s(BERT, *shared) == pytest.approx(0.1 / 4 + 4 * 32 * SEQUENCE_BYTES / 1e9)


def test_those_who_decode_images_stack_them() -> None:
    assert call_s(RESNET) == pytest.approx(0.1)


# The process that feeds


def interval_s(plan: Plan) -> float:
    return Feed(plan, replicas_of(plan)).interval_ps() / 1e12


def test_a_process_hands_over_its_share_to_each_replica() -> None:
    """Four replicas of one process, eight images for each of them."""
    plan = plan_of(VIT, "software.process_input_bandwidth=1 GB/s")
    assert interval_s(plan) == pytest.approx(4 * 8 * ONE_IMAGE_BYTES / 1e9)


def test_more_processes_feed_faster() -> None:
    one, two = (
        plan_of(VIT, "software.process_input_bandwidth=1 GB/s", *more)
        for more in ([], ["parallelism.replicas_per_process=2"])
    )
    assert interval_s(two) == pytest.approx(interval_s(one) / 2)


def test_a_run_goes_no_faster_than_its_process_feeds_it() -> None:
    """Printed by one process under SDK 3.2 to 3.4: 17,957 and 14,974 items of 64 KiB a second, in batches of 16.

    Items and labels of a batch are two tensors, handed over in 10.3 us each. There is one buffer, which each IPU reads
    at 6.64 GB/s before it is filled again. The rest is bytes that the process hands over.
    """
    printed = [(1, 17_956.52), (2, 14_974.44)]
    rates = [65_536 / (1 / rate - 2 * 10.3e-6 / 16 - 65_536 / 6.64e9 / ipus) for ipus, rate in printed]
    assert float(plan_of(VIT).software.process_input_bytes_per_s or 0) == pytest.approx(sum(rates) / 2, rel=0.01)
    assert simulate(VIT, variant="bow").throughput_samples_per_s <= 1.28e9 / ONE_IMAGE_BYTES


def processes(name: str, *overrides: str) -> tuple[int, int]:
    """(replicas of a process, processes)."""
    plan, spec = plan_of(name, *overrides), scenario(name, *overrides)
    return plan.layout.replicas_per_process, spec.parallelism.host_process_count(spec)


def scenario(name: str, *overrides: str) -> TrainingScenario:
    spec = load(name, overrides=overrides).spec
    assert isinstance(spec, TrainingScenario)
    return spec


def test_processes_of_text_are_those_of_servers_and_of_images_those_of_sixteen_ipus() -> None:
    assert processes(BERT) == (4, 1)
    assert processes("bert_v1.1_pod64_open") == (8, 1)
    assert processes("bert_v1.1_pod128_open") == (8, 2)
    assert processes("vit_base_pod64") == (4, 4)
    assert processes(RESNET) == (2, 8)


# Images that are ready


@pytest.mark.parametrize("name", [VIT, RESNET])
def test_images_that_nobody_decodes_are_neither_stacked_by_the_caller_nor_fed_by_fewer_processes(name: str) -> None:
    decoded, ready = (simulate(name, overrides=[f"data.decoded_by_host={each}"]) for each in ("true", "false"))
    assert ready.weight_update_s <= decoded.weight_update_s
    assert processes(name, "data.decoded_by_host=false") == processes(name)
