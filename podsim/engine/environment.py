"""The SimPy environment with integer time and, for tests, shuffled ties."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from simpy import Environment

_TIE_BITS = 32


def _shuffled(seed: int) -> Iterator[int]:
    """Ids by which SimPy orders events of one instant, at random."""
    generator = random.Random(seed)
    for number in count():
        yield generator.getrandbits(_TIE_BITS) << _TIE_BITS | number


def make_environment(tie_seed: int | None) -> Environment:
    """An environment at time 0."""
    env = Environment(initial_time=0)
    if tie_seed is not None:
        env._eid = _shuffled(tie_seed)  # type: ignore[assignment]
    return env
