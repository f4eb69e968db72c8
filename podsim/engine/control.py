"""Functions of a caller that take part in an execution: observers of tasks, and processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Generator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from podsim.engine.sharing import WHOLE

if TYPE_CHECKING:
    from simpy import Environment

    from podsim.engine.network import Network

Observe = Callable[[Literal["start", "end"], str, str, int], None]
"""Observer: `observe(what, lane, task, time_ps)`."""


class Control:
    """Access of a process to a running program."""

    def __init__(self, env: Environment, network: Network) -> None:
        self._env, self._network = env, network

    @property
    def now_ps(self) -> int:
        """Time since the start of the program. [ps]"""
        return int(self._env.now)

    def wait(self, time_ps: int) -> Any:
        """Return an event that occurs after `time_ps`; a process yields it. [ps]"""
        return self._env.timeout(time_ps)

    def set_speed(self, channel: str, speed: Fraction | float) -> None:
        """Set the speed of a channel from now on, as a fraction of nominal from 0 to 1."""
        if not 0 <= speed <= 1:
            raise ValueError(f"{speed} is no fraction of the speed of {channel}: use 0 to 1")
        self._network.change(channel, {0: round(speed * WHOLE)})


Process: TypeAlias = Callable[[Control], Generator[Any, Any, None]]
"""Process of a caller: a generator function that yields `control.wait(time_ps)`."""
