"""What is checked: scenario files with all of their variants, and what each of them gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

from podsim.errors import OutputError, PodsimError, SpecError
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario, variant_names
from podsim.scenario.library import data_file, display_path, is_as_shipped, shipped
from podsim.scenario.yaml_file import read_yaml
from podsim.study.store import DONE, figures_of, status_of

if TYPE_CHECKING:
    from podsim.runs import Result

_SUFFIXES: Final = {".yaml", ".yml"}
_FIGURES: Final = ("breakdown.", "run_breakdown.")
NOT_READ: Final = "not read"
"""Status of a case whose file is wrong."""
Measured = Mapping[str, Any]
"""`status`, `reason`, `metrics`, `breakdown_ps`, `inputs` and `expect`, as JSON has them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with one of its variants, by the name by which a baseline in a folder, its home, knows it."""

    path: Path
    name: str
    variant: str | None = None
    home: Path = Path()


def file_of(path: Path) -> Path:
    """A path, or the file of a shipped study or scenario of that name."""
    return path if path.exists() else shipped(str(path), "study") or shipped(str(path), "scenario") or path


def cases_of(paths: Sequence[Path], home: Path) -> Iterator[Case]:
    """Every scenario in files and folders, itself and with each of its variants, named from a folder.

    Raises:
        PodsimError: A path does not exist or holds no scenario, or two files go by one name.
    """
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            what, do = "there is no such file or folder", "name scenario files or their folder"
            raise OutputError(what, where=str(path), do=do)
        there = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        found = [each for each in there if is_scenario(each)]
        if not found:
            what = "the folder holds no scenario" if path.is_dir() else "this is no scenario, by its key `kind`"
            raise OutputError(what, where=str(path), do="name another")
        for file in found:
            name = _relative(file, home)
            if name not in files:
                files[name] = file
                yield Case(file, name, home=home)
                with suppress(SpecError):  # which is said when the file itself is measured
                    yield from (Case(file, f"{name}@{each}", each, home) for each in variant_names(file))
            elif files[name].resolve() != file.resolve():
                raise OutputError(f"goes by the same name as {files[name]}", where=str(file), do="rename one of them")


def measured(case: Case, simulate: Callable[[LoadedScenario], Result] = run) -> Measured:
    """What a case gives; one that is impossible, or whose file is wrong, has a reason and no figures."""
    given: dict[str, Any] = {"inputs": {}, "expect": {}, "metrics": {}, "breakdown_ps": {}}
    try:
        loaded = load_scenario(case.path, case.variant)
        given["inputs"] = {_input(path, digest, case.home): digest for path, digest in loaded.inputs}
        given["expect"] = dict(loaded.spec.expect or {})
    except SpecError as error:
        return given | {"status": NOT_READ, "reason": str(error)}
    try:
        result = simulate(loaded)
    except PodsimError as error:
        return given | {"status": status_of(error), "reason": str(error)}
    numbers = ((name, value) for name, value in figures_of(result) if isinstance(value, (int, float)))
    metrics = {name: value for name, value in numbers if not name.startswith(_FIGURES)}
    return given | {"status": DONE, "reason": None, "metrics": metrics, "breakdown_ps": dict(result.breakdown_ps)}


def _input(path: str, digest: str, home: Path) -> str:
    """One name for a file, however it was typed: that of shipped data, or its path from the folder of the baseline."""
    if is_as_shipped((path, digest)):
        return path
    return PurePath(os.path.relpath(Path(path).resolve(), home.resolve())).as_posix()


def input_file(name: str, home: Path) -> Path | None:
    """The file that an input is the name of; None if it is not there any more."""
    return next((path for path in (home / name, data_file(name)) if path.is_file()), None)


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
