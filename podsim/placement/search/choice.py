"""The outcome of a search: the chosen division, the runners-up, and faster ones that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsim.placement.memory import RESERVE, IpuMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A division with its predicted speed and memory.

    Attributes:
        parallelism: Keys of the scenario's `parallelism`.
        memory: Keys of the scenario's `memory` that were chosen.
        throughput_samples_per_s: Simulated; None where the division does not fit. [1/s]
        decode_step_s: Time per output token, of text generation. [s]
        used_bytes: In-Processor-Memory of the fullest IPU. [B]
        streaming_bytes: Streaming memory of the fullest IPU. [B]
        capacity_bytes: In-Processor-Memory of an IPU. [B]
        fits: Whether it does.
        verdict: Why it was chosen, or was not.
    """

    parallelism: Mapping[str, Any]
    memory: Mapping[str, Any]
    throughput_samples_per_s: float | None = None
    decode_step_s: float | None = None
    used_bytes: int
    streaming_bytes: int
    capacity_bytes: int
    fits: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome of a search.

    Attributes:
        candidates: The chosen division first, then the runners-up, then those that do not fit.
        considered_count: Divisions that were looked at.
        simulated_count: Divisions that were simulated in the engine.
        asked: What the scenario left no choice about, as it was written.
    """

    candidates: tuple[Candidate, ...]
    considered_count: int
    simulated_count: int
    asked: tuple[str, ...] = ()

    @property
    def chosen(self) -> Candidate:
        """The division that was chosen."""
        return self.candidates[0]


def fullest_bytes(memory: Sequence[IpuMemory], storage: str = "in_processor_memory") -> int:
    """What the fullest IPU holds of a storage, without what is left free. [B]"""

    def held(ipu: IpuMemory) -> int:
        return sum(each.byte_count for each in ipu.tenants if each.storage == storage and each.name != RESERVE)

    return max(map(held, memory))


def slower_by(best: float, other: float) -> str:
    """How much longer a candidate takes, in words.

    >>> slower_by(2.0, 2.5), slower_by(2.0, 2.0)
    ('25.0 % slower', 'as fast')
    """
    return "as fast" if other <= best else f"{other / best - 1:.1%} slower".replace("%", " %")
