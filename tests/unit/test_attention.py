"""Layouts between the products of attention: which are changed, in which pieces, and what a profile says of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from podsim.models.block import Block
from podsim.models.op import Elementwise, MatMul, Rearrange
from podsim.models.transformer.attention import Attention, attention
from podsim.models.transformer.embedding import PatchEmbedding
from podsim.models.transformer.feed_forward import feed_forward
from podsim.models.transformer.shape import Batch, LayerShape
from podsim.models.transformer.vision import VisionShape, vision_transformer
from podsim.scenario import load_ipu
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
        assert changed.layout_changes == ((2 * 24 * 197 * 197, 394),)
        assert changed.name in {name for op in ops for name in op.inputs}


def test_products_that_read_rows_of_scores_read_them_in_their_pieces() -> None:
    products = [op for op in (*vision().forward, *vision().backward) if isinstance(op, MatMul)]
    found = {op.name.rpartition("/")[2]: op.left_row_length for op in products}
    assert {name for name, count in found.items() if count == 197} == IN_ROWS
    assert all(count is None for name, count in found.items() if name not in IN_ROWS)


@pytest.mark.parametrize(("tokens", "small"), [(197, True), (50, True), (128, False), (384, False), (512, False)])
def test_pieces_are_small_where_eight_bytes_do_not_divide_a_row(tokens: int, small: bool) -> None:
    pieces = [piece for op in vision(tokens).forward for _, piece in op.layout_changes]
    assert any(piece % 8 for piece in pieces) is small


def names(block: Block, found: frozenset[str] | None = None) -> list[str]:
    """Operations of the forward pass without the block's name, all or some."""
    ops = (op.name for op in block.forward if found is None or op.name in found)
    return [name.partition("/")[2] for name in ops]


def test_a_redone_pass_stops_at_what_a_gradient_reads() -> None:
    """Behind a norm in front nothing reads what the last product makes; one behind it, a single operation, does."""
    before = layer(Batch(2, 64), 768, 12, 3072)
    after = replace(before, pre_norm=False)
    for block, product in ((attention(Attention(before)), "projection"), (feed_forward(before), "down")):
        assert names(block, block.unread_results) == [product, f"{product}/bias", "dropout", "residual"]
    for block in (attention(Attention(after)), feed_forward(after)):
        assert not block.unread_results


def test_a_causal_mask_from_integers() -> None:
    """Each layer makes it, multiplies scores by it and adds the rest in single precision, as is the softmax behind.

    Of 64·64 places of the mask all 12 heads of 2 sequences read each.
    """
    made = replace(layer(Batch(2, 64), 768, 12, 3072), mask="causal", multiplies_by_mask=True)
    ops = {op.name.partition("/")[2]: op for op in attention(Attention(made)).forward}
    single = {name for name, op in ops.items() if isinstance(op, Elementwise) and op.dtype == "fp32"}
    softmax = {f"softmax/{name}" for name in ("sub", "exp", "inverse", "scale")}
    mask = {"mask/one_number", "mask/cast.2", "mask/one_number.2", "mask/scores", "mask"}
    assert single == softmax | mask | {"norm/rsqrt"}
    assert ops["probabilities/cast"].dtype == "fp16"
    spread = ops["mask/broadcast"]
    assert isinstance(spread, Rearrange)
    assert spread.reader_count == 24
    assert spread.layout_changes == ((2 * 64 * 64, 2 * 64),)


def test_each_pack_has_a_mask_of_its_own() -> None:
    packs = replace(layer(Batch(2, 64), 768, 12, 3072), mask="packs")
    (spread,) = (op for op in attention(Attention(packs)).forward if op.name.endswith("broadcast"))
    assert isinstance(spread, Rearrange)
    assert spread.reader_count == 12


def test_dropouts_of_a_vision_transformer() -> None:
    """Behind the activation, behind both blocks, and the same in the backward pass; none on probabilities."""
    shape = VisionShape(12, 768, 3072, 12, PatchEmbedding(224, 16), 1000)
    model = vision_transformer(shape, Batch(8, 197, attention_dropout=False), 1, decoded_by_host=False)
    for name, sizes in (("attention", [(1576, 768)]), ("feed_forward", [(1576, 3072), (1576, 768)])):
        for ops, order in ((model.blocks[name].forward, 1), (model.blocks[name].backward, -1)):
            found = [op.shape for op in ops if isinstance(op, Elementwise) and op.function == "dropout"]
            assert found == sizes[::order]


def test_a_step_of_generation_reads_whole_pieces_of_its_cache() -> None:
    """However many tokens came before: the cache has room for the longest sequence."""
    pieces = [piece for op in vision(1, context=333).forward for _, piece in op.layout_changes]
    assert pieces
    assert set(pieces) == {8}


def test_frameworks_lay_out_the_same() -> None:
    """PopART's own graph and those that PyTorch, TensorFlow and PaddlePaddle trace."""
    names = ("pytorch_sdk_3.1", "paddlepaddle_sdk_2.5", "tensorflow2_sdk_3.0", "popart_sdk_3.1")
    blocks = [plan_of("bert_base_squad_pod16", f"software={name}").workload.blocks["attention"] for name in names]
    assert all(block == blocks[0] for block in blocks)


def test_padded_sequences_lie_in_whole_pieces() -> None:
    """197 tokens become 200 between the products with weights, which is 50 pieces of eight bytes."""
    batch = Batch(2, 197, dropout=False, attention_dropout=False)
    block = attention(Attention(replace(layer(batch, 768, 12, 3072), attention_padding=True)))
    shapes = {op.name: op.shape for op in block.forward if isinstance(op, MatMul)}
    assert shapes["attention/scores"] == (24, 200, 200)
    assert shapes["attention/context"] == (24, 200, 64)
    assert shapes["attention/projection"] == (1, 2 * 197, 768)
    assert {piece % 8 for op in block.forward for _, piece in op.layout_changes} == {0}


def test_queries_are_scaled_in_place_of_scores() -> None:
    """2 images of 197 tokens, 768 wide, in place of 12 heads of 197 scores for each."""
    batch = Batch(2, 197, dropout=False, attention_dropout=False)
    for scaled_queries, shape in ((False, (24, 197, 197)), (True, (394, 768))):
        block = attention(Attention(replace(layer(batch, 768, 12, 3072), scaled_queries=scaled_queries)))
        (scale,) = [op for op in block.forward if op.name == "attention/scale"]
        assert scale.shape == shape


def test_a_square_mask_of_padding_is_laid_out_like_scores() -> None:
    batch = Batch(2, 256, dropout=False, attention_dropout=False)
    block = attention(Attention(replace(layer(batch, 768, 12, 3072), mask="square")))
    found = [(op.name, op.shape) for op in block.forward if "mask" in op.name]
    assert found == [("attention/mask/broadcast", (24, 256, 256)), ("attention/mask", (24, 256, 256))]


def test_a_profiled_block_of_a_vision_transformer() -> None:
    """SigLIP So400m/14, an image of 729 tokens on a C600 [siglip_profile].

    Of about 592,000 cycles a block 29 % are products; the copies from scores to softmax take 126,283.
    Copies by hand: 2·(288 + 5.15·B) + B/4 with B = 8·729·2 bytes, 8 of 16·729 rows being on a tile.
    """
    s = layer(Batch(1, 729, dropout=False, attention_dropout=False), 1152, 16, 4304)
    model = CostModel(load_ipu("ipu_c600"), layout_change_cycles_per_byte=0.565)
    costs = model.sequence(attention(Attention(s)).forward + feed_forward(s).forward, 0.4)
    held = 8 * 729 * 2
    copies = next(cost.account for cost in costs if cost.op.name.endswith("scores/rows"))
    assert copies.rearrange == pytest.approx(2 * (288 + 5.15 * held) + held / 4)
    assert copies.rearrange == pytest.approx(126_283, rel=0.04)
    assert sum(cost.account.matmul for cost in costs) == pytest.approx(0.29 * 592_000, rel=0.03)
    assert sum(cost.account.cycles for cost in costs) == pytest.approx(592_000, rel=0.03)
