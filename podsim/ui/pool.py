"""Processes that answer: as many questions at a time as there are, the newest of each session, and a word to the rest.

A question takes the interpreter for itself, so that the server, which has to hear every movement of a slider, works in
a process of its own. A job that nobody waits for is interrupted where it is.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from podsim.errors import PodsimError
from podsim.ui.question import Question

MOST_WAITING: Final = 64
"""Sessions that may wait; one more is told to come back."""
_PATIENCE_S: Final = 0.3
"""How long the first step of an older question may still take."""
_NOBODY, _PID, _DONE, _TOTAL = 0, 1, 2, 3
_FIELDS: Final = 4
"""Of a seat: the number of the job that is to end, the process that works, how much is done, and of how much."""


class _InterruptedError(BaseException):
    """Nobody waits for this job any more."""


@dataclass(frozen=True, slots=True)
class _Seat:
    """What a worker and the server both see of a job."""

    number: int
    place: int

    def field(self, which: int) -> int:
        """Where a field of the seat is."""
        return self.place * _FIELDS + which


_shared: list[Any] = []
"""The seats, in a process that works."""
_now: list[_Seat] = []
"""The job that a process works on."""


def _begin(seats: Any) -> None:
    _shared[:] = [seats]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, _stop)


def _stop(_number: int, _frame: object) -> None:
    """End the job if it is the one that is to end, and not one that was begun since."""
    if _now and _shared[0][_now[0].field(_NOBODY)] == _now[0].number:
        raise _InterruptedError


def _work(seat: _Seat, make: Callable[..., Any], scratch: Path, arguments: Sequence[Any]) -> Any:
    """What a function of `podsim.ui.answer` makes; None where it was interrupted."""
    from podsim.ui.answer import Job

    seats = _shared[0]

    def tell(done: int, total: int) -> None:
        seats[seat.field(_DONE)], seats[seat.field(_TOTAL)] = done, total

    def watch(names: Sequence[str]) -> Iterable[str]:
        for place, name in enumerate(names):
            tell(place, len(names))
            yield name

    try:
        _now[:] = [seat]
        seats[seat.field(_PID)] = os.getpid()
        if seats[seat.field(_NOBODY)] == seat.number:
            return None
        return make(Job(scratch, tell, watch), *arguments)
    except _InterruptedError:
        return None
    finally:
        _now.clear()
        seats[seat.field(_PID)] = 0


def _warm(scenario: str) -> None:
    """Import all that a question needs and plan what most of them share."""
    from podsim.ui import answer

    with tempfile.TemporaryDirectory() as folder:
        asked = Question(scenario)
        answer.in_full(answer.Job(Path(folder)), asked, asked)


class Pool:
    """Processes that answer questions."""

    def __init__(self, scratch: Path, processes: int | None = None, most_waiting: int = MOST_WAITING) -> None:
        """Processes are started when they are first needed."""
        self.scratch = scratch
        self._count, self._most_waiting = processes or os.cpu_count() or 1, most_waiting
        self._context = multiprocessing.get_context("spawn")  # the server has threads, which a fork would lose
        self._seats: Any = self._context.Array("q", _FIELDS * self._count, lock=False)
        self._free = list(range(self._count))
        self._turn = asyncio.Semaphore(self._count)
        self._executor: ProcessPoolExecutor | None = None
        self._number = 0
        self.waiting = 0

    def start(self, scenario: str) -> None:
        """Start the processes, so that the first question does not wait for them."""
        for _ in range(self._count):
            self._pool().submit(_warm, scenario)

    def _pool(self) -> ProcessPoolExecutor:
        if self._executor is None:
            self._executor = ProcessPoolExecutor(
                self._count, mp_context=self._context, initializer=_begin, initargs=(self._seats,)
            )
        return self._executor

    async def work(self, ticket: Ticket, make: Callable[..., Any], *arguments: Any) -> Any:
        """What a function of `podsim.ui.answer` makes of its arguments; None if nobody waits for it any more.

        Raises:
            PodsimError: Too many wait already, or the process died.
        """
        if self.waiting >= self._most_waiting:
            do = "try again in a minute, or start a server of your own: `podsim ui`"
            raise PodsimError(f"{self.waiting} questions of others wait already", do=do)
        self.waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self.waiting -= 1
        place = self._free.pop()
        try:
            return None if ticket.is_dropped else await self._made(ticket, place, make, arguments)
        finally:
            ticket.seats.clear()
            self._free.append(place)
            self._turn.release()

    async def _made(self, ticket: Ticket, place: int, make: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        self._number += 1
        seat = _Seat(self._number, place)
        ticket.seats.append((self._seats, seat))
        self._seats[seat.field(_DONE)] = self._seats[seat.field(_TOTAL)] = 0
        try:
            future = self._pool().submit(_work, seat, make, self.scratch, arguments)
            return await asyncio.wrap_future(future)
        except BrokenProcessPool:
            self._executor = None
            what, do = "the process that answered died", "look for a shortage of memory, and ask again"
            raise PodsimError(what, do=do) from None

    def close(self) -> None:
        """End the processes."""
        if self._executor is not None:
            processes = list((self._executor._processes or {}).values())
            self._executor.shutdown(wait=False, cancel_futures=True)
            for each in processes:
                each.terminate()


@dataclass(frozen=True)
class Ticket:
    """A claim to an answer; `dropped` holds something once its owner has dropped it."""

    dropped: list[bool] = field(default_factory=list)
    seats: list[tuple[Any, _Seat]] = field(default_factory=list)

    @property
    def is_dropped(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return bool(self.dropped)

    def drop(self) -> None:
        """Give the claim up; work on it ends."""
        self.dropped.append(True)
        for seats, seat in self.seats:
            seats[seat.field(_NOBODY)] = seat.number
            process = seats[seat.field(_PID)]
            if process and hasattr(signal, "SIGUSR1"):
                os.kill(process, signal.SIGUSR1)

    def progress(self) -> tuple[int, int] | None:
        """How much is done, and of how much; None where that is not known."""
        for seats, seat in self.seats:
            if seats[seat.field(_TOTAL)]:
                return seats[seat.field(_DONE)], seats[seat.field(_TOTAL)]
        return None


def _raise(task: asyncio.Task[None]) -> None:
    """Let the loop report a bug, which would be silent in a task that nobody waits for."""
    if not task.cancelled():
        task.result()


Step = tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any], None]]
"""A function of `podsim.ui.answer`, its arguments, and what takes its answer."""


class Asker:
    """The questions of a session: the newest is answered, older ones are dropped."""

    def __init__(self, pool: Pool, refused: Callable[[PodsimError], None]) -> None:
        """Nothing is asked yet."""
        self._pool, self._refused = pool, refused
        self._next: Sequence[Step] | None = None
        self._task: asyncio.Task[None] | None = None
        self._ticket = Ticket()
        self._is_first = False

    def ask(self, steps: Sequence[Step]) -> None:
        """Ask; what was asked before and is not answered yet is dropped.

        A first step that is nearly done is shown all the same: otherwise nothing would be seen while a slider moves.
        """
        self._next = steps
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._answer())
            self._task.add_done_callback(_raise)
        elif self._is_first:
            asyncio.get_running_loop().call_later(_PATIENCE_S, self._ticket.drop)
        else:
            self._ticket.drop()

    def drop(self) -> None:
        """Ask nothing more."""
        self._next = None
        self._ticket.drop()

    @property
    def is_busy(self) -> bool:
        """Whether an answer is on its way."""
        return self._task is not None and not self._task.done()

    @property
    def progress(self) -> tuple[int, int] | None:
        """How far the answer is."""
        return self._ticket.progress()

    async def _answer(self) -> None:
        while self._next is not None:
            steps, self._next = self._next, None
            self._ticket = ticket = Ticket()
            for place, (make, arguments, take) in enumerate(steps):
                self._is_first = place == 0
                try:
                    answer = await self._pool.work(ticket, make, *arguments)
                except PodsimError as error:
                    self._refused(error)
                    break
                if answer is not None and not ticket.is_dropped:
                    take(answer)
                if ticket.is_dropped or self._next is not None:
                    break
