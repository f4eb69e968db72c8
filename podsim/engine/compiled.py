"""Execution of a program in the compiled engine: the same times as on SimPy, without a timeline.

The program becomes flat arrays of integers. An object that several lanes and phases share becomes one row.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from contextlib import suppress
from copy import copy
from itertools import product
from typing import Any, Final

from podsim.engine.deadlock import STOPPED, TRANSFER, deadlock_error
from podsim.engine.sharing import capacities, weight_of
from podsim.engine.trace import CONTENTION, IDLE, PhaseRecord, Trace
from podsim.engine.variation import JITTER, SLOWED, slowdowns_by_name
from podsim.garbage import no_search
from podsim.program.task import Acquire, Barrier, Exchange, Group, Program, Release, Step, Transfer, Work
from podsim.tape import Number

WORK, MEET, TAKE, GIVE, SEND, NOISY, STEADY, STEADY_NOISY = range(8)
_LONGEST, _LARGEST, _HEAVIEST, _ROOMIEST = 1 << 50, 1 << 48, 1 << 66, 1 << 52
"""Limits of a transfer's time on an idle channel [ps], its size, its weight, and a channel's capacity.

Below these limits, products fit into 128 bits.
"""
_NEVER = (1 << 63) - 1
_HALF_BITS = 32

PER_OP, PER_SEQUENCE, PER_CHARGE, PER_TRANSFER, PER_LOAD, PER_GROUP, PER_PHASE = 3, 4, 2, 5, 4, 7, 2
PER_SLOW_LANE, PER_CHANGE = 5, 3
"""Number of columns of each array."""

Known = dict[str, int]


class TooLargeError(Exception):
    """Times or sizes that exceed the range of the compiled engine.

    Examples: a transfer of 18 minutes or 2^48 bytes, a channel at 16 times its speed, a lane slow for over 106 days.
    """


_Rows = MutableSequence[Any]
"""Whole numbers in an array, or numbers of a tape in a list."""


def _integers() -> _Rows:
    return array("q")


class Flat:
    """Arrays of a program, in rows of fixed width."""

    def __init__(self, rows: Callable[[], _Rows] = _integers) -> None:
        self.ops = rows()  # (code, what, kind) of every step
        self.sequences = rows()  # (first op, ops, first charge, charges) of the steps of a lane in a phase
        self.charges = rows()  # (kind, time in picoseconds) of the work in a sequence
        self.transfers = rows()  # (latency in picoseconds, kind, size, first load, loads)
        self.loads = rows()  # (channel, time in picoseconds, upper and lower part of the weight)
        self.groups: list[int] = []  # (first lane, lanes, first phase, phases, warm-up, accounted, turns)
        self.phases: list[int] = []  # (repetitions, kind of waiting at the end)
        self.of_lane = rows()  # sequence of every lane in every phase of its group
        self.bases: list[int] = []  # index of the first entry of each group in `of_lane`
        self.noises: list[int] = []  # (offset in `tables`, log2 of the table's length, stream, relative) per jitter
        self.tables: list[int] = []
        self.slow_lanes: list[int] = []  # (lane, start, end, numerator and denominator of its speed), by lane and time
        self.slow_channels: list[int] = []  # (time, channel, capacity from that time on), by time
        self.parties: list[int] = []  # number of lanes that meet at each barrier
        self.tokens: list[int] = []  # initial tokens of each semaphore
        self.kinds: Known = {}
        self.sent: set[str] = set()  # kinds of transfers
        self.channels: Known = {}
        self.barriers: Known = {}  # number of each named barrier; the barrier at the ends of a group's phases follows
        self.semaphores: Known = {}
        self.lanes: list[str] = []


class _Layout:
    """Conversion of one program; rows are cached by the identity of tasks, which the program keeps alive."""

    def __init__(self, program: Program, flat: Flat) -> None:
        self.flat = flat
        self._program = program
        self._sequences: dict[int, int] = {}
        self._ops: dict[int, tuple[int, int, int]] = {}
        self._works: dict[int, tuple[int, tuple[tuple[int, int], ...]]] = {}
        self._transfers: dict[int, tuple[int, ...]] = {}
        self._met: dict[int, int] = {}
        self._barriers: list[set[int]] = []
        self._noises = {name: number for number, name in enumerate(program.jitters)}
        flat.kinds.update({JITTER: 0, SLOWED: 1, CONTENTION: 2})
        for key, tokens in program.semaphores.items():
            flat.semaphores[key] = len(flat.tokens)
            flat.tokens.append(tokens)

    def lay_out(self) -> Flat:
        for group in self._program.groups:
            self._group(group)
        flat = self.flat
        flat.parties.extend(self._met[number] for number in range(len(flat.barriers)))
        flat.parties.extend(flat.groups[1::PER_GROUP])
        self._vary()
        return flat

    def _group(self, group: Group) -> None:
        flat, first = self.flat, len(self.flat.lanes)
        flat.lanes += group.lanes
        flat.groups += (
            first,
            len(group.lanes),
            len(flat.phases) // PER_PHASE,
            len(group.phases),
            group.warm_up,
            int(group.accounted),
            group.turns,
        )
        for phase in group.phases:
            flat.phases += phase.count, self._kind(phase.wait_kind)
        flat.bases.append(len(flat.of_lane))
        known, of_lane, steps = self._sequences, flat.of_lane, [phase.steps for phase in group.phases]
        for lane in group.lanes:
            begin = len(of_lane)
            for step in steps:
                sequence = step.get(lane, ())
                row = known.get(id(sequence))
                of_lane.append(self._sequence(sequence) if row is None else row)
            for barrier in {barrier for row in set(of_lane[begin:]) for barrier in self._barriers[row]}:
                self._met[barrier] = self._met.get(barrier, 0) + 1

    def _sequence(self, steps: Sequence[Step]) -> int:
        flat = self.flat
        number = self._sequences[id(steps)] = len(flat.sequences) // PER_SEQUENCE
        first_op, first_charge = len(flat.ops), len(flat.charges)
        charges: dict[int, int] = {}
        barriers: set[int] = set()
        busy, steady = -1, False
        for step in steps:
            if type(step) is Work:
                duration, parts = self._works.get(id(step)) or self._work(step)
                for place, time in parts:
                    charges[place] = charges.get(place, 0) + time
                if not step.jitter:
                    if busy >= 0 and step.steady != steady:
                        flat.ops.extend((STEADY if steady else WORK, busy, 0))
                        busy = -1
                    busy, steady = duration + max(busy, 0), step.steady
                    continue
                op = STEADY_NOISY if step.steady else NOISY, duration, self._noises[step.jitter]
            else:
                op = self._ops.get(id(step)) or self._op(step)
                if op[0] == MEET:
                    barriers.add(op[1])
            if busy >= 0:
                flat.ops.extend((STEADY if steady else WORK, busy, 0))
                busy = -1
            if op[0] >= 0:
                flat.ops.extend(op)
        if busy >= 0:
            flat.ops.extend((STEADY if steady else WORK, busy, 0))
        for row in charges.items():
            flat.charges.extend(row)
        ops, rows = len(flat.ops) - first_op, len(flat.charges) - first_charge
        flat.sequences.extend((first_op // PER_OP, ops // PER_OP, first_charge // PER_CHARGE, rows // PER_CHARGE))
        self._barriers.append(barriers)
        return number

    def _work(self, work: Work) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the time of work, and its time by kind."""
        parts = tuple((self._kind(kind), time) for kind, time in work.parts)
        found = self._works[id(work)] = sum(time for _, time in parts), parts
        return found

    def _op(self, step: Step) -> tuple[int, int, int]:
        flat = self.flat
        if isinstance(step, Exchange):
            op = (SEND, self._exchange(step), len(step.transfers)) if step.transfers else (-1, 0, 0)
        elif isinstance(step, Barrier):
            op = MEET, flat.barriers.setdefault(step.key, len(flat.barriers)), self._kind(step.kind)
        elif isinstance(step, Acquire):
            op = TAKE, flat.semaphores[step.key], self._kind(step.kind)
        else:
            assert isinstance(step, Release)
            op = GIVE, flat.semaphores[step.key], 0
        self._ops[id(step)] = op
        return op

    def _exchange(self, step: Exchange) -> int:
        """Append the transfers of an exchange in order of latency; return the row of the first."""
        flat = self.flat
        first = len(flat.transfers) // PER_TRANSFER
        ordered = step.transfers
        if len(ordered) > 1:
            ordered = tuple(sorted(ordered, key=lambda each: each.latency_ps))
        for each in ordered:
            row = self._transfers.get(id(each))
            if row is None:
                row = self._transfers[id(each)] = self._transfer(each)
            flat.transfers.extend(row)
        return first

    def _transfer(self, transfer: Transfer) -> tuple[int, ...]:
        flat, size = self.flat, transfer.units
        channels, first = flat.channels, len(self.flat.loads)
        for name, time in transfer.channels:
            if time:
                weight = weight_of(time, size)
                if time >= _LONGEST or size >= _LARGEST or weight >= _HEAVIEST:
                    raise TooLargeError
                high, low = divmod(weight, 1 << _HALF_BITS)
                flat.loads.extend((channels.setdefault(name, len(channels)), time, high, low))
        count = (len(flat.loads) - first) // PER_LOAD
        flat.sent.add(transfer.kind)
        return transfer.latency_ps, self._kind(transfer.kind), size, first // PER_LOAD, count

    def _kind(self, name: str) -> int:
        return self.flat.kinds.setdefault(name, len(self.flat.kinds))

    def _vary(self) -> None:
        """Append jitter, slow lanes and slow channels; a table that several jitters share is stored once."""
        flat, tables = self.flat, dict[int, int]()
        for jitter in self._program.jitters.values():
            table = tables.setdefault(id(jitter.table), len(flat.tables))
            if table == len(flat.tables):
                flat.tables += jitter.table
            flat.noises += table, len(jitter.table).bit_length() - 1, jitter.stream, int(jitter.relative)
        lanes = {name: number for number, name in enumerate(flat.lanes)} if self._program.slowdowns else {}
        changes: list[tuple[int, int, int]] = []
        for name, slowdowns in slowdowns_by_name(self._program.slowdowns).items():
            if name not in lanes:
                channel = flat.channels.setdefault(name, len(flat.channels))
                rooms = capacities(slowdowns)
                if max(rooms.values()) >= _ROOMIEST:
                    raise TooLargeError
                changes += ((time, channel, room) for time, room in rooms.items())
                continue
            for slowdown in slowdowns:
                end = _NEVER if slowdown.end_ps is None else slowdown.end_ps
                if slowdown.end_ps is not None and end >= _NEVER:
                    raise TooLargeError
                flat.slow_lanes += (
                    lanes[name],
                    slowdown.start_ps,
                    end,
                    slowdown.speed.numerator,
                    slowdown.speed.denominator,
                )
        for change in sorted(changes):
            flat.slow_channels += change


def flatten(program: Program) -> Flat:
    """Return the arrays of a program."""
    return _Layout(program, Flat()).lay_out()


_TIMED: Final = ("ops", "charges", "transfers", "loads")
"""Arrays that hold durations."""


class Structure:
    """Arrays of a program whose durations are numbers of a tape, for runs with many sets of durations."""

    def __init__(self, program: Program) -> None:
        """Lay out a program."""
        self._program = program
        self._flat = _Layout(program, Flat(list)).lay_out()
        self._slots: dict[int, dict[str, list[int]]] = {}
        self._first: dict[int, int] = {}
        for name in _TIMED:
            rows = getattr(self._flat, name)
            for slot in [slot for slot, each in enumerate(rows) if type(each) is Number]:
                number = rows[slot]
                self._slots.setdefault(number.place, {}).setdefault(name, []).append(slot)
                rows[slot] = self._first[number.place] = number.recorded
            setattr(self._flat, name, array("q", rows))

    def changed(self, values: Sequence[int]) -> list[int]:
        """Return the places on the tape of the durations that differ from those at first."""
        return [place for place, value in self._first.items() if values[place] != value]

    def run(self, values: Sequence[int]) -> Trace | None:
        """Run the program in C with other numbers of its tape; None without the engine, or beyond its range."""
        if _core_run is None:
            return None
        flat = copy(self._flat)
        for name in _TIMED:
            setattr(flat, name, getattr(flat, name)[:])
        try:
            with no_search():
                for place in self.changed(values):
                    for name, slots in self._slots[place].items():
                        rows, value = getattr(flat, name), values[place]
                        for slot in slots:
                            rows[slot] = value
                run = _Execution(self._program, flat, explicit=False)
        except OverflowError:
            return None
        return run.run(_core_run, ())


_STUCK, _TOO_LARGE = 1, 2
_LOOKS_EVERY = 1 << 22
"""Number of events between two checks for an interrupt."""
_NEVER_LOOKS = 1 << 62
"""Number of events that no run reaches."""
_IN_TRANSFER, _ENDED = -2, -3


_Run = Callable[[tuple[object, ...], Callable[[int], None] | None, int], int]
_core_run: _Run | None = None
with suppress(ImportError):
    from podsim.engine._core import run as _core_run


def is_available() -> bool:
    """Return True if podsim was built with a C compiler."""
    return _core_run is not None


def run_compiled(program: Program, *, explicit: bool, watch: Iterable[int] = ()) -> Trace | None:
    """Run a program in C; return None without the compiled engine, or if a time or size exceeds its range."""
    if _core_run is None:
        return None
    try:
        with no_search():
            run = _Execution(program, flatten(program), explicit)
    except (TooLargeError, OverflowError):
        return None
    return run.run(_core_run, watch)


class _Execution:
    """Run of one program in C; raises OverflowError if a value does not fit into 64 bits."""

    def __init__(self, program: Program, flat: Flat, explicit: bool) -> None:
        self._program, self._flat = program, flat
        self._most_turns = max((group.turns for group in program.groups), default=1)
        self._accounts = _zeros(len(flat.lanes) * len(flat.kinds))
        self._begins = _zeros(len(flat.phases))
        self._marks = _zeros(len(program.groups) * self._most_turns)
        sequences = len(flat.sequences) // PER_SEQUENCE
        self._summary = array("q", [0, 0, 0, self._most_turns, sequences])
        self._where = _zeros(len(flat.lanes))
        self._sent = sorted(flat.sent)
        self._shared = _zeros(len(flat.lanes) * len(self._sent) ** 2)
        self._arrays = self._laid_out(explicit)

    def run(self, core: _Run, watch: Iterable[int]) -> Trace | None:
        numbers = iter(watch)
        interval = next(numbers, 0)
        code = core(self._arrays, _asks(numbers) if interval else None, min(interval, _NEVER_LOOKS) or _LOOKS_EVERY)
        if code == _TOO_LARGE:
            return None
        if code == _STUCK:
            raise deadlock_error(list(self._waiting_lanes()))
        return self._trace()

    def _laid_out(self, explicit: bool) -> tuple[object, ...]:
        flat, program = self._flat, self._program
        ranks = {kind: rank for rank, kind in enumerate(self._sent)}
        inputs = (
            *(flat.ops, flat.sequences, flat.charges, flat.transfers, flat.loads, flat.groups, flat.phases),
            *(flat.of_lane, flat.tokens, flat.parties, flat.bases, flat.noises, flat.tables),
            *(flat.slow_lanes, flat.slow_channels, [ranks.get(kind, 0) for kind in flat.kinds]),
        )
        sizes = [
            *(len(flat.lanes), len(program.groups), len(flat.kinds), len(flat.channels)),
            *(len(flat.parties), len(flat.tokens), len(program.jitters)),
            *(
                len(flat.slow_lanes) // PER_SLOW_LANE,
                len(flat.slow_channels) // PER_CHANGE,
                int(explicit),
                program.seed,
            ),
            *(flat.kinds[JITTER], flat.kinds[SLOWED], flat.kinds[CONTENTION], len(self._sent)),
        ]
        outputs = self._accounts, self._begins, self._marks, self._summary, self._where, self._shared
        return (
            *(rows if isinstance(rows, array) else array("q", rows) for rows in inputs),
            *outputs,
            array("q", sizes),
        )

    def _waiting_lanes(self) -> Iterator[tuple[str, str]]:
        """Yield (lane, name of what it waits for) for every lane that has not ended."""
        flat, groups = self._flat, self._program.groups
        names = [*flat.barriers, *(f"end of a phase of {group.name}" for group in groups), *flat.semaphores]
        others = {_IN_TRANSFER: TRANSFER, -1: STOPPED}
        for lane, place in zip(flat.lanes, self._where, strict=True):
            if place != _ENDED:
                yield lane, others[place] if place < 0 else names[place]

    def _trace(self) -> Trace:
        start, end, events = self._summary[:3]
        lanes: dict[str, dict[str, int]] = {}
        helpers: dict[str, dict[str, int]] = {}
        phases: list[PhaseRecord] = []
        turns: dict[str, tuple[int, ...]] = {}
        shared: dict[str, Mapping[tuple[str, str], int]] = {}
        row, place = 0, 0
        for number, group in enumerate(self._program.groups):
            for lane in group.lanes:
                account = self._account(row)
                if CONTENTION in account:
                    shared[lane] = self._shared_by(row)
                row += 1
                if not group.accounted:
                    helpers[lane] = account
                    continue
                if rest := end - start - sum(account.values()):
                    account[IDLE] = account.get(IDLE, 0) + rest
                lanes[lane] = account
            if group.accounted:
                first = number * self._most_turns
                turns[group.name] = tuple(at - start for at in self._marks[first : first + group.turns])
                for offset, phase in enumerate(group.phases):
                    if offset >= group.warm_up:
                        begin, finish = self._begins[2 * (place + offset) : 2 * (place + offset) + 2]
                        phases.append(PhaseRecord(group.name, phase.name, phase.count, begin - start, finish - start))
            place += len(group.phases)
        phases.sort(key=lambda each: (each.group, each.start_ps))
        return Trace(
            end - start, lanes, (), frozenset(), tuple(phases), events, helpers, turns, "compiled", shared=shared
        )

    def _shared_by(self, row: int) -> dict[tuple[str, str], int]:
        pairs = list(product(self._sent, self._sent))
        values = self._shared[row * len(pairs) : (row + 1) * len(pairs)]
        return {pair: time for pair, time in zip(pairs, values, strict=True) if time}

    def _account(self, row: int) -> dict[str, int]:
        kinds = self._flat.kinds
        values = self._accounts[row * len(kinds) : (row + 1) * len(kinds)]
        return {kind: time for kind, time in zip(kinds, values, strict=True) if time}


def _asks(numbers: Iterator[int]) -> Callable[[int], None]:
    def look(parts: int) -> None:
        for _ in zip(range(parts), numbers, strict=False):
            pass

    return look


def _zeros(count: int) -> array[int]:
    return array("q", (0,)) * count
