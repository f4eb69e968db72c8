"""Lookup of files: a shipped name is the shipped file; other files are near the file that names them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from podsim.errors import Problem, SpecError
from podsim.scenario.document import Namesake
from podsim.scenario.wording import kind_name, known_here, nearest, quoted
from podsim.user_file import read_at_most

_PACKAGE = Path(__file__).resolve().parent.parent
_SUFFIXES = ("", ".yaml", ".yml")
HARDWARE, SOFTWARE, SCENARIOS, STUDIES = "hardware_specs", "hardware_specs/software", "scenarios", "studies"
_FOLDERS = {
    "pod": HARDWARE,
    "machine": HARDWARE,
    "ipu": HARDWARE,
    "vertices": HARDWARE,
    "host": HARDWARE,
    "software": SOFTWARE,
    "study": STUDIES,
}


_SHORTEST_WORD, _MOST_NAMES, _MOST_NAMESAKES = 3, 8, 3
"""Shortest word that names are searched for, and most names and files that a message lists."""


def data_root() -> Path:
    """Return the folder with the shipped data: inside the package, or the checkout that it runs from."""
    installed = _PACKAGE / "_data"
    return installed if installed.is_dir() else _PACKAGE.parent


def data_file(name: str) -> Path:
    """Return the path of a shipped data file, for example `reference_data/mlperf_rcp.csv`."""
    return data_root() / name


class Name(str):
    """Name of a file with the folders in which it is looked up."""

    folders: tuple[Path, ...] = ()  # nearest first

    @classmethod
    def within(cls, text: str, folders: Sequence[Path]) -> Name:
        """Return a name as written in a file of one of the folders."""
        name = text if isinstance(text, cls) else cls(text)
        name.folders = name.folders or tuple(folders)
        return name


def find(name: str, kind: str, folders: Sequence[Path], place: str = "", key: str = "") -> Path:
    """Return the path of the file with a name.

    A bare name that is shipped always means the shipped file; a name with a folder or a suffix is a path.
    """
    if known := shipped(name, kind):
        return known
    for path in _candidates(name, kind, folders):
        if _is(Path.is_file, path):
            return path
    what = kind_name(kind)
    for path in _candidates(name, kind, folders):
        if _is(Path.is_dir, path):
            raise SpecError([Problem(place, key, f"`{path}` is a folder, not a {what}", "name a file in it")])
        if _is(Path.is_symlink, path) and not _is(Path.exists, path):
            raise SpecError([Problem(place, key, f"`{path}` is a link that leads to no file", "name a file")])
        if _is(Path.exists, path):
            raise SpecError([Problem(place, key, f"`{path}` is no ordinary file", "name a file")])
    message = f"no {what} {quoted(name)} was found" if name else f"the name of the {what} is empty"
    raise SpecError([Problem(place, key, message, _advice(name, kind, folders))])


def shipped(name: str, kind: str) -> Path | None:
    """Return the shipped file of a bare name, or None if there is no such file of this kind."""
    if not name or Path(name).name != name or _without_suffix(name) != name:
        return None
    paths = (folder / f"{name}.yaml" for folder in _folders(data_root(), kind))
    return next((path for path in paths if _is(Path.is_file, path)), None)


def unread_namesakes(name: str, kind: str, folders: Sequence[Path]) -> Iterator[Namesake]:
    """Yield the files that have the name of a shipped file, differ from it, and are not read."""
    known = shipped(name, kind)
    for path in _candidates(name, kind, folders) if known is not None else ():
        if known is not None and _is(Path.is_file, path) and not _is(partial(_has_content_of, known), path):
            yield Namesake(str(name), kind_name(kind), str(path))


def _has_content_of(known: Path, path: Path) -> bool:
    if known.samefile(path):
        return True
    content = known.read_bytes()
    return read_at_most(path, len(content)) == content


def namesake_notice(namesakes: Sequence[Namesake]) -> str:
    """Return one line on files that have the name of a shipped file and were not read."""
    first, *others = namesakes
    if not others:
        said = f"`{first.name}` is the shipped {first.kind}; `{first.path}` was not read"
        return f"{said}: write `{first.path_to_write}` to use it"
    listed = ", ".join(f"`{each.path}`" for each in namesakes[:_MOST_NAMESAKES])
    more = f" and {len(namesakes) - _MOST_NAMESAKES} more" if len(namesakes) > _MOST_NAMESAKES else ""
    said = f"shipped files were used in place of files of their names that differ: {listed}{more} were not read"
    return f"{said}; write the path, such as `{first.path_to_write}`, to use one"


def _candidates(name: str, kind: str, folders: Sequence[Path]) -> Iterator[Path]:
    near = name.folders if isinstance(name, Name) else ()
    for folder in dict.fromkeys((*(near or folders), Path(), *_folders(Path(), kind), *_folders(data_root(), kind))):
        yield from (folder / f"{name}{suffix}" for suffix in _SUFFIXES if name)


def _without_suffix(name: str) -> str:
    return Path(name).name.removesuffix(".yaml").removesuffix(".yml")


def _is(test: Callable[[Path], bool], path: Path) -> bool:
    try:
        return test(path)
    except (OSError, ValueError):  # a name that is too long, or holds a zero byte
        return False


def _advice(written: str, kind: str, folders: Sequence[Path]) -> str:
    """Return the cure for a name without a file: a file nearby, or a shipped name."""
    if beside := _similar_file(written, folders):
        return f"did you mean `{beside}`?"
    name, names = _without_suffix(written), _names(kind)
    if kind != "scenario":
        shorter = {each.partition("_")[2]: each for each in names}  # `gc200` is the file `ipu_gc200`
        close = None if nearest(name, names) else nearest(name, shorter)
        if close:
            return f"did you mean `{shorter[close]}`? known here: {', '.join(names)}"
        return known_here(name, names, "check the path")
    names += sorted(path.stem for path in shipped_files("study") if _is_scenario(path))
    if pod := next((each for each in _names("pod") if sorted(each) == sorted(name)), None):
        return f"`{pod}` is a pod: name a scenario, and `--set system={pod}`; `podsim list` shows the shipped names"
    if close := nearest(name, names):
        return f"did you mean `{close}`? `podsim list` shows the shipped names"
    holding = [each for each in names if len(name) >= _SHORTEST_WORD and name.casefold() in each.casefold()]
    if not holding:
        return "check the path; `podsim list` shows the shipped names"
    listed = ", ".join(f"`{each}`" for each in holding[:_MOST_NAMES])
    others = f" and {len(holding) - _MOST_NAMES} more" if len(holding) > _MOST_NAMES else ""
    return f"write one of {listed}{others}; `podsim list {name}` says what each is"


def _similar_file(written: str, folders: Sequence[Path]) -> Path | None:
    """Return a YAML file nearby whose name differs in its suffix only."""
    for folder in dict.fromkeys((*folders, Path())) if written else ():
        path = folder / written
        lying = [path.parent / f"{_without_suffix(path.name)}{suffix}" for suffix in _SUFFIXES[1:]]
        if found := next((each for each in lying if _is(Path.is_file, each)), None):
            return found
    return None


def _folders(root: Path, kind: str) -> list[Path]:
    """Return the folders of a kind of file below the shipped data, or below a working folder of the same structure."""
    if kind != "scenario":
        return [root / _FOLDERS[kind]]
    top = root / SCENARIOS
    return [top, *sorted(folder for folder in top.glob("*") if folder.is_dir()), root / STUDIES]


def _names(kind: str) -> list[str]:
    return sorted(path.stem for path in shipped_files(kind))


def shipped_files(kind: str) -> Iterator[Path]:
    """Yield the shipped files of a kind."""
    root = data_root()
    if kind == "scenario":
        yield from (root / SCENARIOS).rglob("*.yaml")
    elif kind == "study":
        yield from (root / STUDIES).glob("*.yaml")
    else:
        yield from (path for path in (root / _FOLDERS[kind]).glob("*.yaml") if _holds(path, kind))


def _is_scenario(path: Path) -> bool:
    """Return True if a study is a scenario with additional keys, which every command for scenarios accepts."""
    return not any(line.startswith("kind:") for line in path.read_text(encoding="utf-8").splitlines())


def _holds(path: Path, kind: str) -> bool:
    return f"kind: {kind}" in path.read_text(encoding="utf-8").splitlines()


def shipped_names() -> dict[str, list[str]]:
    """Return the names of the shipped scenarios, studies, systems and software stacks."""
    kinds = {"scenarios": "scenario", "studies": "study", "systems": "pod", "software": "software"}
    return {title: _names(kind) for title, kind in kinds.items()}


def display_path(path: Path) -> str:
    """Return a path as messages and results show it: shipped data without the folder of its installation."""
    try:
        return str(path.resolve().relative_to(data_root().resolve()))
    except ValueError:
        return str(path)


def is_as_shipped(file: tuple[str, str]) -> bool:
    """Return True if a file that was read, given by displayed path and SHA-256, is identical to a shipped file."""
    path, digest = file
    own = data_root() / path
    return (
        not Path(path).is_absolute()
        and _is(Path.is_file, own)
        and hashlib.sha256(own.read_bytes()).hexdigest() == digest
    )
