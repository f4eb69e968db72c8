"""Pipeline schedules: the micro-batch that each stage runs in each cycle, and the micro-batches that it keeps.

At the end of each cycle, all IPUs of a replica synchronise and send their results. A micro-batch that enters in cycle c
has its forward pass in stage s of S in cycle c + s, and its backward pass in cycle c + 2(S - 1) - s. Schedules differ
in the cycles in which micro-batches enter:

- `lock_step` and `grouped`: one micro-batch in each cycle. A cycle of the grouped schedule has two rounds, all forward
  passes and then all backward passes.
- `interleaved`: one micro-batch in every other cycle, and backward passes one cycle later, so that forward and backward
  passes of a stage alternate.
- `sequential`: one micro-batch after the previous one has left.

If each of p IPUs holds V chunks of layers (stages 0 to p - 1, then p to 2p - 1 and so on), p micro-batches enter in p
cycles, and the next p enter when these have passed all p·V chunks. Each IPU then runs one chunk forward and one
backward in a cycle. Cycles are shorter, and so are fill and flush.

Source: [popart_pipelining] for lock-step, [tensorflow_pipelining] for the others, [narayanan2021] for chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podsim.scenario.schedules import ScheduleName

Round = tuple[frozenset[int], frozenset[int]]
"""Stages with a forward pass, and stages with a backward pass after it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Equal pipeline cycles."""

    name: str  # `fill`, `main` or `flush`, with a number if there are several
    cycle: int  # first cycle
    count: int  # number of cycles
    starved: bool  # True if waiting IPUs have no micro-batch, False if their work is shorter


@dataclass(frozen=True, slots=True)
class PipelineSchedule:
    """Pipeline schedule for a number of stages."""

    name: ScheduleName
    stage_count: int  # stages of the forward pass
    group: int = 1  # micro-batches that enter in a row, one in each cycle
    period: int = 1  # cycles from one such row to the next
    trains: bool = True  # True if there are backward passes

    @classmethod
    def from_name(
        cls, name: ScheduleName, stage_count: int, *, chunks: int = 1, groups: int = 1, trains: bool = True
    ) -> PipelineSchedule:
        """Return the schedule with this name; `chunks`: stages that each IPU, or group of IPUs, holds."""
        if stage_count == 1:
            # With one stage there are no transfers, so all schedules are equal.
            return cls("lock_step", 1, trains=trains)
        if name == "sequential":
            return cls(name, stage_count, 1, 2 * stage_count - 1 if trains else stage_count, trains)
        if name == "interleaved":
            return cls(name, stage_count, 1, 2 if trains else 1, trains)
        if chunks > 1:
            return cls(name, stage_count, groups, groups * chunks, trains)
        return cls(name, stage_count, trains=trains)

    @property
    def ramp(self) -> int:
        """Number of cycles until the first micro-batch leaves the pipeline."""
        last = self.stage_count - 1
        return 2 * last + (self.name == "interleaved") if self.trains else last

    def start(self, micro_batch: int) -> int:
        """Return the cycle in which a micro-batch enters the pipeline."""
        row, place = divmod(micro_batch, self.group)
        return row * self.period + place

    def rounds(self, cycle: int, micro_batches: int) -> tuple[Round, ...]:
        """Return the active stages of each round in a cycle of a weight update with `micro_batches` micro-batches."""
        stages = range(self.stage_count)
        ahead = frozenset(stage for stage in stages if self._enters(cycle - stage, micro_batches))
        behind = stages if self.trains else range(0)
        back = frozenset(each for each in behind if self._enters(cycle - self.ramp + each, micro_batches))
        if self.trains and self.name == "grouped":
            return (ahead, frozenset()), (frozenset(), back)
        return ((ahead, back),)

    def _enters(self, cycle: int, micro_batches: int) -> bool:
        row, place = divmod(cycle, self.period)
        return place < self.group and 0 <= row * self.group + place < micro_batches

    def spans(self, micro_batches: int, *, in_order: bool = False) -> Iterator[Span]:
        """Yield all cycles of a weight update.

        `in_order`: equal cycles that are not adjacent are separate spans.
        """
        entering = -(-micro_batches // self.group) * self.period
        alone = self.name == "sequential"
        filled = 0 if alone else min(self.ramp, entering)
        for cycle in range(filled):
            yield Span(f"fill {cycle}", cycle, 1, starved=True)
        if in_order and self.period > 1:
            yield from (Span(f"main {cycle - filled}", cycle, 1, alone) for cycle in range(filled, entering))
        else:
            for offset in range(min(self.period, entering - filled)):
                name = "main" if self.period == 1 else f"main {offset}"
                yield Span(name, filled + offset, -(-(entering - filled - offset) // self.period), alone)
        for cycle in range(entering, self.start(micro_batches - 1) + self.ramp + 1):
            yield Span(f"flush {cycle - entering}", cycle, 1, starved=True)

    def stash_depth(self, stage: int) -> int:
        """Return the maximum number of micro-batches whose input a stage keeps until the backward pass.

        For stage i of S this is 2·(S - 1 - i) + 1 in lock-step [popart_pipelining], S - i interleaved, 1 sequential.
        """
        return self.most_kept({stage: 1})

    def most_kept(self, kept: Mapping[int, int], micro_batches: int | None = None) -> int:
        """Return the largest sum that stages keep together at any time; `kept`: amount per micro-batch, by stage.

        With V chunks, the first of p IPUs keeps p·V + p - 1 micro-batches of one chunk. This is 1 + (p - 1) / (p·V)
        times the memory without chunks [narayanan2021].

        `micro_batches`: number per weight update; None for the steady state.
        """
        # After the first micro-batch leaves, the amounts are periodic. Few micro-batches in rows may never fill up.
        begin = self.ramp if micro_batches is None or self.group == 1 else 0
        return max(
            sum(each * self._alive(stage, cycle, micro_batches) for stage, each in kept.items())
            for cycle in range(begin, self.ramp + self.period)
        )

    def _alive(self, stage: int, cycle: int, micro_batches: int | None) -> int:
        """Return the number of micro-batches that have reached a stage by the end of a cycle, and not left before."""
        behind = self.ramp - stage
        return self._entered(cycle - stage, micro_batches) - self._entered(cycle - behind - 1, micro_batches)

    def _entered(self, cycle: int, micro_batches: int | None) -> int:
        """Return the number of micro-batches that have entered by the end of a cycle."""
        if cycle < 0:
            return 0
        row, place = divmod(cycle, self.period)
        count = row * self.group + min(self.group, place + 1)
        return count if micro_batches is None else min(count, micro_batches)
