"""What a division consists of apart from the cuts, and which of them a batch allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from podsim.plan.layout import Layout
from podsim.plan.stage import stash_depth

ON_CHIP, STREAMING = "in_processor_memory", "streaming_memory"


@dataclass(frozen=True, slots=True)
class Setting:
    """A division apart from its cuts.

    Attributes:
        ipus_per_replica: IPUs of one data-parallel copy.
        replication_factor: Data-parallel copies.
        micro_batch_size: Samples per run of the graph.
        accumulation_factor: Micro-batches per weight update.
        recompute: Whether the forward pass is redone before the backward pass.
        storage: Where optimizer state lives.
        sharded: Whether each replica keeps a shard of it only.
    """

    ipus_per_replica: int
    replication_factor: int
    micro_batch_size: int
    accumulation_factor: int
    recompute: bool
    storage: str
    sharded: bool

    def layout(self, base: Layout, domain_ipu_count: int) -> Layout:
        """The layout of a plan with this setting."""
        return replace(
            base,
            micro_batch_size=self.micro_batch_size,
            accumulation_factor=self.accumulation_factor,
            replication_factor=self.replication_factor,
            ipus_per_replica=self.ipus_per_replica,
            replicas_per_domain=domain_ipu_count // self.ipus_per_replica,
            recompute=self.recompute,
            optimizer_storage=self.storage,
            replicated_tensor_sharding=self.sharded,
        )


def divisors(number: int, most: int) -> list[int]:
    """Those up to `most`, smallest first.

    >>> divisors(12, 6)
    [1, 2, 3, 4, 6]
    """
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


def powers_of_two(most: int) -> Iterator[int]:
    """1, 2, 4, … up to `most`."""
    yield from (1 << exponent for exponent in range(most.bit_length()))


def accumulation(batch_size: int, *factors: int, stage_count: int) -> int | None:
    """Micro-batches per weight update, or None where they are not whole, or too few to fill the pipeline.

    >>> accumulation(1536, 2, 8, stage_count=9), accumulation(64, 2, 8, stage_count=9)
    (96, None)
    """
    whole, rest = divmod(batch_size, prod(factors))
    # As many as the first stage keeps in flight.
    return None if rest or whole < stash_depth(0, stage_count) else whole
