"""The outcome of a search: the chosen division, the runners-up, and faster ones that do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsim.placement.memory import RESERVE, IpuMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A division with its predicted speed and memory."""

    parallelism: Mapping[str, Any]  # keys of the scenario's `parallelism`
    memory: Mapping[str, Any]  # keys of the scenario's `memory` that were chosen
    throughput_samples_per_s: float | None = None  # simulated; None where the division does not fit [1/s]
    decode_step_s: float | None = None  # time per output token, of text generation [s]
    used_bytes: int  # in-Processor-Memory of the fullest IPU [B]
    streaming_bytes: int  # streaming memory of the fullest IPU [B]
    capacity_bytes: int  # in-Processor-Memory of an IPU [B]
    fits: bool
    verdict: str  # why it was chosen, or was not


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome of a search."""

    candidates: tuple[Candidate, ...]  # the chosen division first, then the runners-up, then those that do not fit
    considered_count: int  # divisions that were looked at
    simulated_count: int  # divisions that were simulated in the engine
    asked: tuple[str, ...] = ()  # what the scenario left no choice about, as it was written
    replaced: Candidate | None = None  # the division that `auto` takes the place of, if there is one that goes together
    behind: Candidate | None = None  # a faster division, which fits but leaves less memory free than the reserve
    reserve: float = 0.0  # share of In-Processor-Memory that the chosen division leaves free

    @property
    def chosen(self) -> Candidate:
        """The division that was chosen."""
        return self.candidates[0]


def fullest_bytes(memory: Sequence[IpuMemory], storage: str = "in_processor_memory") -> int:
    """Return the memory in use on the fullest IPU in one storage, without the reserve. [B]"""

    def held_bytes(ipu: IpuMemory) -> int:
        """Return the memory in use on one IPU. [B]"""
        return sum(tenant.byte_count for tenant in ipu.tenants if tenant.storage == storage and tenant.name != RESERVE)

    return max(map(held_bytes, memory))


def slower_by(best: float, other: float) -> str:
    """Return the relative slowdown of a candidate as text.

    >>> slower_by(2.0, 2.5), slower_by(2.0, 2.0)
    ('25.0 % slower', 'as fast')
    """
    return "as fast" if other <= best else f"{other / best - 1:.1%} slower".replace("%", " %")
