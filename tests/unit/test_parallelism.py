"""Automatic parallelism: cuts, bounds, memory, what is pinned, what is chosen, and what is said when nothing fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from ruamel.yaml import YAML

from podsim import DoesNotFitError, InfeasibleError, SpecError, generate, load_scenario, simulate
from podsim.placement.cuts import Segment, kept_elements
from podsim.placement.job import training_job
from podsim.placement.memory import segment_peak_bytes
from podsim.placement.plan import cost_model, job_memory
from podsim.placement.schedule import PipelineSchedule
from podsim.result.division import choice_yaml, division_blocks, ipus_of
from podsim.scenario import TrainingScenario
from podsim.scenario.schedules import ScheduleName
from podsim.search.auto import choose
from podsim.search.chain import bare_chain, chain_of, least_maximum, most_even
from podsim.search.dimensions import divisors
from podsim.search.families import CheckpointedSlices
from podsim.search.search import Search, pipeline_cycles
from podsim.search.space import accumulation
from podsim.watch import silent
from tests.examples import Mapping, small_bert, small_cnn, small_pod
from tests.unit.bad_input_cases import SCENARIO, Run, error_of

AUTO = SCENARIO.replace(SCENARIO[SCENARIO.index("parallelism:") : SCENARIO.index("optimizer:")], "%s\n")


def bert_auto(batch_size: int = 32, **parallelism: object) -> Mapping:
    """The small BERT with four layers on two machines, undivided."""
    scenario = small_bert(small_pod(2), [4], replicas=1, accumulation=32)
    del scenario["memory"]
    return scenario | {"parallelism": {"auto": True, **parallelism}, "batch_size": batch_size}


def cuts_of(size: int, parts: int) -> Iterator[tuple[int, ...]]:
    return combinations(range(size + 1), parts + 1)


# Cuts


@pytest.mark.parametrize("seed", range(20))
def test_the_split_is_that_of_brute_force(seed: int) -> None:
    draw = np.random.default_rng(seed)
    size, count = int(draw.integers(3, 8)), int(draw.integers(1, 4))
    shape = (size + 1, size + 1)
    impossible = np.tril(np.ones(shape, dtype=bool)) | (draw.random(shape) < 0.2)
    parts = [np.where(impossible, np.inf, draw.integers(1, 20, shape)) for _ in range(count)]
    ends = np.where(draw.random(shape) < 0.5, np.inf, draw.integers(1, 20, shape))

    def costs(cuts: tuple[int, ...]) -> list[float]:
        own = [part[start, stop] for part, start, stop in zip(parts, cuts, cuts[1:], strict=False)]
        return [*own, ends[cuts[0], cuts[-1]]]

    every = [costs(cuts) for cuts in cuts_of(size, count)]
    least = min(map(max, every), default=np.inf)
    split, even = least_maximum(parts, ends), most_even(parts, ends)
    if not np.isfinite(least):
        assert split is None
        assert even is None
        return
    assert split is not None
    assert even is not None
    assert max(costs(split.cuts)) == split.cost == least
    fewest_squares = min(sum(cost**2 for cost in each) for each in every if max(each) == least)
    assert even.cost == least
    assert sum(cost**2 for cost in costs(even.cuts)) == fewest_squares


def test_two_of_three_blocks_are_shared_out_by_hand() -> None:
    """Blocks of 5, 1, 1 and 5 over two parts that must reach from end to end: 6 and 6."""
    sums = np.cumsum([0, 5, 1, 1, 5])
    costs = np.where(np.arange(5)[:, None] < np.arange(5), sums[None, :] - sums[:, None], np.inf)
    whole = np.full((5, 5), np.inf)
    whole[0, 4] = 0
    split = least_maximum([costs, costs], whole)
    assert split is not None
    assert (split.cuts, split.cost) == ((0, 2, 4), 6)


@pytest.mark.parametrize("schedule", ["lock_step", "grouped"])
def test_even_stages_take_micro_batches_and_stages_less_one(schedule: ScheduleName) -> None:
    """With forward 1 and backward 2: (8 + 4 - 1) x 3, however the passes of a cycle are grouped.

    Fill and drain of the lock-step pipeline: 3 cycles of forward passes alone, 3 of backward passes alone.
    """
    passes = [(stage, 1.0, 2.0) for stage in range(4)]
    assert pipeline_cycles(passes, 8, PipelineSchedule.from_name(schedule, 4)) == (8 + 4 - 1) * 3


@pytest.mark.parametrize(
    ("schedule", "cycles"),
    [
        ("lock_step", [1, 3 + 2, 5, 5, 3 + 2, 4]),
        ("grouped", [1, 3 + 2, 3 + 4, 3 + 4, 3 + 4, 4]),
    ],
)
def test_rounds_of_a_grouped_cycle_wait_for_each_other(schedule: ScheduleName, cycles: list[int]) -> None:
    """Two stages, forward and backward 1, 4 and 3, 2. A full cycle is 5 on either IPU, if passes may follow each
    other; grouped, all wait for the longest forward pass, 3, and then for the longest backward pass, 4."""
    assert pipeline_cycles([(0, 1.0, 4.0), (1, 3.0, 2.0)], 4, PipelineSchedule.from_name(schedule, 2)) == sum(cycles)


def test_stages_that_share_an_ipu_take_turns() -> None:
    """Three stages on two IPUs, 5 micro-batches: IPU 0 has stages 0 and 2.

    Cycle by cycle: forward 0; forward 1; then 0 and 2 with its backward pass; backward 1 joins; …
    1, 1 (IPU 1 beside IPU 0), 1 + 1 + 2, 4, then one full cycle of 2 x 3, then 0 and its forward end.
    """
    full = 6.0
    fill = [1, 1, 1 + 3, 1 + 3]
    flush = [3 + 2, 3 + 2, 2, 2]
    passes = [(0, 1.0, 2.0), (1, 1.0, 2.0), (0, 1.0, 2.0)]
    assert pipeline_cycles(passes, 5, PipelineSchedule.from_name("lock_step", 3)) == sum(fill) + full + sum(flush)


def test_divisors_and_accumulation() -> None:
    assert divisors(60, 16) == [1, 2, 3, 4, 5, 6, 10, 12, 15]
    assert accumulation(60, 4, 3, stage_count=3) == 5
    assert accumulation(60, 4, 3, stage_count=4) is None
    assert accumulation(60, 7, stage_count=1) is None


# Costs and memory agree with the planner's


def test_a_share_that_is_not_used_up_is_not_costed_again() -> None:
    job = training_job(load_scenario(small_bert(small_pod(2), [4], accumulation=32)).spec)
    workload, roomy = job.workload_of(4), chain_of(job.workload_of(4), cost_model(job), (1.0, 0.5, 0.001))
    tight = chain_of(workload, cost_model(job), (0.5,))
    assert 1.0 not in roomy.proportions
    assert (roomy.forward[-1] == tight.forward[0]).all()


def test_a_plan_with_more_memory_stands_for_one_with_less_only_if_it_is_the_same() -> None:
    """Products and convolutions, planned from the largest share down and each on its own."""
    job = training_job(load_scenario("resnet50_v1.1_pod16", overrides=["model.depth=18", "parallelism=auto"]).spec)
    shared, blocks = cost_model(job), job.workload_of(8).blocks.values()
    for proportion in (1.0, 0.2, 0.1):
        alone = cost_model(job)
        for block in blocks:
            assert shared.sequence(block.backward, proportion) == alone.sequence(block.backward, proportion)


def text_search() -> Search:
    loaded = load_scenario("bert_v1.1_pod16_open", overrides=["parallelism=auto"])
    assert isinstance(loaded.spec, TrainingScenario)
    return Search(loaded, loaded.spec)


def image_search() -> Search:
    loaded = load_scenario("resnet50_v1.1_pod16", overrides=["parallelism={auto: true, micro_batch_size: 10}"])
    assert isinstance(loaded.spec, TrainingScenario)
    return Search(loaded, loaded.spec)


@pytest.mark.parametrize("make", [text_search, image_search])
def test_memory_of_the_search_is_that_of_the_plan(make: type[Search]) -> None:
    """For every number of IPUs, with and without recomputation: code and the rest make up the fullest IPU."""
    search = make()
    seen = set()
    for group in search.groups():
        kind = (group.ipus_per_replica, group.recompute, group.optimizer_storage)
        setting = next(search.space.micro_batches(group), None)
        if setting is None or kind in seen or group.ipus_per_replica > 4:
            continue
        seen.add(kind)
        lean = search.leanest(setting)
        assert lean is not None
        used, layout = lean
        spec = search.written(layout)
        assert not any(spec.findings())
        job = training_job(spec)
        assert job.layout == replace(layout, reserve=0.0), "a margin is kept by the choice, not by what is chosen"
        code = job.software.code_bytes_per_tile * job.system.machine.ipu.tile.count
        fullest = max(ipu.used_bytes() for ipu in job_memory(job))
        # Each block's state is rounded up to whole elements of a shard; nothing else may differ.
        assert used + code == pytest.approx(fullest, abs=1)
    assert len(seen) >= 6


def test_checkpoints_need_as_little_as_any_subset_of_blocks() -> None:
    """ResNet-18 on one IPU: every one of the 2^(n - 1) ways to place checkpoints."""
    scenario = load_scenario("resnet50_v1.1_pod16", overrides=["model.depth=18", "parallelism=auto"]).spec
    workload = training_job(scenario).workload_of(4)
    order, size = workload.order, len(workload.order)
    slices = CheckpointedSlices(
        bare_chain(workload),
        lambda start, stop: (Segment(order[start:stop]),),
        recompute=True,
        recompute_last=False,
    )
    bare = slices.chain.needs[0]

    def need(starts: tuple[int, ...], depth: int) -> int:
        ends = (*starts[1:], size)
        segments = [Segment(order[start:stop]) for start, stop in zip(starts, ends, strict=True)]
        kept = sum(kept_elements(segment, workload, recompute=True) for segment in segments) * workload.activation_bytes
        return depth * kept + max(segment_peak_bytes(segment, workload, bare, recompute=True) for segment in segments)

    every = [
        (0, *(place + 1 for place, taken in enumerate(choice) if taken))
        for choice in product((False, True), repeat=size - 1)
    ]
    for depth in (1, 5):
        assert slices.memory_bytes(depth)[0, 0, size] == min(need(starts, depth) for starts in every)
    least = min(need(starts, 1) for starts in every)
    for room in (least, 1.05 * least, 1.1 * least):
        latest = min(starts[-1] for starts in every if need(starts, 1) <= room)
        chosen = (0, *slices.checkpoints(0, 0, size, 1, float(room)))
        assert chosen[-1] == latest
        assert need(chosen, 1) <= room


# What is written, and what stands for it


def test_a_given_division_gives_way_and_leaves_its_batch() -> None:
    loaded = load_scenario("bert_v1.1_pod64_open", overrides=["parallelism=auto"])
    assert loaded.auto is not None
    assert isinstance(loaded.spec, TrainingScenario)
    assert loaded.spec.batch_size == 2 * 96 * 8
    assert not loaded.has_key("memory", "available_memory_proportion")
    assert not loaded.has_key("memory", "optimizer_state")


@pytest.mark.parametrize(
    "overrides",
    [
        ["parallelism={auto: true, ipus_per_replica: 4}"],
        ["parallelism=auto", "parallelism.ipus_per_replica=4"],
        ["parallelism.auto=true", "parallelism.ipus_per_replica=4"],
    ],
)
def test_pins_in_every_spelling(overrides: list[str]) -> None:
    loaded = load_scenario("bert_v1.1_pod64_open", overrides=overrides)
    assert loaded.auto is not None
    assert loaded.auto.model_dump(exclude_none=True) == {"auto": True, "ipus_per_replica": 4}


@pytest.mark.parametrize("overrides", list(permutations(["batch_size=768", "parallelism=auto"])))
def test_a_batch_that_is_written_counts_more(overrides: tuple[str, ...]) -> None:
    loaded = load_scenario("bert_v1.1_pod64_open", overrides=overrides)
    assert isinstance(loaded.spec, TrainingScenario)
    assert loaded.spec.batch_size == 768


def test_how_hosts_serve_replicas_is_not_chosen() -> None:
    loaded = load_scenario("resnet50_v1.0_pod64", overrides=["parallelism=auto"])
    assert loaded.auto is not None
    assert loaded.auto.model_dump()["replicas_per_process"] == 4


def test_memory_that_is_written_beside_auto_is_kept() -> None:
    memory = {
        "available_memory_proportion": [0.3, 0.6],
        "optimizer_state": {"storage": "streaming_memory", "replicated_tensor_sharding": False},
    }
    result = simulate(bert_auto() | {"memory": memory})
    assert result.choice is not None
    assert {ipus_of(candidate.parallelism) for candidate in result.choice.candidates} == {2}
    for candidate in result.choice.candidates:
        assert json.loads(json.dumps(candidate.memory)) == memory


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "parallelism: auot",
            "s.yaml:5:1 [parallelism]: `auot` is not a division\n  do: did you mean `auto`?",
        ),
        (
            "parallelism: 4 IPUs",
            "s.yaml:5:1 [parallelism]: `4 IPUs` is not a division\n  do: write `auto`, or `key: value` lines under it",
        ),
        (
            "parallelism: auto",
            "s.yaml:5:1 [parallelism]: key `batch_size` is missing: `parallelism: auto` divides it among micro-batches "
            "and replicas\n  do: add `batch_size:` (sequences, packs or images per weight update), "
            "for example `batch_size: 1536`",
        ),
        (
            "parallelism: auto\nbatch_size: 0",
            "s.yaml:6:1 [batch_size]: `0` is too small\n  do: write 1 or more",
        ),
        (
            "parallelism: auto\nbatch_size: -8",
            "s.yaml:6:1 [batch_size]: `-8` is too small\n  do: write 1 or more",
        ),
        (
            "parallelism: {auto: false}\nbatch_size: 8",
            "s.yaml:5:15 [parallelism.auto]: needs true, not `false`\n"
            "  do: write `auto: true`, or leave `auto` out and give the whole division",
        ),
        (
            "parallelism: {auto: true, ipus: 4}\nbatch_size: 8",
            "s.yaml:5:27 [parallelism]: unknown key `ipus`\n"
            "  do: remove it; known here: auto, micro_batch_size, replication_factor, ipus_per_replica, "
            "schedule, execution, tensor_parallel, sequence_parallel, hidden_parallel, expert_parallel, "
            "attention_serialisation, nearest, pipeline_stages, batch_serialisation, recomputation, "
            "updates_per_session_call, replicas_per_process",
        ),
        (
            "parallelism: {auto: true, chunks_per_ipu: 2}\nbatch_size: 8",
            "s.yaml:5:27 [parallelism]: unknown key `chunks_per_ipu` beside `auto`: it belongs to a division that is "
            "given whole\n  do: remove it; known here: auto, micro_batch_size, replication_factor, ipus_per_replica, "
            "schedule, execution, tensor_parallel, sequence_parallel, hidden_parallel, expert_parallel, "
            "attention_serialisation, nearest, pipeline_stages, batch_serialisation, recomputation, "
            "updates_per_session_call, replicas_per_process",
        ),
        (
            "parallelism: {auto: true, schedule: grouped, execution: phased}\nbatch_size: 8",
            "s.yaml:5:27 [parallelism.schedule]: phased execution has no pipeline, and `schedule` is given\n"
            "  do: leave it out, or write `execution: pipelined`",
        ),
        (
            "parallelism: {auto: true, expert_parallel: 2}\nbatch_size: 8",
            "s.yaml:5:27 [parallelism.expert_parallel]: BERT-Large has no experts to divide\n"
            "  do: leave it out, or give `model.experts`",
        ),
        (
            "parallelism: {auto: true, ipus_per_replica: 32}\nbatch_size: 8",
            "s.yaml:5:27 [parallelism.ipus_per_replica]: 32 cannot be: a link domain of IPU-POD16 has 16 IPUs\n"
            "  do: write 16 or less, or leave it out",
        ),
        (
            "parallelism: {micro_batch_size: 1, accumulation_factor: 96, replication_factor: 4, "
            "layers_per_ipu: [6, 6, 6, 6]}\nbatch_size: 100",
            "s.yaml:6:1 [batch_size]: 100 is not micro_batch_size x accumulation_factor x replication_factor = 384\n"
            "  do: leave it out, write 384, or write `parallelism: auto`",
        ),
    ],
)
def test_what_is_wrong_with_the_division(podsim: Run, lines: str, message: str) -> None:
    Path("s.yaml").write_text(AUTO % lines)
    assert podsim("run", "s.yaml") == error_of(message)


TWELVE = {"kind": "decoder", "layer_count": 3, "hidden_size": 192, "feed_forward_size": 384, "head_count": 12}


@pytest.mark.parametrize(
    ("pins", "experts"),
    [
        ({"tensor_parallel": 12}, None),
        ({"tensor_parallel": 4, "pipeline_stages": 3}, None),
        ({"ipus_per_replica": 12, "execution": "phased"}, None),
        ({"ipus_per_replica": 6, "execution": "pipelined"}, None),
        ({"hidden_parallel": 3, "tensor_parallel": 6}, None),
        ({"hidden_parallel": 2}, None),
        ({"attention_serialisation": 4, "tensor_parallel": 1}, None),
        ({"nearest": ["replicas", "stages", "shards"], "tensor_parallel": 2}, None),
        ({"schedule": "interleaved", "tensor_parallel": 1}, None),
        ({"expert_parallel": 3, "tensor_parallel": 3}, {"count": 6, "per_token": 2}),
    ],
)
def test_what_is_asked_for_is_what_is_simulated(pins: dict[str, object], experts: object) -> None:
    """Whether or not it is a power of two, and whether or not the search chooses such a key."""
    scenario = {
        "system": small_pod(4),
        "software": "popxl_sdk_3.3",
        "model": {**TWELVE, "kv_head_count": 12, "vocabulary_size": 500} | ({"experts": experts} if experts else {}),
        "data": {"sequence_length": 32},
        "optimizer": {"kind": "adamw"},
        "parallelism": {"auto": True, "recomputation": "layer", "micro_batch_size": 1, **pins},
        "batch_size": 8,
    }
    result = simulate(scenario)
    assert result.choice is not None
    own = result.scenario["parallelism"]
    assert isinstance(own, dict)
    known = own | {"ipus_per_replica": ipus_of(own), "pipeline_stages": ipus_of(own) // own.get("tensor_parallel", 1)}
    assert {key: known[key] for key in pins} == pins
    assert {each.partition(":")[0] for each in result.choice.asked} >= set(pins)


def test_a_decoder_that_fits_with_fewer_temporaries_streams_no_weights() -> None:
    """7 billion weights of 2 B are 402 MiB on each of 32 IPUs of 897 MiB: beside code of 84 MiB and keys and values,
    40 % of it for temporaries are too many, and 20 % are not."""
    asked = ["system={base: ipu_pod64, machine_count: 8}", "parallelism={auto: true, batches_in_flight: 2}"]
    _, choice = choose(load_scenario("llama_for_50_users", overrides=asked), silent)
    assert choice.chosen.memory == {"weights": "resident", "available_memory_proportion": 0.2}
    kept = [*asked, "memory.available_memory_proportion=0.4"]
    _, choice = choose(load_scenario("llama_for_50_users", overrides=kept), silent)
    assert choice.chosen.memory == {"weights": "streamed"}


def test_problems_elsewhere_are_told_as_well() -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario("bert_v1.1_pod64_open", overrides=["parallelism=auot", "model.size=huge"])
    assert [problem.key for problem in caught.value.problems] == ["parallelism", "model.size"]


def test_a_batch_beside_the_division_it_belongs_to() -> None:
    loaded = load_scenario("bert_v1.1_pod64_open", overrides=["batch_size=1536"])
    assert loaded.auto is None


# What is chosen


@pytest.mark.parametrize(
    "scenario",
    [
        bert_auto(),
        small_cnn(small_pod(2)) | {"parallelism": "auto", "batch_size": 24},
        small_cnn(small_pod(2)) | {"parallelism": {"auto": True, "reduction_merge_size": "1 MiB"}, "batch_size": 24},
    ],
    ids=["transformer", "convnet", "convnet with a quantity"],
)
def test_the_choice_can_be_pasted_and_gives_the_same(scenario: Mapping) -> None:
    result = simulate(scenario)
    assert result.choice is not None
    chosen = result.choice.chosen
    pasted = YAML(typ="safe").load(choice_yaml(chosen))
    again = simulate({key: value for key, value in scenario.items() if key != "batch_size"} | pasted)
    # A division that was chosen has another word to say of IPUs that are left over.
    differ = ("choice", "scenario", "inputs", "warnings")
    first, second = (
        {key: value for key, value in each.to_dict().items() if key not in differ} for each in (result, again)
    )
    assert first == second
    resolved = {key: value for key, value in result.scenario.items() if key != "batch_size"}
    assert resolved == again.scenario
    assert chosen.throughput_samples_per_s == result.throughput_samples_per_s


def test_the_resolved_scenario_is_a_scenario() -> None:
    result = simulate(bert_auto() | {"system": "ipu_pod4"})
    assert result.scenario["batch_size"] == 32
    again = simulate({**result.scenario, "system": "ipu_pod4", "software": "popart_sdk_2.3"})
    assert again.choice is None
    assert again.weight_update_ps == result.weight_update_ps


def test_the_choice_is_the_fastest_of_all_small_divisions() -> None:
    """Every micro-batch, and every split of two layers over one IPU or two, with a memory for all of them."""
    scenario = bert_auto(8) | {"memory": {"available_memory_proportion": 1.0}}
    model = scenario["model"]
    assert isinstance(model, dict)
    scenario = scenario | {"model": model | {"layer_count": 2}, "system": small_pod(1, ipu_count=2)}
    best = simulate(scenario)
    assert best.choice is not None
    times = []
    for ipus, size, replicas, recomputation in product((1, 2), (1, 4, 8), (1, 2), ("none", "layer")):
        if ipus * replicas > 2 or 8 % (size * replicas):
            continue
        base = {"micro_batch_size": size, "accumulation_factor": 8 // size // replicas, "replication_factor": replicas}
        for layers in ([[2]], [[0, 2], [1, 1]])[ipus - 1]:
            division = base | {"layers_per_ipu": layers, "recomputation": recomputation}
            try:
                explicit = simulate(scenario | {"parallelism": division})
            except (SpecError, InfeasibleError):
                continue
            times.append(explicit.weight_update_ps)
    assert len(times) >= 8
    assert best.weight_update_ps <= min(times)


def test_the_choice_is_the_same_every_time() -> None:
    assert simulate(bert_auto()).to_json() == simulate(bert_auto()).to_json()


@pytest.mark.parametrize(
    ("pin", "value"),
    [("ipus_per_replica", 2), ("micro_batch_size", 4), ("replication_factor", 2), ("recomputation", "none")],
)
def test_a_pin_holds_for_every_candidate(pin: str, value: object) -> None:
    result = simulate(bert_auto(**{pin: value}))
    assert result.choice is not None
    for candidate in result.choice.candidates:
        keys = {"ipus_per_replica": ipus_of(candidate.parallelism)}
        assert (keys | dict(candidate.parallelism))[pin] == value


def test_runners_up_are_slower_and_say_by_how_much() -> None:
    choice = simulate(bert_auto()).choice
    assert choice is not None
    first, second = choice.candidates[:2]
    assert first.verdict == "chosen: the fastest that fits"
    assert first.throughput_samples_per_s is not None
    assert second.throughput_samples_per_s is not None
    share = first.throughput_samples_per_s / second.throughput_samples_per_s - 1
    assert second.verdict in (f"{share:.1%} slower".replace("%", " %"), "as fast")


def test_what_does_not_fit_is_reported_beside_what_does() -> None:
    """Four layers in 128 KiB per tile fit with recomputation; what would be faster without it does not."""
    result = simulate("bert_v1.1_pod16_open", overrides=["parallelism={auto: true, ipus_per_replica: 4}"])
    assert result.choice is not None
    misfits = [candidate for candidate in result.choice.candidates if not candidate.fits]
    assert misfits
    for misfit in misfits:
        assert misfit.used_bytes > misfit.capacity_bytes
        assert "of each replica needs" in misfit.verdict


def test_the_table_and_json_show_the_choice(podsim: Run) -> None:
    Path("s.yaml").write_text(AUTO.replace("large", "tiny") % "parallelism: auto\nbatch_size: 16")
    assert podsim("run", "s.yaml")[0] == 0
    result = simulate("s.yaml")
    assert result.choice is not None
    data = json.loads(result.to_json())["choice"]
    assert set(data) == {"candidates", "considered_count", "simulated_count", "asked", "replaced", "behind", "reserve"}
    assert data["candidates"][0]["fits"] is True
    assert "choice" not in simulate("good.yaml").to_dict()


# When nothing can be chosen


def test_the_smallest_pod_on_which_it_fits_is_named() -> None:
    """Hidden states of 2048 on four IPUs: about 1.2 billion weights in half precision with their gradients are
    4.8 GB; four IPUs have 3.8 GB, sixteen have 15 GB."""
    wide = ["parallelism={auto: true, execution: pipelined}", "model.hidden_size=2048", "model.feed_forward_size=8192"]
    with pytest.raises(DoesNotFitError) as caught:
        simulate("bert_large_phase1_pod4", overrides=wide)
    text = str(caught.value)
    assert "no division of batch_size 65536 fits IPU-POD4; the nearest has 4 IPUs per replica" in text
    assert "(largest: " in text
    assert "`system: ipu_pod16`, the smallest shipped pod on which it does" in text


def test_a_batch_too_small_for_the_pipeline_it_needs() -> None:
    """BERT-Large needs four IPUs, that is five stages, which 2·5 - 1 = 9 micro-batches fill."""
    with pytest.raises(DoesNotFitError) as caught:
        overrides = ["parallelism={auto: true, execution: pipelined, tensor_parallel: 1}", "batch_size=7"]
        simulate("bert_v1.1_pod16_open", overrides=overrides)
    assert "`batch_size: 14`" in str(caught.value)


def test_pins_that_do_not_divide_the_batch() -> None:
    with pytest.raises(InfeasibleError) as caught:
        simulate(bert_auto(32, micro_batch_size=5))
    assert str(caught.value).splitlines() == [
        " [parallelism]: batch_size 32 cannot be divided with micro_batch_size 5",
        "  do: choose a batch_size that they divide, with 2·stages - 1 micro-batches or more per replica, or pin less",
    ]


@pytest.mark.parametrize(
    ("pins", "key", "do"),
    [
        ("ipus_per_replica: 17", "ipus_per_replica", "write 16 or less, or leave it out"),
        ("ipus_per_replica: 32", "ipus_per_replica", "write 16 or less, or leave it out"),
        ("replication_factor: 64", "replication_factor", "write 16 or less, or leave it out"),
        (
            "ipus_per_replica: 4, replication_factor: 8",
            "replication_factor",
            "write 4 or less, or a smaller ipus_per_replica",
        ),
        ("hidden_parallel: 2", "hidden_parallel", "leave it out"),
        (
            "execution: phased, pipeline_stages: 2",
            "pipeline_stages",
            "leave it out, or write `execution: pipelined`",
        ),
    ],
)
def test_a_pin_that_cannot_be_is_named(pins: str, key: str, do: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario("bert_v1.1_pod16_open", overrides=[f"parallelism={{auto: true, {pins}}}"])
    assert [(problem.key, problem.do) for problem in caught.value.problems] == [(f"parallelism.{key}", do)]


@pytest.mark.parametrize(
    ("pins", "key"),
    [
        ("tensor_parallel: 64", "parallelism.tensor_parallel"),
        ("pipeline_stages: 17", "parallelism.pipeline_stages"),
        ("tensor_parallel: 8, pipeline_stages: 4", "parallelism"),
        ("batches_in_flight: 17", "parallelism.batches_in_flight"),
    ],
)
def test_a_pin_that_a_decoder_cannot_have_is_named(pins: str, key: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario("llama2_7b_pods", overrides=[f"parallelism={{auto: true, {pins}}}"])
    assert [problem.key for problem in caught.value.problems] == [key]


def test_a_batch_beyond_reason() -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(bert_auto(10**9 + 1))
    assert [(problem.key, problem.do) for problem in caught.value.problems] == [
        ("batch_size", "write 1000000000 or less")
    ]


def test_a_million_micro_batches_cost_no_more_events_than_a_few() -> None:
    """The main phase is folded; run one by one it would take minutes."""
    few, many = (simulate(bert_auto(batch, pipeline_stages=2)) for batch in (1009, 1_000_003))
    assert many.event_count < 2 * few.event_count
    assert many.throughput_samples_per_s > few.throughput_samples_per_s


@pytest.mark.slow
def test_micro_batches_that_cannot_be_folded_are_refused() -> None:
    """A million images at 50 ms each on 128 cores: the four replicas that the batch allows wait for them."""
    changes = ["parallelism=auto", "batch_size=1000004", "system.host.image_decode_time=50 ms"]
    with pytest.raises(InfeasibleError) as caught:
        simulate("resnet50_v1.1_pod16", overrides=[*changes, "run.epochs=1000"])
    assert "host servers set the pace" in str(caught.value)


def test_a_model_with_too_many_blocks_is_refused() -> None:
    with pytest.raises(InfeasibleError) as caught:
        pinned = "parallelism={auto: true, execution: pipelined}"
        simulate("bert_v1.1_pod16_open", overrides=[pinned, "model.layer_count=1000"])
    assert "the model has 2002 blocks" in str(caught.value)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_candidates_is_whole(width: int) -> None:
    choice = simulate("bert_v1.1_pod16_open", overrides=["parallelism={auto: true, ipus_per_replica: 4}"]).choice
    assert choice is not None
    console = Console(width=width, file=StringIO(), record=True)
    console.print(*division_blocks(choice), sep="\n")
    text = console.export_text()
    assert "…" not in text
    assert all(word in text for word in ("redo", "too big", "  chosen"))
    assert ("larger memory.reserve" in text) == (choice.chosen.used_bytes > 0.97 * choice.chosen.capacity_bytes)


@pytest.mark.parametrize(("reserve", "most"), [("null", 0.975), ("0", 1.0), ("0.2", 0.8)])
def test_a_chosen_division_leaves_a_margin(reserve: str, most: float) -> None:
    """A fortieth unless another share is given; of none, the fullest IPU of ResNet-50 takes what there is."""
    auto = ["system=ipu_pod4", "parallelism=auto", f"memory.reserve={reserve}"]
    result = simulate("resnet50_v1.1_pod16", overrides=auto)
    assert result.choice is not None
    chosen = result.choice.chosen
    assert most - 0.025 < chosen.used_bytes / chosen.capacity_bytes <= most


def test_what_fits_without_a_margin_only_is_not_refused() -> None:
    """With nine tenths left free no division of LLaMa2-7B fits; then nothing is left free."""
    scenario = "llama2_7b_pods"
    free = ["parallelism=auto", "system=ipu_pod4"]
    found = {
        share: generate(scenario, overrides=[*free, f"software.memory_reserve={share}"]).choice for share in (0.0, 0.9)
    }
    assert found[0.0] is not None
    assert found[0.0] == found[0.9]


def test_how_much_rests_on_the_last_segment() -> None:
    """The forward pass of its blocks, for each of the micro-batches, over the update with it redone."""
    result = simulate("resnet50_v1.1_pod16", overrides=["parallelism={auto: true, micro_batch_size: 20}"])
    (warning,) = (each for each in result.warnings if "upper bound" in each)
    assert result.choice is not None
    last = result.choice.chosen.parallelism["checkpoints"][-1]
    assert f"from `{last}` on" in warning
    forward = [row for row in result.operations if row.kind == "forward"]
    behind = {row.block for row in forward} - {row.block for row in result.operations if row.kind == "recompute"}
    assert last in behind
    spared = sum(row.total_s for row in forward if row.block in behind)
    assert f"spares {100 * spared / (result.weight_update_s + spared):.1f} %" in warning


def test_a_division_that_is_given_rests_on_nothing_of_the_kind() -> None:
    assert not any("upper bound" in warning for warning in simulate("resnet50_v1.1_pod16").warnings)


def test_a_batch_that_batch_norm_refuses() -> None:
    """Statistics over two neighbouring replicas: 7 samples leave 1 or 7 replicas, neither of which is even."""
    with pytest.raises(InfeasibleError) as caught:
        simulate("resnet50_v1.1_pod16", overrides=["parallelism=auto", "batch_size=7"])
    text = str(caught.value)
    assert "batch_size 7 cannot be divided: " in text
    assert "groups of 2 for batch norm" in text


def test_a_key_beside_auto_is_blamed_where_it_was_written() -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario("resnet50_v1.1_pod16", overrides=["parallelism={auto: true, checkpoints: [a]}"])
    assert [problem.where for problem in caught.value.problems] == [
        "--set parallelism={auto: true, checkpoints: [a]}",
    ]


# Decoders


def test_a_decoder_gets_the_shortest_step_of_all_divisions() -> None:
    overrides = ["model.size=gpt2_small", "system=ipu_pod4"]
    chosen = generate("llama2_7b_pods", overrides=[*overrides, "parallelism=auto"])
    assert chosen.choice is not None
    times = []
    for shards, stages, weights in product((1, 2, 4), (1, 2, 4), ("resident", "streamed")):
        division = [
            f"parallelism={{tensor_parallel: {shards}, pipeline_stages: {stages}}}",
            f"memory.weights={weights}",
        ]
        try:
            times.append(generate("llama2_7b_pods", overrides=[*overrides, *division]).time_per_output_token_s)
        except (SpecError, InfeasibleError):
            continue
    assert chosen.time_per_output_token_s == min(times)
    assert chosen.choice.chosen.decode_step_s == min(times)


def test_a_decoder_that_fits_nowhere_here() -> None:
    with pytest.raises(DoesNotFitError) as caught:
        generate("llama2_70b_pod64", overrides=["system=ipu_pod4", "parallelism=auto", "generation.batch_size=64"])
    text = str(caught.value)
    assert "no division of the model fits IPU-POD4; the nearest, over " in text
    assert "do: " in text


@pytest.mark.parametrize("pins", ["auto", "{auto: true, updates_per_session_call: 4}"])
def test_the_call_from_the_host_is_no_part_of_the_division(pins: str) -> None:
    """What one call runs is kept where a given division gives way, and where it is written beside `auto`."""
    given = ["parallelism.updates_per_session_call=4"] if pins == "auto" else []
    loaded = load_scenario(small_bert("ipu_pod4", [2]), overrides=[*given, f"parallelism={pins}", "batch_size=80"])
    result = simulate(loaded)
    (call,) = (phase for phase in result.phases if phase.name == "host call")
    alone = simulate(small_bert("ipu_pod4", [2]))
    (whole,) = (phase for phase in alone.phases if phase.name == "host call")
    # 80 sequences of 32 tokens, of four numbers of four bytes each, are stacked at 1.28 GB/s for every update.
    stacked_s = 80 * 32 * 16 / 1.28e9
    assert call.seconds == pytest.approx(stacked_s + (whole.seconds - stacked_s) / 4)


def test_what_waits_for_its_servers_is_no_favourite() -> None:
    """Host links of 3 MB/s: the division that computes fastest waits for the data of one machine; two bring more."""
    pod = small_pod(2, domain_machines=1, host_link={"bandwidth_per_direction": "3 MB/s"})
    given = small_bert(pod, [1], replicas=8, accumulation=10)
    chosen = given | {"parallelism": "auto", "batch_size": 4 * 10 * 8}
    assert simulate(chosen).throughput_samples_per_s >= simulate(given).throughput_samples_per_s
