"""The call of a pair of pods: two updates of the same cycles, so weighted that no cycle is left."""

from __future__ import annotations

import pytest

from podsim import simulate
from tools.refit import call_of_pair, trained

CYCLES = ("fill", "main", "flush")


def test_cycles_of_a_pair_cancel_and_its_call_stays() -> None:
    """BERT-Large with 128 tokens on Bow Pod16 and Pod64: 2,048 and 512 micro-batches in each replica."""
    pair = call_of_pair(trained("PopART"))
    cycles = {
        name: sum(
            phase.seconds for phase in simulate(*name.split("@")[:1], variant="bow").phases if phase.name in CYCLES
        )
        for name in pair.weights
    }
    assert sum(weight * cycles[name] for name, weight in pair.weights.items()) == pytest.approx(0, abs=1e-9)
    assert sum(pair.weights.values()) == pytest.approx(1)
    assert pair.miss_s(0.84, 0.1) - pair.miss_s(0.84, 0.0) == pytest.approx(0.1)


def test_what_is_published_of_a_pair_by_hand() -> None:
    """65,536 sequences at 5,179 and 19,353 a second; four times the cycles, but for those that fill and flush."""
    long_s, short_s = 65_536 / 5179, 65_536 / 19_353
    share = 512 / (2048 - 512)
    pair = call_of_pair(trained("PopART"))
    assert pair.measured_s == pytest.approx((1 + share) * short_s - share * long_s, abs=0.02)
    assert pair.scale_s == pytest.approx(short_s)
