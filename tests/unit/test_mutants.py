"""`tools/mutants.py`: which defects it makes, and when a test is to blame for one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.mutants import Mutant, Outcome, Runner, Trial, mutants_of, relevant_tests, sample_mutants

CODE = """@dataclass(frozen=True)
class A:
    b: int = 3

def least(a, b):
    if TYPE_CHECKING:
        import c
    if a < b and a:
        return [x for x, y in zip(a, b, strict=True)]
    return a - b
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "podsim" / "part" / "least.py"
    path.parent.mkdir(parents=True)
    path.write_text(CODE, encoding="utf-8")
    return path


def test_defects_by_hand(module: Path) -> None:
    """No options of dataclasses, no `strict`, no imports for types alone."""
    found = {(each.line, each.text) for each in mutants_of(module)}
    assert found == {(3, "4"), (8, "<="), (8, "or"), (8, "not (a < b and a)"), (10, "+")}


def test_a_defect_is_a_part_of_a_line(module: Path) -> None:
    (mutant,) = (each for each in mutants_of(module) if each.text == "or")
    assert mutant.applied() == CODE.replace("a < b and a", "a < b or a")
    assert str(mutant).startswith("part/least.py:8: `and` -> `or`: ")


def test_a_seed_gives_the_same_places(module: Path) -> None:
    package = module.parents[1]
    assert sample_mutants(package, [], 3, 7) == sample_mutants(package, ["part"], 3, 7)
    assert len(sample_mutants(package, [], 40, 7)) == 5


def test_tests_that_name_a_module_come_first(module: Path) -> None:
    copy = module.parents[2]
    for name, text in (("test_a", "least()"), ("test_b", "from podsim.part.least import least"), ("test_c", "")):
        (copy / "tests").mkdir(exist_ok=True)
        (copy / "tests" / f"{name}.py").write_text(text, encoding="utf-8")
    assert relevant_tests(module, copy)[:2] == ["tests/test_b.py", "tests/test_a.py"]
    assert "tests/test_c.py" not in relevant_tests(module, copy)


class Answers(Runner):
    """Answers instead of pytest: these tests fail without a mutant as well, those with one alone."""

    always: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()

    def run(self, names: Sequence[str], without: Sequence[str] = ()) -> Outcome:
        is_mutated = any(path.read_text(encoding="utf-8") != CODE for path in self.copy.rglob("least.py"))
        failing = [*self.always, *(self.mutated if is_mutated else ())]
        failing = [each for each in failing if any(each.startswith(name) for name in names) and each not in without]
        return Outcome(passed=not failing, failed=failing[0] if failing else "")


@pytest.mark.parametrize(
    ("always", "mutated", "blamed"),
    [
        ((), (), ""),
        ((), ("a.py::one",), "a.py::one"),
        (("a.py::one",), (), ""),
        (("a.py::one",), ("a.py::two",), "a.py::two"),
        (("a.py",), ("a.py::two",), ""),
        (("a.py::one",), ("b.py::two",), "b.py::two"),
    ],
)
def test_only_a_test_that_passes_without_the_defect_detects_it(
    module: Path, always: tuple[str, ...], mutated: tuple[str, ...], blamed: str
) -> None:
    runner = Answers(module.parents[2], 1)
    object.__setattr__(runner, "always", always)
    object.__setattr__(runner, "mutated", mutated)
    mutant = Mutant(module, 10, 13, 14, "+")
    assert Trial(runner).detected_by(mutant, ["a.py", "b.py"]) == blamed
    assert module.read_text(encoding="utf-8") == CODE
