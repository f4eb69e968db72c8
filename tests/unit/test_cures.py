"""Scenarios of keys that do not go together: what is wrong, what to do, and that doing it helps."""

from __future__ import annotations

import pytest

from podsim.errors import SpecError
from podsim.scenario import load_scenario

BERT, IMAGES, DECODER = "bert_large_phase1_pod16", "resnet50_v1.1_pod16", "llama2_7b_pods"
PHASED = "bert_large_phased_pod16"
PASSES, SERVED, CARD = "e5_large_pod4", "serving_llama2_7b_pod64", "bert_base_c600"
NO_LIST = "parallelism.layers_per_ipu=null"
ONE_SHARE = "memory.available_memory_proportion=0.2"
FORMATS = "weights in fp32 with activations in fp16 are not modelled"
SAMPLES = (
    "write a number from 1 to 1e15, a list of them, `{runs: [...], batch_size: ...}` or `{reference_convergence: true}`"
)


def stages(*ends: str) -> str:
    """Two stages of 12 layers, each with what it holds beside them."""
    written = ", ".join(f"{{layers: 12, {end}}}" for end in ends)
    return f"parallelism.stages=[{written}]"


FIRST, LAST = "ipu: 0, embedding: true", "ipu: 1, head: true"
CASES = [
    (
        BERT,
        [NO_LIST],
        "parallelism: nothing says where the layers go; "
        "add `layers_per_ipu:`, `pipeline_stages:` or `stages:`, or write `execution: phased`",
        ["parallelism.layers_per_ipu=[6, 6, 6, 6]"],
    ),
    (
        BERT,
        [NO_LIST, ONE_SHARE, stages("ipu: 0", LAST)],
        "parallelism: the first stage, and no other, holds the embedding; write `embedding: true` there only",
        [stages(FIRST, LAST)],
    ),
    (
        BERT,
        [NO_LIST, ONE_SHARE, stages(f"{FIRST}, head: true", "ipu: 1")],
        "parallelism: the last stage, and no other, holds the head; write `head: true` there only",
        [stages(FIRST, LAST)],
    ),
    (
        BERT,
        [NO_LIST, ONE_SHARE, stages(FIRST, "ipu: 2, head: true")],
        "parallelism: stages use IPU 2 but not IPU 1; number the IPUs 0, 1, 2, …",
        [stages(FIRST, LAST)],
    ),
    (
        BERT,
        ["data.packing={sequences_per_pack: 4, max_sequences_per_pack: 3}"],
        "data.packing: sequences_per_pack 4 is above max_sequences_per_pack 3;"
        " the mean cannot be above the most; change one of the two",
        ["data.packing.sequences_per_pack=2"],
    ),
    (
        BERT,
        ["data.packing={sequences_per_pack: 4, max_sequences_per_pack: 4000}"],
        "data: max_sequences_per_pack 4000 is above sequence_length 128; a sequence has a token at least; lower it",
        ["data.packing.max_sequences_per_pack=5"],
    ),
    (
        BERT,
        ["precision.weights=fp32"],
        f"precision: {FORMATS};"
        " give both the same format; optimizer.master_weights keeps a single-precision copy of half weights",
        ["precision.activations=fp32"],
    ),
    (
        BERT,
        ["optimizer={kind: sgd, second_moment: fp16}"],
        "optimizer: SGD has no second moment; leave second_moment out, or choose `kind: adamw`",
        ["optimizer.kind=adamw"],
    ),
    (
        BERT,
        ["run={samples_to_converge: {sampled: true}}"],
        f"run.samples_to_converge: this mapping is not known; {SAMPLES}",
        ["run={samples_to_converge: 2e6, samples: null}"],
    ),
    (
        BERT,
        ["run={samples_to_converge: []}"],
        f"run.samples_to_converge: the list is empty; {SAMPLES}",
        ["run={samples_to_converge: [2e6, 3e6], samples: null}"],
    ),
    (
        IMAGES,
        ["run={epochs: 4, validation: {samples: 50000}, checkpoint: null}"],
        "run: every checkpoint is validated, and none is written;"
        " add `checkpoint: {every_epochs: 4}`, or leave `validation` out",
        ["run.checkpoint={every_epochs: 4}"],
    ),
    (
        IMAGES,
        ["model.norm={kind: batch, groups: 8, replicas: 1}"],
        "model.norm: batch norm has no groups; leave `groups` out, or write `kind: group`",
        ["model.norm.kind=group"],
    ),
    (
        PASSES,
        ["parallelism={pipeline_stages: 5, replication_factor: 1}"],
        "parallelism: a link domain of 4 IPUs has no room for a replica of 5 IPUs; use fewer IPUs per replica, or "
        "another pod",
        ["parallelism.pipeline_stages=3"],
    ),
    (
        PASSES,
        ["precision.weights=fp32"],
        f"precision: {FORMATS}; give both the same format",
        ["precision.activations=fp32"],
    ),
    (
        DECODER,
        ["parallelism.batches_in_flight=4"],
        "parallelism: 4 batches for 1 pipeline stage; use at most one batch per stage",
        ["parallelism.batches_in_flight=1"],
    ),
    (
        DECODER,
        ["model.kv_head_count=5"],
        "model: 5 key and value heads do not divide 32 query heads; change kv_head_count",
        ["model.kv_head_count=8"],
    ),
    (
        DECODER,
        ["model.hidden_size=4100"],
        "model: 32 heads do not divide a width of 4100; change head_count or hidden_size, or give head_size",
        ["model.head_size=128"],
    ),
    (
        DECODER,
        ["model.rotary=false"],
        "model: learned positions have no rows; give position_count, or `rotary: true`",
        ["model.position_count=4096"],
    ),
    (
        DECODER,
        ["model.position_count=4096"],
        "model: rotary positions have no rows; position_count is 4096;"
        " leave position_count out, or write `rotary: false`",
        ["model.rotary=false"],
    ),
    (
        SERVED,
        ["serving.longest_wait=1 s"],
        "serving: continuous batching never waits for a batch to fill;"
        " leave out longest_wait, or set `batching: static`",
        ["serving.batching=static"],
    ),
    (
        SERVED,
        ["serving.lengths=[]"],
        "serving: `lengths` is empty; add an entry, or leave out `lengths`",
        ["serving.lengths=null"],
    ),
    (
        SERVED,
        ["serving.file=arrivals.csv", "serving.lengths=null", "serving.rate=4"],
        "serving: `rate` and `file` are both there; the file says it; leave out `rate`",
        ["serving.rate=null"],
    ),
    (
        BERT,
        ["system={base: ipu_pod64, machine_count: 15, link_domain_machine_count: 4}"],
        "system: machine_count 15 is not a multiple of the 4 machines of a link domain;"
        " use a multiple, or change link_domain_machine_count",
        ["system.machine_count=16"],
    ),
    (
        BERT,
        ["system={base: ipu_pod16, topology: null}"],
        "system: nothing says how 16 IPUs are joined; add `topology: ladder` or `topology: torus`",
        ["system.topology=torus"],
    ),
    (
        CARD,
        ["system={base: c600, topology: ladder}"],
        "system: one IPU alone is joined to none; topology is ladder; leave `topology` out, or write `topology: null`",
        ["system.topology=null"],
    ),
    (
        CARD,
        ["system={base: c600, machine_count: 2}"],
        "system: 2 machines of one IPU each; nothing joins them;"
        " use `machine_count: 1`, or a machine with several IPUs",
        ["system.machine_count=1"],
    ),
    (
        BERT,
        ["parallelism.accumulation_factor=1"],
        "parallelism.accumulation_factor: 1 micro-batch is too few for 5 pipeline stages; use 2·5 - 1 = 9 or more",
        ["parallelism.accumulation_factor=9"],
    ),
    (
        PHASED,
        ["memory.available_memory_proportion=[0.4, 0.2]"],
        "memory.available_memory_proportion: 2 numbers for 1 IPU of a replica; give one number",
        [ONE_SHARE],
    ),
]


@pytest.mark.parametrize(("name", "overrides", "message", "cure"), CASES)
def test_keys_that_do_not_go_together(name: str, overrides: list[str], message: str, cure: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(name, overrides=overrides)
    assert [f"{problem.key}: {problem.message}; {problem.do}" for problem in caught.value.problems] == [message]
    load_scenario(name, overrides=[*overrides, *cure])
