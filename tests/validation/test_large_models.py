"""The accounting of models that were trained on GPUs: parameters, weights with optimizer, activations, work.

The machines are others, so no time is compared; and where GPUs keep something else than IPUs do, it is added by hand:
masks of dropout, a byte an element, which an IPU draws again from its seed.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podsim.models import Workload
from podsim.models.op import MatMul
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch, Shards
from podsim.placement.cuts import Segment, kept_elements
from podsim.placement.job import training_job
from podsim.placement.plan import job_memory
from podsim.scenario import load_scenario

TOKENS, WORDS = 2048, 51_200
MIB, GIB = 2**20, 2**30
LAYER = Segment(("attention", "feed_forward"))


def published() -> dict[str, dict[str, str]]:
    path = Path(__file__).parents[2] / "reference_data" / "large_models.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["model"]: row for row in csv.DictReader(file)}


ROWS = published()


class Row:
    """A published model in numbers."""

    def __init__(self, row: Mapping[str, str]) -> None:
        self.hidden, self.inner, self.heads, self.layers, self.shards, self.stages, self.size, self.chunks = (
            int(row[key])
            for key in (
                "hidden_size", "feed_forward_size", "head_count", "layer_count",
                "tensor_parallel", "pipeline_stages", "micro_batch_size", "chunks",
            )
        )  # fmt: skip
        # The first stage holds as many layers of micro-batches as the model has, and interleaved chunks some more.
        self.in_flight = 1 + (self.stages - 1) / (self.stages * self.chunks) if self.chunks > 1 else 1
        self.states = self.size * TOKENS * self.hidden
        self.scores = self.size * TOKENS * TOKENS * self.heads

    def workload(self, layers: int = 1, size: int | None = None, **sharing: Any) -> Workload:
        """No biases and no positions, as the formulas have it; words shared with the head."""
        shape = DecoderShape(
            layers, self.hidden, self.inner, self.heads, self.heads, WORDS,
            gated=False, norm="layer", tied_embedding=True,
        )  # fmt: skip
        return causal_decoder(shape, Batch(size or self.size, TOKENS), shards=Shards(**sharing))

    def kept_bytes(self, **sharing: Any) -> int:
        """What a layer keeps with nothing recomputed, in halves."""
        return 2 * kept_elements(LAYER, self.workload(count=self.shards, **sharing), recompute=False)


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest) -> Row:
    return Row(ROWS[request.param])


@pytest.mark.parametrize("name", ROWS)
def test_parameters_to_the_unit(name: str) -> None:
    """12·h² weights and two norms of 2·h a layer, a last norm, the words.

    Of the most loaded shard, that of the first stage, the formulas divide norms as well, which each shard has whole.
    """
    row = Row(ROWS[name])
    layer, norm, words = 12 * row.hidden**2, 2 * row.hidden, WORDS * row.hidden
    whole = row.layers * (layer + 2 * norm) + norm + words
    assert row.workload(row.layers, 1).parameter_count == whole
    shard = row.workload(row.layers, 1, count=row.shards)
    norms = (2 * row.layers + 1) * norm
    assert row.shards * (shard.parameter_count - norms) + norms == whole
    loaded = ((whole - words) / row.stages + words) / row.shards
    assert f"{loaded:.4e}".replace("e+0", "e") == ROWS[name]["theory_parameters"]


@pytest.mark.parametrize("name", ["22B", "175B"])
def test_weights_and_optimizer_of_the_most_loaded_shard(name: str) -> None:
    """18 B a parameter: half weights, gradients, a copy of the weights and two moments in single precision.

    The larger ones have stages for more IPUs than a link domain, and are counted below.
    """
    row, theory = Row(ROWS[name]), float(ROWS[name]["theory_weights_and_optimizer_mib"]) * MIB
    scenario: dict[str, Any] = {
        "system": "ipu_pod64",
        "software": "popxl_sdk_3.3",
        "model": {
            "kind": "decoder", "layer_count": row.layers, "hidden_size": row.hidden, "feed_forward_size": row.inner,
            "head_count": row.heads, "kv_head_count": row.heads, "vocabulary_size": WORDS,
            "gated": False, "norm": "layer", "tied_embedding": True,
        },
        "data": {"sequence_length": TOKENS},
        "parallelism": {
            "tensor_parallel": row.shards, "pipeline_stages": row.stages, "head_on": "last_ipu",
            "micro_batch_size": row.size, "accumulation_factor": 2 * row.stages, "replication_factor": 1,
        },
        "optimizer": {"kind": "adamw", "master_weights": True},
        "precision": {"gradient_accumulation": "fp32"},
    }  # fmt: skip
    ipu, *_ = job_memory(training_job(load_scenario(scenario).spec))  # type: ignore[arg-type]
    held = {tenant.name: tenant.byte_count for tenant in ipu.tenants}
    found = held["weights"] + held["accumulators"] + held["optimizer_state"]
    assert found == pytest.approx(theory, rel=0.01)


@pytest.mark.parametrize("name", ROWS)
def test_weights_and_optimizer_by_parameters(name: str) -> None:
    """The same from the parameters of a layer and of the words, of which the first stage has its part."""
    row, theory = Row(ROWS[name]), float(ROWS[name]["theory_weights_and_optimizer_mib"]) * MIB
    blocks = row.workload(count=row.shards).blocks
    layer = sum(blocks[name].parameter_count for name in LAYER.blocks)
    found = 18 * (row.layers / row.stages * layer + blocks["embedding"].parameter_count)
    assert found == pytest.approx(theory, rel=0.01)


@pytest.mark.parametrize("name", ROWS)
def test_activations_with_nothing_recomputed(name: str) -> None:
    """As measured, with masks of two hidden states and of scores."""
    row, measured = Row(ROWS[name]), float(ROWS[name]["measured_activations_gib"])
    every = row.kept_bytes() + 2 * row.states + row.scores // row.shards
    assert every * row.layers * row.in_flight / GIB == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("name", ROWS)
def test_activations_with_scores_recomputed(name: str) -> None:
    """Tokens are divided; probabilities and what dropout leaves of them, two halves, are made again."""
    row, measured = Row(ROWS[name]), float(ROWS[name]["measured_selective_gib"])
    every = row.kept_bytes(divide_tokens=True) + (2 * row.states - 2 * 2 * row.scores) // row.shards
    assert every == row.states * (18 + 4 * row.inner // row.hidden) // row.shards  # the formula of a layer, to the byte
    assert every * row.layers * row.in_flight / GIB == pytest.approx(measured, rel=0.01)


@pytest.mark.parametrize("name", ROWS)
def test_activations_of_the_formulas(name: str) -> None:
    """Beside layers, the formulas count for each micro-batch that the first stage has at once 8 B a token and the mask
    behind the embedding, and of a single stage logits and what they are made of in single precision."""
    row, theory = Row(ROWS[name]), float(ROWS[name]["theory_activations_mib"])
    every = row.kept_bytes(divide_tokens=True) + (2 * row.states - 2 * 2 * row.scores) // row.shards
    tokens = row.size * TOKENS
    beside = row.stages * (8 * tokens + row.states) / row.shards
    if row.stages == 1:
        beside += 4 * (row.states + tokens * WORDS) / row.shards
    assert (every * row.layers + beside) * row.in_flight / MIB == pytest.approx(theory, rel=1e-6)


def test_shards_do_the_work_of_the_whole(row: Row) -> None:
    """Every product of eight shards together, forward and backward; heads, inner widths and words divide by eight."""

    def flop(workload: Workload) -> int:
        ops = (op for block in workload.blocks.values() for op in (*block.forward, *block.backward))
        return sum(op.flop for op in ops if isinstance(op, MatMul))

    assert row.shards * flop(row.workload(count=row.shards)) == flop(row.workload()) > 0
    divided = row.workload(count=row.shards, divide_tokens=True)
    assert row.shards * flop(divided) == flop(row.workload())
