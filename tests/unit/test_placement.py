"""Cuts of a model into stages, and stash depths, by hand from PopART's description."""

from collections import Counter

import pytest

from podsim import simulate
from podsim.errors import ModelError
from podsim.models import Block, Workload
from podsim.placement import PipelineSchedule
from podsim.placement.cuts import Cuts, Segment, Stage, cuts_before, cuts_of_counts, cuts_of_layers, stages_of
from tests.examples import small_bert, small_pod

LAYER = ("attention", "feed_forward")


def model(layers: int, decoder_layers: int = 0) -> Workload:
    """An empty transformer."""
    order = ("embedding", *LAYER * layers, *("decoder_layer",) * decoder_layers, "head")
    blocks = {name: Block(name, (), (), (), 0, 0, 0) for name in order}
    kinds = {"layer": LAYER, "decoder layer": ("decoder_layer",)}
    return Workload("model", blocks, order, 1, 0, layers=kinds if decoder_layers else {"layer": LAYER})


def held(stages: tuple[Stage, ...], name: str) -> list[int]:
    return [dict(stage.blocks).get(name, 0) for stage in stages]


def test_four_ipus_make_five_stages_with_the_head_back_on_ipu_0() -> None:
    workload = model(24)
    stages = stages_of(workload, cuts_of_layers(workload, [3, 7, 7, 7], head_apart=True))
    assert [list(stage.ipus) for stage in stages] == [[0], [1], [2], [3], [0]]
    assert held(stages, "attention") == [3, 7, 7, 7, 0]
    assert held(stages, "embedding") == [1, 0, 0, 0, 0]
    assert held(stages, "head") == [0, 0, 0, 0, 1]
    assert [stage.places for stage in stages] == [range(7), range(7, 21), range(21, 35), range(35, 49), range(49, 50)]


@pytest.mark.parametrize("head_apart", [True, False])
def test_one_ipu_makes_one_stage(head_apart: bool) -> None:
    workload = model(12)
    (stage,) = stages_of(workload, cuts_of_layers(workload, [12], head_apart=head_apart))
    assert stage.blocks == (("embedding", 1), ("attention", 12), ("feed_forward", 12), ("head", 1))


def test_shards_of_a_stage_are_neighbours() -> None:
    cuts = cuts_of_layers(model(3), [2, 1], shards=4)
    assert cuts.ipus == (range(4), range(4, 8))
    assert cuts.ipus_per_replica == 8


def test_the_decoder_of_an_encoder_decoder_comes_behind() -> None:
    workload = model(6, decoder_layers=6)
    stages = stages_of(workload, cuts_of_layers(workload, [4, 4, 4]))
    assert list(zip(held(stages, "attention"), held(stages, "decoder_layer"), strict=True)) == [(4, 0), (2, 2), (0, 4)]
    assert [stage.last_block for stage in stages] == ["feed_forward", "decoder_layer", "head"]
    assert [stage.label for stage in stages] == [
        "embedding + 4 layers",
        "2 layers + 2 decoder layers",
        "4 decoder layers + head",
    ]


def test_a_stage_may_end_inside_a_layer() -> None:
    """Embedding A | F A F A F A | F head: three pairs in the middle, wherever they begin."""
    workload = model(4)
    counts = [{"embedding": 1, "attention": 1}, {"attention": 3, "feed_forward": 3}, {"feed_forward": 1, "head": 1}]
    stages = stages_of(workload, cuts_of_counts(workload, counts, [0, 1, 0]))
    assert [stage.places for stage in stages] == [range(2), range(2, 8), range(8, 10)]
    assert stages[1].segments == (Segment(LAYER, 3),)
    assert [stage.last_block for stage in stages] == ["attention", "attention", "head"]
    assert [stage.label for stage in stages] == ["embedding + 1 attention", "3 layers", "1 feed-forward + head"]


def test_a_block_beside_whole_layers_is_a_segment() -> None:
    workload = model(9)
    counts = [Counter(embedding=1, attention=5, feed_forward=4), Counter(attention=4, feed_forward=5, head=1)]
    stages = stages_of(workload, cuts_of_counts(workload, counts, [0, 1]))
    assert stages[0].segments == (Segment(("embedding",)), Segment(LAYER, 4), Segment(("attention",)))
    assert stages[1].segments == (Segment(LAYER, 4), Segment(("feed_forward",)), Segment(("head",)))
    assert stages[1].label == "4 attention, 5 feed-forward + head"


def test_a_stage_holds_blocks_that_follow_one_another() -> None:
    """Two attention blocks have a feed-forward block between them."""
    counts = [{"embedding": 1, "attention": 2}, {"feed_forward": 2, "head": 1}]
    with pytest.raises(ModelError, match="stage 0 holds 1 embedding, 2 attention, but the blocks that follow") as error:
        cuts_of_counts(model(2), counts, [0, 1])
    assert "1 embedding, 1 attention, 1 feed_forward" in error.value.message


def test_the_error_of_such_a_scenario_names_the_key_and_a_cure() -> None:
    scenario = small_bert(small_pod(), [2])
    stages = [{"ipu": 0, "embedding": True, "attention": 2}, {"ipu": 1, "feed_forward": 2, "head": True}]
    factors = {"micro_batch_size": 1, "accumulation_factor": 8, "replication_factor": 1}
    with pytest.raises(ModelError) as error:
        simulate(scenario | {"parallelism": factors | {"stages": stages}})
    assert "[parallelism.stages]" in str(error.value)
    assert error.value.do == "let each stage hold the blocks that follow those of the stage before it"


def test_named_blocks_start_stages_and_segments() -> None:
    names = tuple("abcdef")
    workload = Workload("chain", {name: Block(name, (), (), (), 0, 0, 0) for name in names}, names, 1, 0)
    stages = stages_of(workload, cuts_before(names, ("e",), ("c", "f")))
    assert [[segment.blocks for segment in stage.segments] for stage in stages] == [
        [("a", "b"), ("c", "d")],
        [("e",), ("f",)],
    ]
    assert [stage.label for stage in stages] == ["a to d", "e to f"]


def test_without_checkpoints_or_layers_a_stage_is_a_segment_of_its_own() -> None:
    names = tuple("abc")
    workload = Workload("chain", {name: Block(name, (), (), (), 0, 0, 0) for name in names}, names, 1, 0)
    (stage,) = stages_of(workload, Cuts((0,), (range(1),), ()))
    assert stage.segments == (Segment(names),)


@pytest.mark.parametrize(("index", "depth"), [(0, 9), (1, 7), (2, 5), (3, 3), (4, 1)])
def test_stash_depth(index: int, depth: int) -> None:
    assert PipelineSchedule.from_name("lock_step", 5).stash_depth(index) == depth
