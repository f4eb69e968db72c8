"""Where points are simulated: on the cores of this computer, or on a Dask cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import parent_process
from threading import Thread
from typing import Final

from podsim.errors import PodsimError
from podsim.sweeps.rows import Row, row_of
from podsim.sweeps.space import Point

_WAITING_PER_PROCESS: Final = 8
_MOST_DEATHS: Final = 3
Work = Callable[[Iterable[Point]], Iterator[Row]]


def in_this_process(points: Iterable[Point]) -> Iterator[Row]:
    """One after the other."""
    return map(row_of, points)


def on_all_cores(points: Iterable[Point], processes: int | None = None) -> Iterator[Row]:
    """Rows as they are ready, in any order. Work of processes that die is done again by others.

    Raises:
        PodsimError: Processes die again and again.
    """
    count = processes or os.cpu_count() or 1
    remaining, deaths = iter(points), 0
    open_points: dict[int, Point] = {}
    while True:
        try:
            for row in _pooled([*open_points.values()], remaining, count, open_points):
                deaths = 0
                yield row
        except BrokenProcessPool:
            deaths += 1
            if deaths == _MOST_DEATHS:
                what = f"processes that simulate died {deaths} times in a row"
                do = "look for a shortage of memory; the same command goes on where this one stopped"
                raise PodsimError(what, do=do) from None
        else:
            return


def _pooled(
    begun: Iterable[Point], remaining: Iterator[Point], processes: int, open_points: dict[int, Point]
) -> Iterator[Row]:
    """Rows of points that were begun before and of those that remain; never more than a few wait at a time."""
    with ProcessPoolExecutor(processes, initializer=_prepare) as pool:
        futures: set[Future[Row]] = set()

        def submit(points: Iterable[Point]) -> None:
            for point in points:
                open_points[point.number] = point
                futures.add(pool.submit(row_of, point))

        submit(begun)
        try:
            while True:
                submit(islice(remaining, max(0, processes * _WAITING_PER_PROCESS - len(futures))))
                if not futures:
                    return
                done, _ = wait(futures, return_when=FIRST_COMPLETED)
                for future in done:
                    futures.remove(future)
                    row = future.result()
                    del open_points[row["point"]]
                    yield row
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Leave Control-C to the process that collects rows, and end with it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
