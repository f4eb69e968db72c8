"""Process pool that answers questions: only the newest question of each session, with a limit of waiting sessions.

The server has to react to every slider event, so questions are answered in other processes, each connected by a pipe. A
job that nobody waits for is interrupted.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from podsim.errors import PodsimError
from podsim.extend import extension_paths, load_extension

MOST_WAITING: Final = 64
"""Most waiting sessions; further ones are refused."""
_PATIENCE_S: Final = 0.3
"""Time that the first step of an older question may still take."""
Step = tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any], None]]
"""Function of `podsim.ui.answer`, its arguments, and the callback for its answer."""


class _InterruptedError(BaseException):
    """Nobody waits for this job any more."""


_working: list[bool] = []
"""Not empty while this process works on a job that can be interrupted."""


def _stop(_number: int, _frame: object) -> None:
    if _working:
        _working.clear()
        raise _InterruptedError


def _answer_all(pipe: Connection, scratch: Path, extensions: Iterable[Path]) -> None:
    """Answer what comes through a pipe: (done, total) while a job goes on, then a list of its answer or error."""
    from podsim.ui.answer import Job

    for path in extensions:
        load_extension(path)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGUSR1"):
        signal.signal(signal.SIGUSR1, _stop)

    def tell(done: int, total: int) -> None:
        pipe.send((done, total))

    def watch(names: Sequence[str]) -> Iterable[str]:
        for place, name in enumerate(names):
            tell(place, len(names))
            yield name

    with suppress(EOFError, BrokenPipeError):
        while True:
            make, arguments = pipe.recv()
            answer: Any = None
            try:
                _working.append(True)
                tell(0, 0)
                answer = make(Job(scratch, tell, watch), *arguments)
            except _InterruptedError:
                pass
            except Exception as error:
                answer = error
            finally:
                _working.clear()
            pipe.send([answer])


class Ticket:
    """A claim to an answer: whether it was dropped, and how much is done, of how much."""

    def __init__(self) -> None:
        self.is_dropped = False
        self.progress = (0, 0)
        self.process: int | None = None

    def drop(self) -> None:
        """Give the claim up; work on it ends."""
        self.is_dropped = True
        if self.process is not None and hasattr(signal, "SIGUSR1"):
            os.kill(self.process, signal.SIGUSR1)


class _Worker:
    """A process that answers one question at a time."""

    def __init__(self, scratch: Path) -> None:
        context = get_context("spawn")  # the server has threads, which a fork would lose
        self._pipe, far = context.Pipe()
        self.process = context.Process(target=_answer_all, args=(far, scratch, extension_paths()))
        self.process.start()
        far.close()

    def answer(self, ticket: Ticket, make: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Call a function in the process and return its result, or raise its error; blocks."""
        self._pipe.send((make, arguments))
        while isinstance(message := self._pipe.recv(), tuple):
            # From here on the process works; an earlier signal would have found nothing to interrupt.
            ticket.progress, ticket.process = message, self.process.pid
            if ticket.is_dropped:
                ticket.drop()
        ticket.process = None
        return message[0]


class Pool:
    """Processes that answer questions, started when they are first needed."""

    def __init__(self, scratch: Path, processes: int | None = None, most_waiting: int = MOST_WAITING) -> None:
        count = processes or os.cpu_count() or 1
        self.scratch, self.waiting, self._most_waiting = scratch, 0, most_waiting
        self._workers: list[_Worker] = []
        self._free: list[_Worker | None] = [None] * count
        self._turn = asyncio.Semaphore(count)
        self._begun: list[asyncio.Task[Any]] = []

    def start(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Start each process with a first answer, so that the first question does not wait for imports."""
        self._begun = [asyncio.create_task(self.work(Ticket(), make, *arguments)) for _ in self._free]

    async def work(self, ticket: Ticket, make: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function of `podsim.ui.answer`; None if nobody waits for it any more.

        Raises:
            PodsimError: The answer is an error, too many questions wait, or the process died.
        """
        if self._turn.locked() and self.waiting >= self._most_waiting:
            do = "try again in a minute, or start a server of your own: `podsim ui`"
            raise PodsimError(f"{self.waiting} questions of others wait already", do=do)
        self.waiting += 1
        try:
            await self._turn.acquire()
        finally:
            self.waiting -= 1
        try:
            return None if ticket.is_dropped else await self._made(ticket, make, arguments)
        finally:
            self._turn.release()

    async def _made(self, ticket: Ticket, make: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        worker = self._free.pop()
        try:
            if worker is None:
                worker = _Worker(self.scratch)
                self._workers.append(worker)
            answer = await asyncio.to_thread(worker.answer, ticket, make, arguments)
        except (EOFError, OSError):
            worker = ticket.process = None
            what, do = "the process that answered died", "look for a shortage of memory, and ask again"
            answer = None if ticket.is_dropped else PodsimError(what, do=do)
        finally:
            self._free.append(worker)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the processes."""
        for task in self._begun:
            task.cancel()
        for worker in self._workers:
            worker.process.terminate()


class Asker:
    """The questions of a session: the newest is answered, older ones are dropped."""

    def __init__(self, pool: Pool, refused: Callable[[PodsimError], None]) -> None:
        self._pool, self._refused = pool, refused
        self._next: Sequence[Step] | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_first = False
        self.ticket = Ticket()

    def ask(self, steps: Sequence[Step]) -> None:
        """Ask a question; an earlier question without answer is dropped.

        A first step that is nearly done is still shown. Otherwise nothing would be visible while a slider moves.
        """
        self._next = steps
        if not self.is_busy:
            self._task = asyncio.create_task(self._answer())
        elif self._is_first:
            asyncio.get_running_loop().call_later(_PATIENCE_S, self.ticket.drop)
        else:
            self.ticket.drop()

    def drop(self) -> None:
        """Ask nothing more."""
        self._next = None
        self.ticket.drop()

    @property
    def is_busy(self) -> bool:
        """True if an answer is being computed."""
        return self._task is not None and not self._task.done()

    async def _answer(self) -> None:
        while self._next is not None:
            steps, self._next = self._next, None
            self.ticket = ticket = Ticket()
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
