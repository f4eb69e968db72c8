"""LLaMa2-7B on more and more IPUs: what was published, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest

import podsim
from notebooks.llama2_7b import RESIDENT, STREAMED, PodRow, links_overtake_compute, rows_of_pods
from tests.collectives import collective_s

MOVED_B = 6738.4e6 * 2
"""Weights of LLaMa2-7B, each of which moves once a step. [B]"""
EXCHANGE_S = 600 / 1.33e9 + 0.57e-6
"""A sync of all IPUs and a hop. [s]"""


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
    assert all(row.bow_tokens_per_s < 1.05 * row.gc200.tokens_per_s for row in rows)


def test_one_sequence_gains_nothing_beyond_as_many_shards_as_heads(pods: Mapping[str, PodRow]) -> None:
    wide, staged = pods["pod32"].gc200, pods["pod64"].gc200
    assert staged.decode.time_s == pytest.approx(wide.decode.time_s, rel=1e-3)
    assert wide.tokens_per_s < staged.tokens_per_s < 2 * wide.tokens_per_s


def test_links_take_what_more_shards_bring_once_weights_are_on_the_chips(pods: Mapping[str, PodRow]) -> None:
    few, wide = pods["int4_resident"], pods["pod32_resident_one_stage"]
    assert (few.shards, wide.shards) == (16, 32)
    assert wide.gc200.tokens_per_s < few.gc200.tokens_per_s
    assert all(row.gc200.prefill.bound == "links" and row.gc200.decode.bound == "links" for row in (few, wide))
    # Sums of one row of 4096 halves: latency of twice the steps, apart from what comes before the loops.
    few_s, wide_s = (collective_s(2 * 4096, count, EXCHANGE_S, 2 * 13.6e9) for count in (16, 32))
    assert wide.step_parts_s["links"] / few.step_parts_s["links"] == pytest.approx(wide_s / few_s, rel=0.01)


def test_without_kept_keys_links_take_nearly_as_long_as_weights_on_32_ipus() -> None:
    """65 sums of 2 x 1024 rows of 4096 halves, both ways half around 32 IPUs; four IPUs read 19.2 GB/s."""
    overrides = ["system=ipu_pod64", "parallelism.tensor_parallel=32"]
    step = podsim.generate("llama2_7b_pod16_streamed", overrides=overrides).decode
    sum_s = collective_s(2 * 1024 * 4096 * 2, 32, EXCHANGE_S, 2 * 13.6e9)
    assert step.breakdown["all_reduce"] == pytest.approx(65 * sum_s, rel=0.01)
    loads_s = MOVED_B / 32 / (19.2e9 / 4)
    assert step.breakdown["streaming"] == pytest.approx(loads_s, rel=3e-3)
    assert step.breakdown["all_reduce"] / loads_s == pytest.approx(1.0, abs=0.02)
