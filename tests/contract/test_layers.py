"""Imports go one way: a layer knows those before it and none of those after it."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.cases import every_case

PACKAGE = Path(__file__).resolve().parent.parent.parent / "podsim"
FOUNDATION = {
    "_version",
    "units",
    "errors",
    "metrics",
    "watch",
    "memo",
    "tape",
    "lazy",
    "disk",
    "draws",
    "garbage",
    "git",
    "escaped",
    "options",
    "user_file",
    "packages",
    "format",
    "workers",
}
ORDER = [
    "models",
    "models.graph",
    "scenario",
    "tiles",
    "placement",
    "program",
    "engine",
    "search",
    "runs.serving",
    "report",
    "result.files",
    "show",
    "result",
    "runs",
    "chakra",
    "importer",
    "validation",
    "study",
    "capacity",
    "ui",
    "cli",
    "__main__",
]
NARROWER = {
    "models": set(),  # a model is the same on every machine
    "models.graph": {"scenario.wording", "models.block", "models.layers", "models.op"},  # so is a file
    "engine": {"program.task"},  # lanes and channels, no IPU
    "runs.serving": {"scenario.csv_file", "scenario.wording", "engine._core"},  # times of steps are given to it
}
"""Layers that may import less than all before them, beside the foundation."""


def module_name(path: Path) -> str:
    """`engine.network` for podsim/engine/network.py, `engine` for podsim/engine/__init__.py."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports_of(source: str, module: str, *, is_package: bool = False) -> Iterator[str]:
    """What a module imports from podsim, wherever the statement stands, without the `podsim.`."""
    inside = ["podsim", *module.split(".")]
    package = inside if is_package else inside[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            # `from podsim import engine` names a layer; `from podsim.engine import Trace` does not.
            names = [f"{home}.{alias.name}" for alias in node.names] if home == "podsim" else [home]
        else:
            continue
        for name in names:
            if name == "podsim" or name.startswith("podsim."):
                yield name.removeprefix("podsim").lstrip(".")


def layer_of(module: str) -> str:
    """The layer that a module belongs to: its own package, or the outermost one."""
    inner = ".".join(module.split(".")[:2])
    return inner if inner in ORDER else module.split(".")[0]


def complaint(module: str, imported: str) -> str | None:
    """Why a module may not import another, or None if it may."""
    layer, other = layer_of(module), layer_of(imported)
    if other in FOUNDATION or other == layer or imported == "__version__":
        return None
    if layer in FOUNDATION or other not in ORDER:
        return f"podsim.{module} imports podsim.{imported}, which no layer may"
    if layer in NARROWER:
        return None if imported in NARROWER[layer] else f"podsim.{module} imports podsim.{imported}: too much for it"
    if ORDER.index(other) > ORDER.index(layer):
        return f"podsim.{module} imports podsim.{imported}, a layer above it"
    return None


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_every_module_belongs_to_a_layer() -> None:
    layers = {layer_of(module_name(path)) for path in MODULES} - {""}
    assert layers == FOUNDATION | set(ORDER)


def imported_when_run(tree: ast.AST, modules: Container[str]) -> Iterator[str]:
    """Modules that are imported, inside functions too, for more than types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in names)
        yield from imported_when_run(node, modules)


def test_no_modules_import_one_another_in_a_circle() -> None:
    """The package itself is left out: it gives its public names when they are first used."""
    modules = {f"podsim.{module_name(path)}": path for path in MODULES if path != PACKAGE / "__init__.py"}
    graph = {
        module: set(imported_when_run(ast.parse(path.read_text(encoding="utf-8")), modules))
        for module, path in modules.items()
    }
    assert len(list(TopologicalSorter(graph).static_order())) == len(modules)


@every_case("path", lambda: MODULES)
def test_imports_go_up_only(path: Path) -> None:
    module = module_name(path)
    imported = list(imports_of(path.read_text(encoding="utf-8"), module, is_package=path.name == "__init__.py"))
    if not module:  # the public names: imported lazily, or for type checkers only
        assert set(imported) <= {
            "_version",
            "chakra.replay",
            "errors",
            "result.result",
            "result.cost",
            "result.inference",
            "result.serving",
            "result.cost_movement",
            "runs",
            "runs.serve",
            "scenario",
            "study.sweep",
            "study.compare",
            "study.plan",
            "study.check.measure",
            "study.whatif",
            "validation.compare",
        }
        return
    assert [text for text in (complaint(module, name) for name in imported) if text] == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_the_package_needs_no_notebook_and_no_tool(path: Path) -> None:
    """They are beside it and not in the wheel."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert {name.partition(".")[0] for name in names}.isdisjoint({"notebooks", "tools", "tests"})


def test_the_engine_knows_tasks_units_and_errors_only() -> None:
    known = {
        name
        for path in (PACKAGE / "engine").glob("*.py")
        for name in imports_of(path.read_text(encoding="utf-8"), module_name(path), is_package=path.stem == "__init__")
        if not name.startswith("engine")
    }
    assert known <= {"units", "errors", "metrics", "garbage", "options", "tape", "program.task"}


def test_a_task_knows_nothing() -> None:
    """What plan and engine share must not bring the plan along."""
    for path in (PACKAGE / "program" / "task.py", PACKAGE / "program" / "__init__.py"):
        assert list(imports_of(path.read_text(encoding="utf-8"), module_name(path))) == []


@pytest.mark.parametrize(
    ("source", "module", "wrong"),
    [
        ("from podsim.engine import Trace", "tiles.amp", True),
        ("def f():\n    import podsim.placement.plan", "tiles.amp", True),
        ("from podsim import runs", "result.rows", True),
        ("def f():\n    from podsim.cli.app import app", "study.sweep", True),
        ("from ..cli import app", "engine.network", True),
        ("from podsim.program.compile import compile_program", "engine.executor", True),
        ("from podsim.placement.topology import route", "models.op", True),
        ("from podsim.scenario import load_scenario", "units", True),
        ("from podsim.search.auto import chosen", "program.compile", True),
        ("from podsim.runs.training import train", "result.result", True),
        ("from podsim.program.task import Work", "search.auto", False),
        ("from podsim.scenario import System", "placement.topology", False),
        ("from podsim.program.task import Work", "engine.executor", False),
        ("from .account import Account", "tiles.amp", False),
    ],
)
def test_the_check_itself(source: str, module: str, wrong: bool) -> None:
    assert any(complaint(module, name) for name in imports_of(source, module)) == wrong
