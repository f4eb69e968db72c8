"""LLaMa2-7B on more and more IPUs: what was published, where it ends, and what is not known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

import pytest

import podsim
from podsim.studies.pods import RESIDENT, STREAMED, PodRow, links_overtake_compute, rows_of_pods
from podsim.validation.comparison import Comparison, Validation
from podsim.validation.sensitivity import Sensitivity, published_rates, sensitivity
from podsim.validation.show import show

COMPARISON = Comparison("group", "row", 1.0, 1.0, "x", "hold-out", "source")


@pytest.fixture(scope="module")
def pods() -> Mapping[str, PodRow]:
    return {row.variant: row for row in rows_of_pods(STREAMED + RESIDENT)}


def test_throughput_grows_almost_linearly_and_latency_falls(pods: Mapping[str, PodRow]) -> None:
    """arXiv 2404.10730: linear, and falling. Four times the IPUs give at least nine tenths of four times."""
    rows = [pods[name] for name in ("pod4", "pod8", "pod16", "pod32")]
    for small, large in pairwise(rows):
        assert large.ipu_count == 2 * small.ipu_count
        assert large.gc200.latency_s < small.gc200.latency_s
        assert large.gc200.time_to_first_token_s < small.gc200.time_to_first_token_s
    assert 3.6 < pods["pod16"].gc200.tokens_per_s / pods["pod4"].gc200.tokens_per_s < 4


def test_parts_of_a_step_add_up(pods: Mapping[str, PodRow]) -> None:
    """With stages, too: what one does while others wait is counted once."""
    for row in pods.values():
        assert sum(row.step_parts_s.values()) == pytest.approx(row.gc200.decode.time_s, rel=1e-3), row.variant


def test_streamed_weights_bind_on_every_pod(pods: Mapping[str, PodRow]) -> None:
    rows = [pods[name] for name in STREAMED]
    assert {row.gc200.decode.bound for row in rows} == {"streaming memory"}
    overtaken = links_overtake_compute(rows)
    assert overtaken is not None and overtaken.shards == 8
    assert all(row.bow_tokens_per_s < 1.01 * row.gc200.tokens_per_s for row in rows)


def test_one_sequence_gains_nothing_beyond_as_many_shards_as_heads(pods: Mapping[str, PodRow]) -> None:
    wide, staged = pods["pod32"].gc200, pods["pod64"].gc200
    assert staged.decode.time_s == pytest.approx(wide.decode.time_s, rel=1e-3)
    assert wide.tokens_per_s < staged.tokens_per_s < 2 * wide.tokens_per_s


def test_links_take_what_more_shards_bring_once_weights_are_on_the_chips(pods: Mapping[str, PodRow]) -> None:
    few, wide = pods["int4_resident"], pods["pod32_resident_one_stage"]
    assert (few.shards, wide.shards) == (16, 32)
    assert wide.gc200.tokens_per_s < few.gc200.tokens_per_s
    assert all(row.gc200.prefill.bound == "links" and row.gc200.decode.bound == "host" for row in (few, wide))
    # 65 sums of 30 and of 62 steps: latency, as one row of 4096 halves is short.
    assert wide.step_parts_s["links"] / few.step_parts_s["links"] == pytest.approx(62 / 30, rel=0.02)


def test_without_kept_keys_twice_the_ipus_halve_loads_but_not_sums() -> None:
    """Sums move 62/64 of the tensor instead of 30/32 and take 62 steps instead of 30; each IPU loads half as much."""
    few, many = (
        podsim.generate("llama2_7b_pod16_streamed", overrides=["memory.io_tiles=0", *more]).decode.breakdown
        for more in ([], ["system=ipu_pod64", "parallelism.tensor_parallel=32"])
    )
    assert many["streaming"] == pytest.approx(few["streaming"] / 2, rel=2e-3)
    assert few["all_reduce"] < many["all_reduce"] < few["all_reduce"] * 62 / 30


def test_rates_at_other_bandwidths_by_hand() -> None:
    """Loads set the pace: all but those under the host's sampling and the sum that follows, embedding and first layer.

    A layer has 12.656 million weights on an IPU, the head 8.196 million; 24.7 GB/s feed four IPUs at 6.175 GB/s each.
    From 10 GB/s on the head is loaded, in 1.64 ms or less, before the last layer is done, which takes 1.7 ms.
    """
    rows = {row.rate: row for row in sensitivity()}
    assert list(rows) == ["6 GB/s", "8 GB/s", "10 GB/s", "11 GB/s", "12 GB/s", "14 GB/s", "16 GB/s"]
    assert [row.rate for row in rows.values() if row.committed] == ["11 GB/s"]
    loaded = 2 * (31 * 12.656e6 + 8.196e6)
    rest_s = 1 / rows["8 GB/s"].fed_steps_per_s - loaded / 8e9
    for rate, row in rows.items():
        own = float(rate.split()[0]) * 1e9
        assert 1 / row.steps_per_s == pytest.approx(loaded / min(own, 6.175e9) + rest_s, rel=1e-3)
        hidden_s = loaded / own + rest_s
        if own < 10e9:
            assert 1 / row.fed_steps_per_s == pytest.approx(hidden_s, rel=1e-3)
        else:
            assert 1 / row.fed_steps_per_s > hidden_s


def test_the_published_rates_lie_in_the_plausible_range() -> None:
    assert published_rates() == {"LLM-001": "7.0", "LLM-002": "7.02", "LLM-003": "7.55"}
    fed = [row.fed_steps_per_s for row in sensitivity()]
    assert all(min(fed) < float(rate) < max(fed) for rate in published_rates().values())


@pytest.mark.parametrize("output_format", ["table", "markdown"])
def test_the_output_of_the_validation_ends_with_them(output_format: str) -> None:
    text = show(Validation((COMPARISON,), ()), output_format, [Sensitivity("11 GB/s", True, 6.5, 7.25)])
    _, _, last = text.partition("llama2_7b_pod16_streamed: published are 7.0 (LLM-001), 7.02 (LLM-002), 7.55 (LLM-003)")
    assert "11 GB/s (committed)" in last.splitlines()[-1]
    assert "6.50" in last and "7.25" in last


def test_the_json_of_the_validation_has_them() -> None:
    report = json.loads(show(Validation((COMPARISON,), ()), "json", [Sensitivity("11 GB/s", True, 6.5, 7.25)]))
    assert report["sensitivity"] == [
        {"rate": "11 GB/s", "committed": True, "steps_per_s": 6.5, "fed_steps_per_s": 7.25}
    ]
