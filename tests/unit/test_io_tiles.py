"""A tile takes four bytes per cycle: few I/O tiles bound what streams through them."""

from __future__ import annotations

import pytest

import podsim
from podsim.placement.topology import streaming_channels
from podsim.scenario import load_scenario


@pytest.mark.parametrize(
    ("tiles", "rate"),
    [(1, 4 * 1.33e9), (2, 6.64e9), (0, 6.64e9)],
)
def test_io_tiles_bound_the_rate(tiles: int, rate: float) -> None:
    """1.33 GHz x 4 B = 5.32 GB/s per tile; streaming memory gives 6.64 GB/s; without I/O tiles all take part."""
    system = load_scenario("llama2_7b_pod16_streamed").spec.system
    own, _, shared = streaming_channels(system, 0, "read", tiles)
    assert own.bandwidth_bytes_per_s == pytest.approx(rate)
    assert shared.bandwidth_bytes_per_s == 19.2e9


def test_one_tile_loads_weights_at_its_own_rate() -> None:
    """Four layers of GPT-2 small: loads set the pace of a step, at 5.32 GB/s and 1.5 us each.

    The embedding has 1,000 words and 1,024 positions; the head a norm, and the words again.
    """
    scenario = {
        "system": "ipu_pod4",
        "software": {"base": "popxl_sdk_3.3", "token_call": "1 us"},
        "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 4, "vocabulary_size": 1000},
        "generation": {"prompt_tokens": 8, "output_tokens": 8},
        "parallelism": {"pipeline_stages": 1},
        "memory": {"weights": "streamed", "io_tiles": 1},
    }
    layer, embedding, head = 12 * 768**2 + 13 * 768, (1000 + 1024) * 768, (1000 + 2) * 768
    loads_s = (embedding + 4 * layer + head) * 2 / (4 * 1.33e9) + 6 * 1.5e-6
    assert podsim.generate(scenario).decode.time_s == pytest.approx(loads_s, rel=0.01)


@pytest.mark.parametrize("name", ["llama2_7b_pod16_streamed", "bert_base_c600", "bert_large_phased_pod16"])
def test_too_many_io_tiles_are_told_to_be_fewer(name: str) -> None:
    """One tile of 1,472 computes and has 624 KiB; with 64 I/O tiles the model fits, which running it shows."""
    with pytest.raises(podsim.DoesNotFitError) as error:
        podsim.run(name, overrides={"memory.io_tiles": 1471})
    assert "it has 624 KiB" in error.value.message
    assert error.value.do == "any of these makes it fit: memory.io_tiles: 64"
    podsim.run(name, overrides={"memory.io_tiles": 64})
