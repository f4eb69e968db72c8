"""Stages and stash depths, by hand from PopART's description."""

import pytest

from podsim.plan import make_stage, stages_of_layers, stash_depth


def test_four_ipus_make_five_stages_with_the_head_back_on_ipu_0() -> None:
    stages = stages_of_layers([3, 7, 7, 7])
    assert [stage.ipu for stage in stages] == [0, 1, 2, 3, 0]
    assert [dict(stage.blocks).get("attention", 0) for stage in stages] == [3, 7, 7, 7, 0]
    assert [dict(stage.blocks).get("embedding", 0) for stage in stages] == [1, 0, 0, 0, 0]
    assert [dict(stage.blocks).get("head", 0) for stage in stages] == [0, 0, 0, 0, 1]


def test_one_ipu_makes_one_stage() -> None:
    (stage,) = stages_of_layers([12])
    assert stage.blocks == (("embedding", 1), ("attention", 12), ("feed_forward", 12), ("head", 1))


@pytest.mark.parametrize(("index", "depth"), [(0, 9), (1, 7), (2, 5), (3, 3), (4, 1)])
def test_stash_depth(index: int, depth: int) -> None:
    assert stash_depth(index, 5) == depth


def test_labels_are_words() -> None:
    assert stages_of_layers([3, 7])[0].label == "embedding + 3 layers"
    assert make_stage(4, 0, 4, 5, head=True).label == "4 attention, 5 feed-forward + head"
