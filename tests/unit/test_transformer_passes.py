"""Forward passes of transformers: the training graph's forward half, without dropout."""

from collections.abc import Callable
from pathlib import Path

import pytest

import podsim
from podsim.models import Workload
from podsim.scenario import Activity, ForwardScenario, load_scenario
from podsim.watch import silent

Run = Callable[..., tuple[int, str]]
BERT = {
    "system": "ipu_pod4",
    "software": "pytorch_sdk_3.1",
    "model": {"kind": "bert", "size": "base", "task": "span"},
    "data": {"sequence_length": 128},
    "forward": {"batch_size": 2, "batches_per_call": 16},
}


def test_forward_asks_for_forward_passes() -> None:
    assert load_scenario(BERT).spec.activity is Activity.FORWARD
    assert load_scenario("vit_base_pod4").spec.activity is Activity.FORWARD


def pass_workload(scenario: dict[str, object]) -> Workload:
    loaded = load_scenario(scenario)
    spec = loaded.require(ForwardScenario)
    return spec.model.read(spec, loaded.folder, silent).workload


def test_dropout_is_off() -> None:
    names = [op.name for block in pass_workload(BERT).blocks.values() for op in block.forward]
    assert not [name for name in names if "dropout" in name]


def test_work_is_that_of_the_forward_pass() -> None:
    """2·s·L·(4h² + 2·h·f) + 4·L·s²·h and two scores per token, for each of two sequences."""
    encoder = 2 * 128 * 12 * (4 * 768**2 + 2 * 768 * 3072) + 4 * 12 * 128**2 * 768
    assert podsim.infer(BERT).flop_per_batch == 2 * (encoder + 2 * 128 * 768 * 2)


def test_replicas_serve_side_by_side() -> None:
    """They wait for one process, which hands over three inputs and two results of each batch, in 11.5 us each.

    A batch of two sequences of 128 tokens, of 16 B each, is read at a quarter of 19.2 GB/s in place of 6.64 GB/s.
    """
    one = podsim.infer(BERT)
    four = podsim.infer(BERT, overrides=["parallelism.replication_factor=4"])
    assert four.latency_s == one.latency_s
    read_s = 2 * 128 * 16 * (4 / 19.2e9 - 1 / 6.64e9)
    assert four.call.time_s - one.call.time_s == pytest.approx(16 * (3 * 5 * 11.5e-6 + read_s), abs=1e-9)
    assert four.throughput_samples_per_s == pytest.approx(4 * 16 * 2 / four.call.time_s)


def test_stages_raise_throughput_and_not_latency() -> None:
    one, two = (podsim.infer(BERT, overrides=[f"parallelism.pipeline_stages={count}"]) for count in (1, 2))
    assert 1.5 < two.throughput_samples_per_s / one.throughput_samples_per_s < 2
    assert two.latency_s > 0.95 * one.latency_s


def test_too_few_positions(podsim: Run) -> None:
    Path("s.yaml").write_text(
        "system: ipu_pod4\nsoftware: pytorch_sdk_3.1\n"
        "model: {kind: bert, size: base, task: span, position_count: 64}\n"
        "data: {sequence_length: 128}\nforward: {batch_size: 1}\n"
    )
    assert podsim("run", "s.yaml") == (
        2,
        "error: s.yaml:3:45 [model.position_count]: 64 positions for sequences of 128 tokens\n"
        "  do: raise it, or leave it out\n",
    )


def test_a_slow_host_link_sets_the_pace() -> None:
    """A batch of 16 tokens crosses a slow link in longer than its forward pass takes, a backward pass apart."""
    scenario = {
        "system": {"base": "ipu_pod4", "machine": {"host_link": {"bandwidth_per_direction": "1 GB/s"}}},
        "software": "popart_sdk_3.1",
        "model": {"kind": "bert", "size": "tiny", "task": "classes"},
        "data": {"sequence_length": 16},
        "forward": {"batches_per_call": 50},
    }
    workload = pass_workload(scenario)
    assert all(not block.backward for block in workload.blocks.values())
    forward_s = podsim.infer(scenario).call.time_s / 50
    # Half as long again as a forward pass: less than forward and backward pass together.
    link = f"{workload.host_input_bytes / 0.9 / (1.5 * forward_s)} B/s"
    slow = podsim.infer(scenario, overrides=[f"system.machine.host_link.bandwidth_per_direction={link}"])
    assert slow.call.time_s / 50 == pytest.approx(1.5 * forward_s, rel=0.01)
