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
    """Name of a file, with the folders in which it is looked up."""

    folders: tuple[Path, ...] = ()  # nearest first

    @classmethod
    def within(cls, text: str, folders: Sequence[Path]) -> Name:
        """Return a name with its folders; a name that has folders keeps them."""
        name = text if isinstance(text, cls) else cls(text)
        name.folders = name.folders or tuple(folders)
        return name


def find(name: str, kind: str, folders: Sequence[Path], place: str = "", key: str = "") -> Path:
    """Return the path of the file that a name means, or raise a `SpecError` for the key at `place`.

    A bare name that is shipped always means the shipped file; a name with a folder or a suffix is a path.
    """
    if shipped_file := shipped(name, kind):
        return shipped_file
    for path in _candidates(name, kind, folders):
        if _holds(Path.is_file, path):
            return path
    what = kind_name(kind)
    for path in _candidates(name, kind, folders):
        if _holds(Path.is_dir, path):
            raise SpecError([Problem(place, key, f"`{path}` is a folder, not a {what}", "name a file in it")])
        if _holds(Path.is_symlink, path) and not _holds(Path.exists, path):
            raise SpecError([Problem(place, key, f"`{path}` is a link that leads to no file", "name a file")])
        if _holds(Path.exists, path):
            raise SpecError([Problem(place, key, f"`{path}` is no ordinary file", "name a file")])
    message = f"no {what} {quoted(name)} was found" if name else f"the name of the {what} is empty"
    raise SpecError([Problem(place, key, message, _cure_for_missing(name, kind, folders))])


def shipped(name: str, kind: str) -> Path | None:
    """Return the shipped file of a kind with a name, or None; a name with a folder or a suffix is never shipped."""
    if not name or Path(name).name != name or _without_suffix(name) != name:
        return None
    paths = (folder / f"{name}.yaml" for folder in _folders(data_root(), kind))
    return next((path for path in paths if _holds(Path.is_file, path)), None)


def unread_namesakes(name: str, kind: str, folders: Sequence[Path]) -> Iterator[Namesake]:
    """Yield the files that have the name of a shipped file, differ from it, and are not read."""
    shipped_file = shipped(name, kind)
    if shipped_file is None:
        return
    for path in _candidates(name, kind, folders):
        if _holds(Path.is_file, path) and not _holds(partial(_is_identical, shipped_file), path):
            yield Namesake(str(name), kind_name(kind), str(path))


def _is_identical(shipped_file: Path, path: Path) -> bool:
    if shipped_file.samefile(path):
        return True
    content = shipped_file.read_bytes()
    return read_at_most(path, len(content)) == content


def namesake_notice(namesakes: Sequence[Namesake]) -> str:
    """Return the notice that the shipped files were read, and not files nearby of the same name."""
    first, *further = namesakes
    if not further:
        what = f"`{first.name}` is the shipped {first.kind}; `{first.path}` was not read"
        return f"{what}: write `{first.path_to_write}` to use it"
    listed = ", ".join(f"`{namesake.path}`" for namesake in namesakes[:_MOST_NAMESAKES])
    more = f" and {len(namesakes) - _MOST_NAMESAKES} more" if len(namesakes) > _MOST_NAMESAKES else ""
    what = f"shipped files were used in place of files of their names that differ: {listed}{more} were not read"
    return f"{what}; write the path, such as `{first.path_to_write}`, to use one"


def _candidates(name: str, kind: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the paths that a name may mean, in the order of their precedence."""
    folders = (isinstance(name, Name) and name.folders) or folders
    for folder in dict.fromkeys((*folders, Path(), *_folders(Path(), kind), *_folders(data_root(), kind))):
        yield from (folder / f"{name}{suffix}" for suffix in _SUFFIXES if name)


def _without_suffix(name: str) -> str:
    return Path(name).name.removesuffix(".yaml").removesuffix(".yml")


def _holds(test: Callable[[Path], bool], path: Path) -> bool:
    """Return the result of a test of a path; False for a path that no file can have."""
    try:
        return test(path)
    except (OSError, ValueError):  # a name that is too long, or holds a zero byte
        return False


def _cure_for_missing(given: str, kind: str, folders: Sequence[Path]) -> str:
    """Return what to write instead of a name that no file has: a file nearby, or a shipped name."""
    if similar := _similar_file(given, folders):
        return f"did you mean `{similar}`?"
    name, names = _without_suffix(given), _names(kind)
    if kind != "scenario":
        by_short_name = {known.partition("_")[2]: known for known in names}  # `gc200` is the file `ipu_gc200`
        close = None if nearest(name, names) else nearest(name, by_short_name)
        if close:
            return f"did you mean `{by_short_name[close]}`? known here: {', '.join(names)}"
        return known_here(name, names, "check the path")
    names += sorted(path.stem for path in shipped_files("study") if _is_scenario(path))
    if pod := next((known for known in _names("pod") if sorted(known) == sorted(name)), None):
        return f"`{pod}` is a pod: name a scenario, and `--set system={pod}`; `podsim list` shows the shipped names"
    if close := nearest(name, names):
        return f"did you mean `{close}`? `podsim list` shows the shipped names"
    containing = [known for known in names if len(name) >= _SHORTEST_WORD and name.casefold() in known.casefold()]
    if not containing:
        return "check the path; `podsim list` shows the shipped names"
    listed = ", ".join(f"`{known}`" for known in containing[:_MOST_NAMES])
    more = f" and {len(containing) - _MOST_NAMES} more" if len(containing) > _MOST_NAMES else ""
    return f"write one of {listed}{more}; `podsim list {name}` says what each is"


def _similar_file(given: str, folders: Sequence[Path]) -> Path | None:
    """Return a YAML file nearby whose name differs in its suffix only."""
    for folder in dict.fromkeys((*folders, Path())) if given else ():
        given_path = folder / given
        paths = [given_path.parent / f"{_without_suffix(given_path.name)}{suffix}" for suffix in _SUFFIXES[1:]]
        if similar := next((path for path in paths if _holds(Path.is_file, path)), None):
            return similar
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
        yield from (path for path in (root / _FOLDERS[kind]).glob("*.yaml") if _is_of_kind(path, kind))


def _is_scenario(path: Path) -> bool:
    """Return True if a study is a scenario with additional keys, which every command for scenarios accepts."""
    return not any(line.startswith("kind:") for line in path.read_text(encoding="utf-8").splitlines())


def _is_of_kind(path: Path, kind: str) -> bool:
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
    shipped_file = data_root() / path
    return (
        not Path(path).is_absolute()
        and _holds(Path.is_file, shipped_file)
        and hashlib.sha256(shipped_file.read_bytes()).hexdigest() == digest
    )
