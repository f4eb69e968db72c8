"""Parameters and FLOP of BERT against known totals; every operation reads something that exists."""

import pytest

from podsim.models import Workload
from podsim.models.op import Op
from podsim.models.transformer.bert import BertShape, bert


def shape(**changes: object) -> BertShape:
    values: dict[str, object] = {
        "micro_batch_size": 1,
        "sequence_length": 512,
        "layer_count": 24,
        "hidden_size": 1024,
        "feed_forward_size": 4096,
        "head_count": 16,
        "vocabulary_size": 30522,
        "position_count": 512,
        "masked_token_count": 76,
    }
    return BertShape(**(values | changes))  # type: ignore[arg-type]


def encoder_parameters(hidden: int, feed_forward: int, layers: int, *, attention_bias: bool) -> int:
    attention = 4 * hidden * hidden + (4 * hidden if attention_bias else 0)
    dense = 2 * hidden * feed_forward + feed_forward + hidden
    return layers * (attention + dense + 4 * hidden)


@pytest.mark.parametrize("attention_bias", [True, False])
def test_parameter_count_is_the_sum_of_all_tensors(attention_bias: bool) -> None:
    embedding = (30522 + 512 + 2) * 1024 + 2 * 1024
    heads = (1024 * 1024 + 1024) + (1024 * 1024 + 1024 + 2 * 1024) + (2 * 1024 + 2)
    expected = embedding + encoder_parameters(1024, 4096, 24, attention_bias=attention_bias) + heads
    assert bert(shape(attention_bias=attention_bias)).parameter_count == expected


def test_bert_large_and_base_have_their_published_sizes() -> None:
    """336 M and 110 M parameters, the sizes by which the models are known [devlin2018]."""
    base = shape(layer_count=12, hidden_size=768, feed_forward_size=3072, head_count=12)
    assert bert(shape()).parameter_count == pytest.approx(336e6, rel=0.002)
    assert bert(base).parameter_count == pytest.approx(110e6, rel=0.005)


def test_tied_decoder_is_stored_once() -> None:
    without_head = bert(shape(pooler=False, mlm_transform=False))
    assert without_head.blocks["head"].parameter_count == 2 * 1024 + 2


@pytest.mark.parametrize(
    ("sequence_length", "masked", "slots", "gflop"),
    [(512, 78, 3, 340.034), (128, 20, 1, 80.209), (384, 56, 1, 250.030)],
)
def test_forward_flop(sequence_length: int, masked: int, slots: int, gflop: float) -> None:
    """2·s·L·(4h² + 2·h·ff) + 4·L·s²·h, plus 2·m·h·(V + h) and the sequence heads."""
    packed = {"sequences_per_pack": 2.0, "max_sequences_per_pack": slots} if slots > 1 else {}
    sizes = {"sequence_length": sequence_length, "masked_token_count": masked, "vocabulary_size": 30400}
    workload = bert(shape(**sizes, **packed))
    encoder = 24 * (2 * sequence_length * (4 * 1024**2 + 2 * 1024 * 4096) + 4 * sequence_length**2 * 1024)
    heads = 2 * masked * 1024 * (30400 + 1024) + 2 * slots * 1024 * (1024 + 2)
    assert workload.forward_flop == encoder + heads
    assert workload.forward_flop / 1e9 == pytest.approx(gflop, rel=1e-5)
    assert workload.training_flop == 3 * workload.forward_flop


def test_backward_products_cost_twice_the_forward_ones() -> None:
    workload = bert(shape(micro_batch_size=2))
    for block in workload.blocks.values():
        backward = sum(getattr(op, "flop", 0) for op in block.backward)
        assert backward == 2 * block.forward_flop


def test_split_qkv_computes_the_same() -> None:
    merged, split = bert(shape()), bert(shape(split_qkv=True))
    assert split.forward_flop == merged.forward_flop
    assert split.parameter_count == merged.parameter_count


def test_packing_adds_a_square_mask() -> None:
    packed = bert(shape(sequences_per_pack=2.0, max_sequences_per_pack=3))
    names = [op.name for op in packed.blocks["attention"].forward]
    assert "attention/mask/broadcast" in names
    assert packed.samples_per_micro_batch == 2.0


def all_ops(workload: Workload) -> list[tuple[Op, ...]]:
    return [ops for block in workload.blocks.values() for ops in (block.forward, block.backward)]


@pytest.mark.parametrize("split_qkv", [True, False])
def test_operations_read_only_what_was_computed_before(split_qkv: bool) -> None:
    for ops in all_ops(bert(shape(split_qkv=split_qkv, max_sequences_per_pack=3))):
        seen: set[str] = set()
        for op in ops:
            assert all(name.startswith("@") or name in seen for name in op.inputs), op.name
            assert op.name not in seen
            seen.add(op.name)
