"""Executes the notebooks and writes their outputs; `--check` only says whether texts differ from those kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
_SECONDS = 300


def read(path: Path) -> Any:
    """The notebook as it is kept."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path) -> Any:
    """The notebook with fresh outputs.

    Raises:
        CellExecutionError: A cell fails.
    """
    notebook = read(path)
    client = NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", resources={"metadata": {"path": FOLDER}})
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    return notebook


def texts(notebook: Any) -> list[str]:
    """What the cells print, pictures apart."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [str(data.get("text/plain", data.get("text", ""))) for data in (each.get("data", each) for each in outputs)]


def main() -> int:
    """Run every notebook."""
    failed = 0
    for path in sorted(FOLDER.glob("*.ipynb")):
        try:
            notebook = executed(path)
        except CellExecutionError as error:
            print(f"notebooks/{path.name}: {error}", file=sys.stderr)
            return 1
        if "--check" not in sys.argv[1:]:
            path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")  # type: ignore[no-untyped-call]
        elif texts(notebook) != texts(read(path)):
            print(f"notebooks/{path.name}: its output is out of date; run `./dev docs`", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
