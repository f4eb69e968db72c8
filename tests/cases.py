"""Tests of many cases that are too small to be tests of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Signature, signature
from typing import Any

import pytest

Test = Callable[..., None]


def every_case(names: str, cases: Callable[[], Iterable[Any]]) -> Callable[[Test], Test]:
    """One test over all cases, which fails once and shows every case that does.

    It stands where `pytest.mark.parametrize` would. The cases are found when the test runs, so that collection need
    not read files for them. Fixtures are shared by all cases.

    Args:
        names: Names of the arguments that the cases hold, as `parametrize` has them.
        cases: Gives the cases: values of one argument, or tuples for several.
    """
    arguments = names.split(", ")

    def over(test: Test) -> Test:
        @wraps(test)
        def all_cases(**fixtures: Any) -> None:
            failed: list[BaseException] = []
            tried = [case if len(arguments) > 1 else (case,) for case in cases()]
            assert tried, "there is no case"
            for values in tried:
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"case: {', '.join(map(str, values))}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(tried)} cases fail", failed)

        given = [parameter for name, parameter in signature(test).parameters.items() if name not in arguments]
        all_cases.__dict__.update(__signature__=Signature(given))
        return all_cases

    return over
