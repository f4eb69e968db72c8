"""The weight update: optimizers pass by pass, merged and single reductions, on 1,472 tiles by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from podsim.models import Workload
from podsim.models.block import Block, Parameter
from podsim.models.op import DType
from podsim.placement import PlanInput
from podsim.placement.cuts import cuts_before, stages_of
from podsim.placement.job import training_job
from podsim.placement.layout import Optimizer
from podsim.placement.stage_cost import UpdateCost, update_costs
from podsim.program.compile import compile_program
from podsim.program.task import Exchange, Phase
from podsim.scenario import load_scenario
from podsim.tiles.account import Account
from podsim.tiles.model import CostModel
from tests.collectives import GATHER, REDUCE, collective_s
from tests.examples import plan_of, small_bert, small_cnn, small_pod

TILES, OVERHEAD, RATE = 1472, 275, 1.59
"""Of a GC200; cycles of a superstep; cycles per byte of a layout change."""
TENSOR = TILES * 48
"""48 elements per tile, 8 per worker: two vectors in half precision, four in single."""


def vector_cycles(fixed: int, cycles: int, vectors: int) -> int:
    """launch + 6 workers · (fixed + cycles · vectors)."""
    return 11 + 6 * (fixed + cycles * vectors)


# A tile has 128 bytes at least, 64 halves: 11 for a worker, in three vectors.
SCALED_ADD, SQUARE = vector_cycles(36, 3, 3), vector_cycles(17, 2, 3)
SQRT, DIVIDE = vector_cycles(17, 23, 3), vector_cycles(29, 21, 3)
SCALE = vector_cycles(26, 3, 3)


@pytest.fixture(scope="module")
def job() -> PlanInput:
    return training_job(load_scenario(small_cnn(small_pod(), replicas=4)).spec)


def update(
    job: PlanInput, sizes: Sequence[int], kind: str = "sgd", dtype: DType = "fp16", merged: int = 0
) -> UpdateCost:
    """The update of tensors of some sizes on one IPU, which are reduced together up to so many bytes."""
    parameters = tuple(Parameter(f"w{number}", (size,)) for number, size in enumerate(sizes))
    block = Block("only", (), (), parameters, 0, 0, 0)
    workload = Workload("one block", {"only": block}, ("only",), 1, 0)
    trained = replace(job.laid_out(reduction_merge_bytes=merged), optimizer=Optimizer(kind, dtype, 2, 1))
    stages = stages_of(workload, cuts_before(("only",), (), ()))
    (cost,) = update_costs(stages, workload, CostModel(job.system.machine.ipu, RATE), trained)
    return cost


# Optimizers


def test_sgd_decays_weights_adds_momentum_and_steps(job: PlanInput) -> None:
    cost = update(job, [TENSOR]).optimizer
    assert cost == Account(vector=3 * SCALED_ADD, superstep=3 * OVERHEAD)


def test_lars_is_sgd_and_two_norms(job: PlanInput) -> None:
    """Of weights and gradient: a square, then a sum of 12 vectors and 660 cycles in two supersteps."""
    cost = update(job, [TENSOR], "lars").optimizer
    assert cost.vector == 3 * SCALED_ADD + 2 * SQUARE
    assert cost.reduction == 2 * (48 / 4 + 660)
    assert cost.superstep == (3 + 2 * (1 + 2)) * OVERHEAD


def test_rmsprop_keeps_a_mean_of_squares_and_divides_by_its_root(job: PlanInput) -> None:
    cost = update(job, [TENSOR], "rmsprop").optimizer
    mean = SQUARE + SCALE + SCALED_ADD
    assert cost == Account(vector=mean + SQRT + DIVIDE + 3 * SCALED_ADD, superstep=8 * OVERHEAD)


def test_single_precision_has_half_the_vector(job: PlanInput) -> None:
    cost = update(job, [TENSOR], dtype="fp32").optimizer
    assert cost.vector == 3 * vector_cycles(36, 3, 4)


def test_every_tensor_is_updated_for_itself(job: PlanInput) -> None:
    """A small one of 10 elements costs a vector on each worker and its supersteps all the same."""
    one, both = (update(job, sizes).optimizer for sizes in ([TENSOR], [TENSOR, 10]))
    assert both.vector - one.vector == 3 * vector_cycles(36, 3, 1)
    assert both.superstep == 2 * one.superstep


@pytest.mark.parametrize(("kind", "tensors"), [("sgd", 1), ("lars", 1), ("rmsprop", 2)])
@pytest.mark.parametrize(("state", "size_bytes"), [("fp16", 2), ("fp32", 4)])
def test_state_of_an_optimizer(kind: str, tensors: int, state: str, size_bytes: int) -> None:
    """Momentum, and for RMSProp the mean of squares; the small network has 3,737 weights."""
    plan = plan_of(small_cnn(small_pod()) | {"optimizer": {"kind": kind, "state": state}})
    weights = 9 * (3 * 8 + 8 * 16 + 16 * 16) + 2 * 2 * 16 + 1
    assert plan.updates[0].parameter_count == weights
    (tenant,) = (tenant for tenant in plan.memory[0].tenants if tenant.name == "optimizer_state")
    assert tenant.byte_count == weights * tensors * size_bytes
    assert tenant.storage == "in_processor_memory"


# Reductions


@pytest.mark.parametrize(
    ("merged", "collectives", "small", "sizes"),
    [
        (0, 2, 1, {TENSOR: 2, 10: 1}),  # each large tensor alone, the one below 8,192 elements whole
        (50 * 2**20, 1, 0, {2 * TENSOR + 10: 1}),
        (2 * 2 * TENSOR + 20, 1, 0, {2 * TENSOR + 10: 1}),  # all 282,644 bytes
        (2 * 2 * TENSOR + 19, 2, 0, {2 * TENSOR + 9: 1, 1: 1}),
        (100_000, 3, 0, {50_000: 2, 2 * TENSOR + 10 - 100_000: 1}),
    ],
)
def test_gradients_are_reduced_together_up_to_a_size(
    job: PlanInput, merged: int, collectives: int, small: int, sizes: dict[int, int]
) -> None:
    cost = update(job, [TENSOR, TENSOR, 10], merged=merged)
    assert (cost.collective_count, cost.small_tensor_count) == (collectives, small)
    assert dict(cost.collective_sizes) == sizes


def test_merging_moves_every_gradient_into_the_buffer(job: PlanInput) -> None:
    """Twice 288 cycles and 1.59 per byte, and 1/4, on a tile for each, small ones as well; the large have 96 bytes."""
    merged, single = (update(job, [TENSOR, 10], merged=size) for size in (2**20, 0))
    large, small = (2 * 288 + (2 * RATE + 0.25) * byte_count for byte_count in (96, 8))
    assert single.gather.rearrange == pytest.approx(large)
    assert merged.gather.rearrange == pytest.approx(large + small)
    assert merged.gather.superstep == 2 * 2 * OVERHEAD


def test_weights_move_back_and_accumulators_are_cleared(job: PlanInput) -> None:
    """48 elements per tile and 10 more on some: 9 per worker, three vectors."""
    cost = update(job, [TENSOR, 10], merged=2**20)
    assert cost.scatter.rearrange == cost.gather.rearrange
    assert cost.scatter.vector == vector_cycles(4, 1, 3)


def ring_latency_ps(scenario: dict[str, object], name: str) -> set[int]:
    phases: list[Phase] = [p for p in compile_program(plan_of(scenario)).groups[0].phases if name in p.name]
    steps = [step for phase in phases for each in phase.steps.values() for step in each]
    return {transfer.latency_ps for step in steps if isinstance(step, Exchange) for transfer in step.transfers}


@pytest.mark.parametrize(("size", "buffers"), [("50 MiB", 1), ("7474 B", 1), ("7473 B", 2), ("1000 B", 8)])
def test_each_buffer_pays_the_latency_of_each_step(size: str, buffers: int) -> None:
    """7,474 bytes of gradients. Four single IPUs meet in the middle: a sync of 600 cycles and one hop of 0.57 us."""
    scenario = small_cnn(small_pod(), replicas=4)
    scenario["parallelism"] |= {"reduction_merge_size": size}
    for name in ("reduce-scatter gradients", "all-gather gradients"):
        passes = [REDUCE if name.startswith("reduce") else GATHER]
        step_s = collective_s(7474, 4, 600 / 1.33e9 + 0.57e-6, float("inf"), passes=passes, tensors=buffers) / 2
        assert list(ring_latency_ps(scenario, name)) == [pytest.approx(step_s * 1e12, abs=2)]


def test_a_merged_ring_carries_the_same_bytes() -> None:
    """3,737 half-precision gradients, two quarters a step over the slowest link, however they are merged."""

    def longest_ps(size: str) -> int:
        scenario = small_cnn(small_pod(), replicas=4)
        scenario["parallelism"] |= {"reduction_merge_size": size}
        program = compile_program(plan_of(scenario), explicit=True)
        phases = [p for group in program.groups for p in group.phases if "reduce-scatter" in p.name]
        steps = [step for phase in phases for each in phase.steps.values() for step in each]
        sent = [transfer for step in steps if isinstance(step, Exchange) for transfer in step.transfers]
        return max(time for transfer in sent for _, time in transfer.channels)

    # A rail has two links of 16 GB/s, one for each way, 85 % of each left for data.
    by_hand_ps = 3737 * 2 / 4 / (16e9 * 0.85) * 1e12
    assert longest_ps("50 MiB") == longest_ps("1000 B") == pytest.approx(by_hand_ps, abs=1)


def test_merged_collectives_pay_the_latencies_of_one() -> None:
    """A layer has 3 large tensors and 9 small ones; LAMB exchanges the norms of weights and of updates."""
    alone, merged = (
        plan_of({**small_bert(small_pod(2), [1, 1], replicas=4), "software": {"base": "popart_sdk_2.3", **change}})
        for change in ({}, {"collectives_merged": True})
    )
    counts = [
        (cost.collective_count, cost.small_tensor_count, cost.norm_count)
        for cost in (alone.updates[1], merged.updates[1])
    ]
    assert counts == [(3, 9, 6), (1, 1, 2)]
    assert alone.updates[1].parameter_count == merged.updates[1].parameter_count
