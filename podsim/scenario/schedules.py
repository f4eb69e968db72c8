"""Pipeline schedules: their names, and the number of micro-batches that a weight update needs with each.

Source: [popart_pipelining] for lock-step, [tensorflow_pipelining] for the others; [narayanan2021] for several chunks of
layers on each IPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from podsim.scenario.pins import PARALLELISM
from podsim.scenario.wording import counted

if TYPE_CHECKING:
    from podsim.scenario.scenario import Finding

ScheduleName = Literal["lock_step", "grouped", "interleaved", "sequential"]
"""Names in scenarios and software stacks."""


@dataclass(frozen=True, slots=True)
class MicroBatches:
    """Allowed numbers of micro-batches in a weight update."""

    least: int = 1  # smallest number, which fills the pipeline
    multiple: int = 1  # divisor of the number
    formula: str = ""  # derivation of `multiple`, or of `least` if that is larger; empty if evident
    reason: str = ""  # explanation of the divisor

    def allow(self, count: int) -> bool:
        """Return True if a weight update may have `count` micro-batches."""
        return count >= self.least and not count % self.multiple

    def objection(self, count: int) -> tuple[str, str]:
        """Return why `count` is invalid, and the nearest valid counts."""
        what = f"{count} micro-batches are no multiple of {self.formula}{self.multiple}, {self.reason}"
        below = count // self.multiple * self.multiple
        return what, " or ".join(str(valid) for valid in (below, below + self.multiple) if valid)


def micro_batches_of(
    schedule: ScheduleName, stage_count: int, *, chunks: int = 1, groups: int = 1, strict: bool = True
) -> MicroBatches:
    """Return the allowed numbers of micro-batches in a weight update; if `strict`, grouped ones have a divisor.

    >>> micro_batches_of("lock_step", 5).least, micro_batches_of("interleaved", 5).least
    (9, 5)
    >>> micro_batches_of("grouped", 5).allow(2048), micro_batches_of("grouped", 5).allow(2050)
    (False, True)
    """
    if stage_count == 1 or schedule == "sequential":
        return MicroBatches()
    if chunks > 1:
        return MicroBatches(groups, groups, reason="the IPUs, or groups of IPUs, that hold chunks in turn")
    if schedule == "interleaved":
        return MicroBatches(stage_count)
    twice = 2 * stage_count
    if schedule == "grouped" and strict:
        return MicroBatches(twice, twice, f"2·{stage_count} = ", "twice the stages of the grouped schedule")
    return MicroBatches(twice - 1, 1, f"2·{stage_count} - 1 = ")


def micro_batch_findings(rule: MicroBatches, stage_count: int, count: int) -> Iterator[Finding]:
    """Yield a problem if micro-batches are too few, or if the schedule does not divide their number."""
    where = PARALLELISM, "accumulation_factor"
    if count < rule.least:
        few = "1 micro-batch is" if count == 1 else f"{count} micro-batches are"
        what = f"{few} too few for {counted(stage_count, 'pipeline stage')}"
        yield where, what, f"use {rule.formula}{rule.least} or more"
    elif not rule.allow(count):
        what, nearest = rule.objection(count)
        yield where, what, f"use {nearest}"
