"""The stretches of a timeline: passes with their operations inside, in the order they run.

The engine records a pass as one stretch per kind of time. Which operations these are made of is known from the
plan; here each gets its share, so that all of them add up to what was recorded, exactly, for each kind of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Final

from podsim.engine.trace import Record
from podsim.models.op import MatMul, Product
from podsim.program.passes_in_order import Passes, Repeat
from podsim.tiles.account import Account

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
        return 1 + sum(part.count for part in self.inside)

    @property
    def leaves(self) -> Iterator[Slice]:
        """The stretches of one kind that it is made of."""
        if not self.inside:
            yield self
        for part in self.inside:
            yield from part.leaves

    def once(self, shift_ps: int = 0) -> Slice:
        """One repetition alone, moved by an offset."""
        inside = tuple(part.once(shift_ps) for part in self.inside)
        start_ps, end_ps = self.start_ps + shift_ps, self.end_ps + shift_ps
        return replace(self, start_ps=start_ps, end_ps=end_ps, repeat_count=1, repeat_period_ps=0, inside=inside)


def slices_of(records: Iterable[Record], passes: Passes = _NOTHING) -> Iterator[Slice]:
    """Records of all lanes as slices; those of a pass that `passes` knows become one with its operations inside."""
    for run in runs_of(records, passes):
        first = run[0]
        times = first.start_ps, first.end_ps, first.repeat_count, first.repeat_period_ps
        alone = Slice(first.lane, first.kind, first.name, *times)
        yield _pass(alone, run, repeats) if (repeats := passes.get(first.name)) else alone


def runs_of(records: Iterable[Record], passes: Passes) -> Iterator[list[Record]]:
    """Records of one repetition of a pass that `passes` knows together, all others alone; lane after lane."""
    by_lane: dict[str, list[Record]] = {}
    for record in records:
        if record.end_ps > record.start_ps:
            by_lane.setdefault(record.lane, []).append(record)
    for lane in by_lane.values():
        run: list[Record] = []
        for record in sorted(lane, key=lambda record: (record.start_ps, record.end_ps)):
            if run:
                last, repeats = run[-1], (record.repeat_count, record.repeat_period_ps)
                follows = (last.name, last.end_ps) == (record.name, record.start_ps) and record.name in passes
                repeat = (last.repeat_count, last.repeat_period_ps) == repeats
                if not (follows and repeat) or any(other.kind == record.kind for other in run):
                    yield run
                    run = []
            run.append(record)
        yield run


def _pass(first: Slice, run: Sequence[Record], repeats: Sequence[Repeat]) -> Slice:
    """A pass with its operations one after the other."""
    parts = list(_parts(repeats))
    lengths = {record.kind: record.end_ps - record.start_ps for record in run}
    shares = {
        kind: _shares(length_ps, [getattr(account, kind, 0.0) for *_, account in parts])
        for kind, length_ps in lengths.items()
    }
    lane, inside, now = first.lane, list[Slice](), first.start_ps
    for number, (category, name, arguments, _) in enumerate(parts):
        if kinds := _kinds(lane, now, {kind: share[number] for kind, share in shares.items()}):
            inside.append(Slice(lane, category, name, now, kinds[-1].end_ps, arguments=arguments, inside=kinds))
            now = kinds[-1].end_ps
    inside += _kinds(lane, now, {kind: length_ps - sum(shares[kind]) for kind, length_ps in lengths.items()})
    counted = {"operations": sum(repeat.count * len(repeat.operations) for repeat in repeats)}
    return replace(first, category=PASS, end_ps=run[-1].end_ps, inside=tuple(inside), arguments=counted)


def _kinds(lane: str, start_ps: int, lengths: Mapping[str, int]) -> tuple[Slice, ...]:
    """Kinds of time one after the other: work, then movement."""
    slices = []
    for kind, length_ps in lengths.items():
        if length_ps:
            slices.append(Slice(lane, kind, kind, start_ps, start_ps + length_ps))
            start_ps += length_ps
    return tuple(slices)


def _shares(total_ps: int, weights: Sequence[float]) -> list[int]:
    """A time divided in proportion to weights, in whole picoseconds that add up to it; nothing if all are zero."""
    edges = list(accumulate(weights, initial=0.0))
    whole = edges[-1] or 1.0
    return [after - before for before, after in pairwise(round(total_ps * (edge / whole)) for edge in edges)]


def _parts(repeats: Iterable[Repeat]) -> Iterator[tuple[str, str, dict[str, object], Account]]:
    """What gets a share of a pass: each operation of the first repetition, then the other ones as one."""
    for repeat in repeats:
        for block, cost in repeat.operations:
            op = cost.op
            arguments: dict[str, object] = {"block": block, "operation": type(op).__name__, "shape": list(op.shape)}
            arguments |= {"inner": op.inner} if isinstance(op, MatMul) else {}
            arguments["dtype"] = op.dtype
            arguments |= {"operands": op.operands} if isinstance(op, Product) and op.operands else {}
            arguments |= {"cycles": round(cost.account.cycles), "runs in this pass": repeat.count}
            yield OPERATION, op.name, arguments, cost.account
        if (more := repeat.count - 1) > 0:
            rest = sum((cost.account for _, cost in repeat.operations), Account()).times(more)
            blocks = ", ".join(dict.fromkeys(block for block, _ in repeat.operations))
            yield REPEATED, f"{more} more like this: {blocks}", {"repetitions": more}, rest
