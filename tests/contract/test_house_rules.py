"""The house rules of CONTRIBUTING.md and docs/background/architecture.md that can be read off the source."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from podsim import ForwardResult, GenerationResult, RunResult, ServingResult
from tests.cases import every_case
from tests.contract.test_docs import TEXTS, prose

ROOT = Path(__file__).resolve().parent.parent.parent
MODULES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in ROOT.glob("podsim/**/*.py")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of podsim, parsed."""
    return {name: ast.parse(text) for name, text in MODULES.items()}


def nodes(kind: Any, *packages: str) -> Iterator[tuple[str, Any]]:
    """Nodes of a kind with their module, in all of podsim or in some of its packages."""
    for name, tree in trees().items():
        if not packages or name.split("/")[1] in packages:
            yield from ((name, node) for node in ast.walk(tree) if isinstance(node, kind))


def called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


# Numbers and formulas

COMPUTES = ("cost", "plan", "program", "system", "training", "engine")
LARGEST_PLAIN = 4
"""Indices, axes and small counts follow from what is written beside them."""


def unnamed_numbers(function: ast.FunctionDef) -> Iterator[float]:
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                value = node.value
                if not (isinstance(value, int) and value <= LARGEST_PLAIN) and value not in (0.0, 1.0, 2.0):
                    yield value


def test_what_computes_times_has_no_unnamed_numbers() -> None:
    found = {f"{name}: {f.name}": [*unnamed_numbers(f)] for name, f in nodes(ast.FunctionDef, *COMPUTES)}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


def test_an_unnamed_number_is_noticed() -> None:
    (function,) = ast.parse("def f(x):\n    return 0.7 * x + 1").body
    assert isinstance(function, ast.FunctionDef)
    assert list(unnamed_numbers(function)) == [0.7]


CITATION = re.compile(r"\[[a-z][a-z0-9]*_[a-z0-9_]+\]|\[[a-z]+\d{4}\]")


def test_formulas_for_cycles_cite_their_source() -> None:
    """In the docstring of the function, or in that of its module for all that it holds."""
    for name, function in nodes(ast.FunctionDef, "cost"):
        if function.name.endswith("_cycles") and not function.name.startswith("_"):
            texts = (ast.get_docstring(function) or "", ast.get_docstring(trees()[name]) or "")
            assert any(CITATION.search(text) for text in texts), f"{name}: {function.name}"


CHOSEN_BY_HAND = {
    *("call.word_copy.found", "call.word_copy.added", "call.word_copy.summed", "gather.divide", "elementwise.cast"),
    "bandwidth_per_machine",
}
"""Constants that no command fits again; `docs/background/constants.md` says on which rows they were chosen."""


def test_every_calibrated_constant_can_be_fitted_again() -> None:
    calibrated = {
        key
        for path in (ROOT / "hardware_specs").rglob("*.yaml")
        for key in calibrated_keys(YAML(typ="safe").load(path))
    }
    assert calibrated
    fitted = "".join((ROOT / "tools" / name).read_text(encoding="utf-8") for name in ("refit.py", "noise_fit.py"))
    assert {key for key in calibrated if key not in fitted} == CHOSEN_BY_HAND


def calibrated_keys(node: Any, name: str = "") -> Iterator[str]:
    if isinstance(node, dict):
        if node.get("basis") == "calibrated":
            yield name
        for key, each in node.items():
            yield from calibrated_keys(each, str(key))


# Code

MOST_COMPLEX = 16
"""Branches of a function, as McCabe counts them."""


def test_functions_have_few_branches() -> None:
    assert PROJECT["tool"]["ruff"]["lint"]["mccabe"]["max-complexity"] == MOST_COMPLEX
    assert "C90" in PROJECT["tool"]["ruff"]["lint"]["select"]


def test_tools_hold_types_docstrings_examples_and_warnings() -> None:
    tools = PROJECT["tool"]
    assert tools["mypy"]["strict"] is True
    assert "podsim" in tools["mypy"]["files"]
    assert "D" in tools["ruff"]["lint"]["select"]
    assert tools["ruff"]["lint"]["pydocstyle"]["convention"] == "google"
    assert "--doctest-modules" in tools["pytest"]["ini_options"]["addopts"]
    assert "podsim" in tools["pytest"]["ini_options"]["testpaths"]
    assert 'TESTS = ("test", "-W", "error")' in (ROOT / "dev").read_text(encoding="utf-8")


NUMBERS = {"float", "int", "float | None", "int | None"}
UNITS = {
    "s": "_s|seconds",
    "ps": "_ps",
    "Hz": "_hz",
    "B/s": "bytes_per_s",
    "1/s": "_per_s",
    "B": "bytes?(?:_per_[a-z_]+|_count)?",
}
OPTIONS = {"rate"}
"""Arguments of `podsim.serve` that have the names of options of the command line."""


def described(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    """Name, annotation and description of each argument and attribute."""
    text = ast.get_docstring(node) or ""
    entries = dict(re.findall(r"^    (\w+): ((?:.|\n {8})*)", text, re.MULTILINE))
    if isinstance(node, ast.FunctionDef):
        given = [(each.arg, each.annotation) for each in (*node.args.args, *node.args.kwonlyargs)]
    else:
        given = [(each.target.id, each.annotation) for each in node.body if is_field(each)]
    for name, annotation in given:
        if name in entries and annotation is not None:
            yield name, ast.unparse(annotation), entries[name].strip()


def is_field(node: ast.stmt) -> Any:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def has_unit(name: str, unit: str) -> bool:
    return re.search(rf"(?:{UNITS[unit]})$", name) is not None or name in OPTIONS


def test_numbers_with_a_unit_end_in_it() -> None:
    wrong = []
    for module, node in nodes((ast.FunctionDef, ast.ClassDef)):
        for name, annotation, text in described(node):
            unit = re.search(r"\[([\w/]+)\]$", text)
            if annotation in NUMBERS and unit and unit[1] in UNITS and not has_unit(name, unit[1]):
                wrong.append(f"{module}: {node.name}({name}) [{unit[1]}]")
    assert wrong == []


def test_functions_that_end_in_a_unit_say_it_in_brackets() -> None:
    endings = ("_s", "_ps", "_hz", "_bytes", "_per_s")
    wrong = [
        f"{module}: {function.name}"
        for module, function in nodes(ast.FunctionDef)
        if function.name.endswith(endings) and not function.name.startswith("_")
        if function.returns is not None and ast.unparse(function.returns) in NUMBERS
        if not re.search(r"\[[^\]]+\]", ast.get_docstring(function) or "")
    ]
    assert wrong == []


AMERICAN = re.compile(
    r"\b(behavior|centers?|centered|colors?|colored|favor\w*|honor\w*|label(?:ed|ing)|model(?:ed|ing)|cancel(?:ed|ing)"
    r"|analyz\w+|gray|catalogs?|neighbor\w*|travel(?:ed|ing)|fulfill|judgment|artifacts?"
    r"|(?:normal|summar|recogn|organ|initial|minim|maxim|special|general|random|custom)iz\w+)\b",
    re.IGNORECASE,
)


def words_of(source: str) -> str:
    """Comments and docstrings of a module, code spans left out."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    prose_tokens = [
        token.string
        for token in tokens
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.string.startswith('"""'))
    ]
    return "\n".join(prose_tokens)


def american(text: str) -> list[str]:
    return [match.group() for match in AMERICAN.finditer(re.sub(r"`[^`]*`", "", text))]


def test_spelling_is_british() -> None:
    texts = {name: words_of(text) for name, text in MODULES.items()}
    texts |= {path.relative_to(ROOT).as_posix(): prose(text) for path, text in TEXTS.items()}
    assert {name: found for name, text in texts.items() if (found := american(text))} == {}


def test_american_spelling_is_noticed() -> None:
    assert american(words_of('"""The color of `center`."""\n')) == ["color"]


# Data


REMEMBERING = {"CostModel", "Chip", "Chunks"}
"""They hold what they have found so far."""


def test_dataclasses_are_frozen() -> None:
    loose = {
        node.name
        for _, node in nodes(ast.ClassDef)
        for text in map(ast.unparse, node.decorator_list)
        if text.startswith("dataclass") and "frozen=True" not in text and not node.name.startswith("_")
    }
    assert loose == REMEMBERING


HIDDEN = re.compile(
    r"^\s*global \w+$|\bchdir\(|\brandom\.(?:seed|random|choice|randint|uniform|shuffle)\("
    r"|\bnp\.random\.(?!Generator|SeedSequence|default_rng|PCG64)\w",
    re.MULTILINE,
)


def test_nothing_is_hidden() -> None:
    """No globals that change, no random state of a module, no change of the working folder."""
    assert {name: found.group() for name, text in MODULES.items() if (found := HIDDEN.search(text))} == {}


def test_every_result_explains_itself() -> None:
    for kind in (RunResult, GenerationResult, ForwardResult, ServingResult):
        assert {"version", "simulated", "assumptions", "inputs", "warnings", "scenario"} <= {
            f.name for f in fields(kind)
        }


# Errors

WITH_CURE = {
    "PodsimError": None,
    "InfeasibleError": None,
    "DoesNotFitError": None,
    "NoPlanError": None,
    "MissingDataError": None,
    "OutputError": None,
    "DeadlockError": None,
    "ModelError": 2,
    "BadValueError": 1,
    "QuantityError": 1,
    "Problem": 3,
}
"""Errors, with the place of the cure among their arguments where it need not be named."""


def has_cure(node: ast.Call) -> bool:
    place = WITH_CURE[called(node)]
    given = len(node.args) > place if place is not None else False
    return given or any(keyword.arg == "do" for keyword in node.keywords) or any(is_spread(arg) for arg in node.args)


def is_spread(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def test_every_error_says_what_to_do() -> None:
    wrong = [
        f"{name}:{node.lineno} {called(node)}"
        for name, node in nodes(ast.Call)
        if called(node) in WITH_CURE and not has_cure(node)
    ]
    assert wrong == []


# Tests

CLOCKS = re.compile(r"\b(?:perf_counter|monotonic|process_time|timeit|time\.time)\b")


@every_case("path", lambda: (ROOT / "tests").rglob("*.py"))
def test_only_benches_measure_time(path: Path) -> None:
    if "bench" not in path.parts and path != Path(__file__).resolve():
        assert not CLOCKS.search(path.read_text(encoding="utf-8"))
