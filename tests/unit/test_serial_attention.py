"""Attention whose queries meet keys in parts, one after the other: products, copies, memory and time.

The layer by hand: one sequence of 1,024 tokens, one head of 16, no biases and no mask. Scores of all queries are
1,024 · 1,024 halves, 2 MiB; everything else that an attention makes is 1,024 · 16 halves, 32 KiB.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import podsim
from podsim.errors import SpecError
from podsim.models.block import Block
from podsim.models.op import MatMul
from podsim.models.transformer.attention import Attention, attention
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch, LayerShape, Shards
from podsim.placement.alive import LiveOp, Needs, needs
from podsim.placement.cuts import Segment, kept_elements
from podsim.scenario import load_scenario

TOKENS, HEAD = 1024, 16
SCORES, STATE = 2 * TOKENS * TOKENS, 2 * TOKENS * HEAD
PARTS = [1, 2, 4, 8]
SHAPE = DecoderShape(1, HEAD, 64, 1, 1, 1000, gated=False)


def block(parts: int, queries: int = TOKENS, **batch: Any) -> Block:
    layer = LayerShape(
        batch=Batch(1, queries, dropout=False, attention_dropout=False, **batch),
        layer_count=1,
        hidden_size=HEAD,
        feed_forward_size=64,
        head_count=1,
        kv_head_count=1,
        head_size=HEAD,
        pre_norm=True,
        mask="none",
        biases=(),
        sharing=Shards(attention_parts=parts),
    )
    return attention(Attention(layer))


def products(parts: int, name: str, queries: int = TOKENS) -> list[MatMul]:
    ops = (op for each in (block(parts, queries),) for op in (*each.forward, *each.backward))
    return [op for op in ops if isinstance(op, MatMul) and op.name.rpartition("/")[2].partition(".")[0] == name]


@pytest.mark.parametrize("parts", PARTS)
def test_parts_do_the_work_of_the_whole(parts: int) -> None:
    """Two products forward and four backward in each part; together they multiply as much."""
    for name in ("scores", "context", "probabilities_grad", "value_grad", "query_grad", "key_grad"):
        found = products(parts, name)
        assert len(found) == parts
        assert sum(op.flop for op in found) == 2 * TOKENS * TOKENS * HEAD


def test_queries_that_cannot_be_divided_evenly() -> None:
    """Of 10 queries, 3 parts have 3, 3 and 4."""
    assert [op.rows for op in products(3, "scores", queries=10)] == [3, 3, 4]
    assert [op.inner for op in products(3, "key_grad", queries=10)] == [3, 3, 4]


@pytest.mark.parametrize("parts", PARTS)
def test_each_part_reads_all_keys_and_values_again(parts: int) -> None:
    """Of scores, queries are copied once and keys for each part; results are laid together, and gradients added up."""
    for name, once in (("scores", STATE), ("probabilities_grad", STATE), ("context", SCORES), ("query_grad", SCORES)):
        assert sum(size for op in products(parts, name) for size, _ in op.layout_changes) == once + parts * STATE
    whole, made = block(1), block(parts)
    for before, behind in ((whole.forward, made.forward), (whole.backward, made.backward)):
        joined = [op for op in behind if op.name.endswith("/join")]
        assert [op.byte_count for op in joined] == ([STATE] if parts > 1 else [])
        added = [op for op in behind if op.name.partition(".")[0].endswith(("key_grad/add", "value_grad/add"))]
        assert len(added) == (2 * (parts - 1) if behind is made.backward else 0)
        assert all(op.byte_count == STATE for op in added)
        # What each part makes of keys and values is as large as that of all queries.
        again = 2 * (parts - 1) * STATE if behind is made.backward else 0
        more = again + sum(op.byte_count for op in (*joined, *added))
        assert sum(op.byte_count for op in behind) == sum(op.byte_count for op in before) + more


def needed(parts: int) -> Needs:
    """What the block needs if operations have no temporaries of their own."""
    model = replace(causal_decoder(SHAPE, Batch(1, TOKENS)), blocks={"attention": block(parts)}, order=("attention",))
    made = model.blocks["attention"]
    return needs(model, "attention", *([LiveOp(op) for op in ops] for ops in (made.forward, made.backward)))


@pytest.mark.parametrize("parts", PARTS)
def test_memory_of_scores_by_hand(parts: int) -> None:
    """In a forward pass alone, scores are there twice while they are laid out in rows: 2/n of all.

    In one that is redone, probabilities of the parts before are there as well: (n - 1)/n + 2/n. In the backward pass
    their gradients are there twice, and probabilities of which the first part has freed none: 1 + 2/n. What is small,
    states of 32 KiB, is 12 of them at most; single numbers of rows, of 4 B, are fewer still.
    """
    found, small = needed(parts), 12 * STATE
    for byte_count, scores in (
        (found.forward.byte_count, 2 / parts),
        (found.redone_bytes, 1 + 1 / parts),
        (found.behind_redone_bytes, 1 + 2 / parts),
        (found.backward_bytes, 2 / parts),
    ):
        assert scores * SCORES <= byte_count <= scores * SCORES + small


@pytest.mark.parametrize("parts", PARTS)
def test_what_is_kept_for_the_backward_pass_is_the_same(parts: int) -> None:
    layer = Segment(("attention", "feed_forward"))
    whole, made = (causal_decoder(SHAPE, Batch(1, TOKENS), shards=Shards(attention_parts=n)) for n in (1, parts))
    assert kept_elements(layer, made, recompute=False) == kept_elements(layer, whole, recompute=False)


SMALL: dict[str, Any] = {
    "system": "ipu_pod16",
    "software": "popxl_sdk_3.3",
    "model": {
        "kind": "decoder",
        "layer_count": 2,
        "hidden_size": 256,
        "feed_forward_size": 512,
        "head_count": 4,
        "kv_head_count": 4,
        "vocabulary_size": 64,
    },
    "data": {"sequence_length": 1024},
    "optimizer": {"kind": "adamw"},
    "parallelism": {
        "execution": "phased",
        "tensor_parallel": 4,
        "micro_batch_size": 1,
        "accumulation_factor": 4,
        "replication_factor": 4,
    },
}


def temporary_bytes(result: podsim.RunResult) -> int:
    return next(row.size_bytes for row in result.memory.rows if row.tenant == "temporaries")


def test_parts_take_longer_and_less_memory() -> None:
    """More supersteps and copies; nothing but tiles is busier, and the work that counts is the same."""
    results = [podsim.simulate(SMALL, overrides=[f"parallelism.attention_serialisation={n}"]) for n in PARTS]
    for few, many in pairwise(results):
        assert few.weight_update_ps < many.weight_update_ps
        assert few.breakdown_ps["tensor_parallel"] == many.breakdown_ps["tensor_parallel"]
        assert few.breakdown_ps["streaming"] == many.breakdown_ps["streaming"]
        assert temporary_bytes(few) >= temporary_bytes(many)  # until another block has the most
        assert few.mfu * few.weight_update_ps == pytest.approx(many.mfu * many.weight_update_ps)
    assert temporary_bytes(results[0]) > temporary_bytes(results[1])


@pytest.mark.parametrize(
    ("model", "data", "most"),
    [
        ({}, {"sequence_length": 64}, 64),
        ({"kind": "t5", "size": "small"}, {"source_length": 64, "target_length": 16}, 16),
        ({"kind": "vit", "size": "base"}, {"decoded_by_host": False}, 197),
    ],
)
def test_more_parts_than_queries_are_refused(model: dict[str, Any], data: dict[str, Any], most: int) -> None:
    scenario = SMALL | {"model": model or SMALL["model"], "data": data}
    load_scenario(scenario, overrides=[f"parallelism.attention_serialisation={most}"])
    with pytest.raises(SpecError, match=f"{most} queries cannot be divided into {most + 1} parts") as caught:
        load_scenario(scenario, overrides=[f"parallelism.attention_serialisation={most + 1}"])
    assert f"use at most {most}" in str(caught.value)
    assert "[parallelism.attention_serialisation]" in str(caught.value)
