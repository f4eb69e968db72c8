"""Layouts between the products of attention: which are changed, in which pieces, and what a profile says of them."""

from __future__ import annotations

from functools import cache

import pytest

from podsim import load
from podsim.models.block import Block
from podsim.models.op import MatMul, Rearrange
from podsim.models.transformer.attention import Attention, attention
from podsim.models.transformer.feed_forward import feed_forward
from podsim.models.transformer.shape import Batch, LayerShape
from podsim.placement.job import training_job
from podsim.placement.plan import cost_model
from podsim.scenario import load_ipu
from podsim.scenario.training import TrainingScenario
from podsim.tiles import CostModel
from tests.examples import plan_of

IN_ROWS = {"context", "value_grad", "query_grad", "key_grad"}


def layer(batch: Batch, hidden: int, heads: int, inner: int) -> LayerShape:
    return LayerShape(
        batch=batch,
        layer_count=1,
        hidden_size=hidden,
        feed_forward_size=inner,
        head_count=heads,
        kv_head_count=heads,
        head_size=hidden // heads,
        pre_norm=True,
        mask="none",
    )


@cache
def vision(tokens: int = 197, context: int | None = None) -> Block:
    batch = Batch(2, tokens, dropout=False, attention_dropout=False, context_length=context, cached=context is not None)
    return attention(Attention(layer(batch, 768, 12, 3072)))


def test_scores_and_their_gradients_are_laid_out_in_rows_once() -> None:
    for ops, product in ((vision().forward, "scores"), (vision().backward, "probabilities_grad")):
        (changed,) = [op for op in ops if isinstance(op, Rearrange)]
        assert changed.inputs[0].endswith(f"/{product}")
        # 2 images x 12 heads x 197 x 197 halves, in rows of 394 B.
        assert changed.laid_out == ((2 * 24 * 197 * 197, 394),)
        assert changed.name in {name for op in ops for name in op.inputs}


def test_products_that_read_rows_of_scores_read_them_in_their_pieces() -> None:
    products = [op for op in (*vision().forward, *vision().backward) if isinstance(op, MatMul)]
    found = {op.name.rpartition("/")[2]: op.left_row_count for op in products}
    assert {name for name, count in found.items() if count == 197} == IN_ROWS
    assert all(count is None for name, count in found.items() if name not in IN_ROWS)


@pytest.mark.parametrize(("tokens", "small"), [(197, True), (50, True), (128, False), (384, False), (512, False)])
def test_pieces_are_small_where_eight_bytes_do_not_divide_a_row(tokens: int, small: bool) -> None:
    pieces = [piece for op in vision(tokens).forward for _, piece in op.laid_out]
    assert any(piece % 8 for piece in pieces) is small


def test_a_step_of_generation_reads_whole_pieces_of_its_cache() -> None:
    """However many tokens came before: the cache has room for the longest sequence."""
    pieces = [piece for op in vision(1, context=333).forward for _, piece in op.laid_out]
    assert pieces
    assert set(pieces) == {8}


def test_frameworks_lay_out_the_same() -> None:
    """PopART's own graph and those that PyTorch, TensorFlow and PaddlePaddle trace."""
    names = ("pytorch_sdk_3.1", "paddlepaddle_sdk_2.5", "tensorflow2_sdk_3.0", "popart_sdk_3.1")
    blocks = [plan_of("bert_base_squad_pod16", f"software={name}").workload.blocks["attention"] for name in names]
    assert all(block == blocks[0] for block in blocks)


@pytest.mark.parametrize(("name", "share"), [("vit_base_pod16", 0.0), ("bert_base_squad_pod16", 1.0)])
def test_only_models_with_small_pieces_stand_on_their_share(name: str, share: float) -> None:
    spec = load(name, overrides=["software.small_piece_share=0"]).spec
    assert isinstance(spec, TrainingScenario)
    assert cost_model(training_job(spec)).small_piece_share == share


def test_a_profiled_block_of_a_vision_transformer() -> None:
    """SigLIP So400m/14, an image of 729 tokens on a C600 [siglip_profile].

    Of about 592,000 cycles a block 29 % are products; the copies from scores to softmax take 126,283.
    Copies by hand: 2·(288 + 5.15·B) + B/4 with B = 16·729²·2/1472 bytes on a tile.
    """
    s = layer(Batch(1, 729, dropout=False, attention_dropout=False), 1152, 16, 4304)
    model = CostModel(load_ipu("ipu_c600"), layout_change_cycles_per_byte=0.565)
    costs = model.sequence(attention(Attention(s)).forward + feed_forward(s).forward, 0.4)
    held = 16 * 729**2 * 2 / 1472
    copies = next(each.account for each in costs if each.op.name.endswith("scores/rows"))
    assert copies.rearrange == pytest.approx(2 * (288 + 5.15 * held) + held / 4)
    assert copies.rearrange == pytest.approx(126_283, rel=0.04)
    assert sum(each.account.matmul for each in costs) == pytest.approx(0.29 * 592_000, rel=0.03)
    assert sum(each.account.cycles for each in costs) == pytest.approx(592_000, rel=0.03)
