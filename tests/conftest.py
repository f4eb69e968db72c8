"""What all tests share: `--update-golden`, and work that is done once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.parsed_once import shipped_files_parsed_once


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files from what the code says now"
    )


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True, scope="module")
def _work_done_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Everywhere but where time is measured."""
    if "bench" in request.path.parts:
        yield
        return
    with shipped_files_parsed_once():
        yield
