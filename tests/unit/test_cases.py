"""A test over many cases fails if one of them does, and shows all that do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import every_case


def test_every_case_that_fails_is_shown(tmp_path: Path) -> None:
    tried = []

    @every_case("one, other", lambda: [(1, 1), (2, 3), (4, 4), (5, 6)])
    def test(one: int, other: int, tmp_path: Path) -> None:
        tried.append((one, tmp_path))
        if one == 5:
            pytest.fail("not this one")
        assert one == other

    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases fail") as caught:
        test(tmp_path=tmp_path)
    assert [number for number, _ in tried] == [1, 2, 4, 5]
    assert {folder for _, folder in tried} == {tmp_path}
    assert [error.__notes__ for error in caught.value.exceptions] == [["case: 2, 3"], ["case: 5, 6"]]


def test_no_case_is_no_test() -> None:
    with pytest.raises(AssertionError, match="there is no case"):
        every_case("one", list)(lambda one: None)()


@every_case("number", lambda: range(3))
def test_fixtures_are_those_of_the_test(number: int, tmp_path: Path) -> None:
    assert len(list(tmp_path.iterdir())) == number
    (tmp_path / str(number)).touch()
