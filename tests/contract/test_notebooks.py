"""Notebooks are kept with their output, and running them again gives the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.run_notebooks import FOLDER, executed, read, texts

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def shows_picture(cell: Any) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_is_kept(path: Path) -> None:
    kept, fresh = read(path), executed(path)
    assert texts(fresh) == texts(kept)
    assert [shows_picture(cell) for cell in fresh.cells] == [shows_picture(cell) for cell in kept.cells]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_picture_is_followed_by_its_conclusion(path: Path) -> None:
    cells = read(path).cells
    pictures = [place for place, cell in enumerate(cells) if shows_picture(cell)]
    assert pictures
    assert all(cells[place + 1].cell_type == "markdown" for place in pictures)
