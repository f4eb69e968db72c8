"""Layers that a grid of IPUs divides in two dimensions: columns divide heads and inner widths, rows the hidden width.

GPT-3 175B by hand: 96 layers of width 12,288 with 96 heads of 128, feed-forward 49,152, 50,257 words, 2,048 positions.
Of 8 x 8 IPUs each has 1,536 of the width, 12 heads, 6,144 of the feed-forward width and 6,283 words at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import SpecError
from podsim.models import Workload
from podsim.models.op import MatMul
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch, Shards
from podsim.placement.cuts import Segment
from podsim.program.compile import compile_program
from podsim.program.passes import sums_of
from podsim.program.rings import TENSOR_PARALLEL, ShardRings, ShardSums
from podsim.program.task import Exchange, Group, Phase, Program
from podsim.scenario import load_scenario
from podsim.scenario.hardware import System
from tests.collectives import GATHER, REDUCE, collective_s
from tests.examples import plan_of, small_pod

GPT3 = DecoderShape(
    96, 12288, 49152, 96, 96, 50257,
    gated=False, norm="layer", rotary=False, position_count=2048, biases=("qkv", "projection", "feed_forward"),
    tied_embedding=True,
)  # fmt: skip
WIDTH, HEADS, INNER, WORDS, TOKENS = 1536, 12 * 128, 6144, 6283, 2048
RAIL = 2 * 16e9 * 0.85
"""Of an IPU-M2000, in each direction. [B/s]"""


def gpt3(rows: int = 8, columns: int = 8) -> Workload:
    batch = Batch(1, TOKENS, False, False)
    return causal_decoder(GPT3, batch, shards=Shards(rows * columns, width_parts=rows))


def test_parameters_of_a_shard_by_hand() -> None:
    layer = WIDTH * 3 * HEADS + 3 * HEADS + HEADS * WIDTH + WIDTH
    layer += WIDTH * INNER + INNER + INNER * WIDTH + WIDTH + 4 * WIDTH
    assert gpt3().parameter_count == (WORDS + 2048) * WIDTH + 96 * layer + 2 * WIDTH


def flop(workload: Workload, *names: str) -> int:
    blocks = (workload.blocks[name] for name in ("attention", "feed_forward"))
    ops = (op for block in blocks for op in (*block.forward, *block.backward))
    return sum(op.flop for op in ops if isinstance(op, MatMul) and op.name.partition("/")[2].startswith(names))


def test_shards_do_the_work_of_the_whole_but_for_scores() -> None:
    """64 IPUs divide products with weights; the 8 of a row all have the scores of its heads."""
    whole, shard = gpt3(1, 1), gpt3()
    weights = ("qkv", "projection", "up", "down")
    assert 64 * flop(shard, *weights) == flop(whole, *weights) > 0
    scores = ("scores", "context", "probabilities_grad", "value_grad", "query_grad", "key_grad")
    assert 8 * flop(shard, *scores) == flop(whole, *scores) > 0


def test_what_goes_around_rows_and_columns_by_hand() -> None:
    """A sum goes around twice. Rows join what products sum over the width, in halves, and two numbers of each token for
    each norm, in single precision; columns join what they sum over heads or inner widths, as without a grid."""
    layer, norms = [Segment(("attention", "feed_forward"), 96)], {TOKENS * 4: 2 * 2 * 2 * 96}
    forward, backward = sums_of(gpt3(), layer), sums_of(gpt3(), layer, backward=True)
    assert forward.rows == {2 * TOKENS * 3 * HEADS: 2 * 96, 2 * TOKENS * INNER: 2 * 96} | norms
    assert backward.rows == {2 * TOKENS * HEADS: 2 * 96, 2 * TOKENS * INNER: 2 * 96} | norms
    assert forward.columns == backward.columns == {2 * TOKENS * WIDTH: 2 * 2 * 96}
    embedding, head = ([Segment((name,))] for name in ("embedding", "head"))
    assert sums_of(gpt3(), embedding) == ShardSums({2 * TOKENS * WIDTH: 2}, {})
    # The head joins logits, maxima, sums and labels; back its input.
    assert sums_of(gpt3(), head) == ShardSums({4 * TOKENS: 6}, {4 * TOKENS: 4, 2 * TOKENS * WORDS: 2})
    assert sums_of(gpt3(), head, backward=True) == ShardSums({2 * TOKENS * WIDTH: 2}, {4 * TOKENS: 4})


def test_one_row_is_what_it_was() -> None:
    sharing = Shards(8, width_parts=1)
    assert causal_decoder(GPT3, Batch(1, 64), shards=sharing) == causal_decoder(GPT3, Batch(1, 64), shards=8)
    assert not any(block.width_sums for block in causal_decoder(GPT3, Batch(1, 64), shards=8).blocks.values())


def small(tensor_parallel: int, hidden_parallel: int, pod: Any = None, **more: Any) -> dict[str, Any]:
    """A decoder of 16 heads: hidden states of 2 sequences of 64 tokens with 256 elements each."""
    return {
        "system": pod or small_pod(4),
        "software": "popxl_sdk_3.3",
        "model": {
            "kind": "decoder",
            "layer_count": 4,
            "hidden_size": 256,
            "feed_forward_size": 512,
            "head_count": 16,
            "kv_head_count": 16,
            "vocabulary_size": 1600,
            "gated": False,
        },
        "data": {"sequence_length": 64, "dropout": 0.0, "attention_dropout": 0.0},
        "optimizer": {"kind": "adamw"},
        "parallelism": {
            "tensor_parallel": tensor_parallel,
            "hidden_parallel": hidden_parallel,
            "pipeline_stages": 1,
            "micro_batch_size": 2,
            "accumulation_factor": 2,
            "replication_factor": 1,
            "recomputation": "none",
        }
        | more,
    }


def system(topology: str) -> System:
    pod = small_pod(4, topology=topology, domain_machines=4)
    loaded: System = load_scenario(small(1, 1, pod)).spec.system
    return loaded


def test_rows_are_neighbours_and_columns_lie_apart() -> None:
    """4 x 4 IPUs, most bytes going around rows: IPUs 4 to 7 are a row on two rungs, and 1, 5, 9, 13 a column."""
    rings = ShardRings.from_members(system("ladder"), 4, range(16), 4, ShardSums({1 << 20: 1}, {1 << 20: 4}))
    assert set(rings.rows[5].members) == {4, 5, 6, 7}
    assert rings.columns[5].members == (1, 9, 13, 5)  # up with every other one, down with the rest
    # The other way round where columns have more to do.
    rings = ShardRings.from_members(system("ladder"), 4, range(16), 4, ShardSums({1 << 20: 4}, {1 << 20: 1}))
    assert rings.rows[5].members == (1, 9, 13, 5)
    assert set(rings.columns[5].members) == {4, 5, 6, 7}


def carried(rings: Mapping[int, Any], byte_count: int) -> Counter[str]:
    """Bytes of one sum, reduced and gathered, on each connection and direction."""
    found: Counter[str] = Counter()
    for ipu, ring in rings.items():
        for step in ring.shard_sums(ipu, {byte_count: 2}):
            for transfer in step.transfers if isinstance(step, Exchange) else ():
                for channel, time_ps in transfer.channels:
                    found[channel] += round(time_ps / 1e12 * RAIL) * ("rail" in channel)
    return +found


@pytest.mark.parametrize(("topology", "share"), [("ladder", 2), ("torus", 1)])
def test_bytes_of_columns_on_each_rail_by_hand(topology: str, share: int) -> None:
    """A sum over 4 IPUs. On each side of 8 rungs two columns lie side by side, two rungs between their IPUs: one on
    rungs 0, 2, 4, 6, one on 1, 3, 5, 7.

    Two steps of a quarter each way and two back. On a torus a rail has those of both columns; on a ladder those of both
    ways, as they come back over the rails that they go out on, but for the ends, which one column does not reach.
    """
    grid = ShardRings.grid(system(topology), 4, range(16), 4, rows_first=True)
    size = 1 << 20
    found = carried(grid.columns, size)
    assert len(found) == 2 * 2 * (7 if topology == "ladder" else 8)
    for channel, byte_count in found.items():
        ends = topology == "ladder" and channel.split("/")[2] in {"rung0-1", "rung6-7"}
        assert byte_count == pytest.approx(share / (2 if ends else 1) * 2 * size, rel=1e-5)


@pytest.mark.parametrize("topology", ["ladder", "torus"])
def test_time_of_sums_by_hand(topology: str) -> None:
    """4 x 4 IPUs share four layers: in each, two sums of rows and two of columns go forward, and as many back.

    All meet in the middle. Rows are four neighbours: a quarter each way, over one of the two links of a rail. Columns
    share rails with a neighbour: two quarters each way, on a ladder up with every other one and down with the rest.
    Exchanges take a sync of 600 cycles and the longest way: one hop of neighbours, two on a torus, four along a ladder.
    """
    plan = plan_of(small(16, 4, small_pod(4, topology=topology, domain_machines=4)))
    link = plan.system.machine.ipu_link
    assert link is not None
    near_s = 600 / 1.33e9 + link.first_hop_latency_s
    far_s = near_s + (3 if topology == "ladder" else 1) * link.hop_latency_s

    def row_s(byte_count: int) -> float:
        return collective_s(byte_count, 4, near_s, RAIL)

    def column_s(byte_count: int) -> float:
        return collective_s(byte_count, 4, far_s, RAIL / 2)

    tokens, width, heads, inner, words = 128, 64, 64, 128, 400
    rows_s = 4 * (row_s(2 * tokens * 3 * heads) + row_s(2 * tokens * heads) + 2 * row_s(2 * tokens * inner))
    # Two norms in a layer and one in the head: one number of each token, forward and back; and the logits.
    rows_s += 2 * (2 * 4 + 1) * row_s(4 * tokens) + row_s(2 * tokens * words)
    columns_s = (4 * 4 + 2) * column_s(2 * tokens * width) + 3 * column_s(4 * tokens)
    lanes = execute(compile_program(plan)).lanes
    for lane in range(16):
        assert lanes[f"ipu{lane}"][TENSOR_PARALLEL] / 1e12 == pytest.approx(2 * (rows_s + columns_s), rel=1e-6)


def test_time_of_8_x_8_on_a_torus_by_hand() -> None:
    """IPU-POD64, 32 rungs: rows are four rungs, columns eight IPUs with four rungs between. An eighth goes each way
    around a row; on each rail four columns lie side by side, each with an eighth each way."""
    pod = load_scenario("gpt3_175b_pod256", overrides=["system=ipu_pod64", "parallelism.replication_factor=1"]).spec
    link, size = pod.system.machine.ipu_link, 12_582_912
    assert pod.system.topology == "torus" and link is not None
    near_s = 600 / 1.33e9 + link.first_hop_latency_s
    # 12.6 MB are reduced by a pair of rings, and shards of 1.6 MB gathered in the middle.
    far_s = near_s + 3 * link.hop_latency_s
    rows_s, columns_s = (
        collective_s(size, 8, exchange_s, rate, "pair", [REDUCE])
        + collective_s(size, 8, exchange_s, rate, "meet", [GATHER])
        for exchange_s, rate in ((near_s, 2 * RAIL), (far_s, RAIL / 2))
    )
    grid = ShardRings.from_members(pod.system, 4, range(64), 8, ShardSums({size: 2}, {size: 2}))
    assert run_ps(grid, ShardSums({}, {size: 2})) / 1e12 == pytest.approx(rows_s, rel=1e-6)
    assert run_ps(grid, ShardSums({size: 2}, {})) / 1e12 == pytest.approx(columns_s, rel=1e-6)
    assert grid.time_s(ShardSums({size: 2}, {size: 2})) == pytest.approx(rows_s + columns_s, rel=1e-6)


def run_ps(grid: ShardRings, sums: ShardSums) -> int:
    """All IPUs at once, by the engine."""
    steps = {f"ipu{ipu}": tuple(grid.steps(ipu, sums)) for ipu in grid.rows}
    return execute(Program((Group("grid", tuple(steps), (Phase("sums", 1, steps, TENSOR_PARALLEL),)),))).makespan_ps


@pytest.mark.parametrize("topology", ["ladder", "torus", "machine_ring"])
@pytest.mark.parametrize("width_parts", [2, 4, 8])
@pytest.mark.parametrize("rings", [2, 4])
def test_the_faster_of_both_grids_is_taken(topology: str, width_parts: int, rings: int) -> None:
    pod = system(topology)
    for in_columns in (1, 3, 9, 27):
        sums = ShardSums({1 << 20: in_columns}, {1 << 20: 9})
        ways = [ShardRings.grid(pod, rings, range(16), width_parts, rows_first=each) for each in (True, False)]
        taken = ShardRings.from_members(pod, rings, range(16), width_parts, sums)
        assert run_ps(taken, sums) == min(run_ps(way, sums) for way in ways)


def test_activations_and_memory_of_a_grid() -> None:
    """Each IPU has half of a hidden state of 65,536 B and keeps a half of that, as the other of its column has it."""
    scenario = small(4, 2, execution="phased", pipeline_stages=None, recomputation="layer")
    plan = plan_of(scenario)
    assert plan.layout.activation_shards == 2
    assert plan.phases[1].input_bytes == 32_768
    off = {tenant.name: tenant.byte_count for tenant in plan.memory[0].tenants if tenant.storage == "streaming_memory"}
    # Samples of 128 words, two numbers of 4 B each; what four layers and the head are given, and a gradient.
    assert off["stash"] == 2 * (128 * 2 * 4 + 6 * 32_768 // 2)


def test_norms_of_shards_go_around_their_row_and_their_column() -> None:
    """LAMB's two norms of each tensor: each of four sends its own to all, and so in the other four, latency only.

    Those which lie four apart are six rails from the farthest, the others two hops.
    """
    scenario = small(16, 4) | {"optimizer": {"kind": "lamb"}}
    plan = plan_of(scenario)
    program = compile_program(plan)
    phase = next(each for each in program.groups[0].phases if "small tensors" in each.name)
    times = [
        time_ps
        for step in phase.steps["ipu0"]
        for kind, time_ps in getattr(step, "parts", ())
        if kind == TENSOR_PARALLEL
    ]
    link = plan.system.machine.ipu_link
    assert link is not None
    near_s = 600 / 1.33e9 + link.first_hop_latency_s
    latencies = [near_s + hops * link.hop_latency_s + 2 * 275 / 1.33e9 for hops in (5, 1)]
    count = plan.updates[0].shard_norm_count
    assert times == [pytest.approx(count * latency * 1e12, abs=1) for latency in latencies]


@pytest.mark.parametrize("recomputation", ["none", "layer"])
def test_every_replica_written_out_gives_the_same_in_both_engines(recomputation: str) -> None:
    scenario = small(4, 2, recomputation=recomputation, replication_factor=4)
    folded = podsim.simulate(scenario)
    for other in (podsim.simulate(scenario, explicit=True), podsim.simulate(scenario, engine="simpy")):
        assert other.breakdown_ps == folded.breakdown_ps


def test_faster_links_never_slow_it_down() -> None:
    slow, fast = (
        podsim.simulate(small(16, 4, small_pod(4, ipu_link={"bandwidth_per_direction": rate}))).weight_update_ps
        for rate in ("8 GB/s", "16 GB/s")
    )
    assert fast < slow


@pytest.mark.parametrize(
    ("overrides", "message", "do"),
    [
        (["hidden_parallel=3"], "16 IPUs that share a layer are no grid with rows of 3", "for example 2"),
        (["hidden_parallel=32"], "16 IPUs that share a layer are no grid with rows of 32", "for example 16"),
        (["tensor_parallel=1"], "among the IPUs that share a layer", "a multiple of 4, or leave it out"),
        (["sequence_parallel=true"], "hidden_parallel the width of the same hidden states", "leave one"),
    ],
)
def test_grids_that_cannot_be(overrides: list[str], message: str, do: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(small(16, 4), overrides=[f"parallelism.{override}" for override in overrides])
    assert message in str(failure.value)
    assert do in str(failure.value)


@pytest.mark.parametrize(
    ("keys", "message", "do"),
    [
        ({"model": {"kind": "vit", "size": "base"}, "data": {"decoded_by_host": False}}, "in decoders only", "leave"),
        ({"model": small(1, 1)["model"] | {"experts": {"count": 4, "per_token": 2}}}, "with experts", "leave it out"),
        ({"model": small(1, 1)["model"] | {"hidden_size": 2, "head_size": 8}}, "a width of 2 cannot", "at most 2"),
    ],
)
def test_models_whose_width_is_not_divided(keys: dict[str, Any], message: str, do: str) -> None:
    with pytest.raises(SpecError) as failure:
        load_scenario(small(16, 4) | keys)
    assert "[parallelism.hidden_parallel]" in str(failure.value)
    assert message in str(failure.value)
    assert do in str(failure.value)
