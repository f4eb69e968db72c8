"""What bounds a step of text generation: cases made by hand, one for each bound."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

import podsim
from podsim.result.step import StepReport

MS = 10**9
MILLION = 1e6
# Nothing but what a case asks for takes long.
FAST: dict[str, Any] = {
    "software": {"base": "popxl_sdk_3.3", "token_call": "0.01 ms"},
    "system": {
        "base": "ipu_pod16",
        "machine": {
            "ipu_link": {"bandwidth_per_direction": "1000 TB/s", "first_hop_latency": "0 us", "hop_latency": "0 us"},
            "streaming_memory": {
                "read_bandwidth_per_ipu": "1000 TB/s",
                "bandwidth_per_machine": "4000 TB/s",
                "latency": "0 us",
            },
        },
    },
}
# A layer has 4·256² + 3·256·1024 = 1,048,576 weights.
MODEL = {
    "kind": "decoder",
    "layer_count": 8,
    "hidden_size": 256,
    "feed_forward_size": 1024,
    "head_count": 8,
    "kv_head_count": 8,
    "vocabulary_size": 1024,
}
LAYER_BYTES = 2 * 1_048_576


def scenario(**keys: Any) -> dict[str, Any]:
    generation = {"prompt_tokens": 64, "output_tokens": 64, "next_token": "device"}
    return FAST | {"model": MODEL, "generation": generation} | keys


def generated(*overrides: str, **keys: Any) -> podsim.GenerationResult:
    return podsim.generate(scenario(**keys), overrides=overrides)


def step(loads_ms: float = 0, **parts_ms: float) -> StepReport:
    parts = {kind: round(time_ms * MS) for kind, time_ms in parts_ms.items()}
    return StepReport("decode", sum(parts.values()), parts, (), round(loads_ms * MS))


@pytest.mark.parametrize(
    ("parts_ms", "bound"),
    [
        ({"matmul": 2, "vector": 2, "exchange": 3, "host": 3.5}, "compute"),
        ({"matmul": 3, "exchange": 2, "superstep": 1, "rearrange": 1, "host": 3}, "exchange"),
        ({"matmul": 2, "all_reduce": 1.5, "inter_ipu": 1.5, "streaming": 2}, "links"),
        ({"matmul": 2, "host": 2, "streaming": 3}, "streaming memory"),
        ({"matmul": 2, "host": 3, "streaming": 2.5}, "host"),
        ({"matmul": 2, "host": 3, "bubble": 30}, "host"),
    ],
)
def test_the_largest_sum_of_kinds_binds(parts_ms: Mapping[str, float], bound: str) -> None:
    assert step(**parts_ms).bound == bound


@pytest.mark.parametrize(
    ("loads_ms", "wait_ms", "bound"),
    [(9.9, 0.1, "compute"), (10.2, 0.4, "streaming memory"), (10.2, 0, "compute"), (8, 4.5, "streaming memory")],
)
def test_of_loads_and_the_work_over_them_the_longer_binds(loads_ms: float, wait_ms: float, bound: str) -> None:
    """10 ms of work; what is waited for is what loads leave uncovered, or cannot be covered with two slots."""
    assert step(loads_ms, matmul=4, all_reduce=3, host=3, weights_wait=wait_ms).bound == bound


def test_products_of_many_rows_bind_by_compute() -> None:
    """64 x 128 rows through 6.9 million weights of layers on one IPU: 113 GFLOP."""
    result = generated(generation={"prompt_tokens": 128, "output_tokens": 64, "batch_size": 64})
    assert result.prefill.bound == "compute"


def test_one_row_binds_by_supersteps_and_exchange() -> None:
    """One token: each product is a handful of cycles in some supersteps of 275 cycles."""
    result = generated()
    assert result.decode.bound == "exchange"
    supersteps_s = result.decode.breakdown["superstep"]
    assert supersteps_s > 0.5 * sum(result.decode.breakdown[kind] for kind in ("matmul", "vector", "reduction"))


def test_a_call_of_the_host_binds_by_hand() -> None:
    """The call takes 50 ms, and is once per step."""
    result = generated("software.token_call=50 ms")
    assert (result.prefill.bound, result.decode.bound) == ("host", "host")
    assert result.decode.breakdown["host"] == pytest.approx(0.050)


def test_sums_over_slow_links_bind_by_hand() -> None:
    """Half of 512 B both ways in 2 steps, 17 times (embedding, 8 x 2), over 2 links of a rung at 0.85 x 1 MB/s."""
    overrides = ["system.machine.ipu_link.bandwidth_per_direction=1 MB/s"]
    result = generated(*overrides, parallelism={"tensor_parallel": 2})
    assert (result.prefill.bound, result.decode.bound) == ("links", "links")
    sums_s = 17 * 2 * (512 / 2) / (2 * 0.85 * MILLION)
    assert result.decode.breakdown["all_reduce"] == pytest.approx(sums_s, rel=0.02)


def test_a_hand_over_to_the_next_stage_binds_by_hand() -> None:
    """One shard needs no sums: 512 B of activations go over 3 boundaries, of which a rung has 6 links and a rail 2."""
    overrides = ["system.machine.ipu_link.bandwidth_per_direction=0.01 MB/s"]
    result = generated(*overrides, parallelism={"pipeline_stages": 4})
    assert (result.prefill.bound, result.decode.bound) == ("links", "links")
    assert "all_reduce" not in result.decode.breakdown
    link = 0.85 * 0.01 * MILLION
    # 0 to 1 and 2 to 3 over a rung, 1 to 2 over a rail and a rung; each on one of four IPUs.
    assert result.decode.breakdown["inter_ipu"] * 4 == pytest.approx(512 / (6 * link) * 2 + 512 / (2 * link), rel=0.02)


def test_a_bubble_binds_nothing() -> None:
    """With four stages one after the other, every IPU waits for three quarters of a step."""
    result = generated("software.token_call=50 ms", parallelism={"pipeline_stages": 4})
    decode = result.decode
    assert max(decode.breakdown, key=lambda kind: decode.breakdown[kind]) == "bubble"
    assert decode.bound == "host"


def test_loads_that_are_waited_for_bind_by_hand() -> None:
    """8 layers of 2 MiB, with embedding and head of 0.5 MiB each, at 0.1 GB/s."""
    overrides = ["system.machine.streaming_memory.read_bandwidth_per_ipu=0.1 GB/s"]
    result = generated(*overrides, memory={"weights": "streamed"})
    assert result.decode.bound == "streaming memory"
    loads_s = (8 * LAYER_BYTES + 2 * 2 * 1024 * 256) / 0.1e9
    assert result.decode.breakdown["streaming"] == pytest.approx(loads_s, rel=0.01)


def test_keys_and_values_in_streaming_memory_bind() -> None:
    """2·256 halves for each of 95 earlier tokens and 8 layers, at 1 MB/s."""
    overrides = ["system.machine.streaming_memory.read_bandwidth_per_ipu=1 MB/s"]
    generation = {"prompt_tokens": 64, "output_tokens": 64, "kv_cache": "streaming_memory"}
    result = generated(*overrides, generation=generation)
    assert result.decode.bound == "streaming memory"
    assert result.decode.breakdown["streaming"] == pytest.approx(8 * 2 * 256 * 2 * 95 / MILLION, rel=0.02)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize(("rate", "bound"), [("0.1 GB/s", "streaming memory"), ("0.2 GB/s", "host")])
def test_loads_under_other_work(stages: int, rate: str, bound: str) -> None:
    """174 or 87 ms of loads under 120 ms of work; a call of the host is most of it, and two slots wait for it."""
    result = generated(
        "software.token_call=120 ms",
        f"system.machine.streaming_memory.read_bandwidth_per_ipu={rate}",
        memory={"weights": "streamed", "io_tiles": 64},
        parallelism={"pipeline_stages": stages},
    )
    assert result.decode.bound == bound
    loads_s = (8 * LAYER_BYTES + 2 * 2 * 1024 * 256) / {"0.1 GB/s": 0.1e9, "0.2 GB/s": 0.2e9}[rate] / stages
    assert result.decode.loads_s == pytest.approx(loads_s, rel=0.01)


def test_the_bound_and_the_loads_are_in_the_json() -> None:
    steps = json.loads(generated(memory={"weights": "streamed", "io_tiles": 64}).to_json())["steps"]
    assert [each["name"] for each in steps] == ["prefill", "decode"]
    assert all(each["bound"] and each["loads_s"] > 0 for each in steps)


def test_batches_in_flight_take_turns_at_the_slowest_stage() -> None:
    """Two batches need the last stage, which calls the host for 50 ms, one after the other: a token every 50 ms."""
    one, two = (
        generated("software.token_call=50 ms", parallelism={"pipeline_stages": 2, "batches_in_flight": count})
        for count in (1, 2)
    )
    assert one.tokens_per_s == pytest.approx(1 / 0.050, rel=0.02)
    assert two.tokens_per_s == pytest.approx(1 / 0.050, rel=0.02)
    assert two.time_per_output_token_s == pytest.approx(0.100, rel=0.02)
    assert two.decode.time_ps == one.decode.time_ps
