"""One function over many items: in this process, on the cores of this computer, or on a Dask cluster.

Results come as they are ready. Items travel in portions that take about a quarter of a second, and the function is sent
once to each process, so that neither costs more than the work. Work of processes that die is done again by others.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import parent_process
from threading import Thread
from typing import Any, Final, TypeVar

from podsim.disk import simulator
from podsim.errors import PodsimError
from podsim.memo import files_held, hold_files

_PORTION_S: Final = 0.25
"""Work of a portion; what an interruption can lose on each process."""
_MOST_TOGETHER: Final = 256
_AHEAD: Final = 3
"""Portions that wait for each process or thread."""
_MOST_DEATHS: Final = 3
_TIMEOUT_S: Final = 10
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def mapped(
    make: Callable[[_Item], _Made],
    items: Sequence[_Item],
    *,
    processes: int | None = None,
    scheduler: str | None = None,
    few: int = 2,
    lead: int = 0,
) -> Iterator[list[tuple[_Item, _Made]]]:
    """Items with what a function makes of them, in portions as they are ready.

    Args:
        make: A function that processes can be sent, such as one of a module or a `partial` of it.
        items: What it is called with, one at a time.
        processes: How many work at a time; as many as there are cores by default.
        scheduler: Address of a Dask scheduler, for example `tcp://10.0.0.1:8786`, to work there instead.
        few: So many items are worth the start of processes; fewer are done in this one.
        lead: So many are done in this process before others start, which then need not import and plan the same.

    Raises:
        PodsimError: Processes die again and again, or there is no Dask, no scheduler, no worker, or one with another
            version of podsim.
    """
    if not items:
        return
    if scheduler is not None:
        yield from _on_cluster(make, items, scheduler)
    elif processes == 1 or (processes is None and len(items) < few):
        with files_held():
            yield from ([(item, make(item))] for item in items)
    else:
        with files_held():
            yield [(item, make(item)) for item in items[:lead]]  # processes begin with what this one then knows
            yield from _on_cores(make, items[lead:], processes or os.cpu_count() or 1)


class _Portions:
    """Items that nobody has begun, in portions by the time that one takes; singly until that is known."""

    def __init__(self, items: Sequence[Any], workers: int) -> None:
        self._items, self._workers, self._next, self._each_s = items, workers, 0, 0.0

    def learn(self, count: int, took_s: float) -> None:
        """Take account of what a portion took; the last few count most, since points get slower or faster."""
        self._each_s = (self._each_s + took_s / count) / 2 if self._each_s else took_s / count

    def __iter__(self) -> Iterator[Sequence[Any]]:
        while self._next < len(self._items):
            share = (len(self._items) - self._next) // (_AHEAD * self._workers)
            wish = _PORTION_S / self._each_s if self._each_s else 1.0
            size = max(1, min(int(wish), share, _MOST_TOGETHER))
            self._next += size
            yield self._items[self._next - size : self._next]


_Done = tuple[Sequence[_Made], float]


def _made(make: Callable[[_Item], _Made], portion: Sequence[_Item]) -> _Done[_Made]:
    """What is made of a portion, and the time that it took."""
    start_s = time.perf_counter()
    with files_held():
        made = [make(item) for item in portion]
    return made, time.perf_counter() - start_s


def _on_cores(
    make: Callable[[_Item], _Made], items: Sequence[_Item], processes: int
) -> Iterator[list[tuple[_Item, _Made]]]:
    portions, deaths = _Portions(items, processes), 0
    source = iter(portions)
    begun: dict[int, Sequence[_Item]] = {}
    while True:
        try:
            for done in _pooled(make, portions, source, begun, processes):
                deaths = 0
                yield done
        except BrokenProcessPool:
            deaths += 1
            if deaths == _MOST_DEATHS:
                what = f"processes that simulate died {deaths} times in a row"
                do = "look for a shortage of memory; the same command goes on where this one stopped"
                raise PodsimError(what, do=do) from None
        else:
            return


def _pooled(
    make: Callable[[_Item], _Made],
    portions: _Portions,
    source: Iterator[Sequence[_Item]],
    begun: dict[int, Sequence[_Item]],
    processes: int,
) -> Iterator[list[tuple[_Item, _Made]]]:
    """What comes of portions that were begun before and of those that remain; `begun` holds those without a result."""
    with ProcessPoolExecutor(processes, initializer=_prepare, initargs=(make,)) as pool:
        try:
            futures: dict[Future[_Done[_Made]], int] = {pool.submit(_of_worker, each): at for at, each in begun.items()}
            while True:
                while len(futures) < _AHEAD * processes and (portion := next(source, None)) is not None:
                    at = max(begun, default=0) + 1
                    begun[at] = portion
                    futures[pool.submit(_of_worker, portion)] = at
                if not futures:
                    return
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    made, took_s = future.result()
                    portion = begun.pop(futures.pop(future))
                    portions.learn(len(portion), took_s)
                    yield list(zip(portion, made, strict=True))
        except BaseException:
            # Whoever interrupts waits for nobody. Otherwise the pool is waited for: a thread of it that still closes
            # its pipes while this process ends makes `concurrent.futures` write to one that is closed (OSError).
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_make: list[Callable[[Any], Any]] = []
"""The function of a process that works for another."""


def _prepare(make: Callable[[Any], Any]) -> None:
    """Leave Control-C to the process that collects, and end with it however it ends; read each file once."""
    _make[:] = [make]
    hold_files()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _of_worker(portion: Sequence[Any]) -> _Done[Any]:
    return _made(_make[0], portion)


def _on_cluster(
    make: Callable[[_Item], _Made], items: Sequence[_Item], address: str
) -> Iterator[list[tuple[_Item, _Made]]]:
    distributed = _distributed()
    with _client(distributed, address) as client:
        _check_workers(client, address)
        threads = max(1, sum(client.nthreads().values()))
        portions = _Portions(items, threads)
        held = client.submit(_same, make, pure=False)  # made again where it is lost with a worker
        futures: dict[Any, Sequence[_Item]] = {}

        def submitted() -> Iterator[Any]:
            for portion in portions:
                future = client.submit(_made, held, portion, pure=False)
                futures[future] = portion
                yield future

        source = submitted()
        waiting = distributed.as_completed(list(islice(source, _AHEAD * threads)), loop=client.loop, with_results=True)
        for future, (made, took_s) in waiting:
            portion = futures.pop(future)
            future.release()
            portions.learn(len(portion), took_s)
            waiting.update(list(islice(source, 1)))
            yield list(zip(portion, made, strict=True))


def _same(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return make


def _check_workers(client: Any, address: str) -> None:
    known = client.run(simulator)
    if not known:
        raise PodsimError("the scheduler has no workers", where=address, do=f"start some: `dask worker {address}`")
    if set(known.values()) != {simulator()}:
        what, do = "workers have another version of podsim than this process", "install the same one everywhere"
        raise PodsimError(what, where=address, do=do)


def _client(distributed: Any, address: str) -> Any:
    try:
        asyncio.run(_knock(distributed, address))
        return distributed.Client(address, timeout=_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        what, do = "no Dask scheduler answers here", "check the address that `dask scheduler` printed"
        raise PodsimError(what, where=address, do=do) from error


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        do = "pip install 'podsim[dask]'"
        raise PodsimError("a scheduler needs Dask, which is not installed", do=do) from error
    return distributed


async def _knock(distributed: Any, address: str) -> None:
    """Connect and leave; a client that cannot connect would complain at the end of the process as well."""
    comm = await distributed.comm.connect(address, timeout=_TIMEOUT_S)
    await comm.close()
