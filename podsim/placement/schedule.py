"""When each stage of a pipeline runs which micro-batch, and how many it keeps meanwhile.

Time goes in cycles; at the end of each, all IPUs of a replica meet and hand on what they made. A micro-batch that
enters in cycle c passes stage s of S in cycle c + s, and on its way back in cycle c + 2(S - 1) - s. Schedules differ in
when micro-batches enter:

- `lock_step` and `grouped`: one in each cycle. A cycle of the grouped schedule has two rounds, all forward passes and
  then all backward passes.
- `interleaved`: one in every other cycle, and back one cycle later, so that the passes of a stage alternate and a stage
  is behind its neighbours by half a turn.
- `sequential`: one when the one before has left.

Where each of p IPUs holds V chunks of layers, stages 0 to p - 1, then p to 2p - 1 and so on, p micro-batches enter in p
cycles, and the next p when these have passed all p·V chunks. Each IPU then runs one chunk forward and one backward in a
cycle, which is shorter, and so is what it waits for at both ends.

Source: [popart_pipelining] for lock-step, [tensorflow_pipelining] for the others, [narayanan2021] for chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from podsim.scenario.schedules import ScheduleName

Round = tuple[frozenset[int], frozenset[int]]
"""Stages with a forward pass, and those with a backward pass after it."""


@dataclass(frozen=True, slots=True)
class Span:
    """Pipeline cycles that are alike."""

    name: str  # `fill`, `main` or `flush`, with a number where it is not the only one
    cycle: int
    count: int
    starved: bool  # whether IPUs that wait in them have nothing to do, rather than less than others


@dataclass(frozen=True, slots=True)
class PipelineSchedule:
    """A schedule of so many stages."""

    name: ScheduleName
    stage_count: int  # stages of the forward pass
    group: int = 1  # micro-batches that enter in a row, one in each cycle
    period: int = 1  # cycles from one such row to the next
    trains: bool = True  # whether there are backward passes

    @classmethod
    def of(
        cls, name: ScheduleName, stage_count: int, *, chunks: int = 1, groups: int = 1, trains: bool = True
    ) -> PipelineSchedule:
        """The schedule of a name. `chunks`: stages that each IPU, or group of IPUs, holds in turn with the others."""
        if stage_count == 1:
            # Nothing is handed on: IPUs that share the stage have no reason to meet more often than once a micro-batch.
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
        """Cycles until the first micro-batch leaves the pipeline."""
        last = self.stage_count - 1
        return 2 * last + (self.name == "interleaved") if self.trains else last

    def start(self, micro_batch: int) -> int:
        """The cycle in which a micro-batch enters."""
        row, place = divmod(micro_batch, self.group)
        return row * self.period + place

    def rounds(self, cycle: int, micro_batches: int) -> tuple[Round, ...]:
        """The stages that are active in a cycle of a weight update of so many micro-batches."""
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
        """All cycles of a weight update.

        `in_order`: whether cycles that repeat, but not one right after the other, are told apart.
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
        """Micro-batches of which a stage keeps its input between forward and backward pass, at most.

        In lock-step 2·(S - 1 - i) + 1 [popart_pipelining]; interleaved S - i, as two cycles make a turn; sequential 1.
        """
        return self.most_kept({stage: 1})

    def most_kept(self, kept: Mapping[int, int], micro_batches: int | None = None) -> int:
        """The most that some stages keep together at any time.

        Of V chunks on the first of p IPUs it is p·V + p - 1 micro-batches of one chunk: those of whole weight updates
        without chunks, p, times 1 + (p - 1) / (p·V) [narayanan2021].

        `micro_batches`: of a weight update; as many as it takes if left out.
        """
        # Once the first micro-batch leaves, what is kept repeats; a few that enter in rows may leave less than that.
        begin = self.ramp if micro_batches is None or self.group == 1 else 0
        return max(
            sum(each * self._alive(stage, cycle, micro_batches) for stage, each in kept.items())
            for cycle in range(begin, self.ramp + self.period)
        )

    def _alive(self, stage: int, cycle: int, micro_batches: int | None) -> int:
        """Micro-batches that have reached a stage by the end of a cycle, and had not left it before."""
        behind = self.ramp - stage
        return self._entered(cycle - stage, micro_batches) - self._entered(cycle - behind - 1, micro_batches)

    def _entered(self, cycle: int, micro_batches: int | None) -> int:
        """Micro-batches that have entered by the end of a cycle."""
        if cycle < 0:
            return 0
        row, place = divmod(cycle, self.period)
        count = row * self.group + min(self.group, place + 1)
        return count if micro_batches is None else min(count, micro_batches)
