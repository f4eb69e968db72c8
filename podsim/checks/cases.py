"""What is checked: scenario files with all of their variants, and what each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from podsim.activity import run
from podsim.errors import OutputError, PodsimError, SpecError
from podsim.specs import LoadedScenario, load_scenario, variant_names
from podsim.specs.expectations import Given
from podsim.specs.library import display_path
from podsim.specs.yaml_source import read_yaml
from podsim.sweeps.rows import DONE, figures_of, status_of

if TYPE_CHECKING:
    from podsim.activity import Result

_SUFFIXES: Final = {".yaml", ".yml"}
_FIGURES: Final = ("breakdown.", "run_breakdown.")
NOT_READ: Final = "not read"
"""Status of a case whose file is wrong."""
Measured = Mapping[str, Any]
"""`status`, `reason`, `metrics`, `breakdown_ps`, `inputs` and `expect`, as JSON has them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with one of its variants.

    Attributes:
        path: Its file.
        name: By which a baseline knows it: the path from the baseline's folder without suffix, and the variant.
        variant: The variant; None for the file itself.
    """

    path: Path
    name: str
    variant: str | None = None


def cases_of(paths: Sequence[Path], home: Path) -> Iterator[Case]:
    """Every scenario in files and folders, itself and with each of its variants.

    Args:
        paths: Files, or folders that are searched.
        home: Folder from which names are given.

    Raises:
        PodsimError: A path does not exist or holds no scenario, or two files go by one name.
    """
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            raise OutputError(
                "there is no such file or folder", where=str(path), do="name scenario files or their folder"
            )
        there = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        found = [each for each in there if is_scenario(each)]
        if not found:
            what = "the folder holds no scenario" if path.is_dir() else "this is no scenario, by its key `kind`"
            raise OutputError(what, where=str(path), do="name another")
        for file in found:
            name = _relative(file, home)
            other = files.setdefault(name, file)
            if other.resolve() != file.resolve():
                raise OutputError(f"goes by the same name as {other}", where=str(file), do="rename one of them")
            if other is not file:
                continue
            yield Case(file, name)
            yield from (Case(file, f"{name}@{variant}", variant) for variant in _variants(file))


def _variants(file: Path) -> tuple[str, ...]:
    """The variants of a file; none of one that is wrong, which is said when the file itself is measured."""
    try:
        return variant_names(file)
    except SpecError:
        return ()


def measured(case: Case, simulate: Callable[[LoadedScenario], Result] = run) -> Measured:
    """What a case gives; one that is impossible, or whose file is wrong, has a reason and no figures.

    Args:
        case: What to simulate.
        simulate: How; `podsim.run` unless more than its figures is asked for.
    """
    try:
        loaded = load_scenario(case.path, case.variant)
    except SpecError as error:
        nothing: dict[str, Any] = {"inputs": {}, "expect": {}, "metrics": {}, "breakdown_ps": {}}
        return nothing | {"status": NOT_READ, "reason": str(error)}
    given: dict[str, Any] = {"inputs": dict(loaded.inputs), "expect": dict(loaded.spec.expect or {})}
    try:
        result = simulate(loaded)
    except PodsimError as error:
        return given | {"status": status_of(error), "reason": str(error), "metrics": {}, "breakdown_ps": {}}
    metrics = {
        name: value
        for name, value in figures_of(result)
        if isinstance(value, (int, float)) and not name.startswith(_FIGURES)
    }
    return given | {"status": DONE, "reason": None, "metrics": metrics, "breakdown_ps": dict(result.breakdown_ps)}


def expectations_of(found: Measured) -> Given:
    """What the scenario itself expects."""
    expect: Given = found["expect"]
    return expect


def _relative(file: Path, home: Path) -> str:
    path = file.resolve()
    near = path.relative_to(home.resolve()) if path.is_relative_to(home.resolve()) else Path(display_path(path))
    return near.with_suffix("").as_posix()


def is_scenario(path: Path) -> bool:
    """Whether a file holds a scenario: those of other kinds say what they are. One that is wrong is taken for one."""
    try:
        return "kind" not in read_yaml(path).data
    except SpecError:
        return True
