"""EfficientNetV2 against its published sizes, and its training under PopTorch by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import podsim
from podsim.errors import DoesNotFitError, SpecError
from podsim.models.block import Block
from podsim.models.convnet import EfficientNetV2Shape, efficientnet_v2
from podsim.models.layers import Formats
from podsim.models.op import Conv, Elementwise, MatMul, Op
from podsim.placement import make_plan
from podsim.placement.job import training_job
from podsim.placement.plan import Plan
from podsim.placement.stage_cost import _passes
from podsim.program.compile import replicas_of
from podsim.program.feed import Feed
from podsim.scenario import load_scenario

TWO, FOUR, EIGHT = (f"efficientnet_v2_s_{count}_stages_bow_pod16" for count in (2, 4, 8))
CONDUCTIVITY = EfficientNetV2Shape("s", 256, 1, (320,), "l1", normalises=False)
SINGLE = Formats("fp32", "fp32")


def flop(ops: tuple[Op, ...]) -> int:
    return sum(op.flop for op in ops if isinstance(op, (Conv, MatMul)))


def named(shape: EfficientNetV2Shape, batch: int = 1) -> dict[str, Block]:
    return {block.name: block for block in efficientnet_v2(shape, batch, SINGLE)}


def functions(block: Block) -> Counter[str]:
    """Elementwise functions of a forward pass."""
    return Counter(op.function for op in block.forward if isinstance(op, Elementwise))


def plan_of(name: str, *overrides: str) -> Plan:
    return make_plan(training_job(load_scenario(name, overrides=overrides).spec))


def host_ms(name: str, *overrides: str) -> float:
    """Time in which IPUs wait for the process that calls, per weight update. [ms]"""
    phases = podsim.run(name, overrides=overrides).phases
    return sum(phase.seconds * phase.count for phase in phases if phase.name.startswith("host")) * 1e3


# The network


@pytest.mark.parametrize(
    ("size", "pixels", "parameters", "billions"),
    [("s", 384, 21_458_488, 8.366), ("m", 480, 54_139_356, 24.582), ("l", 480, 118_515_272, 56.08)],
)
def test_parameters_and_multiply_adds_of_torchvision(size: str, pixels: int, parameters: int, billions: float) -> None:
    """As torchvision prints them for the image sizes of its weights."""
    blocks = efficientnet_v2(EfficientNetV2Shape(size, pixels), 1)
    assert sum(block.parameter_count for block in blocks) == parameters
    assert sum(flop(block.forward) for block in blocks) / 2e9 == pytest.approx(billions, abs=6e-4)


@pytest.mark.parametrize(("size", "millions"), [("b0", 7.1), ("b1", 8.1), ("b2", 10.1), ("b3", 14.4)])
def test_parameters_of_the_small_sizes(size: str, millions: float) -> None:
    """As published in table 11 of the paper [tan2021]."""
    blocks = efficientnet_v2(EfficientNetV2Shape(size), 1)
    assert sum(block.parameter_count for block in blocks) / 1e6 == pytest.approx(millions, abs=0.06)


def test_the_head_of_the_conductivity_network_by_hand() -> None:
    """1,280 to 320 to 1, each with a bias, in place of 1,280 to 1,000."""
    blocks = named(CONDUCTIVITY)
    whole = 21_458_488 - (1280 * 1000 + 1000) + (1280 * 320 + 320) + (320 + 1)
    assert sum(block.parameter_count for block in blocks.values()) == whole == 20_587_729
    assert functions(blocks["head"])["exp"] == 0  # no softmax
    assert functions(blocks["head"])["abs"] == 1
    assert functions(named(EfficientNetV2Shape("s", 256))["head"])["exp"] == 1


def test_a_fused_block_by_hand() -> None:
    """The first of stage 2 for 256 pixels: 128 x 128 x 24 in, 3 x 3 to 96 at a stride of 2, then to 48."""
    block = named(CONDUCTIVITY, 2)["block2a"]
    assert flop(block.forward) == 2 * 2 * 64 * 64 * (9 * 24 * 96 + 96 * 48)
    assert block.parameter_count == 9 * 24 * 96 + 96 * 48 + 2 * (96 + 48)
    assert block.output_elements == 2 * 64 * 64 * 48
    assert functions(block) == {"bias_add": 8, "rsqrt": 2, "swish": 1}


def test_a_depthwise_block_by_hand() -> None:
    """The second of stage 5: 16 x 16 x 160 through 960 channels, a gate of 40 between, a way around it."""
    block = named(CONDUCTIVITY, 2)["block5b"]
    wide, gate = 6 * 160, 160 // 4
    assert flop(block.forward) == 2 * 2 * (16 * 16 * (2 * 160 * wide + 9 * wide) + 2 * wide * gate)
    gates = wide * gate + gate + gate * wide + wide
    assert block.parameter_count == 2 * 160 * wide + 9 * wide + gates + 2 * (wide + wide + 160)
    spatial = next(op for op in block.forward if isinstance(op, Conv) and op.group_count > 1)
    assert (spatial.group_count, spatial.kernel, spatial.dtype) == (960, (3, 3), "fp32")
    assert functions(block)["sigmoid"] == 1


def test_blocks_with_a_way_around_are_dropped_at_random() -> None:
    """All but the first: 1, 3, 3, 5, 8 and 14 of stages whose other blocks change stride or channels."""
    blocks = named(CONDUCTIVITY)
    dropped = Counter(name[5] for name, block in blocks.items() if functions(block)["dropout"])
    assert dropped == {"1": 1, "2": 3, "3": 3, "4": 5, "5": 8, "6": 14}
    never = named(EfficientNetV2Shape("s", 256, stochastic_depth=0.0))
    assert not any(functions(block)["dropout"] for block in never.values())


def test_blocks_are_the_published_stages() -> None:
    """Stem, 2 + 4 + 4 + 6 + 9 + 15 blocks, head."""
    names = list(named(CONDUCTIVITY))
    assert (names[0], names[1], names[-2], names[-1], len(names)) == ("stem", "block1a", "block6o", "head", 42)


def test_only_images_of_8_bits_are_cast_and_normalised() -> None:
    assert functions(named(CONDUCTIVITY)["stem"])["cast"] == 0
    assert functions(named(EfficientNetV2Shape("s"))["stem"])["cast"] == 1
    assert plan_of(TWO).workload.host_input_bytes == 2 * 3 * 256 * 256 * 4
    whole = plan_of(TWO, "data.pixel_format=uint8").workload
    assert whole.host_input_bytes == 2 * 3 * 256 * 256
    assert functions(whole.blocks["stem"])["cast"] == 1


# The optimizer


def test_adamw_in_the_format_of_the_weights_casts_nothing() -> None:
    """Two moments of 4 bytes; of the 13 passes between half and single precision 3 are casts."""
    single = training_job(load_scenario(TWO).spec).optimizer
    assert single is not None
    assert (single.kind, single.dtype, single.state_bytes_per_parameter, single.casts) == ("adamw", "fp32", 8, False)
    half = training_job(load_scenario("bert_base_squad_pod16").spec).optimizer
    assert half is not None and half.casts
    passes = Counter(op.function for op in _passes(1000, None, single) if isinstance(op, Elementwise))
    assert passes == {"scale": 2, "scaled_add": 4, "square": 1, "sqrt": 1, "add": 1, "divide": 1}


# PopTorch


def test_poptorch_recomputes_pipelines_unless_told_otherwise() -> None:
    small = "parallelism.micro_batch_size=1"
    assert plan_of(TWO, small).layout.recompute
    assert not plan_of(TWO, small, "parallelism.recomputation=none").layout.recompute
    assert not plan_of(TWO, small, "software.recomputes_pipelines=false").layout.recompute
    one_ipu = training_job(load_scenario(TWO, overrides=["parallelism.pipeline_splits=[]"]).spec)
    assert not one_ipu.layout.recompute


def test_two_stages_have_no_room_to_keep_all_activations() -> None:
    """So PopTorch has to recompute: 3 micro-batches in flight of 303 MiB each."""
    with pytest.raises(DoesNotFitError, match="stash 909") as caught:
        plan_of(TWO, "parallelism.recomputation=none")
    assert "parallelism.recomputation: segment" in str(caught.value)


@pytest.mark.parametrize(("name", "stages", "replicas"), [(TWO, 2, 8), (FOUR, 4, 4), (EIGHT, 8, 2)])
def test_what_poptorch_refuses(name: str, stages: int, replicas: int) -> None:
    """Fewer than 2·S - 1 micro-batches, and more than 16 IPUs; the least and the most run."""
    least = 2 * stages - 1
    few = f"parallelism.accumulation_factor={least - 1}"
    with pytest.raises(
        SpecError, match=rf"{least - 1} micro-batches are too few for {stages} pipeline stages"
    ) as caught:
        load_scenario(name, overrides=[few])
    assert f"use 2·{stages} - 1 = {least} or more" in str(caught.value)
    more = f"parallelism.replication_factor={2 * replicas}"
    with pytest.raises(SpecError, match=f"{2 * replicas} replicas of {stages} IPUs need 32 IPUs; Bow Pod16 has 16"):
        load_scenario(name, overrides=[more])
    both = [f"parallelism.accumulation_factor={least}", f"parallelism.replication_factor={replicas}"]
    assert load_scenario(name, overrides=both).spec.parallelism.ipus_per_replica == stages


def test_both_refusals_are_told_at_once() -> None:
    overrides = ["parallelism.accumulation_factor=10", "parallelism.replication_factor=4"]
    with pytest.raises(SpecError) as caught:
        load_scenario(EIGHT, overrides=overrides)
    assert "too few for 8 pipeline stages" in str(caught.value)
    assert "need 32 IPUs" in str(caught.value)


# The loader


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 10), (1, 40), (4, 10)])
def test_one_process_loads_the_images_of_all_replicas_before_a_call(replicas: int, accumulation: int) -> None:
    """1.44 ms for each of 2 · GA images of a replica, and a tenth of a call of 0.15 ms."""
    given = f"parallelism.replication_factor={replicas}", f"parallelism.accumulation_factor={accumulation}"
    expected = 1.44 * 2 * accumulation * replicas + 0.15 / 10
    assert host_ms(TWO, *given) == pytest.approx(expected, rel=1e-3)


def test_several_processes_load_side_by_side() -> None:
    one = host_ms(TWO, "parallelism.accumulation_factor=10")
    two = host_ms(TWO, "parallelism.accumulation_factor=10", "parallelism.replicas_per_process=4")
    assert one / two == pytest.approx(2, rel=1e-3)


def test_loading_itself_covers_handing_over() -> None:
    """A process that workers serve hands over 1.28 GB/s to 8 replicas: 9.8 ms for micro-batches of 1.57 MB."""
    for loader, process_ms in (("synchronous", 0.0), ("ahead", 8 * 2 * 3 * 256 * 256 * 4 / 1.28e9 * 1e3)):
        plan = plan_of(TWO, f"data.loader={loader}")
        channels = dict(Feed(plan, replicas_of(plan)).transfer(0).channels)
        assert channels.get("replica0/process", 0) / 1e9 == pytest.approx(process_ms, rel=1e-6)


@pytest.mark.parametrize(
    ("overrides", "message", "do"),
    [
        (
            ["data.decoded_by_host=true"],
            "a synchronous loader decodes the images itself",
            "write `decoded_by_host: false`",
        ),
        (
            ["software.sample_load_time=null"],
            "PyTorch, SDK 3.1 has no time for a sample",
            "give `software.sample_load_time`",
        ),
        (["model.stochastic_depth=1.5"], "stochastic_depth", ""),
        (["model.size=xl"], "`xl` is not one of", ""),
        (["parallelism.checkpoints=[block2b]"], "checkpoints serve recomputation", "add `recomputation: segment`"),
    ],
)
def test_slips_are_refused_with_a_cure(overrides: list[str], message: str, do: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(TWO, overrides=overrides)
    assert message in str(caught.value) and do in str(caught.value)


# Time and memory


def cycle_ms(result: Any) -> float:
    """Time of one cycle of the full pipeline. [ms]"""
    (main,) = [phase for phase in result.phases if phase.name.startswith("main")]
    return float(main.seconds) * 1e3


def test_the_device_does_not_wait_for_more_replicas() -> None:
    """Cycles of the pipeline are the same; more replicas add to loading and to the update alone."""
    one, eight = (podsim.run(TWO, overrides=[f"parallelism.replication_factor={count}"]) for count in (1, 8))
    assert cycle_ms(eight) == pytest.approx(cycle_ms(one), rel=1e-3)


@pytest.mark.parametrize(("accumulation", "call_ms"), [(10, 729.99), (40, 2804.52)])
def test_the_given_calls_are_met(accumulation: int, call_ms: float) -> None:
    """EMCNN-001 and -003: ten weight updates of one replica, and what loading leaves of them to the device."""
    update_s = podsim.run(TWO, variant=f"one_replica_{accumulation}").weight_update_s
    loaded_ms = 10 * 2 * accumulation * 1.44
    assert 1e4 * update_s - loaded_ms == pytest.approx(call_ms - loaded_ms, rel=0.07)


def test_more_stages_need_no_more_memory_of_an_ipu() -> None:
    """The splits of 4 stages are those of 2 and more, and so on."""
    fullest = [max(ipu.used_bytes() for ipu in plan_of(name).memory) for name in (TWO, FOUR, EIGHT)]
    assert fullest == sorted(fullest, reverse=True)
    assert all(ipu.fits for name in (TWO, FOUR, EIGHT) for ipu in plan_of(name).memory)
