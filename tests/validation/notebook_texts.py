"""What notebooks say in words, for tests that hold them to it."""

from __future__ import annotations

from tools.run_notebooks import FOLDER, read


def states(notebook: str, text: str) -> None:
    """Fail unless a notebook has these words in its text, wherever its lines break."""
    cells = (cell.source for cell in read(FOLDER / f"{notebook}.ipynb").cells if cell.cell_type == "markdown")
    assert any(" ".join(text.split()) in " ".join(cell.split()) for cell in cells), f"{notebook}: {text}"
