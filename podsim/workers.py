"""Parallel map of a function: in this process, on the cores of this computer, or on a Dask cluster.

Results are yielded as they are ready. Items are sent in portions of about a quarter of a second, and the function once
to each process, so that communication costs less than the work. Other processes repeat the work of a process that dies.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from threading import Thread
from typing import Any, Final, TypeVar

from podsim.disk import simulator
from podsim.errors import PodsimError
from podsim.extend import extension_paths, load_extension, loaded_files
from podsim.memo import files_held, hold_files
from podsim.packages import optional

_PORTION_S: Final = 0.25  # time of a portion, the most that an interruption loses on each process
_MOST_TOGETHER: Final = 256
_AHEAD: Final = 3  # portions that wait for each process or thread
_MOST_DEATHS: Final = 3
_TIMEOUT_S: Final = 10
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")
_Submit = Callable[[Sequence[Any]], "Future[tuple[Sequence[Any], float]]"]
"""Function that submits a portion; the future has its results and their time. [s]"""


def mapped(
    make: Callable[[_Item], _Made],
    items: Sequence[_Item],
    *,
    processes: int | None = None,
    scheduler: str | None = None,
    few: int = 2,
    lead: int = 0,
) -> Iterator[list[tuple[_Item, _Made]]]:
    """Yield items with the results of a function, in portions as they are ready.

    The function has to be picklable, such as a function of a module or a `partial` of it. `processes` is the number of
    processes, by default the number of cores. `scheduler` is the address of a Dask scheduler, such as
    `tcp://10.0.0.1:8786`. Fewer than `few` items run in this process. The first `lead` items of many run here before
    other processes start, which then need not import and plan the same.
    """
    if not items:
        return
    if scheduler is not None:
        with _cluster(make, scheduler) as (submit, threads):
            yield from _gathered(submit, items, _Portions(len(items), threads), [])
    elif processes == 1 or (processes is None and len(items) < few):
        with files_held():
            yield from ([(item, make(item))] for item in items)
    else:
        with files_held():
            yield [(item, make(item)) for item in items[:lead]]  # processes then start with these caches
            yield from _on_cores(make, items[lead:], processes or os.cpu_count() or 1)


class _Portions:
    """Places of items that nobody has begun, in portions by the time that an item takes; singly until that is known."""

    def __init__(self, count: int, workers: int) -> None:
        self.workers, self._count, self._next, self._item_s = workers, count, 0, 0.0

    def learn(self, count: int, took_s: float) -> None:
        """Take account of what a portion took; the last few count most, since points get slower or faster."""
        self._item_s = (self._item_s + took_s / count) / 2 if self._item_s else took_s / count

    def __iter__(self) -> Iterator[range]:
        return self

    def __next__(self) -> range:
        if self._next == self._count:
            raise StopIteration
        share = (self._count - self._next) // (_AHEAD * self.workers)
        wish = _PORTION_S / self._item_s if self._item_s else 1.0
        start, self._next = self._next, self._next + max(1, min(int(wish), share, _MOST_TOGETHER))
        return range(start, self._next)


def _gathered(
    submit: _Submit, items: Sequence[Any], portions: _Portions, begun: list[range]
) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the results of portions already begun and of the remaining ones; `begun` lists those without a result."""
    futures = {submit(items[part.start : part.stop]): part for part in begun}
    while True:
        while len(futures) < _AHEAD * portions.workers and (part := next(portions, None)) is not None:
            begun.append(part)
            futures[submit(items[part.start : part.stop])] = part
        if not futures:
            return
        for future in wait(futures, return_when=FIRST_COMPLETED).done:
            made, took_s = future.result()
            part = futures.pop(future)
            begun.remove(part)
            portions.learn(len(part), took_s)
            yield list(zip(items[part.start : part.stop], made, strict=True))


def _portion_results(make: Callable[[_Item], _Made], portion: Sequence[_Item]) -> tuple[Sequence[_Made], float]:
    """Return the results of a portion, and the time taken. [s]"""
    start_s = time.perf_counter()
    with files_held():
        made = [make(item) for item in portion]
    return made, time.perf_counter() - start_s


# The cores of this computer


def _on_cores(
    make: Callable[[_Item], _Made], items: Sequence[_Item], processes: int
) -> Iterator[list[tuple[_Item, _Made]]]:
    portions, deaths = _Portions(len(items), processes), 0
    begun: list[range] = []
    while deaths < _MOST_DEATHS:
        try:
            for done in _pooled(make, items, portions, begun):
                deaths = 0
                yield done
        except BrokenProcessPool:
            deaths += 1
        else:
            return
    what = f"processes that simulate died {deaths} times in a row"
    raise PodsimError(what, do="look for a shortage of memory; the same command goes on where this one stopped")


def _pooled(
    make: Callable[[_Item], _Made], items: Sequence[_Item], portions: _Portions, begun: list[range]
) -> Iterator[list[tuple[_Item, _Made]]]:
    with ProcessPoolExecutor(portions.workers, initializer=_prepare, initargs=(make, extension_paths())) as pool:
        try:
            yield from _gathered(lambda portion: pool.submit(_worker_results, portion), items, portions, begun)
        except BaseException:
            # Whoever interrupts waits for nobody. Otherwise the pool is waited for: a thread of it that still closes
            # its pipes while this process ends makes `concurrent.futures` write to one that is closed (OSError).
            pool.shutdown(wait=False, cancel_futures=True)
            raise


_make: list[Callable[[Any], Any]] = []
"""Function of a worker process."""


def _prepare(make: Callable[[Any], Any], extensions: Iterable[Path]) -> None:
    """Leave Control-C to the process that collects, and end with it however it ends; read each file once."""
    _make[:] = [make]
    for path in extensions:
        load_extension(path)
    hold_files()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _worker_results(portion: Sequence[Any]) -> tuple[Sequence[Any], float]:
    return _portion_results(_make[0], portion)


# A cluster


@contextmanager
def _cluster(make: Callable[[Any], Any], address: str) -> Iterator[tuple[_Submit, int]]:
    """Yield a function that submits portions to a Dask scheduler, and the number of its threads."""
    distributed = optional("distributed", "a scheduler needs")
    if files := [path for path, _ in loaded_files()]:
        what = f"the workers of a cluster do not have the extensions of {', '.join(files)}"
        raise PodsimError(what, do="simulate in processes of this computer: leave the scheduler out")

    async def knock() -> None:
        """Connect and leave; a client that cannot connect would complain at the end of the process as well."""
        await (await distributed.comm.connect(address, timeout=_TIMEOUT_S)).close()

    try:
        asyncio.run(knock())
        client = distributed.Client(address, timeout=_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        what, do = "no Dask scheduler answers here", "check the address that `dask scheduler` printed"
        raise PodsimError(what, where=address, do=do) from error
    with client:
        known = client.run(simulator)
        if not known:
            raise PodsimError("the scheduler has no workers", where=address, do=f"start some: `dask worker {address}`")
        if set(known.values()) != {simulator()}:
            what, do = "workers have another version of podsim than this process", "install the same one everywhere"
            raise PodsimError(what, where=address, do=do)
        held = client.submit(_identity, make, pure=False)  # submitted again if it is lost with a worker
        yield (
            partial(client.get_executor(pure=False).submit, _portion_results, held),
            max(1, sum(client.nthreads().values())),
        )


def _identity(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return make
