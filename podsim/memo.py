"""Caches of a process, the only state that outlives a run.

Keys contain all inputs of a value. Sizes are bounded, and the least recently used value is removed first. Caches are
safe with threads and forks.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock, local
from typing import Any, TypeVar

_Value = TypeVar("_Value")
_LOCK = Lock()
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class _Bypass(local):
    on = False


_BYPASS = _Bypass()


@contextmanager
def bypassed() -> Iterator[None]:
    """Neither use nor fill caches in this thread while this lasts: values are made of numbers that are not plain."""
    before, _BYPASS.on = _BYPASS.on, True
    try:
        yield
    finally:
        _BYPASS.on = before


class Memo:
    """Values by key, the most recently used of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """Return the value of a key; make it if it is missing. An error of `make` is not cached."""
        if _BYPASS.on:
            return make()
        with _LOCK:
            if key in self._known:
                self._known.move_to_end(key)
                known: _Value = self._known[key]
                return known
        value = make()  # without the lock: two threads may compute the same value, and neither waits
        with _LOCK:
            self._known[key] = value
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return value

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._known)

    def forget(self) -> None:
        """Drop all values."""
        with _LOCK:
            self._known.clear()


DOCUMENTS = Memo(256)
"""Parsed files, by displayed path and content."""
VALUES = Memo(1024)
"""Single values, by their text."""
HARDWARE = Memo(64)
"""Shipped chips, pods and software stacks with their documents, by name and kind."""
PLANS = Memo(20_000)
"""Plans of products and convolutions, by chip, operation and share of memory."""
SPLITS = Memo(512)
"""Splits of products that may be the cheapest, by chip, product and formats."""
CHIPS = Memo(64)
"""Hashes of chips, by their parts."""
COSTS = Memo(8)
"""Cost models, which cache the cost of stages, by chip and stack."""
WORKLOADS = Memo(256)
"""Model graphs, by their specification; a search uses hundreds of shards and micro-batches."""
BARE = Memo(256)
"""Blocks whose operations take no time, by model."""
ROUTES = Memo(64)
"""Routes between the IPUs of a link domain, by topology and links."""
RINGS = Memo(4096)
"""Longest routes, fullest links, messages and passes of rings, by links and members."""
TIMETABLES = Memo(64)
"""Which stages are active in which pipeline cycle, by stages, micro-batches and schedule."""
STRUCTURES = Memo(4)
"""Structures of programs, whose durations are computed again for other numbers, by layout."""
DRAWS = Memo(64)
"""Sampled numbers of samples to convergence."""
ASKED = Memo(32)
"""Scenarios and baselines of the planner page, by question, except those of files that may change."""
SOURCES = Memo(16)
"""Hashes of the code that computes cached values."""


_FILES = Memo(1024)
_holders: list[None] = []


@contextmanager
def files_held() -> Iterator[None]:
    """Read each file once while this lasts: all that is simulated in it sees files as they were at first."""
    _holders.append(None)
    try:
        yield
    finally:
        _holders.pop()
        if not _holders:
            _FILES.forget()


def hold_files() -> None:
    """Read each file once for the rest of the process, which is a worker."""
    _holders.append(None)


def file_content(key: Hashable, read: Callable[[], _Value]) -> _Value:
    """Return the content of a file, cached while files are held; an error is not cached."""
    return _FILES.get(key, read) if _holders else read()


def forget() -> None:
    """Drop all that this process remembers, so that the next run makes everything again."""
    runs = TIMETABLES, STRUCTURES, DRAWS, ASKED, SOURCES, _FILES
    for each in (DOCUMENTS, VALUES, HARDWARE, PLANS, SPLITS, CHIPS, COSTS, WORKLOADS, BARE, ROUTES, RINGS, *runs):
        each.forget()
