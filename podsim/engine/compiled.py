"""Runs a program in the compiled engine: the same times and accounts as on SimPy, without a timeline."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

from podsim.engine.flat import PER_CHANGE, PER_SEQUENCE, PER_SLOW_LANE, Flat, TooLargeError, flatten
from podsim.engine.stuck import STOPPED, TRANSFER, waiting_for_ever
from podsim.engine.trace import IDLE, PhaseRecord, Trace
from podsim.engine.variation import JITTER, SLOWED
from podsim.garbage import no_search
from podsim.program.task import Program

_STUCK, _TOO_LARGE = 1, 2
_LOOKS_EVERY = 1 << 22
"""Events after which a run looks whether it is to be interrupted."""
_NEVER_LOOKS = 1 << 62
"""More events than any run comes to."""
_IN_TRANSFER, _ENDED = -2, -3


_Run = Callable[[tuple[object, ...], Callable[[int], None] | None, int], int]
_core_run: _Run | None = None
with suppress(ImportError):
    from podsim.engine._core import run as _core_run


def is_available() -> bool:
    """Whether podsim was built with a C compiler."""
    return _core_run is not None


def run_compiled(program: Program, *, explicit: bool, watch: Iterable[int] = ()) -> Trace | None:
    """Run a program to its end; `podsim.engine.execute` says what the arguments are.

    None if it must be run on SimPy: without a compiled engine, or with times that it cannot hold.
    """
    if _core_run is None:
        return None
    try:
        with no_search():
            run = _Execution(program, flatten(program), explicit)
    except (TooLargeError, OverflowError):
        return None
    return run.run(_core_run, watch)


class _Execution:
    """One run of a program; OverflowError if something does not fit into 64 bits."""

    def __init__(self, program: Program, flat: Flat, explicit: bool) -> None:
        self._program, self._flat = program, flat
        self._most_turns = max((group.turns for group in program.groups), default=1)
        self._accounts = _zeros(len(flat.lanes) * len(flat.kinds))
        self._begins = _zeros(len(flat.phases))
        self._marks = _zeros(len(program.groups) * self._most_turns)
        sequences = len(flat.sequences) // PER_SEQUENCE
        self._summary = array("q", [0, 0, 0, self._most_turns, sequences])
        self._where = _zeros(len(flat.lanes))
        self._arrays = self._laid_out(explicit)

    def run(self, core: _Run, watch: Iterable[int]) -> Trace | None:
        numbers = iter(watch)
        interval = next(numbers, 0)
        code = core(self._arrays, _asks(numbers) if interval else None, min(interval, _NEVER_LOOKS) or _LOOKS_EVERY)
        if code == _TOO_LARGE:
            return None
        if code == _STUCK:
            raise waiting_for_ever(list(self._stuck()))
        return self._trace()

    def _laid_out(self, explicit: bool) -> tuple[object, ...]:
        flat, program = self._flat, self._program
        inputs = (
            *(flat.ops, flat.sequences, flat.charges, flat.transfers, flat.loads, flat.groups, flat.phases),
            *(flat.of_lane, flat.tokens, flat.parties, flat.bases, flat.noises, flat.tables),
            *(flat.slow_lanes, flat.slow_channels),
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
            *(flat.kinds[JITTER], flat.kinds[SLOWED]),
        ]
        outputs = self._accounts, self._begins, self._marks, self._summary, self._where
        return (
            *(rows if isinstance(rows, array) else array("q", rows) for rows in inputs),
            *outputs,
            array("q", sizes),
        )

    def _stuck(self) -> Iterator[tuple[str, str]]:
        """(lane, what it waits for)."""
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
        row, place = 0, 0
        for number, group in enumerate(self._program.groups):
            for lane in group.lanes:
                account = self._account(row)
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
        return Trace(end - start, lanes, (), frozenset(), tuple(phases), events, helpers, turns, "compiled")

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
