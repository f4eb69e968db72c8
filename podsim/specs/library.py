"""Where files are found: beside the file that names them, in the working folder, in the installed data."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from pathlib import Path

from podsim.errors import Problem, SpecError
from podsim.specs.wording import kind_name, known_here, shown

_PACKAGE = Path(__file__).resolve().parent.parent
_SUFFIXES = ("", ".yaml", ".yml")
HARDWARE, SOFTWARE, SCENARIOS = "hardware_specs", "hardware_specs/software", "scenarios"
_FOLDERS = {
    "pod": HARDWARE,
    "machine": HARDWARE,
    "ipu": HARDWARE,
    "vertices": HARDWARE,
    "host": HARDWARE,
    "software": SOFTWARE,
}


def data_root() -> Path:
    """The folder that holds the shipped data: inside the package, or the checkout it is run from."""
    installed = _PACKAGE / "_data"
    return installed if installed.is_dir() else _PACKAGE.parent


def data_file(name: str) -> Path:
    """A shipped data file, for example `reference_data/mlperf_rcp.csv`."""
    return data_root() / name


def find(name: str, kind: str, beside: Path | None, place: str = "", key: str = "") -> Path:
    """The file that a name stands for.

    Args:
        name: A path, or a name with or without `.yaml`.
        kind: `scenario`, `pod`, `machine`, `ipu`, `vertices` or `software`.
        beside: Folder of the file that names it.
        place: `file:line:column` of the name, for the message.
        key: Dotted path of the key that holds the name, for the message.

    Raises:
        SpecError: There is no such file; suggests a shipped name.
    """
    for path in (folder / f"{name}{suffix}" for folder in _search(kind, beside) for suffix in _SUFFIXES if name):
        if _is(Path.is_file, path):
            return path
    what = kind_name(kind)
    if name and _is(Path.is_dir, Path(name)):
        raise SpecError([Problem(place, key, f"`{name}` is a folder, not a {what}", "name a file in it")])
    message = f"no {what} {shown(name)} was found" if name else f"the name of the {what} is empty"
    raise SpecError([Problem(place, key, message, _advice(_without_suffix(name), kind))])


def _without_suffix(name: str) -> str:
    return Path(name).name.removesuffix(".yaml").removesuffix(".yml")


def _is(test: Callable[[Path], bool], path: Path) -> bool:
    try:
        return test(path)
    except OSError:
        return False


def _advice(name: str, kind: str) -> str:
    if kind != "scenario":
        return known_here(name, _names(kind), "check the path")
    close = difflib.get_close_matches(name, _names(kind), n=1)
    hint = f"did you mean `{close[0]}`?" if close else "check the path;"
    return f"{hint} `podsim list` shows the shipped names"


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
    return sorted(path.stem for path in shipped_files(kind))


def shipped_files(kind: str) -> Iterator[Path]:
    """The shipped files of a kind.

    Args:
        kind: `scenario`, `pod`, `machine`, `ipu`, `vertices` or `software`.
    """
    root = data_root()
    if kind == "scenario":
        yield from (root / SCENARIOS).rglob("*.yaml")
    else:
        yield from (path for path in (root / _FOLDERS[kind]).glob("*.yaml") if _holds(path, kind))


def _holds(path: Path, kind: str) -> bool:
    return f"kind: {kind}" in path.read_text(encoding="utf-8").splitlines()


def shipped_names() -> dict[str, list[str]]:
    """Names of the shipped scenarios, systems and software stacks."""
    return {"scenarios": _names("scenario"), "systems": _names("pod"), "software": _names("software")}


def display_path(path: Path) -> str:
    """How messages and results name a file: shipped data without the folder it is installed in."""
    try:
        return str(path.resolve().relative_to(data_root().resolve()))
    except ValueError:
        return str(path)
