"""Whole plans against closed forms: pipeline bubbles, rings, gateways and streaming memory, by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

import podsim
from podsim.engine import Trace, execute
from podsim.placement import Plan
from podsim.program.compile import compile_program
from podsim.tiles.account import Account
from tests.collectives import collective_s
from tests.examples import Mapping, plan_of, small_bert, small_pod

CLOCK_HZ = 1.33e9
MS_PS = 10**9
FORWARD_PS, BACKWARD_PS = 1 * MS_PS, 2 * MS_PS
MS_CYCLES = CLOCK_HZ / 1000

RAIL = 2 * 16e9 * 0.85
"""Two links of 16 GB/s, 85 % of which is data. [B/s]"""
RUNG = 6 * 16e9 * 0.85
READ, WRITE = 6.64e9, 7.5e9
"""What an IPU reads from streaming memory and writes to it. [B/s]"""
LAYER = 4 * (64 * 64 + 64) + 2 * 2 * 64 + 2 * 64 * 256 + 256 + 64
"""Weights of a layer: 4 projections with bias, two norms, feed-forward with bias."""
LARGE_TENSORS = 3
"""Of a layer, at least 8192 elements: queries, keys and values (64·192), feed-forward in and out (64·256)."""


DOMAIN_STEP_S = 1e-6 + 3e-6 + 1e-6 + (2 * 600 + 4 * 275) / CLOCK_HZ
"""Latencies of a collective's step between link domains. [s]"""


def run(plan: Plan) -> Trace:
    return execute(compile_program(plan), explicit=False)


def time_of(trace: Trace, names: Iterable[str]) -> int:
    """Time of the first replica's phases whose names start with one of `names`. [ps]"""
    first = trace.phases[0].group
    return sum(
        phase.end_ps - phase.start_ps
        for phase in trace.phases
        if phase.group == first and phase.name.startswith(tuple(names))
    )


def balanced(stages: int, accumulation: int, **machine: object) -> Plan:
    """Stages of 1 ms forward and 2 ms backward, each on an IPU of its own; nothing comes from the host."""
    scenario = small_bert(small_pod(max(1, stages // 4), **machine), [stages], accumulation=accumulation)
    placed: list[Mapping] = [{"ipu": number, "layers": 1} for number in range(stages)]
    placed[0]["embedding"], placed[-1]["head"] = True, True
    parallelism = {key: value for key, value in scenario["parallelism"].items() if key != "layers_per_ipu"}  # type: ignore[attr-defined]
    plan = plan_of(scenario | {"parallelism": parallelism | {"stages": placed}})
    forward, backward = Account(matmul=MS_CYCLES), Account(matmul=2 * MS_CYCLES)
    return replace(
        plan,
        workload=replace(plan.workload, host_input_bytes=0),
        stages=tuple(replace(c, forward=forward, recompute=Account(), backward=backward) for c in plan.stages),
    )


def instant_links() -> dict[str, object]:
    """Links and syncs that take no time."""
    link = {"bandwidth_per_direction": "1e9 GB/s", "first_hop_latency": "0 us", "hop_latency": "0 us"}
    streaming = {"read_bandwidth_per_ipu": "1e9 GB/s", "bandwidth_per_machine": "1e9 GB/s", "latency": "0 us"}
    return {"ipu_link": link, "streaming_memory": streaming, "ipu": {"multi_ipu_sync": 0}}


@pytest.mark.parametrize("accumulation", [24, 48, 96, 192, 384])
@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_bubble_of_a_balanced_pipeline(stages: int, accumulation: int) -> None:
    """G + 2S - 2 cycles: S - 1 of forward passes only, G of both, S - 1 of backward passes only.

    (S - 1)·f + G·(f + b) + (S - 1)·b = (G + S - 1)(f + b), of which every IPU is idle for (S - 1)(f + b):
    a share of (S - 1) ÷ (G + S - 1).
    """
    trace = run(balanced(stages, accumulation, **instant_links()))
    cycle = FORWARD_PS + BACKWARD_PS
    cycles = [phase for phase in trace.phases if phase.name.startswith(("fill", "main", "flush"))]
    assert sum(phase.count for phase in cycles) == accumulation + 2 * stages - 2
    assert time_of(trace, ["fill", "main", "flush"]) == (accumulation + stages - 1) * cycle
    assert {account.get("bubble", 0) for account in trace.lanes.values()} == {(stages - 1) * cycle}
    assert {account["matmul"] for account in trace.lanes.values()} == {accumulation * cycle}


@pytest.mark.parametrize("accumulation", [24, 384])
def test_two_stages_with_links_and_syncs(accumulation: int) -> None:
    """G + 2 cycles, each with a sync of 600 clock cycles; all but the last hand on 4·32·64 halves over a rung.

    IPU 0 loads an input at 6.64 GB/s, after 1.5 us, in cycles 0 to G - 1; in cycle 1 it has no backward pass and the
    load is hidden behind IPU 1. So the cycles take f + in, f + b, (G - 2)(f + b + in), f + b, b.
    """
    plan = balanced(2, accumulation)
    trace = run(plan)
    sync_ps = round(600 / CLOCK_HZ * 1e12)
    exchange_ps = round(4 * 32 * 64 * 2 / RUNG * 1e12) + 570_000
    input_ps = round(plan.workload.host_input_bytes / READ * 1e12) + 1_500_000
    assert {account["sync"] for account in trace.lanes.values()} == {(accumulation + 2) * sync_ps}
    assert {account["inter_ipu"] for account in trace.lanes.values()} == {accumulation * exchange_ps}
    assert time_of(trace, ["fill", "main", "flush"]) == (
        (accumulation + 1) * (FORWARD_PS + BACKWARD_PS + exchange_ps)
        + (accumulation - 1) * input_ps
        + (accumulation + 2) * sync_ps
    )


@pytest.mark.parametrize(("fewer", "more"), [(24, 96), (96, 384)])
def test_one_more_micro_batch_costs_one_main_cycle(fewer: int, more: int) -> None:
    """Unequal stages: fill and flush do not grow, and the busiest IPU sets the pace of the cycles between.

    The process stacks 4 sequences more of 32 tokens, of 16 B each, at 1.28 GB/s.
    """
    stacked_ps = round(4 * 32 * 16 / 1.28e9 * 1e12)
    few, many = (run(plan_of(small_bert(small_pod(), [0, 1, 3, 1], accumulation=g))) for g in (fewer, more))
    per_cycle = time_of(few, ["main"]) // (fewer - 8)
    assert time_of(few, ["main"]) == (fewer - 8) * per_cycle
    assert many.makespan_ps - few.makespan_ps == (more - fewer) * (per_cycle + stacked_ps)
    assert few.lanes["ipu2"].get("imbalance", 0) < min(few.lanes[f"ipu{n}"]["imbalance"] for n in (0, 1, 3))


@pytest.mark.parametrize("replicas", [2, 3, 4, 8])
def test_ring_all_reduce_of_a_plan(replicas: int) -> None:
    """2(n - 1)/n·V/B + 2(n - 1)·k·λ for the weights V of IPU 1, one layer in half precision, around one ring.

    Each of the k large tensors pays the latency of the longest route, over two rails where replicas are more than two:
    up with every other one, down with the rest. 0.57 us and 0.16 us for the second hop, behind a sync of 600 cycles.
    """
    trace = run(plan_of(small_bert(small_pod(4), [1, 1], replicas=replicas)))
    exchange_s = 600 / CLOCK_HZ + 0.57e-6 + (replicas > 2) * 0.16e-6
    expected_s = collective_s(LAYER * 2, replicas, exchange_s, RAIL, "ring", tensors=LARGE_TENSORS)
    ring = time_of(trace, ["update IPU 1: reduce-scatter", "update IPU 1: all-gather"])
    assert ring == pytest.approx(expected_s * 1e12, rel=1e-6)


@pytest.mark.parametrize("domains", [2, 3, 4])
def test_all_reduce_between_link_domains(domains: int) -> None:
    """2(d - 1) steps, each of three hops one after the other, of 1/d of the shard; 9 small and 3 large tensors.

    Two replicas of two IPUs per machine: each IPU 1 holds half a layer's gradients. To the gateway at 30 Gb/s,
    over two ports of 100 Gb/s at 0.85 that two IPUs share, from the gateway at 26.4 Gb/s. Before a gateway is written
    and read there is a sync of 600 cycles each, and a step has the four supersteps of a ring.
    """
    pod = small_pod(domains, domain_machines=1)
    trace = run(plan_of(small_bert(pod, [1, 1], replicas=2 * domains)))
    chunk, tensors = LAYER * 2 / 2 / domains, 12
    hops_s = chunk / 3.75e9 + 2 * chunk / (2 * 12.5e9 * 0.85) + chunk / 3.3e9 + tensors * DOMAIN_STEP_S
    steps = 2 * (domains - 1)
    assert time_of(trace, ["update IPU 1: all-reduce over GW"]) == pytest.approx(steps * hops_s * 1e12, abs=4 * steps)


@pytest.mark.parametrize("domains", [2, 4])
def test_a_collective_beyond_a_fragment_flows_through_gateways(domains: int) -> None:
    """As above, all tensors in one collective of which fragments of 1 kB are passed on.

    The first takes all three hops; the rest comes down at 26.4 Gb/s, the slowest. Collectives of large tensors and of
    small ones are two.
    """
    pod = small_pod(domains, domain_machines=1, gw_link={"fragment_size": "1 kB"})
    scenario = small_bert(pod, [1, 1], replicas=2 * domains)
    trace = run(plan_of({**scenario, "software": {"base": "popart_sdk_2.3", "collectives_merged": True}}))
    chunk, steps = LAYER * 2 / 2 / domains, 2 * (domains - 1)
    hops_s = 1000 / 3.75e9 + 2 * 1000 / (2 * 12.5e9 * 0.85) + chunk / 3.3e9 + 2 * DOMAIN_STEP_S
    assert time_of(trace, ["update IPU 1: all-reduce over GW"]) == pytest.approx(steps * hops_s * 1e12, abs=4 * steps)


@pytest.mark.parametrize("domains", [2, 4])
def test_each_tensor_that_is_not_merged_has_a_first_fragment(domains: int) -> None:
    """Fragments of 1 kB, of tensors of a layer of width 64, each cut in two shards and so many parts.

    Four products of 64 x 192, 64 x 64 and twice 64 x 256 send more than that; biases and norms, 8 tensors of
    192 + 64 + 256 + 64 + 4 x 64 elements, are smaller.
    """
    pod = small_pod(domains, domain_machines=1, gw_link={"fragment_size": "1 kB"})
    trace = run(plan_of(small_bert(pod, [1, 1], replicas=2 * domains)))
    chunk, steps = LAYER * 2 / 2 / domains, 2 * (domains - 1)
    first = 4 * 1000 + (192 + 64 + 256 + 64 + 4 * 64) / domains
    hops_s = first / 3.75e9 + 2 * first / (2 * 12.5e9 * 0.85) + chunk / 3.3e9 + 12 * DOMAIN_STEP_S
    assert time_of(trace, ["update IPU 1: all-reduce over GW"]) == pytest.approx(steps * hops_s * 1e12, abs=4 * steps)


@pytest.mark.parametrize(("rings", "rate"), [(1, 0.5), (2, 1), (4, 2)])
def test_rings_of_single_ipus(rings: int, rate: float) -> None:
    """V/B + 2·(n/2)·k·λ around two machines, all of whose rungs are crossed at its ends alone.

    Two eighths of a tensor are sent in each of four steps and back. One ring goes over one of a rail's two links, one
    direction after the other; two go both ways over one each, four both ways over both. An exchange has a sync of 600
    cycles and a hop of 0.57 us.
    """
    pod, count = small_pod(2), 8
    scenario = {
        **small_bert(pod, [1], replicas=count, sharding=False),
        "software": {"base": "popart_sdk_2.3", "collective_rings": rings},
    }
    plan = plan_of(scenario)
    (cost,) = plan.updates
    expected_s = collective_s(
        cost.parameter_count * 2,
        count,
        600 / CLOCK_HZ + 0.57e-6,
        RAIL * rate,
        tensors=cost.collective_count,
        exchanges=2 if rings == 1 else 1,
    )
    assert time_of(run(plan), ["update IPU 0: reduce-scatter", "update IPU 0: all-gather"]) == pytest.approx(
        expected_s * 1e12, rel=1e-6
    )


@pytest.mark.parametrize(
    ("ipus_sharing", "machine", "read", "write"),
    [(1, "38.4 GB/s", READ, WRITE), (4, "38.4 GB/s", READ, WRITE), (4, "20 GB/s", 5e9, 5e9)],
)
def test_optimizer_state_is_loaded_and_stored_at_the_memory_s_bandwidth(
    ipus_sharing: int, machine: str, read: float, write: float
) -> None:
    """Two single-precision moments of every weight, bytes ÷ bandwidth, and 1.5 us for each tensor each way.

    An IPU reads 6.64 GB/s and writes 7.5 GB/s; four at once have no more than their machine. The model has words,
    positions, segments and a norm (5 tensors); one layer, its three projections in one (12); pooler, next-sentence
    head, and the dense layer and norm of the masked-token head, whose decoder is tied to the words (8).
    """
    pod = small_pod(streaming_memory={"bandwidth_per_machine": machine})
    scenario = small_bert(pod, [1], replicas=ipus_sharing, storage="streaming_memory", sharding=False)
    trace = run(plan_of(scenario))
    embedding = (1000 + 32 + 2) * 64 + 2 * 64
    heads = (64 * 64 + 64) + (2 * 64 + 2) + (64 * 64 + 64) + 2 * 64
    state = (embedding + LAYER + heads) * 8
    expected_s = state / read + state / write + 2 * 2 * (5 + 12 + 8) * 1.5e-6
    assert [account["streaming"] for account in trace.lanes.values()] == pytest.approx(
        [expected_s * 1e12] * ipus_sharing, abs=2
    )


def test_sharded_state_takes_a_fraction_of_the_time() -> None:
    """Over 2 replicas half of every large tensor is loaded, and all of the small ones."""
    whole, shard = (
        run(plan_of(small_bert(small_pod(), [1, 1], replicas=2, storage="streaming_memory", sharding=sharding)))
        for sharding in (False, True)
    )
    large = 64 * 192 + 2 * 64 * 256
    saved_s = (large / 2 * 8) * (1 / READ + 1 / WRITE)
    assert whole.lanes["ipu1"]["streaming"] - shard.lanes["ipu1"]["streaming"] == pytest.approx(saved_s * 1e12, abs=4)


@pytest.mark.parametrize("overrides", [(), ("system.machine.ipu.clock=1 MHz",)])
def test_each_further_micro_batch_takes_one_more_main_cycle(overrides: tuple[str, ...]) -> None:
    """Up to far more than 64 bits of picoseconds hold: 10^11 micro-batches at 1 MHz take 6.2·10^23 ps."""

    def update(count: int) -> podsim.RunResult:
        changes = [f"parallelism.accumulation_factor={count}", *overrides]
        return podsim.simulate("bert_v1.1_pod64_open", overrides=changes)

    first = update(1000)
    cycle = update(1001).weight_update_ps - first.weight_update_ps
    samples = first.throughput_samples_per_s * first.weight_update_ps / 1000
    for count in (10**6, 10**9, 2 * 10**9, 10**11):
        result = update(count)
        assert result.weight_update_ps == first.weight_update_ps + (count - 1000) * cycle
        assert min(result.breakdown_ps.values()) >= 0
        assert sum(result.breakdown_ps.values()) == result.weight_update_ps
        assert result.throughput_samples_per_s * result.weight_update_ps == pytest.approx(samples * count)
