"""`podsim reproduce`: are the published pages and charts still what this code and these data give?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from podsim.cli.ending import BEYOND_LIMITS, print_data
from podsim.cli.outputs import tell_written
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.validation.reproduce import Comparison

_MOST_NAMED: Final = 20


def reproduce(
    only: Annotated[str, typer.Option(metavar="TEXT", help="Figures of what has this in its name: mlperf.")] = "",
    charts: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write the charts of notebooks there.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Agree on what is made now: for developers.")] = False,
) -> None:
    """Make every figure of the accuracy page and of the notebooks again, and compare hashes.

    Exit code 4 if one differs. Notebooks are run in a clone of the repository alone.
    """
    from podsim.result.files import write_atomically
    from podsim.scenario import data_file
    from podsim.show.progress import track
    from podsim.validation import reproduce as module

    if write and only:
        raise PodsimError("all figures are agreed on together", where="--write", do="leave --only out")
    if charts is not None:
        charts.mkdir(parents=True, exist_ok=True)

    def keep(name: str, shown: Any) -> None:
        if charts is not None and hasattr(shown, "_repr_png_"):
            write_atomically(charts / f"{name}.png", shown._repr_png_())
            tell_written(charts / f"{name}.png")

    root = module.repository()
    now = module.reproduced(lambda names: track(names, "reproducing:"), root, only, keep)
    if write:
        path = data_file(module.FILE)
        module.write(now, path)
        tell_written(path)
        return
    found = module.compared(now, root)
    print_data("".join(f"{line}\n" for line in _lines(found)))
    if not found.holds:
        raise typer.Exit(BEYOND_LIMITS)


def _lines(found: Comparison) -> list[str]:
    from podsim.validation.reproduce import kind_of

    now, agreed = found.now, found.agreed
    lines = [f"podsim {now.version}, commit {found.commit}", f"figures agreed on with podsim {agreed.version}"]
    for what, ours, theirs in (("data", now.data, agreed.data), ("lock file", now.lock, agreed.lock)):
        lines.append(f"{what} {ours[:12] or 'not here'}: {_same(ours, theirs)}")
    counts, wrong = Counter(map(kind_of, now.figures)), {*found.differing, *found.added}
    for kind, count in counts.items():
        held = sum(kind_of(name) == kind and name not in wrong for name in now.figures)
        lines.append(f"{kind}: {held} of {count} figures are what they were")
    told = {"differs": found.differing, "is missing": found.missing, "is new": found.added}
    for what, names in told.items():
        lines += [f"{what}: {name}" for name in names[:_MOST_NAMED]]
        if len(names) > _MOST_NAMED:
            lines.append(f"{what}: {len(names) - _MOST_NAMED} more")
    if found.holds:
        return [*lines, f"all {len(now.figures)} figures are reproduced"]
    return [*lines, "not all figures are reproduced: what moved is in CHANGELOG.md, or is the fault of this machine"]


def _same(ours: str, theirs: str) -> str:
    return "not compared" if not ours else "the same" if ours == theirs else "others than figures were agreed on with"
