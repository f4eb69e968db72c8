"""What an error says, and to which family it belongs."""

from __future__ import annotations

import pytest

from podsim.errors import (
    BadValueError,
    DeadlockError,
    DoesNotFitError,
    InfeasibleError,
    MissingDataError,
    NoPlanError,
    OutputError,
    PodsimError,
    Problem,
    SpecError,
)


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
    error = PodsimError("it broke").at("a.yaml:1:2")
    assert error.at("b.yaml:3:4") is error
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
