"""One function over many items, in this process and in others."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from pathlib import Path

import pytest

from podsim import workers
from podsim.errors import PodsimError
from podsim.workers import _Portions, mapped


def square_and_process(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def dies_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_each_item_is_made_once_on_any_number_of_processes() -> None:
    for processes in (1, 2, 3):
        made = list(chain.from_iterable(mapped(square_and_process, range(50), processes=processes)))
        assert sorted((number, square) for number, (square, _) in made) == [(n, n * n) for n in range(50)]
        assert ({process for _, (_, process) in made} == {os.getpid()}) == (processes == 1)


def test_the_lead_is_made_here_and_few_items_are_made_here() -> None:
    here = {
        number
        for number, (_, process) in chain.from_iterable(mapped(square_and_process, range(9), processes=2, lead=2))
        if process == os.getpid()
    }
    assert here == {0, 1}
    few = chain.from_iterable(mapped(square_and_process, range(4), few=5))
    assert {process for _, (_, process) in few} == {os.getpid()}
    enough = chain.from_iterable(mapped(square_and_process, range(5), few=5))
    assert os.getpid() not in {process for _, (_, process) in enough}
    assert list(mapped(square_and_process, [])) == []


def test_an_item_that_kills_every_process_ends_the_work() -> None:
    with pytest.raises(PodsimError, match="processes that simulate died 3 times in a row"):
        list(mapped(dies_at_seven, [7], processes=2, few=0))


def dies_once(item: tuple[int, Path]) -> int:
    number, flag = item
    if number == 30 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_what_a_death_lost_is_made_again_and_nothing_else(tmp_path: Path) -> None:
    items = [(number, tmp_path / "died") for number in range(50)]
    made = [number for _, number in chain.from_iterable(mapped(dies_once, items, processes=2))]
    assert (sorted(made), (tmp_path / "died").exists()) == (list(range(50)), True)


def test_deaths_between_which_work_is_done_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five of them, where three in a row would end it."""
    left = list(range(6))

    def pooled(*_: object) -> Iterator[list[tuple[int, int]]]:
        yield [(left[0], -left.pop(0))]
        if left:
            raise BrokenProcessPool

    monkeypatch.setattr(workers, "_pooled", pooled)
    made = chain.from_iterable(mapped(dies_at_seven, range(6), processes=2))
    assert list(made) == [(number, -number) for number in range(6)]


def test_portions_take_a_quarter_of_a_second_and_leave_work_for_all() -> None:
    """One at first, then 25 of a hundredth of a second; 12 of a fiftieth, the mean of that and 0.03 s; then one again.
    Of 100 items no portion has more than a sixth of what is left, which is three for each of two workers."""
    portions = _Portions(1000, workers=2)
    assert next(portions) == range(1)
    for count, took_s, following in ((1, 0.01, range(1, 26)), (25, 0.75, range(26, 38)), (12, 120.0, range(38, 39))):
        portions.learn(count, took_s)
        assert next(portions) == following
    portions = _Portions(100, workers=2)
    assert next(portions) == range(1)
    portions.learn(1, 0.01)
    assert next(portions) == range(1, 17)
    assert list(chain.from_iterable(portions)) == list(range(17, 100))


def test_no_thread_of_the_processes_is_left_behind() -> None:
    """One that is makes `concurrent.futures` write to a closed pipe if this process ends just then."""
    before = set(threading.enumerate())
    assert len(list(mapped(abs, range(2), processes=2))) >= 1
    assert set(threading.enumerate()) <= before
