"""podsim works without the packages of its extras, and names the pip command where a request needs one."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from podsim.packages import OPTIONAL
from tests.contract.test_layers import MODULES, module_name

ROOT = Path(__file__).resolve().parent.parent.parent
NOT_OF_PODSIM = {"dev", "docs"}
"""Extras of those who change podsim."""
REQUIREMENTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULE_OF = {"protobuf": "google.protobuf", "vl-convert-python": "vl_convert"}
"""Modules whose names are not those of their packages."""


def packages(requirements: list[str]) -> set[str]:
    return {requirement.split(">=")[0].split("==")[0] for requirement in requirements}


EXTRAS = {
    extra: packages(needed)
    for extra, needed in REQUIREMENTS["optional-dependencies"].items()
    if extra not in NOT_OF_PODSIM
}
ALWAYS = packages(REQUIREMENTS["dependencies"])
MODULES_OF_EXTRAS = {MODULE_OF.get(each, each) for needed in EXTRAS.values() for each in needed}


def test_every_package_of_an_extra_has_its_command() -> None:
    assert set(OPTIONAL) == MODULES_OF_EXTRAS
    for module, (package, extra) in OPTIONAL.items():
        assert MODULE_OF.get(package, package) == module
        assert package in EXTRAS[extra]


def imported_at_once(body: list[ast.stmt], module: str, *, is_package: bool) -> Iterator[str]:
    """Names of modules that a module imports when it is imported itself: not in functions, and not for types."""
    inside = ["podsim", *module.split(".")] if module else ["podsim"]
    package = inside if is_package else inside[:-1]
    for node in body:
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom():
                base = package[: len(package) - node.level + 1] if node.level else []
                home = ".".join([*base, *([node.module] if node.module else [])])
                yield home
                yield from (f"{home}.{alias.name}" for alias in node.names)
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from imported_at_once(node.orelse, module, is_package=is_package)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from imported_at_once(getattr(node, field, []), module, is_package=is_package)
                for handler in getattr(node, "handlers", []):
                    yield from imported_at_once(handler.body, module, is_package=is_package)


def graph_of(sources: dict[str, tuple[str, bool]]) -> dict[str, set[str]]:
    """Imports of each module, its parents included, whose `__init__` runs first."""
    graph = {}
    for name, (source, is_package) in sources.items():
        found = set(
            imported_at_once(ast.parse(source).body, name.removeprefix("podsim").lstrip("."), is_package=is_package)
        )
        parents = {name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)}
        for each in tuple(found):
            parents |= {each.rsplit(".", count)[0] for count in range(1, each.count(".") + 1)}
        graph[name] = (found | parents) - {name}
    return graph


def needed_by(graph: dict[str, set[str]], start: str) -> set[str]:
    """All modules that are imported with a module."""
    seen, left = set[str](), [start]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left.extend(graph.get(name, ()))
    return seen


SOURCES = {
    f"podsim.{module_name(path)}".rstrip("."): (path.read_text(encoding="utf-8"), path.name == "__init__.py")
    for path in MODULES
}
IMPORTED_THEN = {
    "podsim.models.graph.onnx_file": "onnx",
    "podsim.models.graph.shapes": "onnx",
    "podsim.ui.page": "nicegui",
}
"""Modules that functions import once their package is known to be there."""


def test_no_module_needs_an_optional_package_to_be_imported() -> None:
    graph = graph_of(SOURCES)
    needing = {name: {each for each in needed_by(graph, name) if each in MODULES_OF_EXTRAS} for name in sorted(SOURCES)}
    assert {name: min(found) for name, found in needing.items() if found} == IMPORTED_THEN


def test_the_test_itself_finds_a_chain_through_a_parent() -> None:
    sources = {
        "podsim": ("", True),
        "podsim.a": ("from podsim.b.c import SIZE\n", False),
        "podsim.b": ("from podsim.b.d import read\n", True),
        "podsim.b.c": ("SIZE = 1\n", False),
        "podsim.b.d": ("try:\n    import onnx.checker\nexcept ImportError:\n    pass\n", False),
        "podsim.e": ("def f():\n    import onnx\nif TYPE_CHECKING:\n    import onnx\n", False),
    }
    graph = graph_of(sources)
    assert [name for name in sources if "onnx" in needed_by(graph, name)] == [
        "podsim.a",
        "podsim.b",
        "podsim.b.c",
        "podsim.b.d",
    ]


SWEEP = """\
kind: study
scenario: bert_v1.1_pod16_open
keys: {parallelism.accumulation_factor: [96]}
"""
SAMPLED = """\
kind: study
scenario: bert_v1.1_pod16_open
keys: {parallelism.accumulation_factor: {from: 90, to: 96}}
samples: {count: 2}
"""
CONFIG = """\
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
 "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 64}
"""
BLOCKED = """\
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {0!r} or any(name.startswith(each + ".") for each in {0!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv[0] = "podsim"
from podsim.__main__ import main
sys.exit(main())
"""
NEEDS = {
    "onnx": ["import model.onnx"],
    "google.protobuf": ["run bert_v1.1_pod16_open --chakra out", "replay traces --system ipu_pod4"],
    "nicegui": ["ui --no-open"],
    "pyarrow": ["sweep sweep.yaml --output table.parquet"],
    "scipy": ["sweep sampled.yaml --output table.csv"],
    "distributed": ["sweep sweep.yaml --output table.csv --scheduler tcp://127.0.0.1:9"],
    "vl_convert": ["run bert_v1.1_pod16_open --report page.html", "ui --no-open"],
}
"""Commands that need each module."""
WORKS = ["import config.json", "run bert_v1.1_pod16_open", "sweep sweep.yaml --output table.csv"]
"""Commands that need none."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model.onnx").write_bytes(b"\0")
    Path("sweep.yaml").write_text(SWEEP)
    Path("sampled.yaml").write_text(SAMPLED)
    Path("config.json").write_text(CONFIG)
    Path("traces").mkdir()
    Path("traces/t.0.et").write_bytes(b"\0")
    return tmp_path


def without(modules: list[str], command: str) -> subprocess.CompletedProcess[str]:
    """The end of a command where some modules cannot be imported."""
    line = [sys.executable, "-c", BLOCKED.format(modules), *command.split()]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.slow
@pytest.mark.parametrize("module", sorted(OPTIONAL))
def test_a_missing_package_is_one_sentence_with_its_command(module: str, files: Path) -> None:
    package, extra = OPTIONAL[module]
    for command in NEEDS[module]:
        done = without([module], command)
        *_, sentence, cure = done.stderr.strip().splitlines()
        assert done.returncode == 2, done.stderr
        assert sentence.startswith("error: ")
        assert sentence.endswith(f"the package `{package}`, which is not installed")
        assert cure.startswith(f"  do: pip install 'podsim[{extra}]'")
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_commands_that_need_no_extra_work_without_any(files: Path) -> None:
    for command in WORKS:
        done = without(sorted(OPTIONAL), command)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
