"""Where points are simulated: on the cores of this computer, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import parent_process
from threading import Thread
from typing import Final, TypeVar

from podsim.errors import PodsimError
from podsim.many.sweeps.rows import Row, row_of
from podsim.many.sweeps.space import Point
from podsim.memo import files_held, hold_files

_WAITING_PER_PROCESS: Final = 8
_MOST_DEATHS: Final = 3
_Item = TypeVar("_Item")
_Made = TypeVar("_Made")


def in_this_process(points: Iterable[Point]) -> Iterator[Row]:
    """One after the other."""
    with files_held():
        yield from map(row_of, points)


def on_all_cores(points: Iterable[Point], processes: int | None = None) -> Iterator[Row]:
    """Rows as they are ready, in any order."""
    return spread(row_of, points, processes)


def spread(make: Callable[[_Item], _Made], items: Iterable[_Item], processes: int | None = None) -> Iterator[_Made]:
    """What a function makes of each item, as it is ready. Work of processes that die is done again by others.

    Args:
        make: A function of a module, that processes can import.
        items: Taken as they are needed; a few wait at a time.
        processes: How many work at a time; as many as there are cores by default.

    Raises:
        PodsimError: Processes die again and again.
    """
    count, remaining, deaths = processes or os.cpu_count() or 1, iter(items), 0
    begun: list[_Item] = []
    while True:
        try:
            for made in _pooled(make, begun, remaining, count):
                deaths = 0
                yield made
        except BrokenProcessPool:
            deaths += 1
            if deaths == _MOST_DEATHS:
                what = f"processes that simulate died {deaths} times in a row"
                do = "look for a shortage of memory; the same command goes on where this one stopped"
                raise PodsimError(what, do=do) from None
        else:
            return


def _pooled(
    make: Callable[[_Item], _Made], begun: list[_Item], remaining: Iterator[_Item], processes: int
) -> Iterator[_Made]:
    """Results of items that were begun before and of those that remain; `begun` holds what has no result yet."""
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        try:
            futures = {pool.submit(make, item): item for item in begun}
            while True:
                for item in islice(remaining, max(0, processes * _WAITING_PER_PROCESS - len(futures))):
                    begun.append(item)
                    futures[pool.submit(make, item)] = item
                if not futures:
                    return
                for future in wait(futures, return_when=FIRST_COMPLETED).done:
                    made = future.result()
                    begun.remove(futures.pop(future))
                    yield made
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Leave Control-C to the process that collects rows, and end with it however it ends; read each file once."""
    hold_files()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
