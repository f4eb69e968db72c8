"""Decoder families as shapes: published sizes, work by hand, shards, and what they have to add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.models import Block, Workload
from podsim.models.op import Elementwise, MatMul, Op, Unexplained
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.experts import Experts
from podsim.models.transformer.shape import Batch, Shards
from podsim.placement import Plan
from podsim.placement.generation import Generation, Steps, generation_job, plan_generation, with_layers
from podsim.placement.layout import Precision
from podsim.program.generation import ALL_REDUCE, compile_step
from podsim.program.task import Exchange
from podsim.scenario import GenerationScenario, load_scenario
from podsim.tiles.model import CostModel

LLAMA2_13B = DecoderShape(40, 5120, 13824, 40, 40, 32000)
GPT_J = DecoderShape(
    28,
    4096,
    16384,
    16,
    16,
    50400,
    gated=False,
    norm="layer",
    rotary_size=64,
    parallel="one_norm",
    biases=("feed_forward", "head"),
)
GPT_NEOX = DecoderShape(
    44,
    6144,
    24576,
    64,
    64,
    50432,
    gated=False,
    norm="layer",
    rotary_size=24,
    parallel="two_norms",
    biases=("qkv", "projection", "feed_forward"),
)
FALCON = DecoderShape(32, 4544, 18176, 71, 1, 65024, gated=False, norm="layer", parallel="one_norm")
QWEN2 = DecoderShape(28, 3584, 18944, 28, 4, 152064, biases=("qkv",))
QWEN2_SMALL = DecoderShape(24, 896, 4864, 14, 2, 151936, biases=("qkv",), tied_embedding=True)
GEMMA_2B = DecoderShape(
    18,
    2048,
    16384,
    8,
    1,
    256000,
    norm="rms_plus_one",
    activation="gelu",
    head_size=256,
    tied_embedding=True,
    scaled_embedding=True,
)
# 16 heads of 256 are wider than the model.
GEMMA_7B = replace(GEMMA_2B, layer_count=28, hidden_size=3072, feed_forward_size=24576, head_count=16, kv_head_count=16)
MIXTRAL = DecoderShape(32, 4096, 14336, 32, 8, 32000, experts=Experts(8, 2))
FAMILIES = {
    "llama2": LLAMA2_13B,
    "gpt_j": GPT_J,
    "gpt_neox": GPT_NEOX,
    "falcon": FALCON,
    "qwen2": QWEN2,
    "gemma": GEMMA_2B,
    "mixtral": MIXTRAL,
}
families = pytest.mark.parametrize("shape", FAMILIES.values(), ids=FAMILIES)


def step(shape: DecoderShape, size: int = 1, tokens: int = 1, shards: int = 1, context: int = 100) -> Workload:
    batch = Batch(size, tokens, dropout=False, attention_dropout=False, context_length=context, cached=True)
    return causal_decoder(shape, batch, shards=shards)


def product(block: Block, name: str) -> MatMul:
    return next(op for op in block.forward if isinstance(op, MatMul) and op.name.endswith(f"/{name}"))


def shape_of(block: Block, name: str) -> tuple[int, ...]:
    return next(op.shape for op in block.forward + block.backward if op.name == name)


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        # Hugging Face's counts of the checkpoints.
        (GPT_J, 6_050_882_784),
        (GPT_NEOX, 20_554_567_680),
        # The checkpoint of 7.22 billion holds the table of words twice; the model that shares it has 6.92 billion.
        (FALCON, 7_217_189_760),
        (replace(FALCON, tied_embedding=True), 7_217_189_760 - 65024 * 4544),
        (QWEN2, 7_615_616_512),
        (QWEN2_SMALL, 494_032_768),
        (GEMMA_2B, 2_506_172_416),
        (GEMMA_7B, 8_537_680_896),
        (MIXTRAL, 46_702_792_704),
        (LLAMA2_13B, 13_015_864_320),
    ],
)
def test_published_sizes(shape: DecoderShape, parameters: int) -> None:
    assert shape.parameter_count == parameters


def read_by(workload: Workload) -> int:
    return read_of(*(workload.blocks[name] for name in workload.order))


def read_of(*blocks: Block) -> int:
    """Elements that a run of some blocks reads, as bytes of eight bits."""
    return Precision(8).read_bytes(parameter for block in blocks for parameter in block.parameters)


def test_a_token_meets_two_experts_of_eight() -> None:
    """12.9 of 46.7 billion parameters [jiang2024]: per layer 6 of 8 experts of 3·4096·14336 less."""
    idle = 32 * 6 * 3 * 4096 * 14336
    assert read_by(step(MIXTRAL)) == 46_702_792_704 - idle == 12_879_925_248


def test_a_long_prompt_meets_all_experts() -> None:
    assert read_by(step(MIXTRAL, tokens=2048, context=2048)) == MIXTRAL.parameter_count


def test_expected_experts_of_a_few_tokens() -> None:
    """8·(1 - (3/4)^n): 2, 3.5, 4.625; rounded up, they share two copies of each token."""
    experts = Experts(8, 2)
    assert [experts.expected_hit(tokens) for tokens in (1, 2, 3)] == pytest.approx([2, 3.5, 4.625])
    assert [experts.load(tokens) for tokens in (1, 2, 3, 2048)] == [(2, 1), (4, 1), (5, 2), (8, 512)]


@pytest.mark.parametrize(("count", "per_token"), [(60, 4), (64, 6), (16, 4), (8, 8), (7, 3)])
def test_one_token_meets_as_many_experts_as_it_is_routed_to(count: int, per_token: int) -> None:
    assert Experts(count, per_token).load(1) == (per_token, 1)


@pytest.mark.parametrize(
    ("shape", "layer", "width", "words"),
    [
        (GPT_J, 4 * 4096**2 + 2 * 4096 * 16384, 4096, 50400),
        (GPT_NEOX, 4 * 6144**2 + 2 * 6144 * 24576, 6144, 50432),
        (FALCON, 4544 * (4544 + 2 * 64) + 4544**2 + 2 * 4544 * 18176, 4544, 65024),
        (QWEN2, 3584 * (3584 + 2 * 512) + 3584**2 + 3 * 3584 * 18944, 3584, 152064),
        (GEMMA_2B, 2048 * (2048 + 2 * 256) + 2048**2 + 3 * 2048 * 16384, 2048, 256000),
        (GEMMA_7B, 4 * 3072 * 4096 + 3 * 3072 * 24576, 4096, 256000),
        # Attention, router, and two experts for each token.
        (MIXTRAL, 2 * 4096**2 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 3 * 4096 * 14336, 4096, 32000),
    ],
)
def test_work_of_a_sequence(shape: DecoderShape, layer: int, width: int, words: int) -> None:
    """2·s for each weight that a token meets, 4·s²·(width of all heads) for attention; s = 512."""
    dense = 2 * 512 * (shape.layer_count * layer + shape.hidden_size * words)
    attention = shape.layer_count * 4 * 512**2 * width
    assert causal_decoder(shape, Batch(1, 512)).forward_flop == dense + attention


@families
def test_a_step_of_a_whole_prompt_computes_what_training_does(shape: DecoderShape) -> None:
    """But for the head, which takes one token of 128."""
    whole, prompt = causal_decoder(shape, Batch(2, 128)), step(shape, 2, 128, context=128)
    for name in ("attention", "feed_forward"):
        assert prompt.blocks[name].forward_flop == whole.blocks[name].forward_flop
    assert 128 * prompt.blocks["head"].forward_flop == whole.blocks["head"].forward_flop
    assert not any(block.backward for block in prompt.blocks.values())


def test_all_queries_of_falcon_meet_one_head_of_keys() -> None:
    scores = product(step(FALCON, size=3).blocks["attention"], "scores")
    assert (scores.group_count, scores.rows, scores.inner, scores.columns) == (3, 71, 64, 100)


def test_a_part_of_each_head_is_rotated() -> None:
    """16 heads of queries and 16 of keys, 64 of 256 wide each; all of 128 for 28 + 4 heads."""
    assert shape_of(step(GPT_J, 5).blocks["attention"], "attention/rotary/turn") == (5, 32 * 64)
    assert shape_of(step(QWEN2, 5).blocks["attention"], "attention/rotary/turn") == (5, 32 * 128)


def test_gemma_scales_words_and_adds_one_to_its_norms() -> None:
    blocks = step(GEMMA_2B, 3).blocks
    assert shape_of(blocks["embedding"], "embedding/scale") == (3, 2048)
    assert shape_of(blocks["attention"], "attention/norm/plus_one") == (2048,)
    gate = [op for op in blocks["feed_forward"].forward if isinstance(op, Elementwise) and op.function == "gelu"]
    assert [op.shape for op in gate] == [(3, 16384)]


@pytest.mark.parametrize(
    ("heads", "kv_heads", "shards", "largest"),
    [
        (40, 40, 16, (3, 3)),  # some hold 3, some 2
        (71, 1, 16, (5, 1)),
        (64, 8, 4, (16, 2)),
        (64, 8, 16, (4, 1)),  # two shards hold the same keys
        (40, 8, 16, (3, 1)),  # the 5 heads of a group go to two shards
        (40, 5, 8, (5, 2)),  # heads 5 to 9 belong to two groups of 8
    ],
)
def test_heads_of_the_largest_shard(heads: int, kv_heads: int, shards: int, largest: tuple[int, int]) -> None:
    layer = DecoderShape(1, 64 * heads, 1024, heads, kv_heads, 1000).layer(Batch(1, 1), Shards(shards))
    assert (layer.shard_heads, layer.shard_kv_heads) == largest


def test_the_largest_of_16_shards_of_llama2_13b() -> None:
    """3 of 40 heads of 128, 864 of 13,824, 2,000 of 32,000; norms are whole."""
    blocks = step(LLAMA2_13B, shards=16).blocks
    assert product(blocks["attention"], "qkv").columns == 3 * 3 * 128
    assert product(blocks["attention"], "projection").inner == 3 * 128
    assert product(blocks["feed_forward"], "up").columns == 864
    assert blocks["attention"].parameter_count == 4 * 3 * 128 * 5120 + 5120
    assert blocks["feed_forward"].parameter_count == 3 * 864 * 5120 + 5120
    assert blocks["head"].parameter_count == 2000 * 5120 + 5120


@families
def test_even_shards_divide_the_work(shape: DecoderShape) -> None:
    """As far as heads can be divided evenly; every shard routes all tokens."""
    halves = replace(shape, head_count=16, kv_head_count=8, head_size=64)
    whole, half = (causal_decoder(halves, Batch(2, 64), shards=shards) for shards in (1, 2))
    router = 32 * 2 * 2 * 64 * 4096 * 8 if shape.experts else 0
    assert 2 * half.forward_flop == whole.forward_flop + router


def sums(workload: Workload, name: str) -> list[str]:
    return [partial_sum.removeprefix(name) for partial_sum in workload.blocks[name].partial_sums]


@pytest.mark.parametrize("shape", [GPT_J, GPT_NEOX, FALCON])
def test_parallel_blocks_are_added_up_at_once(shape: DecoderShape) -> None:
    """By the last operation of the layer, the sum of both blocks with its input."""
    workload = step(shape, shards=4)
    assert (sums(workload, "attention"), sums(workload, "feed_forward")) == ([], ["/residual.2"])
    assert workload.blocks["feed_forward"].forward[-1].name == "feed_forward/residual.2"


@pytest.mark.parametrize("shape", [LLAMA2_13B, QWEN2, GEMMA_2B])
def test_blocks_in_turn_are_each_added_up(shape: DecoderShape) -> None:
    workload = step(shape, shards=4)
    assert (sums(workload, "attention"), sums(workload, "feed_forward")) == (["/projection"], ["/down"])


@families
def test_words_are_added_up_and_whole_layers_are_not(shape: DecoderShape) -> None:
    assert step(shape, shards=2).blocks["embedding"].partial_sums == ("embedding/word",)
    assert not any(block.partial_sums for block in causal_decoder(shape, Batch(1, 8)).blocks.values())


@pytest.mark.parametrize(
    ("shape", "forward", "backward"),
    [(LLAMA2_13B, 2, 2), (GPT_J, 1, 1), (GPT_NEOX, 1, 2), (FALCON, 1, 1), (MIXTRAL, 2, 2)],
)
def test_sums_of_a_layer_in_training(shape: DecoderShape, forward: int, backward: int) -> None:
    """In the backward pass, one in front of each norm; each as large as the hidden state."""
    blocks = causal_decoder(shape, Batch(2, 64), shards=4).blocks
    names = blocks["attention"].partial_sums + blocks["feed_forward"].partial_sums
    assert [sum("_backward/" in name for name in names), len(names)] == [backward, forward + backward]
    for block in blocks.values():
        # The loss joins a number for each token.
        for name in (partial_sum for partial_sum in block.partial_sums if not partial_sum.startswith("head/")):
            elements = 1
            for extent in shape_of(block, name):
                elements *= extent
            assert elements == 128 * shape.hidden_size


def test_parallel_blocks_hand_on_what_both_read() -> None:
    """The sum, and the layer's input or its norm."""
    for shape in (GPT_J, GPT_NEOX):
        blocks = causal_decoder(shape, Batch(1, 64)).blocks
        assert blocks["attention"].output_elements == 2 * blocks["feed_forward"].output_elements
        assert blocks["feed_forward"].output_elements == 64 * shape.hidden_size


def small(shape: DecoderShape) -> DecoderShape:
    """The same structure with few and small layers."""
    return replace(
        shape,
        layer_count=2,
        hidden_size=256,
        feed_forward_size=512,
        head_count=8,
        kv_head_count=min(shape.kv_head_count, 8),
        vocabulary_size=1000,
        head_size=64 if shape.head_size else None,
        rotary_size=16 if shape.rotary_size else None,
    )


def all_ops(workload: Workload) -> list[tuple[Op, ...]]:
    return [ops for block in workload.blocks.values() for ops in (block.forward, block.backward)]


@families
@pytest.mark.parametrize("shards", [1, 4])
def test_operations_read_only_what_was_computed_before(shape: DecoderShape, shards: int) -> None:
    batches = (Batch(2, 32), Batch(2, 1, False, False, context_length=8, cached=True))
    for ops in (ops for batch in batches for ops in all_ops(causal_decoder(small(shape), batch, shards=shards))):
        seen: set[str] = set()
        for op in ops:
            assert all(name.startswith("@") or name in seen for name in op.inputs), op.name
            assert op.name not in seen
            seen.add(op.name)


@families
@pytest.mark.parametrize("shards", [1, 4])
def test_backward_products_cost_twice_the_forward_ones(shape: DecoderShape, shards: int) -> None:
    for block in causal_decoder(small(shape), Batch(2, 32), shards=shards).blocks.values():
        assert sum(getattr(op, "flop", 0) for op in block.backward) == 2 * block.forward_flop


@families
def test_every_parameter_gets_a_gradient_of_its_size(shape: DecoderShape) -> None:
    """With tokens enough for all experts."""
    for block in causal_decoder(small(shape), Batch(2, 64)).blocks.values():
        for parameter in block.parameters:
            ending = f"/{parameter.name.removesuffix('/weight')}/accumulate"
            added = [op for op in block.backward if op.name.endswith((ending, f"/{parameter.name}"))]
            tables = block.name == "embedding"
            assert tables or [op.element_count for op in added] == [parameter.element_count], parameter.name
            assert added, parameter.name


@families
def test_every_operation_has_a_cost(shape: DecoderShape) -> None:
    job = generation()
    model = CostModel(job.system.machine.ipu, job.software.layout_change_cycles_per_byte)
    for ops in all_ops(causal_decoder(small(shape), Batch(1, 32), shards=4)):
        costs = [cost for cost in model.sequence(ops, 0.4) if not isinstance(cost.op, Unexplained)]
        assert all(cost.account.cycles > 0 for cost in costs)


def generation() -> Generation:
    spec = load_scenario("llama2_7b_pods", overrides=["parallelism.tensor_parallel=4"]).spec
    assert isinstance(spec, GenerationScenario)
    return generation_job(spec)


def small_steps(shape: DecoderShape) -> Steps:
    """Text generation with a small model of the same kind over four shards."""
    return plan_generation(with_layers(replace(generation(), shape=small(shape)), 2))


def layer_read(plan: Plan) -> int:
    """Weights of a layer that a step reads."""
    return read_of(*(plan.workload.blocks[name] for name in ("attention", "feed_forward")))


@pytest.mark.parametrize(("shape", "sums_per_layer"), [(LLAMA2_13B, 2), (GPT_J, 1)])
def test_a_generated_token_waits_for_each_sum(shape: DecoderShape, sums_per_layer: int) -> None:
    """A sum over four shards takes 2·2 steps, as both directions go half of the way around."""
    layers = next(p for p in compile_step(small_steps(shape).decode).groups[0].phases if p.name.startswith("layers"))
    transfers = [each.transfers for each in layers.steps["ipu0"] if isinstance(each, Exchange)]
    assert sum(transfer[0].kind == ALL_REDUCE for transfer in transfers) == sums_per_layer * 2 * 2


def test_a_token_loads_the_experts_that_it_meets() -> None:
    """A shard of four: a router of 256·8, two norms; a fourth of 2 of 8 experts of 3·256·512, and of attention."""
    steps = small_steps(replace(MIXTRAL, kv_head_count=4))
    attention, expert, undivided = 2 * 256**2 + 2 * 256 * 4 * 32, 3 * 256 * 512, 256 * 8 + 2 * 256
    assert layer_read(steps.decode) == (attention + 2 * expert) // 4 + undivided
    assert layer_read(steps.prefill) == (attention + 8 * expert) // 4 + undivided


def test_a_tied_head_reads_words_without_positions() -> None:
    """GPT-2's 50,257 words and a layer norm; it stores the norm alone."""
    shape = DecoderShape(
        12, 768, 3072, 12, 12, 50257, False, "layer", rotary=False, position_count=1024, tied_embedding=True
    )
    embedding, head = (step(shape).blocks[name] for name in ("embedding", "head"))
    assert read_of(head) == 50257 * 768 + 2 * 768
    assert head.parameter_count == 2 * 768
    assert embedding.parameter_count == read_of(embedding) == (50257 + 1024) * 768
