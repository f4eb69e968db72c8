"""Where files are found: beside the file that names them, in the working folder, in the installed data."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from podsim.errors import Problem, SpecError

_PACKAGE = Path(__file__).resolve().parent.parent
_SUFFIXES = ("", ".yaml", ".yml")
HARDWARE, SOFTWARE, SCENARIOS = "hardware_specs", "hardware_specs/software", "scenarios"
_FOLDERS = {"pod": HARDWARE, "machine": HARDWARE, "ipu": HARDWARE, "vertices": HARDWARE, "software": SOFTWARE}


def data_root() -> Path:
    """The folder that holds the shipped data: inside the package, or the checkout it is run from."""
    installed = _PACKAGE / "_data"
    return installed if installed.is_dir() else _PACKAGE.parent


def data_file(name: str) -> Path:
    """A shipped data file, for example `reference_data/mlperf_rcp.csv`."""
    return data_root() / name


def find(name: str, kind: str, beside: Path | None, place: str = "") -> Path:
    """The file that a name stands for.

    Args:
        name: A path, or a name with or without `.yaml`.
        kind: `scenario`, `pod`, `machine`, `ipu`, `vertices` or `software`.
        beside: Folder of the file that names it.
        place: `file:line:column` of the name, for the message.

    Raises:
        SpecError: There is no such file; suggests a shipped name.
    """
    for folder in _search(kind, beside):
        for suffix in _SUFFIXES:
            path = folder / f"{name}{suffix}"
            if path.is_file() or (suffix == "" and path.is_dir() and folder == Path()):
                return path
    close = difflib.get_close_matches(Path(name).stem, _names(kind), n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    raise SpecError(
        [Problem(place or name, "", f"no {kind} `{name}` was found", f"{hint}`podsim list` shows the shipped names")]
    )


def _search(kind: str, beside: Path | None) -> Iterator[Path]:
    if beside is not None:
        yield beside
    yield Path()
    for root in (Path(), data_root()):
        if kind == "scenario":
            yield root / SCENARIOS
            yield from sorted(folder for folder in (root / SCENARIOS).glob("*") if folder.is_dir())
        else:
            yield root / _FOLDERS[kind]


def _names(kind: str) -> list[str]:
    root = data_root()
    if kind == "scenario":
        return sorted(path.stem for path in (root / SCENARIOS).rglob("*.yaml"))
    return sorted(path.stem for path in (root / _FOLDERS[kind]).glob("*.yaml"))


def shipped_names() -> dict[str, list[str]]:
    """Names of the shipped scenarios, systems and software stacks."""
    systems = [name for name in _names("pod") if "_pod" in name]
    return {"scenarios": _names("scenario"), "systems": systems, "software": _names("software")}


def display_path(path: Path) -> str:
    """How messages and results name a file: shipped data without the folder it is installed in."""
    try:
        return str(path.resolve().relative_to(data_root().resolve()))
    except ValueError:
        return str(path)
