"""The transformer family: parameters and FLOP against known totals, structure of its blocks."""

import math
from typing import Any

import pytest

from podsim import simulate
from podsim.errors import SpecError
from podsim.models import Workload
from podsim.models.layers import HALF, linear_backward
from podsim.models.op import Reduce
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch
from podsim.scenario import load_scenario
from podsim.scenario.training import TrainingScenario

PARALLELISM = {"micro_batch_size": 1, "accumulation_factor": 16, "replication_factor": 1, "layers_per_ipu": [1]}
DATA: dict[str, dict[str, object]] = {
    "bert": {"sequence_length": 384},
    "decoder": {"sequence_length": 1024},
    "vit": {},
    "t5": {"source_length": 512, "target_length": 128},
}
LAYERS = {"gpt2_small": 12, "gpt2_medium": 24, "gpt2_large": 36, "gpt2_xl": 48, "llama2_7b": 32, "llama2_70b": 80}


def scenario(model: dict[str, object], layers: int, **changes: object) -> Any:
    values: dict[str, object] = {
        "system": "ipu_pod4",
        "software": "pytorch_sdk_3.1",
        "model": model,
        "data": DATA[str(model["kind"])],
        "parallelism": PARALLELISM | {"layers_per_ipu": [layers]},
    }
    return load_scenario(values | changes).require(TrainingScenario)


def of(spec: TrainingScenario, micro_batch_size: int = 1) -> Workload:
    return spec.model.workload(spec.data, spec.formats, micro_batch_size)


def workload(model: dict[str, object], layers: int, micro_batch_size: int = 1) -> Workload:
    return of(scenario(model, layers), micro_batch_size)


@pytest.mark.parametrize(
    ("size", "parameters"),
    [
        # Hugging Face's counts of its checkpoints.
        ("gpt2_small", 124_439_808),
        ("gpt2_medium", 354_823_168),
        ("gpt2_large", 774_030_080),
        ("gpt2_xl", 1_557_611_200),
        # [touvron2023], checkpoints of 13.48 GB and 137.95 GB in half precision.
        ("llama2_7b", 6_738_415_616),
        ("llama2_70b", 68_976_648_192),
    ],
)
def test_decoders_have_their_published_sizes(size: str, parameters: int) -> None:
    assert workload({"kind": "decoder", "size": size}, LAYERS[size]).parameter_count == parameters


@pytest.mark.parametrize(
    ("size", "layers", "width", "millions"),
    [("gpt3_1_3b", 24, 2048, 1_315.7), ("gpt3_2_7b", 32, 2560, 2_651.6), ("gpt3_175b", 96, 12288, 174_604.3)],
)
def test_gpt3_is_a_larger_gpt2(size: str, layers: int, width: int, millions: float) -> None:
    """L·(12h² + 13h) + (V + 2,048)·h + 2h [brown2020]."""
    expected = layers * (12 * width**2 + 13 * width) + (50257 + 2048) * width + 2 * width
    found = workload({"kind": "decoder", "size": size}, layers).parameter_count
    assert found == expected
    assert found / 1e6 == pytest.approx(millions, rel=1e-4)


@pytest.mark.parametrize(("size", "layers", "parameters"), [("base", 12, 86_567_656), ("large", 24, 304_326_632)])
def test_vision_transformers_have_their_published_sizes(size: str, layers: int, parameters: int) -> None:
    """With 1,000 classes, without the pre-training's representation layer."""
    assert workload({"kind": "vit", "size": size}, layers).parameter_count == parameters


@pytest.mark.parametrize(
    ("size", "layers", "heads", "width", "parameters"),
    [
        *(("small", 12, 8, 512, 60_506_624), ("base", 24, 12, 768, 222_903_552), ("large", 48, 16, 1024, 737_668_096)),
        *(("flan_xl", 48, 32, 2048, 2_849_757_184), ("flan_xxl", 48, 64, 4096, 11_135_332_352)),
    ],
)
def test_t5_has_its_published_size(size: str, layers: int, heads: int, width: int, parameters: int) -> None:
    """Less two tables of 32 distances per head, and the norm behind the encoder."""
    left_out = 2 * 32 * heads + width
    assert workload({"kind": "t5", "size": size}, layers).parameter_count == parameters - left_out


def test_roberta_is_a_bert_without_segments_and_pairs() -> None:
    """124,697,433 parameters for masked tokens, less the decoder's bias of 50,265 and two positions of padding."""
    model = {
        "kind": "bert",
        "size": "base",
        "vocabulary_size": 50265,
        "position_count": 512,
        "token_type_count": 1,
        "next_sentence": False,
    }
    data = {"sequence_length": 384, "masked_token_count": 58}
    spec = scenario(model, 12, data=data)
    assert of(spec).parameter_count == 124_697_433 - 50_265 - 2 * 768


def test_mpnet_has_its_published_size_and_looks_relative_positions_up_once() -> None:
    """109,486,464 of microsoft/mpnet-base, less its pooler of 768·769, with a class of 768 weights and a bias.

    Each pass looks up 12 numbers for 512² pairs of tokens and copies them for 2 sequences; each layer adds them.
    """
    spec = load_scenario("mpnet_base_pod4").spec
    found = spec.model.workload(spec.data, HALF, 2)  # type: ignore[union-attr]
    assert found.parameter_count == 109_486_464 - 768 * 769 + 769
    ops = {op.name: op for op in found.blocks["embedding"].forward}
    assert ops["embedding/distances"].shape == (512**2, 12)
    assert ops["embedding/distances/copies"].shape == (2 * 12, 512**2)
    added = [op for op in found.blocks["attention"].forward if op.name.endswith("relative_bias")]
    assert [math.prod(op.shape) for op in added] == [2 * 12 * 512**2]


def test_relative_positions_are_refused_in_training() -> None:
    model = {"kind": "bert", "size": "base", "task": "classes", "relative_position_count": 32}
    with pytest.raises(SpecError) as raised:
        scenario(model, 12)
    (problem,) = raised.value.problems
    assert problem.key == "model.relative_position_count"
    assert problem.message == "relative positions are modelled for forward passes, not for training"


def test_fine_tuning_heads() -> None:
    """A dense layer to two scores per token, or a pooler and a dense layer on the first one."""
    span = workload({"kind": "bert", "size": "base", "task": "span"}, 12).blocks["head"]
    classes = workload({"kind": "bert", "size": "base", "task": "classes", "class_count": 15}, 12).blocks["head"]
    assert span.parameter_count == 2 * 768 + 2
    assert classes.parameter_count == (768 * 768 + 768) + (15 * 768 + 15)
    assert span.forward_flop == 2 * 384 * 768 * 2
    assert classes.forward_flop == 2 * 768 * 768 + 2 * 768 * 15


def test_gpt2_flop() -> None:
    """2·s·L·12h² + 4·L·s²·h + 2·s·h·V for a sequence."""
    layers = 2 * 1024 * 12 * 12 * 768**2 + 4 * 12 * 1024**2 * 768
    head = 2 * 1024 * 768 * 50257
    assert workload({"kind": "decoder", "size": "gpt2_small"}, 12).forward_flop == layers + head


def test_vit_flop() -> None:
    """197 tokens through the encoder, 196 patches of 768 values, one class token: 35.13 GFLOP."""
    encoder = 2 * 197 * 12 * 12 * 768**2 + 4 * 12 * 197**2 * 768
    patches, head = 2 * 196 * 768 * 768, 2 * 768 * 1000
    found = workload({"kind": "vit", "size": "base"}, 12).forward_flop
    assert found == encoder + patches + head
    assert found / 1e9 == pytest.approx(35.129, rel=1e-3)


def test_t5_flop() -> None:
    """Projections 8·s·h·a, feed-forward 4·s·h·f, attention 4·s·k·a; the decoder meets source and target."""
    source, target, width, inner = 512, 128, 512, 2048
    encoder = 8 * source * width**2 + 4 * source * width * inner + 4 * source**2 * width
    own = 8 * target * width**2 + 4 * target**2 * width
    crossed = 4 * target * width**2 + 4 * source * width**2 + 4 * target * source * width
    decoder = own + crossed + 4 * target * width * inner
    head = 2 * target * width * 32128
    assert workload({"kind": "t5", "size": "small"}, 12).forward_flop == 6 * (encoder + decoder) + head


def test_three_products_compute_the_same() -> None:
    """Also of another sequence: its keys and values are two products in place of one."""
    one, three = (workload({"kind": "t5", "size": "small", "qkv_products": count}, 12) for count in (1, 3))
    assert three.training_flop == one.training_flop
    assert three.parameter_count == one.parameter_count
    names = {op.name for op in three.blocks["decoder_layer"].forward}
    assert {"cross_attention/query", "cross_attention/key", "cross_attention/value"} <= names


def test_queries_keys_and_values_of_images_are_three_products() -> None:
    names = {op.name for op in workload({"kind": "vit", "size": "base"}, 12).blocks["attention"].forward}
    assert {"attention/query", "attention/key", "attention/value"} <= names and "attention/qkv" not in names


def test_fewer_key_heads_shrink_keys_alone() -> None:
    shape = DecoderShape(2, 256, 512, 8, 8, 1000)
    few = DecoderShape(2, 256, 512, 8, 2, 1000)
    whole, grouped = (causal_decoder(each, Batch(1, 128)) for each in (shape, few))
    # Two layers; keys and values of 6 heads of 32 less.
    assert whole.parameter_count - grouped.parameter_count == 2 * 2 * 6 * 32 * 256
    assert whole.forward_flop - grouped.forward_flop == 2 * 128 * 2 * 2 * 6 * 32 * 256


MODELS: list[tuple[dict[str, object], int]] = [
    ({"kind": "bert", "size": "base", "task": "span"}, 12),
    ({"kind": "bert", "size": "base", "task": "classes"}, 12),
    ({"kind": "decoder", "size": "gpt2_small"}, 12),
    ({"kind": "decoder", "size": "llama2_7b"}, 32),
    ({"kind": "vit", "size": "base"}, 12),
    ({"kind": "t5", "size": "small", "gated": True}, 12),
    ({"kind": "t5", "size": "small", "qkv_products": 3}, 12),
    ({"kind": "bert", "size": "base", "task": "span", "split_qkv": True}, 12),
]


@pytest.mark.parametrize(("model", "layers"), MODELS)
def test_operations_read_only_what_was_computed_before(model: dict[str, object], layers: int) -> None:
    for block in workload(model, layers, micro_batch_size=2).blocks.values():
        for ops in (block.forward, block.backward):
            seen: set[str] = set()
            for op in ops:
                assert all(name.startswith("@") or name in seen for name in op.inputs), op.name
                assert op.name not in seen
                seen.add(op.name)


@pytest.mark.parametrize(("model", "layers"), MODELS)
def test_backward_products_cost_twice_the_forward_ones(model: dict[str, object], layers: int) -> None:
    """But for images, which need no gradient."""
    for block in workload(model, layers).blocks.values():
        backward = sum(getattr(op, "flop", 0) for op in block.backward)
        image = model["kind"] == "vit" and block.name == "embedding"
        assert backward == (1 if image else 2) * block.forward_flop


@pytest.mark.parametrize(("model", "layers"), MODELS)
def test_every_parameter_gets_a_gradient(model: dict[str, object], layers: int) -> None:
    for block in workload(model, layers).blocks.values():
        accumulated = " ".join(op.name for op in block.backward)
        for parameter in block.parameters:
            name = parameter.name.removesuffix("/weight")
            # In a block of several parts the first word is the part.
            assert name in accumulated or name.replace("/", "_backward/", 1) in accumulated, (block.name, name)


def test_the_head_goes_to_its_weights_or_to_the_end() -> None:
    tied = scenario({"kind": "decoder", "size": "gpt2_small"}, 12)
    untied = scenario({"kind": "decoder", "size": "gpt2_small", "tied_embedding": False}, 12)
    assert tuple(each.parallelism.head_on_first_ipu(each.model) for each in (tied, untied)) == (True, False)
    chosen = scenario(
        {"kind": "vit", "size": "base"},
        12,
        parallelism=PARALLELISM | {"layers_per_ipu": [6, 6], "head_on": "first_ipu"},
    )
    assert chosen.parallelism.stage_count(chosen.model) == 3


def test_epochs_become_weight_updates() -> None:
    """88,524 sequences, twice, 256 to a batch: 692 updates and the set-up."""
    result = simulate("bert_large_squad_pod16")
    assert result.run_breakdown["training"] == pytest.approx(692 * result.weight_update_s)


def test_session_calls_share_their_cost() -> None:
    """0.15 ms for one update, 0.075 ms for each of two.

    Beside the tensors of micro-batches a call hands over three inputs, two labels and two results of each of 4 replicas
    once, and seven values of the optimizer for each tensor of weights: 16 a layer, 5 of embeddings with their norm, and
    2 of the head. Each takes 11.5 us.
    """
    values = 7 * (12 * 16 + 5 + 2)
    one = simulate("roberta_base_squad_pod16")
    two = simulate("roberta_base_squad_pod16", overrides=["parallelism.updates_per_session_call=2"])
    assert one.weight_update_s - two.weight_update_s == pytest.approx(
        (0.15e-3 + (4 * 7 + values) * 11.5e-6) / 2, abs=1e-9
    )


def test_probabilities_under_dropout_are_kept_twice() -> None:
    """12 heads of 1,024 x 1,024 probabilities, and beside them those that the mask has left."""
    saved = []
    for dropout in (0.0, 0.1):
        data = {"sequence_length": 1024, "attention_dropout": dropout}
        spec = scenario({"kind": "decoder", "size": "gpt2_small"}, LAYERS["gpt2_small"], data=data)
        saved.append(of(spec).blocks["attention"].saved_elements)
    assert saved[1] - saved[0] == 12 * 1024 * 1024


def test_gradient_of_a_bias_sums_the_rows_of_each_group() -> None:
    """3 layers of 6 columns side by side, 10 rows each: 180 gradients become 18."""
    g = HALF.builder("layer")
    linear_backward(g, "dense", 10, 4, 6, "gradient", groups=3)
    (reduce,) = (op for op in g.ops() if isinstance(op, Reduce))
    assert (reduce.shape, reduce.input_count) == ((18,), 180)
