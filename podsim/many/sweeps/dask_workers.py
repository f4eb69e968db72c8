"""Points on the workers of a Dask cluster, which may be on this computer, under Slurm or in Kubernetes.

Workers that die are no loss: Dask gives their points to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import Any, Final

from podsim.errors import PodsimError
from podsim.many.sweeps.rows import Row, row_of
from podsim.many.sweeps.space import Point
from podsim.memo import files_held

_WAITING_PER_THREAD: Final = 16
_MOST_TOGETHER: Final = 16
_TIMEOUT_S: Final = 10


def on_cluster(points: Iterable[Point], address: str, simulator: Callable[[], str]) -> Iterator[Row]:
    """Rows as they are ready, in any order.

    Args:
        points: What to simulate.
        address: Of the scheduler, for example `tcp://10.0.0.1:8786`.
        simulator: Gives a hash of the code that simulates; workers have to have the same.

    Raises:
        PodsimError: Dask is not installed, nothing answers at the address, there are no workers, or they have
            another version of podsim.
    """
    distributed = _distributed()
    with _client(distributed, address) as client:
        _check_workers(client, address, simulator)
        futures = (client.submit(_rows_of, portion, pure=False) for portion in _portions(points))
        begun = list(islice(futures, _WAITING_PER_THREAD * max(1, sum(client.nthreads().values()))))
        if not begun:
            return
        waiting = distributed.as_completed(begun, loop=client.loop, with_results=True)
        for future, rows in waiting:
            future.release()
            waiting.update(islice(futures, 1))
            yield from rows


def _portions(points: Iterable[Point]) -> Iterator[tuple[Point, ...]]:
    """Points that are sent together, one by one at first: for a point alone, a scheduler works as long as a worker."""
    left = iter(points)
    for number in count():
        portion = tuple(islice(left, min(_MOST_TOGETHER, 1 + number // _WAITING_PER_THREAD)))
        if not portion:
            return
        yield portion


def _rows_of(points: Iterable[Point]) -> list[Row]:
    with files_held():
        return [row_of(point) for point in points]


def _check_workers(client: Any, address: str, simulator: Callable[[], str]) -> None:
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


async def _knock(distributed: Any, address: str) -> None:
    """Connect and leave; a client that cannot connect would complain at the end of the process as well."""
    comm = await distributed.comm.connect(address, timeout=_TIMEOUT_S)
    await comm.close()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        do = "pip install 'podsim[dask]'"
        raise PodsimError("a scheduler needs Dask, which is not installed", do=do) from error
    return distributed
