"""Timeline of a result: passes with their operations inside, in order.

The engine records a pass as one stretch per kind of time. The plan has the operations of the pass, and each gets its
share of the recorded time; for each kind, the shares add up exactly. Of repeated cycles, a chart shows the first, two
in the middle and the last. The others are folded, and short neighbours are merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple

from podsim.engine.trace import PhaseRecord, Record, Trace
from podsim.format import format_duration_s, format_percent, natural_key
from podsim.lazy import LazySequence
from podsim.models.op import MatMul, Product
from podsim.program.passes_in_order import Passes, Repeat
from podsim.report.chart import FOLDED, Axis, Chart, TimelineBar, TimelineChart, TimelineStretch
from podsim.report.report import Section, Topic
from podsim.report.table import Table, columns
from podsim.result.kinds import fill_of_kind, in_kind_order, kind_of, legend_of_kinds
from podsim.result.rows import first_group, part_of
from podsim.result.where import MOST_IPUS, hidden_ipus_note
from podsim.tiles.account import Account
from podsim.units import ps_to_seconds

PASS, OPERATION, REPEATED = "pass", "operation", "repeated"
MOST_MARKS: Final = 1400  # most marks of a window, so that a page stays small and fast
MOST_OF_CYCLES: Final = 4000  # most marks of two repeated cycles, in which operations should be visible
_CYCLES: Final = 2
_MS: Final = 1e-3
_DIGITS: Final = 9
_LISTED: Final = 300
_FINEST: Final = 4000
_STEP: Final = 1.1


class Stretch(NamedTuple):
    """A stretch of time, such as a part of a weight update. [ps]"""

    title: str
    start_ps: int
    end_ps: int

    def __str__(self) -> str:
        """Return the title and the duration."""
        return f"{self.title} {format_duration_s(ps_to_seconds(self.end_ps - self.start_ps))}"

    @property
    def in_ms(self) -> TimelineStretch:
        """Stretch in milliseconds, as charts use it."""
        return TimelineStretch(self.title, _ms(self.start_ps), _ms(self.end_ps))


class OperationMark(NamedTuple):
    """Mark of one operation, or of several merged ones; a tuple, because there are thousands."""

    lane: str
    name: str
    kind: str
    start_ps: int
    end_ps: int
    operations: int = 1
    mixture: str = ""

    @property
    def length_ps(self) -> int:
        """Its length. [ps]"""
        return self.end_ps - self.start_ps


def timeline_section(trace: Trace | None, passes: Passes | None, what: str, *, plotted: bool = True) -> Section:
    """Return the timeline section, drawn on first use; empty if nothing was recorded."""

    def make() -> list[Chart]:
        recorded = trace is not None and trace.records and trace.phases and trace.makespan_ps
        return [_chart(trace, passes or {}, what)] if trace is not None and recorded else []

    return Section("Timeline", LazySequence(make), Topic.TIMELINE, plotted=plotted)


def _chart(trace: Trace, passes: Passes, what: str) -> Chart:
    phases = first_group(trace.phases)
    windows, parts = windows_of(phases, trace.makespan_ps, what), parts_of(phases)
    lanes = sorted({record.lane for record in trace.records} & trace.lanes.keys(), key=natural_key)
    names = {lane: f"IPU {number}" if (number := lane.removeprefix("ipu")).isdecimal() else lane for lane in lanes}
    shown = lanes[:MOST_IPUS]
    slices = list(slices_of((record for record in trace.records if record.lane in shown), passes))
    marks = [
        mark
        for number, window in enumerate(windows)
        for mark in marks_of(slices, window, MOST_OF_CYCLES if number == 1 else MOST_MARKS)
    ]
    stretches = [Stretch("All of it", 0, trace.makespan_ps)]
    told = ", ".join(map(str, parts))
    notes, folded = [f"Parts in order: {told}."], []
    if len(windows) > 1:
        stretches += windows
        _, cycles, end = windows
        count = round((end.start_ps - cycles.end_ps) / (cycles.end_ps - cycles.start_ps) * _CYCLES)
        if count:
            name = f"{count:,} more cycles like those before"
            folded = [OperationMark(lane, name, "", cycles.end_ps, end.start_ps, count) for lane in shown]
            notes.append(f"Folded in the middle: {name}.")
    if joined := sum(mark.operations > 1 for mark in marks):
        notes.append(
            f"{joined:,} of {len(marks):,} bars stand for several operations that are too short to draw apart; "
            "over a few of them, colours add up as their kinds of time do."
        )
    bars = [
        TimelineBar(
            names[mark.lane],
            _ms(mark.start_ps),
            _ms(mark.end_ps),
            fill_of_kind(mark.kind) if mark.kind else FOLDED,
            mark.name,
            mark.mixture or (kind_of(mark.kind).label if mark.kind else "repeated"),
            format_duration_s(ps_to_seconds(mark.length_ps), 4),
        )
        for mark in (*marks, *folded)
    ]
    times, axis = [part.in_ms for part in parts], Axis("time", "ms")
    rows = [names[lane] for lane in shown]
    return Chart(
        title=f"One {what}, operation by operation",
        description=f"Timeline of one {what}: a row for each IPU, a bar for each operation. Parts in order: {told}.",
        drawn=TimelineChart(what, rows, bars, axis, times, [stretch.in_ms for stretch in stretches]),
        legend=legend_of_kinds({mark.kind for mark in marks}),
        numbers=_numbers(bars[: len(marks)]),
        notes=[*notes, *hidden_ipus_note(len(lanes))],
    )


def _numbers(bars: Sequence[TimelineBar]) -> Table:
    longest = sorted(bars, key=lambda bar: (bar.start - bar.end, bar.start, bar.row))[:_LISTED]
    rows = [(bar.row, bar.what, bar.kind, f"{bar.start:.6f}", f"{bar.end - bar.start:.6f}") for bar in longest]
    more = [f"The longest {_LISTED} of {len(bars):,} bars."] if len(bars) > _LISTED else []
    return Table(columns("IPU", "operation", "kind", ">from [ms]", ">time [ms]"), rows, notes=more)


def parts_of(phases: Iterable[PhaseRecord]) -> list[Stretch]:
    """Return the parts of an update, from the phases of one group in order; phases of zero length are skipped."""
    long = (phase for phase in phases if phase.end_ps > phase.start_ps)
    grouped = ((name, list(same)) for name, same in groupby(long, key=lambda phase: part_of(phase.name)))
    return [Stretch(name, same[0].start_ps, same[-1].end_ps) for name, same in grouped]


def windows_of(phases: Sequence[PhaseRecord], makespan_ps: int, what: str = "weight update") -> list[Stretch]:
    """Return the windows to draw: beginning, two repeated cycles and end; the whole time if nothing repeats enough."""
    repeated = [phase for phase in phases if phase.count > 2 * _CYCLES]
    if not repeated:
        return [Stretch(f"The whole {what}", 0, makespan_ps)]
    main = max(repeated, key=lambda phase: phase.end_ps - phase.start_ps)
    period_ps = (main.end_ps - main.start_ps) // main.count
    period = format_duration_s(ps_to_seconds(period_ps))
    first_ps, last_ps = main.start_ps + period_ps, main.end_ps - period_ps
    before = ", ".join(map(str, parts_of(phase for phase in phases if phase.end_ps <= main.start_ps)))
    after = ", ".join(map(str, parts_of(phase for phase in phases if phase.start_ps >= main.end_ps)))
    return [
        Stretch(f"Start: {before or 'the first cycle'}", 0, first_ps),
        Stretch(
            f"{_CYCLES} of {main.count} {part_of(main.name)} cycles, {period} each",
            *(first_ps, first_ps + _CYCLES * period_ps),
        ),
        Stretch(f"End: {after or 'the last cycle'}", last_ps, makespan_ps),
    ]


def marks_of(slices: Iterable[Slice], window: Stretch, most: int) -> list[OperationMark]:
    """Return the marks of a window; short neighbours are merged until at most `most` are left."""
    by_lane: dict[str, list[OperationMark]] = {}
    for one in slices:
        by_lane.setdefault(one.lane, []).extend(_pieces_in(one, window))
    lanes = [sorted(lane, key=lambda mark: mark.start_ps) for lane in by_lane.values()]
    length_ps = window.end_ps - window.start_ps
    shortest_ps = max(1, length_ps // _FINEST)
    while shortest_ps < length_ps and (count := sum(1 for lane in lanes for _ in _runs(lane, shortest_ps))) > most:
        shortest_ps = int(shortest_ps * max(_STEP, count / most)) + 1
    return [mark for lane in lanes for mark in merged(lane, shortest_ps)]


def _pieces_in(one: Slice, window: Stretch) -> Iterator[OperationMark]:
    """Yield the marks of all repetitions of a slice that are visible in a window, cut to it."""
    period_ps = one.repeat_period_ps or one.end_ps + window.end_ps
    first = max(0, (window.start_ps - one.end_ps) // period_ps + 1)
    numbers = range(first, min(one.repeat_count, -((one.start_ps - window.end_ps) // period_ps)))
    for piece in pieces_of(one) if numbers else ():
        for shift_ps in (number * period_ps for number in numbers):
            start_ps, end_ps = max(piece.start_ps + shift_ps, window.start_ps), piece.end_ps + shift_ps
            if start_ps < (end_ps := min(end_ps, window.end_ps)):
                yield OperationMark(piece.lane, piece.name, piece.kind, start_ps, end_ps)


def pieces_of(one: Slice) -> Iterator[OperationMark]:
    """Yield the stretches of a slice that have one kind of time, with the names of their operations.

    Repeated operations of a pass appear once per repetition.
    """
    if one.category != PASS:
        for leaf in one.leaves:
            yield OperationMark(one.lane, one.name, leaf.category, leaf.start_ps, leaf.end_ps)
        return
    before: list[Slice] = []
    for part in one.inside:
        count = int(str(part.arguments.get("repetitions", 1)))
        alike = [other for other in before if other.arguments.get("runs in this pass") == count + 1]
        if part.category == REPEATED and alike:
            yield from _repeated(part, count, [piece for other in alike for piece in pieces_of(other)])
            before = []
        else:
            before.append(part)
            yield from pieces_of(part)


def _repeated(part: Slice, count: int, once: Sequence[OperationMark]) -> Iterator[OperationMark]:
    """Yield the marks of `count` repetitions, scaled from `once` to the time of `part`."""
    first_ps, length_ps = once[0].start_ps, once[-1].end_ps - once[0].start_ps
    edges = [part.start_ps + (part.end_ps - part.start_ps) * number // count for number in range(count + 1)]
    for start_ps, end_ps in pairwise(edges):
        for lane, name, kind, from_ps, until_ps, *_ in once:
            moved = [start_ps + (end - first_ps) * (end_ps - start_ps) // length_ps for end in (from_ps, until_ps)]
            yield OperationMark(lane, name, kind, moved[0], moved[1])


def merged(pieces: Iterable[OperationMark], shortest_ps: int) -> Iterator[OperationMark]:
    """Yield the marks of a lane in order; marks that are too short are merged.

    Merged marks are drawn as one kind. The kind that has been drawn least in relation to its time is chosen, so that
    over a few marks each kind is drawn for its own time.
    """
    owed_ps: Counter[str] = Counter()
    for run in _runs(pieces, shortest_ps):
        if len(run) == 1:
            yield run[0]
            continue
        times_ps: Counter[str] = Counter()
        for piece in run:
            times_ps[piece.kind] += piece.length_ps
        owed_ps.update(times_ps)
        whole_ps = times_ps.total()
        drawn = max(in_kind_order(times_ps), key=lambda kind: owed_ps[kind])
        owed_ps[drawn] -= whole_ps
        names = [name for name, _ in groupby(run, key=lambda piece: piece.name)]
        name = names[0] if len(names) == 1 else f"{len(names)} short operations, {names[0]} to {names[-1]}"
        shares = (f"{kind_of(kind).label} {format_percent(ps / whole_ps, 0)}" for kind, ps in times_ps.most_common())
        yield OperationMark(
            run[0].lane, name, drawn, run[0].start_ps, run[-1].end_ps, len(names), mixture=", ".join(shares)
        )


def _runs(pieces: Iterable[OperationMark], shortest_ps: int) -> Iterator[list[OperationMark]]:
    """Yield groups of marks: one long enough, or several short ones without gaps."""
    run: list[OperationMark] = []
    for piece in pieces:
        is_long = piece.end_ps - piece.start_ps >= shortest_ps
        if run and (is_long or run[-1].end_ps != piece.start_ps or run[-1].end_ps - run[0].start_ps >= shortest_ps):
            yield run
            run = []
        if is_long:
            yield [piece]
        else:
            run.append(piece)
    if run:
        yield run


def _ms(time_ps: int) -> float:
    return round(ps_to_seconds(time_ps) / _MS, _DIGITS)


@dataclass(frozen=True, slots=True)
class Slice:
    """First repetition of a stretch of time of a lane or channel; inner slices fill it without gaps.

    The category is the kind of time, or `pass`, `operation` or `repeated` if inner slices have the kinds.
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
        """Number of slices, this one and all inner ones."""
        return 1 + sum(part.count for part in self.inside)

    @property
    def leaves(self) -> Iterator[Slice]:
        """The stretches of one kind that it is made of."""
        if not self.inside:
            yield self
        for part in self.inside:
            yield from part.leaves

    def first_repetition(self, shift_ps: int = 0) -> Slice:
        """Return one repetition, shifted in time."""
        inside = tuple(part.first_repetition(shift_ps) for part in self.inside)
        start_ps, end_ps = self.start_ps + shift_ps, self.end_ps + shift_ps
        return replace(self, start_ps=start_ps, end_ps=end_ps, repeat_count=1, repeat_period_ps=0, inside=inside)


def slices_of(records: Iterable[Record], passes: Passes | None = None) -> Iterator[Slice]:
    """Yield the records of all lanes as slices; a pass in `passes` becomes one slice with its operations inside."""
    passes = passes or {}
    for run in runs_of(records, passes):
        alone = slice_of(run[0])
        yield _pass(alone, run, repeats) if (repeats := passes.get(alone.name)) else alone


def slice_of(record: Record) -> Slice:
    """Return a record as a slice."""
    times = record.start_ps, record.end_ps, record.repeat_count, record.repeat_period_ps
    return Slice(record.lane, record.kind, record.name, *times)


def runs_of(records: Iterable[Record], passes: Passes) -> Iterator[list[Record]]:
    """Yield groups of records, lane by lane: one repetition of a pass in `passes`, or a single record."""
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
    """Return a pass as one slice, with its operations one after the other inside."""
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
    """Return slices of the kinds of time one after the other: work, then movement."""
    slices = []
    for kind, length_ps in lengths.items():
        if length_ps:
            slices.append(Slice(lane, kind, kind, start_ps, start_ps + length_ps))
            start_ps += length_ps
    return tuple(slices)


def _shares(total_ps: int, weights: Sequence[float]) -> list[int]:
    """Divide a time in proportion to weights, in whole picoseconds that add up to it; all 0 for zero weights."""
    edges = list(accumulate(weights, initial=0.0))
    whole = edges[-1] or 1.0
    return [after - before for before, after in pairwise(round(total_ps * (edge / whole)) for edge in edges)]


def _parts(repeats: Iterable[Repeat]) -> Iterator[tuple[str, str, dict[str, object], Account]]:
    """Yield the parts of a pass: each operation of the first repetition, then all other repetitions as one part."""
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
