"""Which IPUs lie next to one another: those that share layers, stages, or replicas; and which way is the fastest."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import SpecError
from podsim.placement.layout import NEAREST
from podsim.program.compile import compile_program, replicas_of
from podsim.program.task import Exchange
from podsim.scenario import load_scenario
from tests.examples import plan_of, small_bert, small_pod

RAIL = 2 * 16e9 * 0.85
"""Of an IPU-M2000, in each direction. [B/s]"""
ORDERS = [list(permutation) for permutation in permutations(NEAREST)]


def small(shards: int, stages: int, replicas: int, micro_batches: int, nearest: Any = None, **more: Any) -> Any:
    """A decoder of 8 layers of width 512, in sequences of 256 tokens, on an IPU-POD16 or on link domains of 16 IPUs."""
    parallelism: dict[str, Any] = {
        "tensor_parallel": shards,
        "pipeline_stages": stages,
        "replication_factor": replicas,
        "micro_batch_size": 1,
        "accumulation_factor": micro_batches,
    }
    return {
        "system": small_pod(4, domain_machines=4),
        "software": "popxl_sdk_3.3",
        "model": {
            "kind": "decoder",
            "layer_count": 8,
            "hidden_size": 512,
            "feed_forward_size": 2048,
            "head_count": 8,
            "kv_head_count": 8,
            "vocabulary_size": 4000,
            "gated": False,
        },
        "data": {"sequence_length": 256},
        "optimizer": {"kind": "adamw"},
        "parallelism": parallelism | ({"nearest": nearest} if nearest else {}),
    } | more


@pytest.mark.parametrize(
    ("nearest", "strides"),
    [
        (["shards", "stages", "replicas"], (1, 4, 8)),
        (["shards", "replicas", "stages"], (1, 8, 4)),
        (["stages", "replicas", "shards"], (4, 1, 2)),
    ],
)
def test_where_each_ipu_lies(nearest: list[str], strides: tuple[int, int, int]) -> None:
    """Four shards, two stages, two replicas: the first has its fellows side by side, the next that many apart, …"""
    replicas = replicas_of(plan_of(small(4, 2, 2, 4, nearest)))
    for replica in range(2):
        for stage in range(2):
            for shard in range(4):
                found = replicas.ipu(replica, 4 * stage + shard)
                assert found == sum(a * b for a, b in zip(strides, (shard, stage, replica), strict=True))


def test_replicas_of_other_link_domains_lie_there() -> None:
    """Two link domains of 16 IPUs, 4 replicas of 2 x 4: replica 3 is the second of the other domain."""
    pod = small_pod(8, domain_machines=4)
    scenario = small(2, 4, 4, 8, ["shards", "replicas", "stages"], system=pod)
    replicas = replicas_of(plan_of(scenario))
    expected = [16 + 2 + 4 * stage + shard for stage in range(4) for shard in range(2)]
    assert [replicas.ipu(3, local) for local in range(8)] == expected
    assert replicas.ring(3, 5) == (16 + 8 + 1, 16 + 8 + 3)


def test_gradients_of_neighbouring_replicas_take_two_rails() -> None:
    """Replicas of four shards side by side: IPU 2 sends half of its gradients to IPU 6, over two rails of its side."""
    plan = plan_of(small(4, 2, 2, 4, ["shards", "replicas", "stages"]))
    phase = next(each for each in compile_program(plan).groups[0].phases if "reduce-scatter" in each.name)
    (exchange,) = (step for step in phase.steps["ipu2"] if isinstance(step, Exchange))
    for transfer in exchange.transfers:
        assert [channel for channel, _ in transfer.channels] == [f"domain0/rail0/rung{at}-{at + 1}/up" for at in (1, 2)]
        for _, time_ps in transfer.channels:
            half = plan.updates[2].parameter_count * 2 / 2 / 2  # a half each way, which is the same
            assert time_ps == pytest.approx(half / RAIL * 1e12, rel=1e-6)


@pytest.mark.parametrize("nearest", ORDERS[1:], ids=" ".join)
def test_every_replica_written_out_gives_the_same_in_both_engines(nearest: list[str]) -> None:
    plan = plan_of(small(2, 2, 4, 4, nearest))
    folded, explicit = (compile_program(plan, explicit=each) for each in (False, True))
    found = execute(folded)
    for program, engine in ((explicit, "compiled"), (explicit, "simpy")):
        other = execute(program, engine=engine)  # type: ignore[arg-type]
        assert (other.makespan_ps, other.lanes) == (found.makespan_ps, found.lanes)


def test_the_usual_order_written_out_changes_nothing() -> None:
    usual, written = (podsim.simulate(small(2, 2, 4, 4, each)) for each in (None, list(NEAREST)))
    assert written.breakdown_ps == usual.breakdown_ps


@pytest.mark.parametrize(
    ("shards", "stages", "replicas"), [(2, 1, 8), (2, 2, 4), (2, 4, 2), (4, 1, 4), (4, 2, 2), (4, 4, 1), (8, 1, 2)]
)
def test_no_other_order_is_much_faster_for_long_weight_updates(shards: int, stages: int, replicas: int) -> None:
    """All orders on 16 IPUs, with 256 micro-batches: each adds up hidden states many times, and hands some on.

    The two rings of shards have a link of their own each, so that a pair on a rail adds up as fast as one on a rung:
    two stages of two shards gain a little if stages take the rung.
    """
    times = [podsim.simulate(small(shards, stages, replicas, 256, each)).weight_update_ps for each in ORDERS]
    fastest = ["stages", "shards", "replicas"] if (shards, stages) == (2, 2) else list(NEAREST)
    assert min(times) == times[ORDERS.index(fastest)] > 0.99 * times[0]
    if min(shards, stages * replicas) > 1:
        assert max(times) > times[0]


@pytest.mark.parametrize(("shards", "stages", "replicas"), [(2, 8, 4), (4, 4, 4), (8, 2, 4), (8, 1, 8)])
def test_no_other_order_is_much_faster_on_64_ipus(shards: int, stages: int, replicas: int) -> None:
    scenarios = [small(shards, stages, replicas, 256, each, system="ipu_pod64") for each in ORDERS]
    times = [podsim.simulate(scenario).weight_update_ps for scenario in scenarios]
    assert min(times) > 0.999 * times[0] and times[0] < max(times)


def test_phases_are_fastest_with_shards_next_to_one_another() -> None:
    scenario = small(4, 1, 4, 64)
    scenario["parallelism"] |= {"execution": "phased", "pipeline_stages": None}
    orders = [f"parallelism.nearest=[{', '.join(each)}]" for each in ORDERS]
    times = [podsim.simulate(scenario, overrides=[order]).weight_update_ps for order in orders]
    assert min(times) == times[0] < max(times)


@pytest.mark.parametrize(
    ("shards", "stages", "replicas", "fastest"),
    [
        (2, 2, 4, ("shards", "replicas", "stages")),
        (2, 4, 2, ("replicas", "shards", "stages")),
        (4, 2, 2, ("replicas", "shards", "stages")),
    ],
)
def test_short_weight_updates_gain_by_replicas_in_front_of_stages(
    shards: int, stages: int, replicas: int, fastest: tuple[str, str, str]
) -> None:
    """With as few micro-batches as the pipeline has room for, gradients count for more than what stages hand on.

    Pairs of replicas gain by all links of a rung, of which the rings of shards take but two.
    """
    times = {
        tuple(each): podsim.simulate(small(shards, stages, replicas, 2 * stages, each)).weight_update_ps
        for each in ORDERS
    }
    assert times[fastest] == min(times.values()) > 0.88 * times[NEAREST]
    assert 0.9 < times["shards", "replicas", "stages"] / times[NEAREST] < 0.96


@pytest.mark.parametrize(
    "nearest", ["[shards, shards, stages]", "[shards, stages]", "[shards, stages, ipus]", "shards", "3", "[[], 1, {}]"]
)
def test_orders_that_cannot_be(nearest: str) -> None:
    with pytest.raises(SpecError, match="needs shards, stages and replicas, each once, not") as caught:
        load_scenario(small(2, 2, 4, 4), overrides=[f"parallelism.nearest={nearest}"])
    (problem,) = caught.value.problems
    assert problem.key == "parallelism.nearest"
    cure = (problem.do or "").split("`")[1]
    assert load_scenario(small(2, 2, 4, 4), overrides=[f"parallelism.nearest={cure}"])


def test_replicas_among_one_another_run_as_they_do_one_by_one() -> None:
    """Three replicas that share slow links unevenly do not start a repeated phase together, so that each counts."""
    pod = small_pod(3, topology="ladder", domain_machines=3, ipu_link={"bandwidth_per_direction": "0.01 GB/s"})
    scenario = small_bert(pod, [0, 1, 1, 1], replicas=3, accumulation=6)
    order = {"schedule": "interleaved", "nearest": ["replicas", "stages", "shards"]}
    plan = plan_of(scenario | {"parallelism": scenario["parallelism"] | order})  # type: ignore[operator]
    folded, explicit = (compile_program(plan, explicit=each) for each in (False, True))
    assert execute(folded, explicit=False).makespan_ps == execute(explicit).makespan_ps
