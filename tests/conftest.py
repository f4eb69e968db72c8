"""Shared by all tests: `--update-golden`, the marker `ci`, and a folder for what podsim keeps on disk."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

from podsim.disk import SWITCH


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files from what the code says now"
    )


def pytest_configure(config: pytest.Config) -> None:
    """One folder for all processes of a test run, so that none depends on what is in the user's."""
    if not hasattr(config, "workerinput"):
        os.environ[SWITCH] = tempfile.mkdtemp(prefix="podsim-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[SWITCH], ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests marked `ci`, unless CI is set or the user chose by `-m` or by the name of a file."""
    chosen = config.option.markexpr or config.option.update_golden or any(".py" in each for each in config.args)
    if os.environ.get("CI") or chosen:
        return
    left_out = [item for item in items if item.get_closest_marker("ci")]
    if left_out:
        items[:] = [item for item in items if not item.get_closest_marker("ci")]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))
