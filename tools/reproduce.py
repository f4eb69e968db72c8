"""`./dev truth reproduce`: the figures of the accuracy page and of the charts of the notebooks, made again.

Each has a name, and a hash of its numbers to nine digits, which differ by no machine. Those that were agreed on are in
`reference_data/reproduced.json`, with hashes of the data and of the lock file that they were made from.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from podsim._version import __version__
from podsim.errors import PodsimError
from podsim.git import commit_of, git, top_of
from podsim.report.table import Table
from podsim.result.evidence import residuals
from podsim.result.files import write_atomically
from podsim.scenario import data_file
from podsim.scenario.library import data_root
from podsim.validation.compare import validation
from podsim.validation.coverage import coverage
from podsim.validation.reference_data import HOLD_OUT
from podsim.validation.show import coverage_table, summary_table
from podsim.watch import Watch

FILE: Final = "reference_data/reproduced.json"
DATA: Final = ("hardware_specs", "scenarios", "reference_data")
LOCK: Final = "requirements.lock"
NOTEBOOKS: Final = "notebooks"
ACCURACY, LEFT_OUT = "accuracy", "left out"
_DIGITS: Final = 9
Keep = Callable[[str, Any], None]
"""Takes a name, and what a figure shows."""
_NO_ROOT: Final = "this is no git repository"


@dataclass(frozen=True, slots=True)
class Reproduced:
    """Hashes of all figures, computed again."""

    version: str
    data: str  # hash of the files of data
    lock: str  # hash of the lock file; empty where there is none, as in an installed package
    figures: Mapping[str, str]  # hashes of figures by their names


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of recomputed figures with the agreed ones."""

    now: Reproduced  # what was made again
    agreed: Reproduced  # what was agreed on
    commit: str  # of the repository, with a mark if files were changed; why there is none otherwise

    @property
    def differing(self) -> list[str]:
        """Names of figures that are not what they were."""
        return [name for name, figure in self.now.figures.items() if self.agreed.figures.get(name, figure) != figure]

    @property
    def missing(self) -> list[str]:
        """Names of figures that were agreed on and were not made, though others of their kind were."""
        kinds = {kind_of(name) for name in self.now.figures}
        return [name for name in self.agreed.figures if name not in self.now.figures and kind_of(name) in kinds]

    @property
    def added(self) -> list[str]:
        """Names of figures that nothing was agreed on for."""
        return [name for name in self.now.figures if name not in self.agreed.figures]

    @property
    def holds(self) -> bool:
        """True if all figures are unchanged, none is missing and none is new."""
        return not (self.differing or self.missing or self.added)


def kind_of(name: str) -> str:
    """Return the source of a figure: the part of its name before the colon.

    >>> kind_of("notebooks/packing.ipynb: chart 1")
    'notebooks/packing.ipynb'
    """
    return name.partition(": ")[0]


def digest_of(numbers: object) -> str:
    """Return a hash of numbers and words that is equal on all machines.

    >>> digest_of([0.1 + 0.2, "a"]) == digest_of([0.3, "a"]), digest_of(1.0) == digest_of(1.001)
    (True, False)
    """
    return hashlib.sha256(json.dumps(_canonical(numbers), ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def _canonical(value: Any) -> object:
    """Return plain types with numbers of nine digits, which do not depend on the order of sums."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [_canonical(each) for each in value]
    return f"{float(value) + 0.0:.{_DIGITS}g}"  # without a sign of zero


def reproduced(
    watch: Watch, root: Path | None = None, only: str = "", keep: Keep = lambda _name, _cell_values: None
) -> Reproduced:
    """Compute every figure again from the data."""
    figures = dict(_accuracy(watch)) if only in ACCURACY or only in LEFT_OUT else {}
    figures = {name: figure for name, figure in figures.items() if only in kind_of(name)}
    if root is not None:
        figures |= dict(_charts(root, watch, only, keep))
    if not figures:
        names = ", ".join([ACCURACY, LEFT_OUT, *(path.stem for path in _notebooks(root) if root)])
        raise PodsimError(
            f"no figure is of anything with `{only}` in its name", where="--only", do=f"use part of: {names}"
        )
    return Reproduced(__version__, _data_digest(), _lock_digest(root), figures)


def compared(now: Reproduced, root: Path | None, agreed: Path | None = None) -> Comparison:
    """Compare recomputed figures with the agreed ones."""
    return Comparison(now, read(agreed or data_file(FILE)), _NO_ROOT if root is None else _commit(root))


def read(path: Path) -> Reproduced:
    """Read the agreed figures."""
    try:
        return Reproduced(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        do = "write it with `./dev truth reproduce --write`"
        raise PodsimError("what was agreed on cannot be read", where=str(path), do=do) from error


def write(now: Reproduced, path: Path) -> None:
    """Write the agreed figures."""
    write_atomically(path, (json.dumps(asdict(now), indent=1, ensure_ascii=False) + "\n").encode())


def repository() -> Path | None:
    """Return the folder with notebooks and data; None in an installed package."""
    root = data_root()
    return root if (root / NOTEBOOKS).is_dir() else None


def _commit(root: Path) -> str:
    try:
        top = top_of(root, str(root), "")
        changed = git(top, "", "", "status", "--porcelain", "--untracked-files=no").strip()
        return commit_of(top, "", "HEAD") + (", with changes that are not committed" if changed else "")
    except PodsimError:
        return _NO_ROOT


def _data_digest() -> str:
    root = data_root()
    files = sorted(path for name in DATA for path in (root / name).rglob("*") if path.suffix in (".yaml", ".csv"))
    return digest_of({path.relative_to(root).as_posix(): _sha256(path) for path in files})


def _lock_digest(root: Path | None) -> str:
    return "" if root is None or not (root / LOCK).is_file() else _sha256(root / LOCK)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _accuracy(watch: Watch) -> Iterator[tuple[str, str]]:
    """Yield every row of the accuracy page, and the tables of errors."""
    found = validation(watch).comparisons
    names: Counter[str] = Counter()
    for row in found:
        name = f"{ACCURACY}: {row.group}, {row.name}"
        names[name] += 1
        numbered = name if names[name] == 1 else f"{name} ({names[name]})"
        yield numbered, digest_of([row.predicted, row.published])
    yield from _lines(ACCURACY, "summary", summary_table([row for row in found if row.role == HOLD_OUT]))
    yield from _lines(LEFT_OUT, "by origin", coverage_table(coverage(residuals())))


def _lines(kind: str, what: str, table: Table) -> Iterator[tuple[str, str]]:
    """Yield a hash of each row of a table, named by its first cell."""
    for row in table.rows:
        first, *others = map(str, row)
        yield f"{kind}: {what}, {first}", digest_of(others)


def _notebooks(root: Path | None) -> list[Path]:
    return [] if root is None else sorted((root / NOTEBOOKS).glob("*.ipynb"))


def _charts(root: Path, watch: Watch, only: str, keep: Keep) -> Iterator[tuple[str, str]]:
    """Yield hashes of the numbers in the charts and tables of each notebook."""
    paths = {path.name: path for path in _notebooks(root) if only in f"{NOTEBOOKS}/{path.name}"}
    with _importable(root):
        for name in watch(list(paths)):
            cells = json.loads(paths[name].read_text(encoding="utf-8"))["cells"]
            shown = _cell_values([_text(cell["source"]) for cell in cells if cell["cell_type"] == "code"])
            for number, each in enumerate(shown, 1):
                keep(f"{paths[name].stem}_{number}", each)
                yield f"{NOTEBOOKS}/{name}: figure {number}", digest_of(numbers_of(each))


def _text(source: str | Sequence[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _cell_values(cells: Sequence[str]) -> Iterator[Any]:
    """Yield the values of the last lines of cells that are expressions."""
    names: dict[str, Any] = {"__name__": "notebook"}
    for source in cells:
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            yield eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def numbers_of(shown: Any) -> object:
    """Return the numbers and words in a chart of matplotlib, a frame of pandas or a text."""
    if hasattr(shown, "to_dict") and hasattr(shown, "columns"):
        return {str(name): [*shown[name]] for name in shown.columns} | {"index": [*map(str, shown.index)]}
    if not hasattr(shown, "axes"):
        return str(shown)
    return [
        {
            "title": axes.get_title(loc="left") or axes.get_title(),
            "lines": [[*map(list, line.get_xydata().tolist())] for line in axes.lines],
            "bars": [_corners(patch) for patch in axes.patches],
            "points": [collection.get_offsets().tolist() for collection in axes.collections],
            "texts": [text.get_text() for text in axes.texts],
        }
        for axes in shown.axes
    ]


def _corners(patch: Any) -> list[float]:
    box = patch.get_path().get_extents(patch.get_patch_transform())
    return [float(extent) for extent in box.extents]


@contextmanager
def _importable(root: Path) -> Iterator[None]:
    """Let notebooks import what computes and draws their charts; drop what they add to the path of imports."""
    before = [*sys.path]
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path[:] = before
