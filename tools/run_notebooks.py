"""Executes the notebooks and writes their outputs; `--check` only says whether texts differ from those kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from podsim.watch import SWITCH

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
_SECONDS = 300
# Warnings of the kernel about itself; those of the notebook are outputs.
_QUIET = ["--log-level=ERROR"]


def read(path: Path) -> Any:
    """Read a notebook with its stored outputs."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def executed(path: Path) -> Any:
    """Return the notebook with fresh outputs, run in its own folder, without times and versions of this machine."""
    notebook = read(path)
    os.environ[SWITCH] = "off"  # a line of progress is no output
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, timeout=_SECONDS, kernel_name="python3", resources=where)
    client.extra_arguments = _QUIET
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def texts(notebook: Any) -> list[list[str]]:
    """Return the output of each cell; a picture only counts as present, because fonts change its pixels."""
    return [[_text(output) for output in cell.get("outputs", ())] for cell in notebook.cells]


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return f"{output.name}: {output.text}"
    data = output.get("data", {})
    return "a picture" if "image/png" in data else str(data.get("text/plain", ""))


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
