"""The SimPy environment with integer time, counted events and, for tests, shuffled ties."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from simpy import Environment

_TIE_BITS = 32


class EventIds:
    """Ids by which SimPy orders events of one instant: as they come, or at random from a seed."""

    def __init__(self, tie_seed: int | None) -> None:
        """Start counting."""
        self.issued = 0
        self._ids = count() if tie_seed is None else _shuffled(tie_seed)

    def __next__(self) -> int:
        """The next id."""
        self.issued += 1
        return next(self._ids)


def _shuffled(seed: int) -> Iterator[int]:
    generator = random.Random(seed)
    for number in count():
        yield generator.getrandbits(_TIE_BITS) << _TIE_BITS | number


def make_environment(tie_seed: int | None) -> tuple[Environment, EventIds | None]:
    """An environment at time 0; the plain one counts its events itself."""
    env = Environment(initial_time=0)
    if tie_seed is None:
        return env, None
    ids = EventIds(tie_seed)
    env._eid = ids  # type: ignore[assignment]
    return env, ids


def events_of(env: Environment, ids: EventIds | None) -> int:
    """Events that the environment was handed."""
    return ids.issued if ids else next(env._eid)
