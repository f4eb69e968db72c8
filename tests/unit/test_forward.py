"""Forward passes: cuts and times by hand, the steady state, what sets the pace, what does not fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import DoesNotFitError, MissingDataError, NoPlanError, PodsimError, SpecError
from podsim.models import Block, Parameter, Workload
from podsim.models.layers import GraphBuilder
from podsim.placement import Plan, PlanInput, make_plan
from podsim.placement.layout import Layout, Precision, longer_pipelines, smaller_temporaries
from podsim.placement.plan import UncutPart, even_cuts
from podsim.program.forward import compile_calls, compile_one_batch
from podsim.result.perfetto import write_trace
from podsim.scenario import ForwardScenario, load_hardware, load_scenario
from podsim.tiles.model import CostModel
from tests.unit.onnx_examples import products

CALL_S, ANSWER_S = 0.124e-3, 0.054e-3
"""A session call, and what the exchange with the host takes per batch, of the shipped software stack."""
LINK, READ, WRITE = 0.9 * 12.5e9, 6.64e9, 7.5e9
"""Host link of a machine, gateway to IPU, IPU to gateway. [B/s]"""
LATENCY_S = 7.8e-6 + 1.5e-6
"""Of the host link, and of the gateway's memory."""


def dense_block(name: str, rows: int, inner: int, columns: int) -> Block:
    g = GraphBuilder(name)
    g.matmul("product", (1, rows, columns), inner, ("@input", "@weight"), weights=True)
    weight = Parameter("weight", (inner, columns))
    return Block(name, g.ops(), (), (weight,), rows * columns, 0, rows * columns)


def chain(count: int, rows: int = 64, width: int = 1024) -> Workload:
    blocks = [dense_block(f"block{number}", rows, width, width) for number in range(count)]
    return Workload(
        name="chain",
        blocks={block.name: block for block in blocks},
        order=tuple(block.name for block in blocks),
        samples_per_micro_batch=rows,
        host_input_bytes=2 * rows * width,
    )


def job(workload: Workload, stages: int = 1, replicas: int = 1, batches: int = 8, pod: str = "ipu_pod16") -> PlanInput:
    system = load_hardware(pod, "pod")[0]  # type: ignore[arg-type]
    software = load_hardware("popart_sdk_2.3", "software")[0]  # type: ignore[arg-type]
    layout = Layout(
        ipus_per_replica=stages,
        replication_factor=replicas,
        replicas_per_domain=system.domain_ipu_count // stages,
        accumulation_factor=batches,
        prefetch_depth=3,
        available_memory_proportion=(0.4,) * stages,
    )
    changes = (*smaller_temporaries(layout), *longer_pipelines(layout, system, len(workload.order)))
    return PlanInput(system, software, lambda _: workload, layout, Precision(16), changes=changes)


def seconds(plan: Plan, stage: int) -> float:
    return plan.stages[stage].forward.cycles / plan.system.machine.ipu.clock_hz


# Cuts


def pieces(*cycles: float, kept: int = 0, running: int = 0) -> list[UncutPart]:
    return [UncutPart(cycle, kept, running) for cycle in cycles]


@pytest.mark.parametrize(
    ("cycles", "stages", "cuts"),
    [
        ((1, 1, 1, 1), 1, ()),
        ((1, 1, 1, 1), 2, (2,)),
        ((4, 1, 1, 1, 1), 2, (1,)),  # 4 | 4
        ((1, 5, 1, 5), 2, (2,)),  # 6 | 6
        ((9, 1, 1), 3, (1, 2)),  # as many stages as pieces
    ],
)
def test_stages_take_even_time(cycles: tuple[float, ...], stages: int, cuts: tuple[int, ...]) -> None:
    assert even_cuts(pieces(*cycles), stages, 100) == cuts


def test_memory_goes_before_even_time() -> None:
    """Even time is 3 pieces and 1; with room for two pieces, and 1 that each of them uses, it is 2 and 2."""
    heavy_end = pieces(1, 1, 1, 9, kept=10, running=1)
    assert even_cuts(heavy_end, 2, 100) == (3,)
    assert even_cuts(heavy_end, 2, 21) == (2,)


def test_memory_is_evened_out_where_nothing_fits() -> None:
    assert even_cuts(pieces(1, 1, 1, 9, kept=10), 2, 5) == (2,)


# Times


def test_one_product_by_hand(tmp_path: Path) -> None:
    """A graph of one product: the call, 64 x 256 halves in, the product, 64 x 512 halves out."""
    products(64, 256, 512).save(tmp_path / "one.onnx")
    result = podsim.infer(scenario(tmp_path / "one.onnx"))
    g = GraphBuilder("one")
    g.matmul("product", (1, 64, 512), 256, ("@a", "@b"), weights=True)
    chip = load_hardware("ipu_pod16", "pod")[0].machine.ipu  # type: ignore[arg-type]
    account = CostModel(chip, 1.59).op(g.ops()[0], 0.4).account
    into, out = ANSWER_S + LATENCY_S + 64 * 256 * 2 / READ, LATENCY_S + 64 * 512 * 2 / WRITE
    assert result.latency_s == pytest.approx(CALL_S + into + account.cycles / chip.clock_hz + out, rel=1e-6)
    assert result.batch.breakdown["matmul"] == pytest.approx(account.matmul / chip.clock_hz, rel=1e-5)
    assert result.batch.breakdown["exchange"] == pytest.approx(account.exchange / chip.clock_hz, rel=1e-5)
    assert result.flop_per_batch == 2 * 64 * 256 * 512
    assert result.parameter_count == 256 * 512
    assert sum(result.batch.breakdown.values()) == result.latency_s
    assert {row.tenant: row.size_bytes for row in result.memory.rows}["weights"] == 2 * 256 * 512


def test_a_call_of_one_ipu_by_hand() -> None:
    """Each batch is read from the gateway's buffer, computed and sent back, one after the other."""
    plan = make_plan(job(chain(2), batches=8))
    into, out = ANSWER_S + 1.5e-6 + 64 * 1024 * 2 / READ, 1.5e-6 + 64 * 1024 * 2 / WRITE
    call = execute(compile_calls(plan)).makespan_ps / 1e12
    assert call == pytest.approx(CALL_S + 8 * (into + seconds(plan, 0) + out), rel=1e-6)


def test_two_stages_overlap() -> None:
    """Fill, seven main cycles and flush; a cycle is as long as its longer stage."""
    plan = make_plan(job(chain(4), stages=2, batches=8))
    ipu = plan.system.machine.ipu
    first, last = (seconds(plan, stage) for stage in (0, 1))
    into, out = ANSWER_S + 1.5e-6 + 64 * 1024 * 2 / READ, 1.5e-6 + 64 * 1024 * 2 / WRITE
    rung = 0.57e-6 + 64 * 1024 * 2 / (6 * 16e9 * 0.85)
    sync = ipu.multi_ipu_sync_cycles / ipu.clock_hz
    fill, flush = into + first + sync + rung, last + sync + out
    main = max(into + first, last) + sync + max(rung, out)
    call = execute(compile_calls(plan)).makespan_ps / 1e12
    assert call == pytest.approx(CALL_S + fill + 7 * main + flush, rel=1e-6)


def test_io_tiles_exchange_data_while_the_others_compute() -> None:
    """A batch takes two copies over 64 I/O tiles and its work on the 1,408 others; nobody waits for the host."""
    plan = make_plan(job(chain(8), batches=8).laid_out(io_tiles=64))
    ipu = plan.system.machine.ipu
    copy_s = (64 * 1024 * 2 / 64 / 4 + 275) / ipu.clock_hz
    call = execute(compile_calls(plan)).makespan_ps / 1e12
    assert call == pytest.approx(CALL_S + 8 * (2 * copy_s + seconds(plan, 0)), rel=1e-6)
    whole = make_plan(job(chain(8), batches=8))
    assert call < execute(compile_calls(whole)).makespan_ps / 1e12
    assert plan.memory[0].capacity_bytes == 1408 * 624 * 1024


def test_io_tiles_that_leave_none_to_compute() -> None:
    with pytest.raises(SpecError, match="1472 I/O tiles leave none of 1472 tiles to compute"):
        load_scenario("vit_base_pod4", overrides=["memory.io_tiles=1472"])


def test_more_batches_in_a_call_hide_the_call() -> None:
    rates = []
    for batches in (1, 2, 3, 16, 256):
        call = execute(compile_calls(make_plan(job(chain(8), stages=4, batches=batches)))).makespan_ps
        rates.append(batches / call)
    assert rates == sorted(rates)


@pytest.mark.parametrize("batches", [1, 2, 3, 5])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_written_out_and_folded_calls_agree(stages: int, batches: int) -> None:
    """Replicas and repeated cycles are left out of the short program; the answer is the same."""
    plan = make_plan(job(chain(8), stages=stages, replicas=16 // stages, batches=batches))
    folded, full = (execute(compile_calls(plan, explicit=each), explicit=each) for each in (False, True))
    assert folded.makespan_ps == full.makespan_ps
    assert full.lanes["ipu0"] == folded.lanes["ipu0"]


def test_one_batch_alone_is_the_sum_of_its_stages() -> None:
    plan = make_plan(job(chain(4), stages=4))
    batch = execute(compile_one_batch(plan))
    busy = sum(seconds(plan, stage) for stage in range(4))
    mean = sum(lane.get("matmul", 0) for lane in batch.lanes.values()) / 1e12
    products_s = sum(cost.forward.matmul for cost in plan.stages) / plan.system.machine.ipu.clock_hz
    assert mean == pytest.approx(products_s, rel=1e-5)
    assert batch.makespan_ps / 1e12 > CALL_S + busy + 2 * LATENCY_S


def test_host_links_set_the_pace() -> None:
    """Four replicas of a machine share 11.25 GB/s; 2 MB for each batch is more than the IPUs take in."""
    large = replace(chain(1), host_input_bytes=2_000_000)
    plan = make_plan(job(large, replicas=16, batches=64))
    call = execute(compile_calls(plan)).makespan_ps / 1e12
    assert call == pytest.approx(64 * 4 * 2e6 / LINK, rel=0.02)


# What does not fit


def test_weights_that_are_too_large_name_the_cures() -> None:
    """Sixteen products of 8192 x 8192 halves are 2.1 GB; four IPUs hold them."""
    with pytest.raises(DoesNotFitError, match=r"parallelism.pipeline_stages: 4") as failure:
        make_plan(job(chain(16, rows=16, width=8192), replicas=16))
    assert "with replication_factor: 4" in str(failure.value)
    plan = make_plan(job(chain(16, rows=16, width=8192), stages=4))
    assert all(ipu.fits for ipu in plan.memory)
    assert sum(ipu.tenants[0].byte_count for ipu in plan.memory) == 16 * 8192 * 8192 * 2


def test_activations_are_the_input_and_what_is_alive_beside_it() -> None:
    """The first block reads what the host sends, the second the 8 x 128 halves of the first; each has its own
    outputs alive beside that: 8 x 128 halves, and 8 x 32."""
    blocks = {"wide": dense_block("wide", 8, 64, 128), "narrow": dense_block("narrow", 8, 128, 32)}
    workload = Workload("two", blocks, tuple(blocks), 8, host_input_bytes=3000)
    plan = make_plan(job(workload, stages=2))
    activations = [tenant.byte_count for ipu in plan.memory for tenant in ipu.tenants if tenant.name == "activations"]
    assert activations == [3000 + 2 * 8 * 128, 2 * 8 * 128 + 2 * 8 * 32]


def test_a_tied_tensor_is_stored_once_where_it_can_be() -> None:
    first, second = dense_block("block0", 8, 64, 64), dense_block("block1", 8, 64, 64)
    tied = replace(second, parameters=(Parameter("weight", (64, 64), tied_to="block0/weight"),))
    workload = Workload("tied", {"block0": first, "block1": tied}, ("block0", "block1"), 8, 1024)
    together, apart = (make_plan(job(workload, stages=stages)) for stages in (1, 2))
    assert [ipu.tenants[0].byte_count for ipu in together.memory] == [2 * 64 * 64]
    assert [ipu.tenants[0].byte_count for ipu in apart.memory] == [2 * 64 * 64] * 2


def test_a_block_that_repeats_is_cut_like_any_other() -> None:
    block = dense_block("layer", 8, 64, 64)
    plan = make_plan(job(Workload("layers", {"layer": block}, ("layer",) * 6, 8, 1024), stages=2))
    assert [cost.stage.blocks for cost in plan.stages] == [(("layer", 3),), (("layer", 3),)]


def test_more_stages_than_blocks() -> None:
    with pytest.raises(NoPlanError, match="4 pipeline stages for a model that can be cut into 3 parts") as failure:
        make_plan(job(chain(3), stages=4))
    assert failure.value.do == "use at most 3 pipeline stages"


def test_a_stack_that_does_not_know_the_call() -> None:
    plan = make_plan(job(chain(1)))
    silent = replace(plan, software=plan.software.model_copy(update={"forward_call_s": None}))
    with pytest.raises(MissingDataError, match="does not say what a session call for forward passes costs") as caught:
        compile_one_batch(silent)
    assert caught.value.do == "set `software.forward_call`, for example to `1 ms`"


def test_the_advice_for_a_stack_that_does_not_know_the_call_helps() -> None:
    """A batch takes as much longer as the call that is given for it."""
    asked = ["software={base: popart_sdk_2.3, forward_call: null}"]
    with pytest.raises(MissingDataError):
        podsim.infer("e5_large_pod4", overrides=asked)
    fast, slow = (
        podsim.infer("e5_large_pod4", overrides=[*asked, f"software.forward_call={call} ms"]) for call in (1, 3)
    )
    assert slow.latency_s - fast.latency_s == pytest.approx(2e-3)


# Scenarios


def scenario(file: Path | str, **more: Any) -> dict[str, Any]:
    model = {"kind": "graph", "file": str(file)}
    return {"system": "ipu_pod16", "software": "popart_sdk_2.3", "model": model} | more


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"parallelism": {"pipeline_stages": 3, "replication_factor": 6}}, "6 replicas of 3 IPUs need 18 IPUs"),
        ({"parallelism": {"pipeline_stages": 32}}, "has no room for a replica of 32 IPUs"),
        ({"parallelism": {"replication_factor": 17}}, "17 replicas of 1 IPUs need 17 IPUs"),
        ({"memory": {"available_memory_proportion": [0.2]}}, "is a list; all IPUs are alike here"),
        ({"precision": {"weights": "fp32"}}, "weights in fp32 with activations in fp16 are not modelled"),
        ({"data": {"batches_per_call": 0}}, "too small"),
    ],
)
def test_what_a_scenario_may_not_say(part: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_scenario(scenario("model.onnx", **part))


def test_the_file_lies_beside_the_scenario(tmp_path: Path) -> None:
    products("rows", 64, 64).save(tmp_path / "model.onnx")
    text = json.dumps(scenario("model.onnx"))
    (tmp_path / "mine.yaml").write_text(text)
    result = podsim.infer(tmp_path / "mine.yaml", overrides=["model.dimensions.rows=8"])
    assert result.samples_per_batch == 8
    assert [Path(path).name for path, _ in result.inputs][-1] == "model.onnx"
    other = podsim.infer(tmp_path / "mine.yaml", overrides=["model.dimensions.rows=8", "data.samples_per_batch=2"])
    assert other.throughput_samples_per_s == pytest.approx(result.throughput_samples_per_s / 4)


def test_a_result_explains_itself(tmp_path: Path) -> None:
    products(64, 256, 256, 256).save(tmp_path / "model.onnx")
    layout = {"pipeline_stages": 2, "replication_factor": 8}
    result = podsim.infer(scenario(tmp_path / "model.onnx", parallelism=layout), record=True)
    plain = json.loads(result.to_json())
    assert sum(plain["steps"][1]["breakdown"].values()) == result.call.time_s
    assert result.batches_per_s == pytest.approx(64 * 8 / result.call.time_s)
    assert plain["throughput_samples_per_s"] == pytest.approx(64 * result.batches_per_s)
    # 16 IPUs of 250 TFLOP/s
    assert result.utilization == pytest.approx(2 * 64 * 256 * 512 * result.batches_per_s / 4e15, rel=0.01)
    keys = {each["key"] for each in plain["assumptions"]}
    assert {"software.forward_call", "system.machine.host_link.latency"} <= keys
    assert {row.stage for row in result.operations} == {"stage 0", "stage 1"}
    assert write_trace(result, tmp_path / "trace.json").slice_count > 0


def test_each_family_has_its_own_function() -> None:
    spec = load_scenario(scenario("model.onnx"))
    assert isinstance(spec.spec, ForwardScenario)
    for function in (podsim.simulate, podsim.generate):
        with pytest.raises(PodsimError, match="describe") as failure:
            function(spec)
        assert "podsim.infer" in str(failure.value.do)
    with pytest.raises(PodsimError, match="describes training, not forward passes"):
        podsim.infer("template")


# Convolutional networks


def resnet(**keys: Any) -> dict[str, Any]:
    return {
        "system": "ipu_pod4",
        "software": "pytorch_sdk_3.1",
        "model": {"kind": "resnet", "depth": 18},
        "data": {"decoded_by_host": False},
        "forward": {"batch_size": 4},
    } | keys


def test_batch_norm_of_a_trained_network_is_a_bias() -> None:
    """ResNet-18 has 20 convolutions with a norm: a bias for each, and no statistics."""
    result = podsim.infer(resnet())
    functions = [row.name.rsplit("/", 1)[-1] for row in result.operations]
    assert functions.count("shift") == 20 + 1, "of the norms, and of the images"
    assert not {"mean", "power", "rsqrt", "centre", "whiten"} & set(functions)


def test_group_norm_of_a_trained_network_stays() -> None:
    """Its statistics are those of each image."""
    result = podsim.infer(resnet(model={"kind": "resnet", "depth": 18, "norm": {"kind": "group"}}))
    functions = [row.name.rsplit("/", 1)[-1] for row in result.operations]
    assert functions.count("mean") == functions.count("rsqrt") == 20


@pytest.mark.parametrize(("pixel_format", "size"), [("uint8", 1), ("fp16", 2), ("fp32", 4)])
def test_images_travel_in_their_format(pixel_format: str, size: int) -> None:
    """4 images of 3 x 224 x 224 values at 6.64 GB/s, the latency of streaming memory, and the host's answer."""
    result = podsim.infer(resnet(data={"decoded_by_host": False, "pixel_format": pixel_format}))
    sent_s = 4 * 3 * 224 * 224 * size / READ
    assert 64 * sent_s < result.call.breakdown["host"] < 64 * (sent_s + ANSWER_S + 5e-6) + CALL_S
