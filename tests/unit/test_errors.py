"""What an error says, and to which family it belongs."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from itertools import product

import pytest

from podsim.errors import (
    BadValueError,
    DeadlockError,
    DoesNotFitError,
    InfeasibleError,
    MissingDataError,
    ModelError,
    NoPlanError,
    OutputError,
    PodsimError,
    Problem,
    SpecError,
)
from podsim.study.plan.goal import UnknownFigureError
from podsim.units import NotFiniteError, QuantityError
from tests.cases import every_case


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PodsimError("it broke"), "it broke"),
        (PodsimError("it broke", where="a.yaml:1:2 [x]"), "a.yaml:1:2 [x]: it broke"),
        (PodsimError("it broke", do="mend it"), "it broke\n  do: mend it"),
        (PodsimError("it broke", where="a.yaml", do="mend it"), "a.yaml: it broke\n  do: mend it"),
    ],
)
def test_an_error_says_where_what_and_what_to_do(error: PodsimError, text: str) -> None:
    assert str(error) == text


def test_a_place_is_added_once() -> None:
    error = PodsimError("it broke").with_place("a.yaml:1:2")
    assert error.with_place("b.yaml:3:4") is error
    assert str(error) == "a.yaml:1:2: it broke"


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a.yaml:1:2", "x.y", "is wrong", "mend it"), "a.yaml:1:2 [x.y]: is wrong\n  do: mend it"),
        (Problem("a.yaml:1:2", "", "is wrong"), "a.yaml:1:2: is wrong"),
        (Problem("", "x.y", "is wrong"), "[x.y]: is wrong"),
        (Problem("", "", "all is wrong"), "all is wrong"),
    ],
)
def test_a_problem_says_where_what_and_what_to_do(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_all_problems_of_a_file_are_told_at_once() -> None:
    problems = [Problem("a.yaml:1:1", "x", "is wrong", "mend it"), Problem("a.yaml:2:1", "y", "is too")]
    error = SpecError(problems)
    assert error.problems == tuple(problems)
    assert str(error) == "a.yaml:1:1 [x]: is wrong\n  do: mend it\na.yaml:2:1 [y]: is too"


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        (SpecError, PodsimError),
        (InfeasibleError, PodsimError),
        (DoesNotFitError, InfeasibleError),
        (NoPlanError, InfeasibleError),
        (MissingDataError, PodsimError),
        (OutputError, PodsimError),
        (DeadlockError, PodsimError),
        (BadValueError, ValueError),
    ],
)
def test_families(kind: type[Exception], family: type[Exception]) -> None:
    assert issubclass(kind, family)


@pytest.mark.parametrize("name", ["PodsimError", "SpecError", "InfeasibleError", "DoesNotFitError", "NoPlanError"])
def test_a_user_can_catch_them_by_name(name: str) -> None:
    import podsim
    import podsim.errors

    assert getattr(podsim, name) is getattr(podsim.errors, name)


PROBLEMS = [Problem("a.yaml:1:1", "x", "is wrong", "mend it"), Problem("", "y", "is too")]
MADE: dict[type[Exception], Callable[[], Exception]] = {
    SpecError: lambda: SpecError(PROBLEMS),
    ModelError: lambda: ModelError("it broke", key="model.x", do="mend it"),
    MissingDataError: lambda: MissingDataError("it broke", where="a.yaml:1:2", do="mend it", key="model.x"),
    BadValueError: lambda: BadValueError("it broke", "mend it"),
    QuantityError: lambda: QuantityError("it broke", "mend it"),
    NotFiniteError: lambda: NotFiniteError("it broke", "mend it"),
    UnknownFigureError: lambda: UnknownFigureError("it broke", "mend it"),
}


def _kinds(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for kind in root.__subclasses__():
        yield from _kinds(kind)


def _made(kind: type[Exception]) -> Exception:
    made = MADE.get(kind, lambda: kind("it broke", where="a.yaml:1:2 [x]", do="mend it"))()
    made.add_note("while it ran")
    return made


KINDS = [*_kinds(PodsimError), *_kinds(BadValueError)]


@every_case(
    "kind, copied", lambda: product(KINDS, (lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy))
)
def test_every_error_survives_pickling_and_copying(
    kind: type[Exception], copied: Callable[[Exception], Exception]
) -> None:
    made = _made(kind)
    other = copied(made)
    assert other is not made
    assert (type(other), str(other), other.args) == (kind, str(made), made.args)
    assert vars(other) == vars(made)
    assert other.__notes__ == ["while it ran"]


def _raises(number: int) -> None:
    raise _made(KINDS[number])


def test_a_pool_whose_worker_raises_ends_with_the_error() -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        for number, kind in enumerate(KINDS):
            with pytest.raises(kind) as caught:
                pool.apply_async(_raises, (number,)).get(timeout=60)
            assert str(caught.value) == str(_made(kind))
