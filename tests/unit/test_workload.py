"""Parameters and FLOP of BERT against known totals; every operation reads something that exists."""

import pytest

from podsim.models import Block, Workload
from podsim.models.op import Copy, Elementwise, MatMul, Op
from podsim.models.transformer.bert import BertShape, bert
from podsim.scenario import load_ipu


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


@pytest.mark.parametrize("change", [{"split_qkv": True}, {"qkv_products": 3}])
@pytest.mark.parametrize("attention_bias", [True, False])
def test_weights_of_their_own_compute_the_same(change: dict[str, object], attention_bias: bool) -> None:
    merged = bert(shape(attention_bias=attention_bias))
    split = bert(shape(attention_bias=attention_bias, **change))
    assert split.training_flop == merged.training_flop
    assert split.parameter_count == merged.parameter_count
    names = [parameter.name for parameter in split.blocks["attention"].parameters if parameter.name.endswith("weight")]
    assert names == ["query/weight", "key/weight", "value/weight", "projection/weight"]


def products(block: Block, projections: set[str]) -> dict[str, tuple[int, int, int]]:
    """Rows, inner axis and columns of the products of some projections."""
    return {
        op.name: (op.rows, op.inner, op.columns)
        for op in (*block.forward, *block.backward)
        if isinstance(op, MatMul) and op.name.split("/")[1] in projections
    }


def test_weights_side_by_side_are_one_product_in_each_pass() -> None:
    block = bert(shape(split_qkv=True)).blocks["attention"]
    assert products(block, {"qkv", "query", "key", "value"}) == {
        "attention/qkv": (512, 1024, 3072),
        "attention_backward/qkv/input_grad": (512, 3072, 1024),
        "attention_backward/qkv/weight_grad": (1024, 512, 3072),
    }


def test_each_of_the_weights_side_by_side_gets_a_copy_of_its_gradients() -> None:
    """Forward nothing is copied; backward the gradients of three weights of 1,024 x 1,024 and of their biases."""
    block = bert(shape(split_qkv=True)).blocks["attention"]
    assert not [op for op in block.forward if isinstance(op, Copy)]
    copies = {op.name.removeprefix("attention_backward/"): op.shape for op in block.backward if isinstance(op, Copy)}
    parts = ("query", "key", "value")
    weights = {f"{part}/weight_grad": (1024, 1024) for part in parts}
    assert copies == weights | {f"{part}/bias_grad": (1024,) for part in parts}
    accumulated = [op.name.split("/")[1] for op in block.backward if op.name.endswith("/accumulate")]
    assert {*parts} <= {*accumulated} and "qkv" not in accumulated


def test_gelu_by_the_error_function_is_five_passes() -> None:
    """In single precision 3 + 41 + 1 + 1.5 + 1 worker cycles an element; [poplibs_estimators]."""
    block = bert(shape(activation="gelu_erf")).blocks["feed_forward"]
    gelu = [op for op in block.forward if isinstance(op, Elementwise) and "/gelu/" in op.name]
    assert [op.name.rpartition("/")[2] for op in gelu] == ["div", "erf", "add", "mul", "half"]
    vertices = load_ipu("gc200").vertices.elementwise
    assert sum(cycles / width for cycles, width in (vertices[op.function].single for op in gelu)) == 47.5
    assert (
        sum(cycles / width for cycles, width in (vertices[op.function].half for op in gelu))
        == 4 + 13 + 0.5 + 0.75 + 0.5
    )


def test_packing_adds_a_square_mask() -> None:
    packed = bert(shape(sequences_per_pack=2.0, max_sequences_per_pack=3))
    names = [op.name for op in packed.blocks["attention"].forward]
    assert "attention/mask/broadcast" in names
    assert packed.samples_per_micro_batch == 2.0


def all_ops(workload: Workload) -> list[tuple[Op, ...]]:
    return [ops for block in workload.blocks.values() for ops in (block.forward, block.backward)]


@pytest.mark.parametrize("changes", [{}, {"split_qkv": True}, {"qkv_products": 3}, {"activation": "gelu_erf"}])
def test_operations_read_only_what_was_computed_before(changes: dict[str, object]) -> None:
    for ops in all_ops(bert(shape(**changes, max_sequences_per_pack=3))):
        seen: set[str] = set()
        for op in ops:
            assert all(name.startswith("@") or name in seen for name in op.inputs), op.name
            assert op.name not in seen
            seen.add(op.name)
