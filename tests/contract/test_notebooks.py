"""Notebooks are kept with their output, and charts with a conclusion.

`tools/run_notebooks.py --check`, a part of `./dev ci`, runs them; nothing here does.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.contract.test_repository import LOCAL, REGISTRY
from tools.run_notebooks import FOLDER, read, texts

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_BYTES = 1_500_000

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def shows_picture(cell: Any) -> bool:
    return any("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@every_notebook
def test_a_notebook_is_valid_and_small(path: Path) -> None:
    nbformat.validate(read(path))
    assert path.stat().st_size < MOST_BYTES


@every_notebook
def test_cells_were_run_once_from_top_to_bottom(path: Path) -> None:
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert [cell for cell in cells if re.search(r"_chart\(.*\)$", cell.source) and not shows_picture(cell)] == []


@every_notebook
def test_outputs_hold_no_error_no_warning_and_no_local_path(path: Path) -> None:
    outputs = [output for cell in code_cells(path) for output in cell.outputs]
    assert [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"] == []
    shown = [text for output in outputs for text in output.get("data", {}).values() if not text.startswith("iVBOR")]
    printed = [output.text for output in outputs if output.output_type == "stream"]
    sources = [cell.source for cell in read(path).cells]
    assert [text for text in (*shown, *printed, *sources) if LOCAL.search(text) or REGISTRY.search(text)] == []


@every_notebook
def test_every_chart_is_followed_by_its_conclusion(path: Path) -> None:
    cells = read(path).cells
    charts = [place for place, cell in enumerate(cells) if shows_picture(cell)]
    assert charts
    for place in charts:
        assert cells[place + 1].cell_type == "markdown" and not cells[place + 1].source.startswith("#"), place


@every_notebook
def test_a_notebook_ends_in_a_sentence(path: Path) -> None:
    last = read(path).cells[-1]
    assert last.cell_type == "markdown" and not last.source.startswith("#")
    assert last.source.endswith(".")


@every_notebook
def test_readers_find_a_notebook(path: Path) -> None:
    assert f"notebooks/{path.name}" in (FOLDER.parent / "docs" / "index.md").read_text(encoding="utf-8")


INSTALLED = """\
import sys
from pathlib import Path

path = [each for each in sys.path if not Path(each, "notebooks").is_dir()]
for source in {sources!r}:
    sys.path = [*path]
    exec(source, {{}})
    for name in [each for each in sys.modules if each.startswith("notebooks")]:
        module = sys.modules.pop(name)
        assert module.__file__ is None or Path(module.__file__).resolve().parent == Path.cwd()
print("done")
"""


@pytest.mark.slow
def test_a_notebook_finds_its_modules_from_its_own_folder_and_podsim_where_it_is_installed(tmp_path: Path) -> None:
    """Imports of each notebook in a copy of the folder, without the repository on the path of imports."""
    copy, installed = tmp_path / "notebooks", tmp_path / "site"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    installed.mkdir()
    (installed / "podsim").symlink_to(FOLDER.parent / "podsim")
    first = [ast.parse(code_cells(path)[0].source).body for path in NOTEBOOKS]
    sources = ["\n".join(ast.unparse(each) for each in body if not isinstance(each, ast.Assign)) for body in first]
    command = [sys.executable, "-c", INSTALLED.format(sources=sources)]
    env = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@every_notebook
def test_a_notebook_holds_no_plotting_code(path: Path) -> None:
    for cell in code_cells(path):
        assert "matplotlib" not in cell.source
        assert len(cell.source.splitlines()) <= 12


def test_a_text_that_moved_is_noticed_and_a_pixel_is_not() -> None:
    def notebook(*outputs: Any) -> Any:
        cell = nbformat.v4.new_code_cell(outputs=list(outputs))
        return nbformat.v4.new_notebook(cells=[cell])

    def shown(**data: str) -> Any:
        return nbformat.v4.new_output(
            "execute_result", data={name.replace("_", "/"): text for name, text in data.items()}
        )

    printed = nbformat.v4.new_output("stream", name="stdout", text="1")
    picture = shown(text_plain="<Chart size 990x360>", image_png="abc")
    assert texts(notebook(printed)) == [["stdout: 1"]]
    assert texts(notebook(shown(text_plain="1"))) != texts(notebook(shown(text_plain="2")))
    assert texts(notebook(picture)) == texts(notebook(shown(text_plain="<Chart size 990x361>", image_png="abd")))
    assert texts(notebook(picture)) != texts(notebook())
