"""What is checked: scenario files with all of their variants, and what each of them gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from podsim.activity import run
from podsim.errors import OutputError, PodsimError
from podsim.specs import load_scenario, variant_names
from podsim.specs.expectations import Given
from podsim.specs.yaml_source import read_yaml
from podsim.sweeps.rows import DONE, figures_of, status_of

_SUFFIXES: Final = {".yaml", ".yml"}
_FIGURES: Final = ("breakdown.", "run_breakdown.")
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
        PodsimError: A path does not exist, or holds no scenario.
    """
    for path in paths:
        if not path.exists():
            raise OutputError(
                "there is no such file or folder", where=str(path), do="name scenario files or their folder"
            )
        files = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        found = [each for each in files if not path.is_dir() or is_scenario(each)]
        if not found:
            raise OutputError("the folder holds no scenario", where=str(path), do="name another")
        for file in found:
            name = _relative(file, home)
            yield Case(file, name)
            yield from (Case(file, f"{name}@{variant}", variant) for variant in variant_names(file))


def measured(case: Case) -> Measured:
    """What a case gives; one that is impossible has a reason and no figures."""
    loaded = load_scenario(case.path, case.variant)
    given: dict[str, Any] = {"inputs": dict(loaded.inputs), "expect": dict(loaded.spec.expect or {})}
    try:
        result = run(loaded)
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
    near = path.relative_to(home.resolve()) if path.is_relative_to(home.resolve()) else path
    return near.with_suffix("").as_posix()


def is_scenario(path: Path) -> bool:
    """Whether a file holds a scenario: those of other kinds say what they are."""
    return "kind" not in read_yaml(path).data
