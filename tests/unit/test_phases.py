"""Phased execution: one layer on the chip at a time, everything else in streaming memory.

The model by hand: width 256, feed-forward 1,024, 4 heads, 1,000 words, 3 layers without biases. Embedding and head have
1,000 · 256 = 256,000 weights each, the head a norm of 256 beside them; a layer has 4 · 256² + 2 · 256 · 1,024 = 786,432
and two norms: 786,944. A micro-batch of 2 · 64 tokens hands on 128 · 256 · 2 B = 65,536 B; its samples, ids and labels
of 4 B, take 1,024 B.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import podsim
from podsim.engine import execute
from podsim.errors import DoesNotFitError, NoPlanError, SpecError
from podsim.placement import Plan, make_plan
from podsim.placement.job import training_job
from podsim.program.compile import compile_evaluation, compile_program
from podsim.program.task import Exchange, Program, Work
from podsim.scenario import load_scenario
from tests.collectives import GATHER, REDUCE, collective_s

EMBEDDING, LAYER, HEAD, LAYERS = 256_000, 786_944, 256_256, 3
WEIGHTS = EMBEDDING + LAYERS * LAYER + HEAD
HIDDEN, SAMPLES, COUNT = 65_536, 1_024, 5
SMALL: dict[str, Any] = {
    "system": "ipu_pod16",
    "software": "popxl_sdk_3.3",
    "model": {
        "kind": "decoder",
        "layer_count": LAYERS,
        "hidden_size": 256,
        "feed_forward_size": 1024,
        "head_count": 4,
        "kv_head_count": 4,
        "vocabulary_size": 1000,
        "gated": False,
    },
    "data": {"sequence_length": 64},
    "optimizer": {"kind": "adamw"},
    "parallelism": {
        "execution": "phased",
        "micro_batch_size": 2,
        "accumulation_factor": COUNT,
        "replication_factor": 1,
    },
}


def plan_of(*overrides: str) -> Plan:
    return make_plan(training_job(load_scenario(SMALL, overrides=overrides).spec))  # type: ignore[arg-type]


def streamed(program: Program, lane: str = "ipu0") -> dict[str, int]:
    """Bytes that an IPU reads from streaming memory and writes to it in one weight update."""
    moved: Counter[str] = Counter()
    for group in program.groups:
        for phase in group.phases:
            for each, steps in phase.steps.items():
                for step in steps if each.split("/")[0] == lane else ():
                    for transfer in step.transfers if isinstance(step, Exchange) else ():
                        for channel, _ in transfer.channels:
                            moved[channel] += transfer.size * phase.count
    return {way: moved[f"{lane}/streaming/{way}"] for way in ("read", "write")}


def test_what_one_weight_update_reads_and_writes() -> None:
    """Weights of 2 B are read by forward and backward phases, those of the head by one, and by the update.

    Layers and head read activations forward; going back, layers read them again, the embedding its samples, and all but
    the head gradients. State is two moments of 4 B. What comes from the host passes the same way.
    """
    read = 2 * (2 * EMBEDDING + 2 * LAYERS * LAYER + HEAD)
    read += COUNT * ((LAYERS + 1) * HIDDEN + LAYERS * HIDDEN + SAMPLES + (LAYERS + 1) * HIDDEN)
    update = (2 + 2 + 8) * WEIGHTS
    write = COUNT * ((LAYERS + 1) * HIDDEN + SAMPLES + (LAYERS + 1) * HIDDEN) + 2 * WEIGHTS
    expected = {"read": read + update + COUNT * SAMPLES, "write": write + (2 + 8) * WEIGHTS}
    assert streamed(compile_program(plan_of())) == expected
    assert streamed(compile_program(plan_of("memory.io_tiles=32"))) == expected


def test_without_batch_serialisation_each_micro_batch_loads_all_weights() -> None:
    """Activations stay on the chip between phases, but for what the backward pass reads again; gradients are added to
    those in streaming memory, from the second micro-batch on."""
    read = COUNT * 2 * (2 * EMBEDDING + 2 * LAYERS * LAYER + HEAD)
    read += COUNT * (LAYERS * HIDDEN + 2 * SAMPLES) + (COUNT - 1) * 2 * WEIGHTS
    write = COUNT * ((LAYERS + 1) * HIDDEN + SAMPLES + 2 * WEIGHTS)
    found = streamed(compile_program(plan_of("parallelism.batch_serialisation=false")))
    assert found == {"read": read + 12 * WEIGHTS, "write": write + 10 * WEIGHTS}


def test_replicas_hold_shards() -> None:
    """Of 4 replicas each moves a quarter of the weights; norms, of 256, are below the threshold and whole."""
    large = WEIGHTS - 256 * (2 * LAYERS + 1)
    whole, shard = large // 4 + 256 * (2 * LAYERS + 1), plan_of("parallelism.replication_factor=4")
    assert sum(phase.updated.weight_bytes * phase.segment.count for phase in shard.phases) == 2 * whole
    alone = streamed(compile_program(plan_of()))
    read = alone["read"] - 2 * (2 * EMBEDDING + 2 * LAYERS * LAYER + HEAD) * 3 // 4 - 12 * large * 3 // 4
    read += 2 * 256 * (4 * LAYERS + 1) * 3 // 4
    assert streamed(compile_program(shard))["read"] == read


def test_a_tied_table_is_added_to_what_the_head_stored() -> None:
    """The head loads the table too and stores its gradients; the embedding loads those and adds its own."""
    plan = plan_of("model.tied_embedding=true")
    embedding, _, head = plan.phases
    assert [phase.tied.gradient_bytes for phase in plan.phases] == [2 * EMBEDDING, 0, 0]
    assert head.exchanged.weight_bytes == 2 * HEAD
    assert head.updated.weight_bytes == 2 * 256
    assert embedding.updated.weight_bytes == 2 * EMBEDDING


def phase_s(result: podsim.RunResult, name: str) -> float:
    return next(phase.seconds for phase in result.phases if phase.name == name)


def test_the_time_in_which_weights_are_loaded() -> None:
    """One IPU of a machine: the slowest channel on its way, and the latency of six tensors, for each layer."""
    memory = load_scenario(SMALL).spec.system.machine.streaming_memory
    rate = min(memory.read_bytes_per_s, memory.machine_bytes_per_s)
    found = podsim.simulate(SMALL)
    expected = LAYERS * (2 * LAYER / rate + 6 * memory.latency_s)
    assert phase_s(found, "forward layer: load weights") == pytest.approx(expected, abs=1e-11 * LAYERS)
    # The update reads two moments, weights and gradients, and writes all but gradients; it computes for far less.
    update = 12 * LAYER / rate + 10 * LAYER / memory.write_bytes_per_s + (24 + 18) * memory.latency_s
    assert LAYERS * update < phase_s(found, "update layer: optimizer") < 1.02 * LAYERS * update


SLOW = ("system.machine.streaming_memory.read_bandwidth_per_ipu=1 MB/s",)
SLOW += ("system.machine.streaming_memory.write_bandwidth_per_ipu=1 MB/s",)


def loops_s(result: podsim.RunResult, title: str) -> float:
    """A loop with the load before it and the store behind it."""
    return sum(
        phase.seconds
        for phase in result.phases
        if phase.name in {title, f"{title}: first load", f"{title}: last store"}
    )


def computed_s(result: podsim.RunResult) -> float:
    """The forward passes of layers."""
    rows = (row for row in result.operations if row.kind == "forward" and row.block in {"attention", "feed_forward"})
    return sum(sum(row.seconds.values()) for row in rows)


def test_io_tiles_hide_what_is_shorter() -> None:
    """Where streaming is slow, each micro-batch takes a load and a store, and computing is hidden but for copies; one
    after the other it adds up."""
    latency = load_scenario(SMALL).spec.system.machine.streaming_memory.latency_s
    moved = LAYERS * COUNT * 2 * (HIDDEN / 1e6 + latency)
    copies = LAYERS * COUNT * 2 * HIDDEN / (32 * 8 * 1.33e9)
    over = podsim.simulate(SMALL, overrides=(*SLOW, "memory.io_tiles=32"))
    apart = podsim.simulate(SMALL, overrides=(*SLOW, "memory.io_tiles=32", "memory.overlapped_io=false"))
    assert moved < loops_s(over, "forward layer") < moved + 3 * copies
    assert phase_s(apart, "forward layer") == pytest.approx(moved + computed_s(apart), rel=1e-9)


def test_where_streaming_is_fast_computing_sets_the_time() -> None:
    """Each micro-batch is computed; its activations come from I/O tiles and go back to them, where the first has none
    to send and the last one's way back is the last store: 8 bytes per cycle to each tile, and a superstep."""
    fast = [
        f"system.machine.streaming_memory.{key}=1 TB/s"
        for key in ("read_bandwidth_per_ipu", "write_bandwidth_per_ipu", "bandwidth_per_machine")
    ]
    result = podsim.simulate(SMALL, overrides=(*fast, "memory.io_tiles=32"))
    ipu = load_scenario(SMALL).spec.system.machine.ipu
    cycles = COUNT * ipu.superstep.overhead_cycles + (2 * COUNT - 1) * HIDDEN / (32 * ipu.exchange.bytes_per_cycle)
    expected = computed_s(result) + LAYERS * cycles / ipu.clock_hz
    assert phase_s(result, "forward layer") == pytest.approx(expected, rel=1e-6)


def test_memory_of_both_tiers() -> None:
    """In streaming memory: weights and gradients of 2 B, moments of 4 B; of each micro-batch its samples, what layers
    and head are given, and a gradient. On the chip: a layer with its gradients and input."""
    (ipu,) = plan_of().memory
    off = {tenant.name: tenant.byte_count for tenant in ipu.tenants if tenant.storage == "streaming_memory"}
    stash = COUNT * (SAMPLES + (LAYERS + 1) * HIDDEN + HIDDEN)
    assert off == {
        "weights": 2 * WEIGHTS,
        "accumulators": 2 * WEIGHTS,
        "optimizer_state": 8 * WEIGHTS,
        "stash": stash,
    }
    on = {tenant.name: tenant.byte_count for tenant in ipu.tenants if tenant.storage == "in_processor_memory"}
    assert (on["weights"], on["accumulators"], on["stash"]) == (2 * LAYER, 2 * LAYER, HIDDEN)


def test_what_io_tiles_have_no_room_for_lies_on_the_others() -> None:
    """16 samples at once hand on 524,288 B. One I/O tile of 624 KiB is to hold an input and a gradient that are loaded
    ahead and a gradient that is stored; what is left is 3 · 524,288 - 638,976 B."""
    found = []
    for overlapped in ("true", "false"):
        options = ("parallelism.micro_batch_size=16", "memory.io_tiles=1", f"memory.overlapped_io={overlapped}")
        (ipu,) = plan_of(*options).memory
        on = {tenant.name: tenant.byte_count for tenant in ipu.tenants if tenant.storage == "in_processor_memory"}
        assert on["weights"] == 2 * LAYER
        found.append(on["stash"])
    assert found == [8 * HIDDEN + 3 * 8 * HIDDEN - 638_976, 8 * HIDDEN]


T5: dict[str, Any] = SMALL | {
    "model": {"kind": "t5", "size": "small", "layer_count": 2, "decoder_layer_count": 3},
    "data": {"source_length": 64, "target_length": 16},
}


def test_an_encoder_decoder_moves_what_its_phases_change() -> None:
    """Width 512, a sequence of 64 words and one of 16, two of them at once, 2 B an element: hidden states of 131,072
    and 32,768 B. The embedding makes both. Encoder layers leave that of the decoder alone; decoder layers read that of
    the encoder, which stays, and add to its gradient; the head reads that of the decoder."""
    plan = make_plan(training_job(load_scenario(T5).spec))  # type: ignore[arg-type]
    source, target = 131_072, 32_768
    assert [(phase.output_bytes, phase.given_back_bytes, phase.handed_back_bytes) for phase in plan.phases] == [
        (source + target, source + target, 0),
        (source, source, source),
        (target, source + target, source + target),
        (0, 0, target),
    ]
    assert [phase.input_bytes for phase in plan.phases[1:]] == [source, source + target, target]
    off = {tenant.name: tenant.byte_count for tenant in plan.memory[0].tenants if tenant.storage == "streaming_memory"}
    # Samples of 80 words, two numbers of 4 B each; each state that a layer or the head is given, once; a gradient.
    kept = 2 * 80 * 2 * 4 + 2 * source + (source + 3 * target) + target
    assert off["stash"] == COUNT * (kept + source + target)


def test_a_stash_in_eight_bits_is_half_as_large() -> None:
    plan, narrow = plan_of(), plan_of("precision.stash=fp8")
    assert narrow.phases[1].input_bytes == narrow.phases[0].output_bytes == HIDDEN // 2
    assert plan.phases[1].input_bytes == plan.phases[0].output_bytes == HIDDEN
    assert narrow.phases[1].handed_back_bytes == HIDDEN


def test_an_evaluation_has_forward_phases_only() -> None:
    plan = plan_of("software.evaluation_call=50 ms", "memory.io_tiles=32")
    folded, explicit = (execute(compile_evaluation(plan), explicit=each) for each in (False, True))
    assert folded.lanes == explicit.lanes
    assert {phase.name.split()[0] for phase in folded.phases} == {"forward", "host"}


@pytest.mark.parametrize(
    "fault", [{"ipu": 1, "clock": "50 %"}, {"machine": 0, "part": "streaming_memory", "bandwidth": "10 %"}]
)
def test_a_slow_part_holds_up_all_replicas(fault: dict[str, Any]) -> None:
    overrides = ["parallelism.replication_factor=16", "memory.io_tiles=32"]
    whole = podsim.simulate(SMALL, overrides=overrides)
    slow = podsim.simulate(SMALL | {"faults": [fault]}, overrides=overrides)
    assert slow.weight_update_ps > 1.01 * whole.weight_update_ps


def test_the_work_is_that_of_a_pipeline() -> None:
    """Every operation runs as often; the last segment is not redone, as its backward pass follows at once."""
    layout = {"layers_per_ipu": [LAYERS], "micro_batch_size": 2, "accumulation_factor": COUNT, "replication_factor": 1}
    resident, phased = podsim.simulate(SMALL | {"parallelism": layout}), podsim.simulate(SMALL)

    def runs(result: podsim.RunResult) -> Counter[tuple[str, ...]]:
        rows = (row for row in result.operations if (row.kind, row.block) != ("recompute", "head"))
        return Counter({(row.block, row.kind, row.name): row.count for row in rows})

    assert runs(phased) == runs(resident)
    assert phased.mfu * phased.weight_update_ps == pytest.approx(resident.mfu * resident.weight_update_ps)


OPTIONS = [
    ["memory.io_tiles=32"],
    ["memory.io_tiles=32", "memory.overlapped_io=false"],
    ["parallelism.batch_serialisation=false"],
    ["parallelism.recomputation=none"],
    ["parallelism.accumulation_factor=1", "memory.io_tiles=32"],
    ["parallelism.accumulation_factor=2", "memory.io_tiles=32"],
    ["parallelism.replication_factor=16", "memory.io_tiles=32"],
    ["parallelism.replication_factor=8", "memory.optimizer_state.replicated_tensor_sharding=false"],
    ["parallelism.tensor_parallel=2", "parallelism.replication_factor=8", "memory.io_tiles=32"],
    ["parallelism.attention_serialisation=3", "memory.io_tiles=32"],
    ["parallelism.tensor_parallel=4", "parallelism.sequence_parallel=true", "memory.io_tiles=32"],
    ["parallelism.tensor_parallel=8", "parallelism.hidden_parallel=4", "parallelism.replication_factor=2"],
    ["parallelism.tensor_parallel=4", "parallelism.hidden_parallel=4", "memory.io_tiles=32", "optimizer.kind=lamb"],
    ["parallelism.tensor_parallel=4", "parallelism.replication_factor=4", "memory.sharded_activations=false"],
]


@pytest.mark.parametrize("overrides", OPTIONS, ids=" ".join)
def test_explicit_and_folded_and_both_engines_agree(overrides: list[str]) -> None:
    folded = podsim.simulate(SMALL, overrides=overrides)
    for other in (
        podsim.simulate(SMALL, overrides=overrides, explicit=True),
        podsim.simulate(SMALL, overrides=overrides, engine="simpy"),
        podsim.simulate(SMALL, overrides=overrides, record=True),
    ):
        assert other.breakdown_ps == folded.breakdown_ps
        found = [(phase.name, phase.count, pytest.approx(phase.seconds)) for phase in folded.phases]
        assert [(phase.name, phase.count, phase.seconds) for phase in other.phases] == found
    assert folded.event_count < other.event_count


def test_shards_keep_parts_of_what_all_of_them_have() -> None:
    """Two IPUs that share layers read half of the activations each, and gather; samples they read whole."""
    shards = ("parallelism.tensor_parallel=2",)
    parted, whole = (
        streamed(compile_program(plan_of(*shards, *more))) for more in ((), ("memory.sharded_activations=false",))
    )
    activations = COUNT * (3 * LAYERS + 2) * HIDDEN
    assert whole["read"] - parted["read"] == activations // 2
    assert podsim.simulate(SMALL, overrides=shards).breakdown["tensor_parallel"] > 0


def test_divided_tokens_are_loaded_and_stored_as_they_are() -> None:
    """Four IPUs that divide tokens move a quarter of each activation, as those do that gather what they load, and have
    nothing to gather: tensors go around for products alone.

    Forward the embedding scatters words, three layers gather and scatter twice, the head gathers; back the head gathers
    and scatters, layers redo what they did forward, then gather twice and scatter in each block, the embedding redoes
    its scatter and gathers: 14, 2 + 12 + 18, and 2 times for each micro-batch. The loss adds up three numbers of each
    token.
    """
    shards = ("parallelism.tensor_parallel=4",)
    divided, parted = (plan_of(*shards, *more) for more in (("parallelism.sequence_parallel=true",), ()))
    assert streamed(compile_program(divided)) == streamed(compile_program(parted))
    sizes = [
        {tenant.name: tenant.byte_count for tenant in plan.memory[0].tenants if tenant.storage == "streaming_memory"}
        for plan in (divided, parted)
    ]
    assert sizes[0]["stash"] == sizes[1]["stash"]
    system = divided.system
    assert system.machine.ipu_link is not None
    near_s = system.machine.ipu.multi_ipu_sync_s + system.machine.ipu_link.first_hop_latency_s

    def around_s(byte_count: int, way: int) -> float:
        """Two steps; a quarter goes each way over one of the two links of a rail."""
        return collective_s(byte_count, 4, near_s, system.machine.rail_bytes_per_s, "meet", [way])

    # A reduce-scatter has a little more to do than a gather, and both are among these.
    least_s, most_s = ((14 + 32 + 2) * around_s(HIDDEN, way) + 6 * around_s(128 * 4, way) for way in (GATHER, REDUCE))
    lanes = execute(compile_program(divided)).lanes
    assert COUNT * least_s < lanes["ipu0"]["tensor_parallel"] / 1e12 < COUNT * most_s < 1.05 * COUNT * least_s


def test_what_io_tiles_gather_is_copied_as_a_whole() -> None:
    """Before the first micro-batch of a layer the whole input goes to the tiles that compute, 8 B a cycle from each of
    32 tiles, and a superstep; behind the last one half of the output comes back."""
    program = compile_program(plan_of("parallelism.tensor_parallel=2", "memory.io_tiles=32"))
    ipu = load_scenario(SMALL).spec.system.machine.ipu
    phases = [phase for phase in program.groups[0].phases if phase.name.startswith("forward layer")]
    copies = [
        sum(time_ps for _, time_ps in step.parts)
        for phase in (phases[2], phases[-1])
        for step in phase.steps["ipu0"]
        if isinstance(step, Work) and step.name.startswith("copy")
    ]
    cycles = [
        ipu.superstep.overhead_cycles + size / (32 * ipu.exchange.bytes_per_cycle) for size in (HIDDEN, HIDDEN // 2)
    ]
    assert copies == [pytest.approx(cycle / ipu.clock_hz * 1e12, abs=2) for cycle in cycles]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("parallelism.layers_per_ipu=[3]", "`layers_per_ipu` is given"),
        ("parallelism.head_on=first_ipu", "`head_on` is given"),
        ("memory.optimizer_state.storage=in_processor_memory", "in streaming memory"),
        ("parallelism.execution=phase", "phased"),
        (
            "parallelism={tensor_parallel: 4, sequence_parallel: true}\nmemory={sharded_activations: false}",
            "no IPU has all of the activations",
        ),
        ("memory.io_tiles=1472", "leave none"),
    ],
)
def test_what_goes_ill_with_phases_is_refused(override: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        podsim.simulate(SMALL, overrides=override.splitlines())


@pytest.mark.parametrize(
    "override",
    ["parallelism.batch_serialisation=false", "memory.overlapped_io=false", "memory.sharded_activations=false"],
)
def test_a_pipeline_has_no_keys_of_phases(override: str) -> None:
    key = override.partition("=")[0].partition(".")[2]
    with pytest.raises(SpecError, match=f"`{key}` belongs to phased execution"):
        load_scenario(SMALL, overrides=["parallelism.execution=pipelined", "parallelism.layers_per_ipu=[3]", override])


def test_a_division_chosen_for_keys_of_phases_names_them() -> None:
    """No batch size helps: a pipeline has no such key."""
    with pytest.raises(NoPlanError, match="`overlapped_io` belongs to phased execution") as caught:
        podsim.simulate(
            SMALL, overrides=["parallelism={auto: true, execution: pipelined}", "memory.overlapped_io=false"]
        )
    assert caught.value.do == "leave it out, or write `parallelism.execution: phased`"


def test_far_too_many_samples_at_once_are_refused_with_what_helps() -> None:
    """A hidden state of 65,536 samples of 64 positions and 256 numbers of 2 B is 2.1 GB, half of them 1.1 GB: neither
    is less than the 0.9 GB of a chip, whatever is shared."""
    many = "parallelism.micro_batch_size=65536"
    with pytest.raises(DoesNotFitError) as caught:
        podsim.simulate(SMALL, overrides=[many])
    helps = (caught.value.do or "").removeprefix("any of these makes it fit: ").split("; ")
    counts = [int(each.removeprefix("parallelism.micro_batch_size: ")) for each in helps]
    assert counts == [counts[0] >> place for place in range(4)]
    podsim.simulate(SMALL, overrides=[f"parallelism.micro_batch_size={counts[0]}"])
    with pytest.raises(DoesNotFitError):
        podsim.simulate(SMALL, overrides=[f"parallelism.micro_batch_size={2 * counts[0]}"])


def test_a_layer_that_is_too_large_is_refused_with_what_helps() -> None:
    """Width 4,096: a layer of 4 · 4,096² + 2 · 4,096 · 16,384 weights, 0.4 GB, with its gradients 0.8 GB; 5.8 GB off
    the chip for the state of three layers are nothing."""
    large = ["model.hidden_size=4096", "model.feed_forward_size=16384", "parallelism.replication_factor=16"]
    with pytest.raises(DoesNotFitError, match="of In-Processor-Memory") as caught:
        podsim.simulate(SMALL, overrides=large)
    helps = "parallelism.tensor_parallel: 2 with replication_factor: 8"
    assert helps in (caught.value.do or "")
    podsim.simulate(SMALL, overrides=[*large, "parallelism.tensor_parallel=2", "parallelism.replication_factor=8"])


def test_streaming_memory_that_is_too_small_is_refused_with_what_helps() -> None:
    """500 micro-batches keep 5 · 65,536 + 1,024 B each, 164 MB; 12 B for each of 2,873,088 weights are 34 MB."""
    small = ["system.machine.streaming_memory.capacity_per_ipu=60 MB", "parallelism.accumulation_factor=500"]
    with pytest.raises(DoesNotFitError, match="of streaming memory") as caught:
        podsim.simulate(SMALL, overrides=small)
    assert "parallelism.batch_serialisation: false" in (caught.value.do or "")
    podsim.simulate(SMALL, overrides=[*small, "parallelism.batch_serialisation=false"])


def test_stages_that_are_too_large_are_told_of_phases() -> None:
    """Six layers of width 2,048, 50 million weights each, take 1.2 GB of one IPU with gradients and state in shards."""
    layout = {"layers_per_ipu": [6], "micro_batch_size": 1, "accumulation_factor": 8, "replication_factor": 16}
    large = ["model.layer_count=6", "model.hidden_size=2048", "model.feed_forward_size=8192"]
    with pytest.raises(DoesNotFitError) as caught:
        podsim.simulate(SMALL | {"parallelism": layout}, overrides=large)
    assert "parallelism.execution: phased" in (caught.value.do or "")
    podsim.simulate(SMALL | {"parallelism": layout | {"execution": "phased", "layers_per_ipu": None}}, overrides=large)


_PRE_TRAINING = {
    # Layers, width, width of the feed-forward block, width of keys [touvron2023].
    "llama2_7b_phased_pod64": (32, 4096, 11008, 4096),
    "llama2_13b_phased_pod64": (40, 5120, 13824, 5120),
    "llama2_70b_phased_pod64": (80, 8192, 28672, 1024),
}


@pytest.mark.parametrize("name", _PRE_TRAINING)
@pytest.mark.parametrize(("variant", "ipus"), [(None, 64), ("pod256", 256), ("pod1024", 1024)])
def test_pre_training_sees_two_trillion_tokens_on_every_pod(name: str, variant: str | None, ipus: int) -> None:
    layers, width, inner, keys = _PRE_TRAINING[name]
    result = podsim.run(name, variant=variant)
    batch = 4096 * 1024  # tokens
    assert result.throughput_samples_per_s * 1024 * result.weight_update_s == pytest.approx(batch, rel=1e-9)
    updates = 2e12 / batch  # but for less than one
    assert result.time_to_train_s == pytest.approx(updates * result.weight_update_s, rel=1e-3)
    # Two FLOP for each weight of a product; scores and sums of values over 1,024 tokens; backward twice that.
    weights = layers * (2 * width**2 + 2 * width * keys + 3 * width * inner) + 32_000 * width
    flop = 3 * (2 * weights + layers * 2 * 2 * 1024 * width) * batch
    peak = ipus * 1472 * 128 * 1.33e9  # tiles, FLOP of each in a cycle, clock
    assert result.mfu == pytest.approx(flop / peak / result.weight_update_s, rel=1e-9)


def test_gathers_of_io_tiles_have_a_weight_on_links_of_their_own() -> None:
    """With twice the weight a gather counts for twice its bytes where it meets sums, which have a weight of one."""

    def sizes(*overrides: str) -> dict[str, int]:
        program = compile_program(plan_of("parallelism.tensor_parallel=2", "memory.io_tiles=32", *overrides))
        found: dict[str, int] = {}
        for group in program.groups:
            for phase in group.phases:
                for steps in phase.steps.values():
                    for step in steps:
                        for sent in step.transfers if isinstance(step, Exchange) else ():
                            found[sent.kind] = found.get(sent.kind, 0) + sent.size
        return found

    key = "system.machine.ipu_link.io_tiles_weight"
    fair, twice = sizes(f"{key}=1"), sizes(f"{key}=2")
    assert fair["io_gather"] > 0
    assert twice == fair | {"io_gather": 2 * fair["io_gather"]}


def test_the_weight_of_io_tiles_is_an_assumption_of_runs_with_gathers() -> None:
    result = podsim.simulate("mixtral_8x7b_phased_pod64")
    (assumption,) = (each for each in result.assumptions if str(each["key"]).endswith("io_tiles_weight"))
    assert (assumption["basis"], assumption["range"]) == ("assumed", (0.5, 2.0))
    lost = {kind: sum(others.values()) for kind, others in result.shared_ps.items()}
    assert sum(lost.values()) == result.breakdown_ps["contention"]
    assert set(result.shared_ps["tensor_parallel"]) == {"io_gather"}
    assert sum(result.breakdown_ps.values()) == result.weight_update_ps
