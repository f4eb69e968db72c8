"""`./dev installations` notices what does not work, and pages say what they need in the form that it reads."""

from __future__ import annotations

import stat
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cases import every_case
from tools.installations import ROOT, Environments, Reader, imports_of, read_extras, read_pages, served
from tools.pages import NEEDS, blocks, commands_with_codes, prose

BARE: frozenset[str] = frozenset()
PROGRAM = """#!{python}
import http.server, sys
arguments = sys.argv[1:]
if arguments[0] == "ui":
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_): ...
    try:
        http.server.HTTPServer(("127.0.0.1", int(arguments[-1])), Handler).serve_forever()
    except KeyboardInterrupt:
        sys.exit(0)
if arguments[0] == "broken":
    import a_package_that_is_missing
print("answered", *arguments)
sys.exit(3 if arguments[0] == "refused" else 0)
"""


@pytest.fixture
def environments(tmp_path: Path) -> Environments:
    """One environment whose `podsim` is a program of a few lines."""
    programs = tmp_path / "bare" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    program = programs / "podsim"
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Environments(tmp_path, tmp_path / "no.whl", {BARE: programs})


def followed(page: str, environments: Environments) -> list[str]:
    folder = environments.folder / "page"
    folder.mkdir(exist_ok=True)
    with ExitStack() as interpreters:
        reader = Reader(folder, environments, interpreters)
        return [f"{shown}: {reason}" for block in blocks(page) for shown, reason in reader.follow(block)]


WORKS = """
```yaml
# mine.yaml
system: ipu_pod16
```

```console
$ podsim refused mine.yaml   # with a comment
$ echo $?
3
$ podsim run mine.yaml > out.txt
```

```python
from pathlib import Path
print(Path("out.txt").read_text() + Path("mine.yaml").read_text())
```

```text
answered run …
system: ipu_pod16
```

```python
def test_names_of_earlier_blocks() -> None:
    assert Path("out.txt").exists()
```
"""


def test_a_page_that_works(environments: Environments) -> None:
    assert followed(WORKS, environments) == []


@every_case(
    "block, reason",
    lambda: (
        ("console\n$ podsim broken", "No module named 'a_package_that_is_missing'"),
        ("console\n$ podsim refused", "exit code 3, expected 0"),
        ("console\n$ podsim run\n$ echo $?\n3", "exit code 0, expected 3"),
        ("console\n$ podsim run\n```\n\n```text\nanswered stop", "not printed, or not here: answered stop"),
        ("python\nimport a_package_that_is_missing", "No module named 'a_package_that_is_missing'"),
        ("python\ndef test_it() -> None:\n    assert 1 == 2", "AssertionError"),
    ),
)
def test_what_does_not_work_is_noticed(environments: Environments, block: str, reason: str) -> None:
    (problem,) = followed(f"```{block}\n```\n", environments)
    assert reason in problem


def test_commands_of_a_checkout_are_left_out(environments: Environments) -> None:
    assert (
        followed("```console\n$ ./dev nothing\n$ source nothing\n$ python tools/nothing.py\n```\n", environments) == []
    )


def test_a_server_answers_and_ends(environments: Environments, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    variables = environments.variables_for(BARE)
    page.write_text('<title>podsim</title><script src="/script.js"></script>')
    (tmp_path / "script.js").touch()
    assert served(["podsim", "ui"], tmp_path, variables) == []
    (tmp_path / "script.js").unlink()
    page.write_text('<title>another</title><script src="/script.js"></script>')
    title, script, _ = served(["podsim", "ui"], tmp_path, variables)
    assert "<title>podsim</title> is not on its first page" in title
    assert "/script.js" in script


def test_a_server_that_does_not_start_is_noticed(environments: Environments, tmp_path: Path) -> None:
    problem, last = served(["podsim", "broken"], tmp_path, environments.variables_for(BARE))
    assert problem == "it ended before it answered"
    assert "a_package_that_is_missing" in last


# What pages say


def test_a_need_holds_for_its_section_or_for_the_page() -> None:
    def page(first: str, second: str) -> str:
        block = "```console\n$ podsim list\n```\n"
        return f"# Title\n\n{first}\n\n{block}\n## One\n\n{second}\n\n### Inner\n\n{block}\n## Two\n\n{block}"

    need = "Needs `pip install 'podsim[{}]'`.".format
    assert [set(each.needs) for each in blocks(page("", need("ui")))] == [set(), {"ui"}, set()]
    assert [set(each.needs) for each in blocks(page(need("sweep"), need("dask")))] == [
        {"sweep"}, {"sweep", "dask"}, {"sweep"},
    ]  # fmt: skip
    assert [set(each.needs) for each in blocks(page("It needs `pip install 'podsim[ui]'`.", ""))] == [set()] * 3


def test_every_extra_is_needed_by_what_a_page_runs() -> None:
    """So that each is installed alone, and tried."""
    shown = {
        extra
        for page in read_pages()
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language in ("console", "python")
        for extra in block.needs
    }
    assert shown == read_extras()


@every_case("page", lambda: [*read_pages(), *(ROOT / "docs" / "studies").glob("*.md")])
def test_extras_are_named_in_the_form_that_is_read(page: Path) -> None:
    text = prose(page.read_text(encoding="utf-8"))
    named = NEEDS.findall(text)
    assert text.count("pip install 'podsim[") == len(named)
    assert set(named) <= read_extras()


def test_exit_codes_stand_behind_their_commands() -> None:
    (block,) = blocks("```console\n$ podsim a\n$ echo $?\n3\n$ podsim b\nprinted\n$ podsim c\n```\n")
    assert list(commands_with_codes(block)) == [("podsim a", 3), ("podsim b", 0), ("podsim c", 0)]


def test_imports_of_a_notebook_are_followed_with_what_stands_before_them() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["import this"]},
        {"cell_type": "code", "source": ["import sys\n", "sys.path.append('..')\n", "import json\n", "slow()"]},
        {"cell_type": "code", "source": ["slow()"]},
    ]
    assert imports_of({"cells": cells}) == "import sys\nsys.path.append('..')\nimport json"
