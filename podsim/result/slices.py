"""The stretches of a timeline: passes with their operations inside, in the order they run.

The engine records a pass as one stretch per kind of time. Which operations these are made of is known from the
plan; here each gets its share, so that all of them add up to what was recorded, exactly, for each kind of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from podsim.engine.trace import Record
from podsim.models.op import MatMul, Product
from podsim.program.passes_in_order import Passes, Repeat
from podsim.tiles.account import Account
from podsim.tiles.model import OpCost

PASS, OPERATION, REPEATED = "pass", "operation", "repeated"
_NOTHING: Final[Passes] = {}


@dataclass(frozen=True, slots=True)
class Slice:
    """The first repetition of a stretch of time of a lane or channel; inside is what it is made of, without gaps.

    Its category is its kind of time, or `pass`, `operation` or `repeated` where those inside say it.
    """

    lane: str
    category: str
    name: str
    start_ps: int
    end_ps: int
    repeat_count: int = 1
    repeat_period_ps: int = 0
    arguments: Mapping[str, object] = field(default_factory=dict)
    inside: tuple[Slice, ...] = ()

    @property
    def count(self) -> int:
        """How many stretches it consists of, itself included."""
        return 1 + sum(each.count for each in self.inside)

    @property
    def leaves(self) -> Iterator[Slice]:
        """The stretches of one kind that it is made of."""
        if not self.inside:
            yield self
        for each in self.inside:
            yield from each.leaves

    def once(self, shift_ps: int = 0) -> Slice:
        """One repetition alone, moved by an offset."""
        inside = tuple(each.once(shift_ps) for each in self.inside)
        start_ps, end_ps = self.start_ps + shift_ps, self.end_ps + shift_ps
        return replace(self, start_ps=start_ps, end_ps=end_ps, repeat_count=1, repeat_period_ps=0, inside=inside)


@dataclass(frozen=True, slots=True)
class _Part:
    """What gets a share of a pass, by the cycles of its account: an operation, or repetitions left out."""

    name: str
    category: str
    account: Account
    arguments: Mapping[str, object]


def slices_of(records: Iterable[Record], passes: Passes = _NOTHING) -> Iterator[Slice]:
    """Records of all lanes as slices; those of a pass that `passes` knows become one with its operations inside."""
    for run in runs_of(records, passes):
        repeats = passes.get(run[0].name)
        yield _pass(run, repeats) if repeats else _alone(run[0])


def runs_of(records: Iterable[Record], passes: Passes) -> Iterator[list[Record]]:
    """Records of each pass that `passes` knows together, all others alone; one lane after the other."""
    by_lane: dict[str, list[Record]] = {}
    for record in records:
        if record.end_ps > record.start_ps:
            by_lane.setdefault(record.lane, []).append(record)
    for lane in by_lane.values():
        yield from _runs(sorted(lane, key=lambda each: (each.start_ps, each.end_ps)), passes)


def _runs(records: Sequence[Record], passes: Passes) -> Iterator[list[Record]]:
    """Records of one pass together, all others alone."""
    run: list[Record] = []
    for record in records:
        if run and not _goes_on(run, record, passes):
            yield run
            run = []
        run.append(record)
    if run:
        yield run


def _goes_on(run: Sequence[Record], record: Record, passes: Passes) -> bool:
    last = run[-1]
    same = (last.name, last.end_ps, last.repeat_count, last.repeat_period_ps) == (
        record.name,
        record.start_ps,
        record.repeat_count,
        record.repeat_period_ps,
    )
    return same and record.name in passes and all(each.kind != record.kind for each in run)


def _alone(record: Record) -> Slice:
    return Slice(
        record.lane,
        record.kind,
        record.name,
        record.start_ps,
        record.end_ps,
        record.repeat_count,
        record.repeat_period_ps,
    )


def _pass(run: Sequence[Record], repeats: Sequence[Repeat]) -> Slice:
    """A pass with its operations one after the other."""
    parts = list(_parts(repeats))
    durations = {record.kind: record.end_ps - record.start_ps for record in run}
    shares = {
        kind: _shares(durations[kind], [getattr(part.account, kind, 0.0) for part in parts]) for kind in durations
    }
    first, inside, now = run[0], [], run[0].start_ps
    for number, part in enumerate(parts):
        lengths = {kind: share[number] for kind, share in shares.items() if share[number]}
        if lengths:
            inside.append(_filled(first.lane, part, now, lengths))
            now = inside[-1].end_ps
    for kind, length_ps in ((kind, durations[kind] - sum(share)) for kind, share in shares.items()):
        if length_ps:
            inside.append(Slice(first.lane, kind, kind, now, now + length_ps))
            now += length_ps
    whole = replace(_alone(first), category=PASS, end_ps=run[-1].end_ps, inside=tuple(inside))
    return replace(whole, arguments={"operations": sum(each.count * len(each.operations) for each in repeats)})


def _filled(lane: str, part: _Part, start_ps: int, lengths: Mapping[str, int]) -> Slice:
    """An operation with its kinds of time one after the other: work, then movement."""
    inside, now = [], start_ps
    for kind, length_ps in lengths.items():
        inside.append(Slice(lane, kind, kind, now, now + length_ps))
        now += length_ps
    return Slice(lane, part.category, part.name, start_ps, now, arguments=part.arguments, inside=tuple(inside))


def _shares(total_ps: int, weights: Sequence[float]) -> list[int]:
    """A time divided in proportion to weights, in whole picoseconds that add up to it; nothing if all are zero."""
    edges, reached = [0.0], 0.0
    for weight in weights:
        reached += weight
        edges.append(reached)
    if not reached:
        return [0] * len(weights)
    return [round(total_ps * (end / reached)) - round(total_ps * (start / reached)) for start, end in pairwise(edges)]


def _parts(repeats: Iterable[Repeat]) -> Iterator[_Part]:
    """Every operation of the first repetition, then the other ones as one."""
    for repeat in repeats:
        for block, cost in repeat.operations:
            yield _Part(cost.op.name, OPERATION, cost.account, _arguments(block, cost, repeat.count))
        if repeat.count > 1:
            rest = sum((cost.account for _, cost in repeat.operations), Account()).times(repeat.count - 1)
            blocks = ", ".join(dict.fromkeys(block for block, _ in repeat.operations))
            name = f"{repeat.count - 1} more like this: {blocks}"
            yield _Part(name, REPEATED, rest, {"repetitions": repeat.count - 1})


def _arguments(block: str, cost: OpCost, count: int) -> dict[str, object]:
    op = cost.op
    inner = {"inner": op.inner} if isinstance(op, MatMul) else {}
    operands = {"operands": op.operands} if isinstance(op, Product) and op.operands else {}
    return {
        "block": block,
        "operation": type(op).__name__,
        "shape": list(op.shape),
        **inner,
        "dtype": op.dtype,
        **operands,
        "cycles": round(cost.account.cycles),
        "runs in this pass": count,
    }
