"""Shared by all tests: `--update-golden`, the marker `ci`, and the folder of podsim's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from podsim.disk import SWITCH
from podsim.extend import forget_extensions


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files from what the code says now"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of this and later test runs one cache, so that none depends on what is in the user's.

    Entries are keyed by their inputs and by the source code that computes them, so changed code never reads old ones.
    """
    if not hasattr(config, "workerinput"):
        os.environ[SWITCH] = str(config.rootpath / ".pytest_cache" / "podsim")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `ci`, unless CI is set or the user chose by `-m` or by the name of a file."""
    chosen = config.option.markexpr or config.option.update_golden or any(".py" in each for each in config.args)
    if os.environ.get("CI") or chosen:
        return
    left_out = [item for item in items if item.get_closest_marker("ci")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("ci")]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def _without_extensions() -> Iterator[None]:
    """Drop functions that a test registers, which would change the results of later ones."""
    yield
    forget_extensions()


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
